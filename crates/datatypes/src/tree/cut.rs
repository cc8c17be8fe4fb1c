//! Leaves at either end: put before all others, and cut off, many at once.

use std::sync::Arc;

use super::leaf::Leaf;
use super::node::{Child, Children, Node};
use super::root::Tree;
use super::update::{Change, settle_node, settle_shape};

impl<L: Leaf> Tree<L> {
    /// Puts a leaf before all others; in place of the only one, if that is empty. Only for leaves that are ordered by nothing but
    /// their place.
    pub fn prepend(&mut self, leaf: L) {
        debug_assert_eq!(size_of::<L::Bound>(), 0, "what has a bound is put where that says");
        if self.is_empty() {
            *self = Self::of(leaf);
            return;
        }
        let mut change =
            Change { count: leaf.summary().count as i64, memory: leaf.memory() as isize, split: None, is_within: false };
        prepend(&mut self.root, leaf, &mut change);
        self.settle(change);
    }

    /// Takes out the leaf with the element of this rank and all behind it. Both trees have elements then, or this one has all as
    /// before.
    ///
    /// Takes time for the path to the leaf, and for adding up the memory of the part that has fewer elements, by the leaf.
    pub fn split_off(&mut self, rank: u64) -> Option<Self> {
        if rank >= self.len() {
            return None;
        }
        let mut spine = 0;
        let right = split(&mut self.root, rank, &mut spine)?;
        let count = right.summary().count;
        let total = self.memory.wrapping_add_signed(spine);
        let (left_memory, right_memory) = if count < self.len() / 2 {
            let memory = memory(&right);
            (total - memory, memory)
        } else {
            let memory = memory(&self.root);
            (memory, total - memory)
        };
        let (left_summary, right_summary) = (self.root.summary(), right.summary());
        let mut other = Self { root: right, summary: right_summary, memory: right_memory };
        (self.summary, self.memory) = (left_summary, left_memory);
        let none = || Change { count: 0, memory: 0, split: None, is_within: false };
        self.settle(none());
        other.settle(none());
        Some(other)
    }
}

/// Puts a leaf before the first one below a node.
fn prepend<L: Leaf>(this: &mut Arc<Node<L>>, leaf: L, change: &mut Change<L>) {
    let node = Arc::make_mut(this);
    let before = node.shape();
    match &mut node.children {
        Children::Leaves(_) => {
            let summary = leaf.summary();
            node.insert(0, L::Bound::default(), Child::Leaf(leaf), summary);
        }
        Children::Nodes(nodes) => {
            prepend(&mut nodes[0], leaf, change);
            settle_node(node, 0, change);
        }
    }
    settle_shape(node, before, change);
}

/// Cuts a node before the leaf with the element of this rank. None: there is nothing before that leaf. `spine` becomes the bytes
/// that came with the nodes which there are twice now.
fn split<L: Leaf>(this: &mut Arc<Node<L>>, rank: u64, spine: &mut isize) -> Option<Arc<Node<L>>> {
    let (at, rank) = this.ranked(rank);
    let node = Arc::make_mut(this);
    let before = node.memory() as isize;
    // Of a child on the path, what is before the cut stays with this node, and what is behind it becomes the first child of the
    // other.
    let cut = match &mut node.children {
        Children::Leaves(_) => None,
        Children::Nodes(nodes) => split(&mut nodes[at], rank, spine),
    };
    if let Children::Nodes(nodes) = &node.children
        && cut.is_some()
    {
        let summary = nodes[at].summary();
        node.set_summary(at, summary);
    }
    let from = at + usize::from(cut.is_some());
    let mut right = match from {
        0 => return None,
        _ if from < node.len() => Some(node.split_at(from).1),
        _ => None,
    };
    if let Some(child) = cut {
        let summary = child.summary();
        match &mut right {
            Some(right) => right.insert(0, L::Bound::default(), Child::Node(child), summary),
            None => right = Some(Node::new(Child::Node(child), summary)),
        }
    }
    let right = right?;
    *spine += node.memory() as isize + right.memory() as isize - before;
    Some(Arc::new(right))
}

/// Bytes of all nodes and leaves below a node, and of itself.
fn memory<L: Leaf>(node: &Node<L>) -> usize {
    let below: usize = match &node.children {
        Children::Leaves(leaves) => leaves.iter().map(L::memory).sum(),
        Children::Nodes(nodes) => nodes.iter().map(|node| memory(node)).sum(),
    };
    node.memory() + below
}
