//! Sets that are too large to be packed: members in a tree of chunks, in the order of their hashes ([`crate::hashed`]).
//!
//! [`SetObject`] is what commands see and what the store holds, [`Algebra`] what they do with several sets.

mod algebra;
mod builder;
mod convert;
mod iter;
mod object;
mod source;

pub use crate::hashed::Placement;
pub use algebra::{Algebra, Count, Operation, Position};
pub use builder::Builder;
pub use iter::Iter;
pub use object::SetObject;
pub use source::{Members, Source};
