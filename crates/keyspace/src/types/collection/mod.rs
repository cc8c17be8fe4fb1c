//! What the types of collections have in common: a value packed in its record, which becomes an object when it has grown and packed again
//! when it has shrunk; read in place or as a snapshot; changed as a draft under its latch.
//!
//! A type is a [`Collection`]. Its own view names the operations and decides between the two forms of a [`Body`] in each.

mod ahead;
mod draft;
pub(super) mod edits;
mod frozen;
mod look;
mod new;

pub(super) use ahead::{TOGETHER, fetch_ahead};
pub(super) use draft::Draft;
pub use frozen::Frozen;
pub(super) use look::{Extent, Snapshot};
pub(super) use new::New;

use almandine_base::object::{Missing, Object};
use almandine_datatypes::hash::Placement;
use almandine_store::Kind;

use crate::Refusal;

/// A type of collections: how its values lie packed and as objects.
pub(super) trait Collection: Sized + 'static {
    /// Its number in records.
    const KIND: Kind;
    /// A large value.
    type Object: Object;
    /// A small value, packed in its record.
    type Packed<'p>: Copy;

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

    /// Whether a stored value is no key any more, since all its elements are past their time.
    fn is_expired(_body: Body<'_, Self>, _now: u64) -> bool {
        false
    }

    /// Whether a value without elements is no key.
    const EMPTY_IS_ABSENT: bool = true;
}

/// A value in one of its forms.
pub(super) enum Body<'b, C: Collection> {
    /// Small.
    Packed(C::Packed<'b>),
    /// Large.
    Object(&'b C::Object),
}

impl<C: Collection> Clone for Body<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Collection> Copy for Body<'_, C> {}

impl<C: Collection> Body<'_, C> {
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
}

impl<C: Collection> Body<'_, C> {
    /// As [`Body::is_large`], for a reply with so many of the elements.
    pub(super) fn is_large_part(self, count: usize) -> bool {
        match self {
            Self::Packed(_) => false,
            Self::Object(object) => look::is_large_part(object, count),
        }
    }
}

/// A value that can be changed in either form: a [`Draft`] of a key's, or a [`New`] one of no key. The operations of a type are written once, over this.
pub(super) trait Editable<C: Collection> {
    /// The value as it is now.
    fn body(&self) -> Body<'_, C>;

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
    object.as_any().downcast_ref()
}
