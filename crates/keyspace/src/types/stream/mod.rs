//! Streams: a key read and changed as one. They are objects from the first entry on; one without entries is a key still.

mod edits;
mod groups;
mod write;

pub use groups::GroupsMut;
pub use write::ProducersMut;

use almandine_base::object;
use almandine_datatypes::hash::Placement;
use almandine_datatypes::stream::StreamObject;
use almandine_store::Kind;

use self::edits::StreamEdit;
use super::collection::{Collection, Contents, New, Snapshot, ValueMut};
use crate::Refusal;

/// The type of streams.
pub struct Streams;

/// A stream that no key has yet.
pub type NewStream = New<Streams>;

/// A large stream as it was at one time.
pub type StreamSnapshot = Snapshot<Streams>;

/// A stream to be changed, under its latch.
pub type StreamMut<'w> = ValueMut<'w, Streams>;

impl Collection for Streams {
    const KIND: Kind = Kind::Stream;
    type Object = StreamObject;
    /// There is no packed form: what has no object is empty.
    type Packed<'p> = ();
    /// An error for a value that is no object, which no stored stream is.
    type View<'v> = Result<&'v StreamObject, Refusal>;
    type Limits = ();
    type Edit<'e> = StreamEdit<'e>;

    const UNLIMITED: () = ();
    const EMPTY_IS_ABSENT: bool = false;
    const HAS_PACKED: bool = false;

    fn packed(_bytes: &[u8]) {}

    fn packed_len((): ()) -> usize {
        0
    }

    fn unpack((): (), _placement: Placement) -> StreamObject {
        StreamObject::new()
    }

    fn pack(_object: &StreamObject, _out: &mut Vec<u8>) -> Result<bool, object::Missing> {
        Ok(false)
    }

    #[inline]
    fn view(contents: Contents<'_, Self>, _now: u64) -> Result<&StreamObject, Refusal> {
        match contents {
            Contents::Object(object) => Ok(object),
            Contents::Packed(()) => Err(Refusal::WrongKind),
        }
    }

    fn replay(stream: &mut StreamMut<'_>, edit: StreamEdit<'_>) -> Result<(), Refusal> {
        stream.replay_edit(edit)
    }
}

impl NewStream {
    /// Takes a stream as all there is.
    pub fn take(&mut self, stream: StreamObject) {
        self.replace(Vec::new(), Some(Box::new(stream)));
    }
}
