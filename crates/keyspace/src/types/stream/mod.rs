//! Streams: a key read and changed as one. They are objects from the first entry on; one without entries is a key still.

mod edits;
mod groups;
mod new;
mod snapshot;
mod write;

pub use snapshot::StreamSnapshot;
pub use write::StreamMut;

use almandine_base::object;
use almandine_datatypes::hash::Placement;
use almandine_datatypes::stream::StreamObject;
use almandine_store::Kind;

use super::collection::{Body, Collection, Extent};
use crate::{Key, Reader, Refusal};

/// The type of streams.
struct Streams;

impl Collection for Streams {
    const KIND: Kind = Kind::Stream;
    type Object = StreamObject;
    /// There is no packed form: what has no object is empty.
    type Packed<'p> = ();

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

    const EMPTY_IS_ABSENT: bool = false;
}

/// The stream that a value is.
fn object<'b>(body: Body<'b, Streams>) -> Result<&'b StreamObject, Refusal> {
    match body {
        Body::Object(object) => Ok(object),
        Body::Packed(()) => Err(Refusal::WrongKind),
    }
}

impl Reader<'_> {
    /// Opens a key as a stream for a look at some of its entries. None: there is no such key.
    ///
    /// # Errors
    /// When it is of another type, or what `look` needs is not in memory.
    #[inline]
    pub fn read_stream<R>(
        &mut self,
        key: Key<'_>,
        look: impl FnOnce(&StreamObject) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        self.look_at::<Streams, R>(key, Extent::Part, |body, _| look(object(body)?))
    }

    /// As [`Reader::read_stream`], for a look at all of it: of a large one, at a snapshot, so that writers need not wait.
    ///
    /// # Errors
    /// As there.
    pub fn read_whole_stream<R>(
        &mut self,
        key: Key<'_>,
        look: impl FnOnce(&StreamObject) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        self.look_at::<Streams, R>(key, Extent::Whole, |body, _| look(object(body)?))
    }
}
