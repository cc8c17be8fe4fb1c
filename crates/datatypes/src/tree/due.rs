//! Leaves with elements that are due.

use super::leaf::Leaf;
use super::node::{Children, Node};
use super::root::Tree;

impl<L: Leaf> Tree<L> {
    /// Visits the leaves in which an element is due at `now`, each with the number of elements before it; goes into nothing else.
    pub fn visit_due(&self, now: u64, visit: &mut dyn FnMut(u64, &L)) {
        visit_due(&self.root, 0, now, visit);
    }
}

fn visit_due<L: Leaf>(node: &Node<L>, before: u64, now: u64, visit: &mut dyn FnMut(u64, &L)) {
    let mut before = before;
    for at in 0..node.len() {
        if node.due(at) <= now {
            match &node.children {
                Children::Leaves(leaves) => visit(before, &leaves[at]),
                Children::Nodes(nodes) => visit_due(&nodes[at], before, now, visit),
            }
        }
        before += node.counts[at];
    }
}
