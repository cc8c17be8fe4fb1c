//! Hashes that are too large to be packed: a tree of chunks in the order of the fields' hashes.
//!
//! A chunk covers a range of hashes and has up to 64 fields, found by one byte of their hashes. As hashes are uniform, so are chunks. A scan goes
//! through the hashes in order; whatever chunks split or merge meanwhile, a field keeps its place in that order.
//!
//! [`HashObject`] is what commands see and what the store holds; `layout` says where the bytes lie.

mod chunk;
mod convert;
mod expiry;
mod image;
mod iter;
mod layout;
mod leaf;
mod object;
mod place;
mod sample;
mod scan;
mod tags;

pub use iter::Iter;
pub use object::HashObject;
pub use place::Placement;
