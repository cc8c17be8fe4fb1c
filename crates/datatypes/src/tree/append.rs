//! Leaves that come in order, as from an image: each becomes the last one.

use std::sync::Arc;

use super::leaf::Leaf;
use super::node::{Child, Children, Node};
use super::root::Tree;
use super::update::{Change, settle_node, settle_shape};

impl<L: Leaf> Tree<L> {
    /// Puts a leaf behind all others; in place of the only one, if that is empty. All elements before it are below its bound, which
    /// is above that of the last leaf.
    pub fn append(&mut self, bound: L::Bound, leaf: L) {
        if self.is_empty() {
            // The bound of the first leaf means nothing.
            *self = Self::of(leaf);
            return;
        }
        let mut change =
            Change { count: leaf.summary().count as i64, memory: leaf.memory() as isize, split: None, is_within: false };
        append(&mut self.root, bound, leaf, &mut change);
        self.settle(change);
    }
}

/// Puts a leaf behind the last one below a node.
fn append<L: Leaf>(this: &mut Arc<Node<L>>, bound: L::Bound, leaf: L, change: &mut Change<L>) {
    let node = Arc::make_mut(this);
    let (before, last) = (node.shape(), node.len() - 1);
    match &mut node.children {
        Children::Leaves(_) => {
            let is_above = node.bounds[last] < bound || last == 0 || size_of::<L::Bound>() == 0;
            debug_assert!(is_above, "INV-TREE-1: leaves are in the order of their bounds");
            let summary = leaf.summary();
            node.insert(last + 1, bound, Child::Leaf(leaf), summary);
        }
        Children::Nodes(nodes) => {
            append(&mut nodes[last], bound, leaf, change);
            settle_node(node, last, change);
        }
    }
    settle_shape(node, before, change);
}
