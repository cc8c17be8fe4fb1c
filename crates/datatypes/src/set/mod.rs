//! Sets that are too large to be packed: members in a tree of chunks, in the order of their hashes ([`crate::hashed`]).
//!
//! [`SetObject`] is what commands see and what the store holds, [`Algebra`] what they do with several sets.

mod algebra;
mod object;
pub mod packed;

pub use crate::hashed::Placement;
pub use algebra::{Algebra, Builder, Count, Position, SetOperation, Source, SourceMembers};
pub use object::{SetIter, SetObject};
pub use packed::{PackedSet, SetEncoding, SetLimits};
