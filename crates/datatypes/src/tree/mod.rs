//! Counted trees of chunks that are copied on write: what every large collection is made of.
//!
//! ```text
//!                 node                 up to 128 children: bounds, counts, earliest expiries
//!            /     |     \
//!        node     node    node         all leaves are equally deep
//!       / | \     / | \
//!     leaf leaf leaf …                 a chunk of 1 to 16 KiB with up to 64 elements, packed
//! ```
//!
//! A [`Leaf`] is a chunk of elements; what is in it, and by what leaves are ordered, is the collection's. A hash orders them by the
//! hashes of their fields, a sorted set by scores, a list by nothing but their place. The tree knows how many elements are below
//! each child, so that it finds an element by its rank, and when the earliest of them expires.
//!
//! *Copy on write.* A node or a leaf with one owner changes in place; one that a snapshot holds too is copied first, and so is the
//! path above it. A snapshot is one counted reference to the root. A write after it copies one node per level and one leaf,
//! whatever the size.
//!
//! Trees of hashes could be directories of hash bits just as well; why they are not, and what this costs, is in
//! `docs/adr/0024-chunk-tree.md`.

mod append;
mod check;
mod cut;
mod due;
mod leaf;
mod leaves;
mod node;
mod release;
mod root;
mod route;
mod size;

mod update;

pub use leaf::{Leaf, NEVER, Summary};
pub use leaves::Leaves;
pub use node::{CHILDREN_MAX, Node};
pub use root::Tree;
pub use route::{ByBound, ByRank, EarliestDue, FirstDue, Route};
pub use size::{SHARED_BYTES, size_class, size_class_below, zeroes};
