//! Inner nodes: what is known of each child, in arrays of their own, so that a look-up reads only bounds and one child.

use std::sync::Arc;

use super::leaf::{Leaf, NEVER, Summary};
use super::size::{SHARED_BYTES, size_class};

/// Children of a node at most. The first write below a node after a snapshot touches the counters of all its children.
pub const CHILDREN_MAX: usize = 128;

/// Children that a node and its neighbour together may have to become one.
const MERGED_MAX: usize = CHILDREN_MAX * 3 / 4;

/// Places by which arrays grow.
const GROWTH: usize = 8;

/// A node with at least one child.
#[derive(Clone, Debug)]
pub struct Node<L: Leaf> {
    /// The bound of each child. The first one means nothing: the parent's holds.
    pub(super) bounds: Vec<L::Bound>,
    /// Elements below each child.
    pub(super) counts: Vec<u64>,
    /// The earliest expiry below each child; no array while nothing expires.
    dues: Vec<u64>,
    pub(super) children: Children<L>,
    /// What the bounds have elsewhere.
    bound_bytes: usize,
}

/// See [`Node::memory_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    len: usize,
    are_leaves: bool,
    have_dues: bool,
    bound_bytes: usize,
}

/// The children of a node.
#[derive(Clone, Debug)]
pub(super) enum Children<L: Leaf> {
    Leaves(Vec<L>),
    Nodes(Vec<Arc<Node<L>>>),
}

/// One child.
#[derive(Clone, Debug)]
pub(super) enum Child<L: Leaf> {
    Leaf(L),
    Node(Arc<Node<L>>),
}

impl<L: Leaf> Node<L> {
    /// A node with one child.
    pub(super) fn new(child: Child<L>, summary: Summary) -> Self {
        let children = match child {
            Child::Leaf(_) => Children::Leaves(Vec::new()),
            Child::Node(_) => Children::Nodes(Vec::new()),
        };
        let mut node = Self { bounds: Vec::new(), counts: Vec::new(), dues: Vec::new(), children, bound_bytes: 0 };
        node.insert(0, L::Bound::default(), child, summary);
        node
    }

    /// How many children there are.
    pub(super) fn len(&self) -> usize {
        self.bounds.len()
    }

    /// The child that a bound belongs to.
    #[inline]
    pub(super) fn position(&self, bound: &L::Bound) -> usize {
        L::position(&self.bounds, bound)
    }

    /// The last child whose bound is one of the first ones, for which `is_before` holds.
    #[inline]
    pub fn last(&self, is_before: impl Fn(&L::Bound) -> bool) -> usize {
        self.bounds[1..].partition_point(is_before)
    }

    /// Elements below the children before one.
    #[inline]
    pub fn count_before(&self, at: usize) -> u64 {
        self.counts[..at].iter().sum()
    }

    /// What the bounds have elsewhere is counted right.
    pub(super) fn counts_bounds(&self) -> bool {
        self.bound_bytes == self.bounds.iter().map(L::bound_memory).sum()
    }

    /// The child with the element of this rank, and the rank there. The last one if there are fewer elements.
    pub(super) fn ranked(&self, rank: u64) -> (usize, u64) {
        let mut left = rank;
        for (i, count) in self.counts.iter().enumerate() {
            if left < *count {
                return (i, left);
            }
            left -= count;
        }
        (self.len() - 1, self.counts.last().map_or(0, |count| count.saturating_sub(1)))
    }

    /// The earliest expiry below a child.
    pub(super) fn due(&self, at: usize) -> u64 {
        self.dues.get(at).copied().unwrap_or(NEVER)
    }

    /// The first child below which something expires at `now` or before.
    pub(super) fn first_due(&self, now: u64) -> Option<usize> {
        self.dues.iter().position(|due| *due <= now)
    }

    /// Of all children together.
    pub(super) fn summary(&self) -> Summary {
        Summary { count: self.counts.iter().sum(), due: self.earliest_due() }
    }

    pub(super) fn earliest_due(&self) -> u64 {
        self.dues.iter().copied().min().unwrap_or(NEVER)
    }

    /// The first of the children with the earliest expiry.
    pub(super) fn earliest_child(&self) -> usize {
        self.dues.iter().enumerate().min_by_key(|(_, due)| **due).map_or(0, |(at, _)| at)
    }

    pub(super) fn set_summary(&mut self, at: usize, summary: Summary) {
        self.counts[at] = summary.count;
        self.set_due(at, summary.due);
    }

    pub(super) fn set_due(&mut self, at: usize, due: u64) {
        if self.dues.is_empty() {
            if due == NEVER {
                return;
            }
            self.dues = vec![NEVER; self.len()];
        }
        self.dues[at] = due;
    }

    /// Bytes that the node takes without its children.
    pub(super) fn memory(&self) -> usize {
        Self::memory_of(self.shape())
    }

    /// All that a node's memory depends on, so that a copy takes as much.
    #[inline]
    pub(super) fn shape(&self) -> Shape {
        let are_leaves = matches!(self.children, Children::Leaves(_));
        Shape { len: self.len(), are_leaves, have_dues: !self.dues.is_empty(), bound_bytes: self.bound_bytes }
    }

    /// Bytes that a node of this shape takes.
    pub(super) fn memory_of(shape: Shape) -> usize {
        let places = shape.len.next_multiple_of(GROWTH);
        let child = if shape.are_leaves { size_of::<L>() } else { size_of::<Arc<Self>>() };
        let arrays = [size_of::<L::Bound>(), size_of::<u64>(), child, if shape.have_dues { size_of::<u64>() } else { 0 }];
        size_class(SHARED_BYTES + size_of::<Self>())
            + arrays.iter().map(|place| size_class(places * place)).sum::<usize>()
            + shape.bound_bytes
    }

    pub(super) fn insert(&mut self, at: usize, bound: L::Bound, child: Child<L>, summary: Summary) {
        self.bound_bytes += L::bound_memory(&bound);
        insert(&mut self.bounds, at, bound);
        insert(&mut self.counts, at, summary.count);
        if !self.dues.is_empty() {
            insert(&mut self.dues, at, NEVER);
        }
        match (&mut self.children, child) {
            (Children::Leaves(leaves), Child::Leaf(leaf)) => insert(leaves, at, leaf),
            (Children::Nodes(nodes), Child::Node(node)) => insert(nodes, at, node),
            _ => debug_assert!(false, "INV-TREE-1: all children of a node are leaves, or none is"),
        }
        self.set_due(at, summary.due);
    }

    /// Removes a child. The one before it, or the one that becomes the first, takes its range over.
    pub(super) fn remove(&mut self, at: usize) {
        let bound = self.bounds.remove(at);
        self.bound_bytes -= L::bound_memory(&bound);
        self.counts.remove(at);
        if !self.dues.is_empty() {
            self.dues.remove(at);
        }
        match &mut self.children {
            Children::Leaves(leaves) => drop(leaves.remove(at)),
            Children::Nodes(nodes) => drop(nodes.remove(at)),
        }
    }

    /// Takes the upper half of the children out, into a node with the bound that is returned.
    pub(super) fn split(&mut self) -> (L::Bound, Self) {
        self.split_at(self.len() / 2)
    }

    /// Takes the children from one on out, into a node with the bound that is returned. Both have children then.
    pub(super) fn split_at(&mut self, at: usize) -> (L::Bound, Self) {
        let bounds = split(&mut self.bounds, at);
        let dues = if self.dues.is_empty() { Vec::new() } else { split(&mut self.dues, at) };
        let children = match &mut self.children {
            Children::Leaves(leaves) => Children::Leaves(split(leaves, at)),
            Children::Nodes(nodes) => Children::Nodes(split(nodes, at)),
        };
        let bound_bytes = bounds.iter().map(L::bound_memory).sum();
        self.bound_bytes -= bound_bytes;
        (bounds[0].clone(), Self { bounds, counts: split(&mut self.counts, at), dues, children, bound_bytes })
    }

    /// Whether the node has so few children that it should be merged.
    pub(super) fn is_small(&self) -> bool {
        self.len() < CHILDREN_MAX / 4
    }

    /// Whether the node and its right neighbour should become one.
    pub(super) fn may_merge(&self, right: &Self) -> bool {
        self.len() + right.len() <= MERGED_MAX
    }

    /// Appends the children of the right neighbour, whose bound the parent knows.
    pub(super) fn merge(&mut self, mut right: Self, bound: L::Bound) {
        if self.dues.is_empty() != right.dues.is_empty() {
            self.dues.resize(self.len(), NEVER);
            right.dues.resize(right.len(), NEVER);
        }
        self.bound_bytes += right.bound_bytes + L::bound_memory(&bound) - L::bound_memory(&right.bounds[0]);
        right.bounds[0] = bound;
        self.bounds.append(&mut right.bounds);
        self.counts.append(&mut right.counts);
        self.dues.append(&mut right.dues);
        match (&mut self.children, &mut right.children) {
            (Children::Leaves(leaves), Children::Leaves(others)) => leaves.append(others),
            (Children::Nodes(nodes), Children::Nodes(others)) => nodes.append(others),
            _ => debug_assert!(false, "INV-TREE-1: all leaves are equally deep"),
        }
    }
}

/// Inserts into an array that grows by a few places at a time.
fn insert<T>(all: &mut Vec<T>, at: usize, one: T) {
    if all.len() == all.capacity() {
        all.reserve_exact(GROWTH);
    }
    all.insert(at, one);
}

/// As `split_off`, and neither part keeps much more memory than it needs.
fn split<T>(all: &mut Vec<T>, at: usize) -> Vec<T> {
    let upper = all.split_off(at);
    all.shrink_to(at.next_multiple_of(GROWTH));
    upper
}
