//! Ways down a tree.

use super::leaf::Leaf;
use super::node::Node;
use almandine_base::steps;

/// Chooses a child of each node on the way to one leaf.
pub trait Route<L: Leaf> {
    /// The child to go to.
    fn child(&mut self, node: &Node<L>) -> usize;
}

/// To the leaf that a bound belongs to.
#[derive(Clone, Debug)]
pub struct ByBound<B>(pub B);

/// To the leaf with the element of this rank, from 0 on; on the way it becomes the rank within the leaf.
#[derive(Clone, Debug)]
pub struct ByRank(pub u64);

/// To the first leaf in which an element is due at this time, or to the first leaf if there is none.
#[derive(Clone, Debug)]
pub struct FirstDue(pub u64);

/// To the first of the leaves with the element that is due first of all.
#[derive(Clone, Debug)]
pub struct EarliestDue;

impl<L: Leaf> Route<L> for EarliestDue {
    fn child(&mut self, node: &Node<L>) -> usize {
        steps::take(1);
        node.earliest_child()
    }
}

impl<L: Leaf> Route<L> for ByBound<L::Bound> {
    #[inline]
    fn child(&mut self, node: &Node<L>) -> usize {
        steps::take(1);
        node.position(&self.0)
    }
}

impl<L: Leaf> Route<L> for ByRank {
    fn child(&mut self, node: &Node<L>) -> usize {
        steps::take(1);
        let (at, rank) = node.ranked(self.0);
        self.0 = rank;
        at
    }
}

impl<L: Leaf> Route<L> for FirstDue {
    fn child(&mut self, node: &Node<L>) -> usize {
        steps::take(1);
        node.first_due(self.0).unwrap_or(0)
    }
}
