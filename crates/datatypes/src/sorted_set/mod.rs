//! Sorted sets that are too large to be packed: two trees of chunks.
//!
//! The *order* ([`chunk::order`]) has the members, ascending by score and then by bytes. It knows ranks. The *index*
//! ([`chunk::index`]) finds a member's score: it has 32 bits of the member's hash with the score, and not the member; a look-up is
//! confirmed in the order. `docs/adr/0028-sorted-sets.md` says why.
//!
//! [`SortedSetObject`] is what commands see and what the store holds.

mod chunk;
mod edge;
mod object;
pub mod packed;
mod range;
mod score;
mod tally;

pub use crate::hashed::Placement;
pub use edge::Edge;
pub use object::{Assembly, SortedSetBackwards, SortedSetIter, SortedSetObject, SortedSetOrder};
pub use packed::{PackedSortedSet, Scored, SortedSetEncoding, SortedSetLimits, Update};
pub use range::{LexRange, ScoreRange};
pub use tally::{Aggregate, By, Sieve, Tally, number};
