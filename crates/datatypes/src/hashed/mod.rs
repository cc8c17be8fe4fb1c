//! Elements in the order of their hashes, in a tree of chunks: what large hashes and sets are made of.
//!
//! A chunk covers a range of hashes and has up to 64 elements, found by one byte of their hashes. As hashes are uniform, so are
//! chunks. A scan goes through the hashes in order; whatever chunks split or merge meanwhile, an element keeps its place in that
//! order.
//!
//! [`HashedObject`] has what both types do; `layout` says where the bytes lie. A field and a member are the same here: what an
//! element is found by.

mod chunk;
mod image;
mod iter;
mod layout;
mod leaf;
mod object;
mod place;
mod sample;
mod scan;
mod tags;

pub use iter::HashedIter;
pub use object::{HashedObject, HashedType};
pub use place::Placement;
pub(crate) use place::bound;
pub(crate) use sample::{below, ranks};
