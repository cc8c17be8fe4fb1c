//! Sets that are too large to be packed: members in a tree of chunks, in the order of their hashes ([`crate::hashed`]).
//!
//! [`SetObject`] is what commands see and what the store holds.

mod convert;
mod iter;
mod object;

pub use crate::hashed::Placement;
pub use iter::Iter;
pub use object::SetObject;
