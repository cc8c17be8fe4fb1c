//! What a tree asks of its leaves.

use std::fmt::Debug;

/// The expiry of what never expires.
pub const NEVER: u64 = u64::MAX;

/// What a parent knows of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Elements below it.
    pub count: u64,
    /// The earliest expiry of an element, or [`NEVER`]: milliseconds since 1970.
    pub due: u64,
}

impl Summary {
    /// Of two neighbours together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, due: self.due.min(other.due) }
    }
}

/// A chunk of elements. Its clone is one counted reference; a change of a shared one copies it first. The default is an empty one.
pub trait Leaf: Clone + Debug + Default {
    /// What orders the leaves: all elements of a leaf are at or above its bound, and below the next leaf's. The default is the
    /// lowest.
    type Bound: Clone + Debug + Ord + Default;

    /// What a split needs to know beside the leaf.
    type Context;

    /// How many elements there are, and when the first of them expires.
    fn summary(&self) -> Summary;

    /// Bytes that the chunk takes.
    fn memory(&self) -> usize;

    /// Bytes that a bound has elsewhere, beside its place in a node.
    fn bound_memory(_bound: &Self::Bound) -> usize {
        0
    }

    /// Whether it should be split.
    fn is_large(&self) -> bool;

    /// Whether it should be merged with a neighbour.
    fn is_small(&self) -> bool;

    /// Takes the upper elements, about half, out into a leaf of their own, and gives its bound. None if all elements belong
    /// together.
    fn split(&mut self, context: &Self::Context) -> Option<(Self::Bound, Self)>;

    /// Appends the elements of the right neighbour, unless the result would soon have to be split again. Says whether it did.
    fn merge(&mut self, right: &Self) -> bool;

    /// The last of the bounds that is not above `bound`; the first one counts as the lowest, whatever it is.
    fn position(bounds: &[Self::Bound], bound: &Self::Bound) -> usize {
        bounds.partition_point(|other| other <= bound).saturating_sub(1)
    }

    /// Panics unless the leaf is sound and its elements lie between the bounds. For tests.
    fn check(&self, bounds: (&Self::Bound, Option<&Self::Bound>), context: &Self::Context);
}
