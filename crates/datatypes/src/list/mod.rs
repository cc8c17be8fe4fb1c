//! Lists that are too large to be packed: a stack of elements at either end, and a tree of chunks between them.
//!
//! ```text
//! head            middle                                        tail
//! top … bottom    chunk  chunk  chunk  chunk  …  chunk          bottom … top
//! ```
//!
//! Pushes and pops at an end touch its stack ([`chunk::stack`]) and nothing else. A stack that has become too large gives its
//! bottom to the tree as a chunk ([`chunk`]); one that is empty takes a chunk from there. Between the two there are always dozens
//! of pushes or pops, so that each one costs constant time on average. The tree ([`crate::tree`]) has counts and no bounds: it
//! finds chunks by place. `docs/adr/0029-lists.md` says why.
//!
//! [`ListObject`] is what commands see and what the store holds.

mod chunk;
mod object;
pub mod packed;

pub use object::{ListIter, ListObject};
pub use packed::{End, LIST_MAX_BYTES, ListEncoding, ListLimits, PackedList};
