//! Hashes that are too large to be packed: fields in a tree of chunks, in the order of their hashes ([`crate::hashed`]).
//!
//! [`HashObject`] is what commands see and what the store holds.

mod object;
mod packed;

pub use crate::hashed::Placement;
pub use object::HashObject;
pub use packed::PackedHash;
