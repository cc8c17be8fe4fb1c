//! What the types of collections have in common: a value packed in its record, which becomes an object when it has grown and packed
//! again when it has shrunk; read in place or as a snapshot; changed as a draft under its latch.
//!
//! A type is a [`Collection`]: it says how its values lie, what is read of them, and what their edits are. Opening, snapshots, new
//! values, commits and replay are written once, over that. The operations of a type are methods of its view, of [`ValueMut`] and of
//! [`New`] with that type, and decide between the two forms of [`Contents`].

mod ahead;
mod change;
mod draft;
#[cfg(test)]
mod draft_tests;
pub(super) mod edits;
mod frozen;
mod look;
mod new;
mod sample;

pub(super) use ahead::{TOGETHER, fetch_ahead};
pub use change::ValueMut;
pub(super) use draft::Draft;
pub(super) use edits::EditBytes;
pub use frozen::{Frozen, Stored};
pub use look::Snapshot;
pub(super) use look::visit_while;
pub use new::New;
pub(super) use sample::sample;

use std::any::Any;

use almandine_base::object::{Missing, Object};
use almandine_datatypes::hash::Placement;
use almandine_store::Kind;

use crate::Refusal;

/// A type of collections: how its values lie packed and as objects, and how they are read and changed.
pub trait Collection: Sized + 'static {
    /// Its number in records.
    const KIND: Kind;
    /// A large value.
    type Object: Object;
    /// A small value, packed in its record.
    type Packed<'p>: Copy;
    /// A value to be read.
    type View<'v>;
    /// From which size on OBJECT ENCODING names another encoding.
    type Limits: Copy;
    /// What is done to an object, as effects have it.
    type Edit<'e>: EditBytes<'e>;

    /// No limits: where encodings are told, as effects do, none is to be found.
    const UNLIMITED: Self::Limits;

    /// The value of packed bytes; of none, an empty one.
    fn packed(bytes: &[u8]) -> Self::Packed<'_>;

    /// How many elements a packed value has, those past their time included.
    fn packed_len(packed: Self::Packed<'_>) -> usize;

    /// The object with the elements of a packed value.
    fn unpack(packed: Self::Packed<'_>, placement: Placement) -> Self::Object;

    /// Appends an object that has become small, packed. False: it stays an object, and `out` has any bytes.
    ///
    /// # Errors
    /// When a part of it is not in memory.
    fn pack(object: &Self::Object, out: &mut Vec<u8>) -> Result<bool, Missing>;

    /// The value to be read at a time, in milliseconds since the Unix epoch.
    fn view(contents: Contents<'_, Self>, now: u64) -> Self::View<'_>;

    /// How many elements are told of a value.
    fn len(contents: Contents<'_, Self>, _now: u64) -> usize {
        contents.elements()
    }

    /// How many elements of an object are not past their time.
    fn live_len(object: &Self::Object, _now: u64) -> usize {
        object.elements()
    }

    /// Makes an edit that was made to another value.
    ///
    /// # Errors
    /// When something is not in memory, or the store is full.
    fn replay(value: &mut ValueMut<'_, Self>, edit: Self::Edit<'_>) -> Result<(), Refusal>;

    /// Whether a stored value is no key any more, since all its elements are past their time.
    fn is_expired(_contents: Contents<'_, Self>, _now: u64) -> bool {
        false
    }

    /// Whether a value without elements is no key.
    const EMPTY_IS_ABSENT: bool = true;

    /// Whether there is a packed form: else a value is an object from the first element on.
    const HAS_PACKED: bool = true;
}

/// A value in one of its forms.
pub enum Contents<'b, C: Collection> {
    /// Small.
    Packed(C::Packed<'b>),
    /// Large.
    Object(&'b C::Object),
}

impl<C: Collection> Clone for Contents<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Collection> Copy for Contents<'_, C> {}

impl<C: Collection> Contents<'_, C> {
    /// How many elements there are, those past their time and not yet removed included.
    pub(super) fn elements(self) -> usize {
        match self {
            Self::Packed(packed) => C::packed_len(packed),
            Self::Object(object) => object.elements(),
        }
    }

    /// Whether it is so large that a reply with all of it should be made from a snapshot.
    pub(super) fn is_large(self) -> bool {
        match self {
            Self::Packed(_) => false,
            Self::Object(object) => look::is_large(object),
        }
    }

    /// Whether `count` of the elements are so large that a reply with them should be made from a snapshot.
    pub(super) fn is_large_part(self, count: usize) -> bool {
        match self {
            Self::Packed(_) => false,
            Self::Object(object) => look::is_large_part(object, count),
        }
    }
}

/// A value that can be changed in either form: a [`Draft`] of a key's, or a [`New`] one of no key. The operations of a type are
/// written once, over this.
pub(super) trait Editable<C: Collection> {
    /// The value as it is now.
    fn contents(&self) -> Contents<'_, C>;

    /// The bytes of a value that is packed.
    fn packed_mut(&mut self) -> Option<&mut Vec<u8>>;

    /// Makes a packed value an object.
    fn unpack(&mut self);

    /// Changes an object.
    ///
    /// # Errors
    /// When it cannot be changed, as the store is full; then it has not.
    fn change<R>(&mut self, change: impl FnOnce(&mut C::Object) -> R) -> Result<R, Refusal>;
}

/// The object as its type knows it.
pub(super) fn downcast<C: Collection>(object: &dyn Object) -> Option<&C::Object> {
    (object as &dyn Any).downcast_ref()
}
