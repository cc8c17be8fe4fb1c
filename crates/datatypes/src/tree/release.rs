//! Freeing a tree a few leaves at a time: freeing millions of elements at once would hold up the thread that does it.

use std::sync::Arc;

use super::leaf::Leaf;
use super::node::{Children, Node};
use super::root::Tree;

impl<L: Leaf> Tree<L> {
    /// Frees about `limit` leaves, or the tree's part in them where snapshots have them too. True when nothing is left. After the
    /// first call only this function and [`Tree::memory`] may be called, until it has returned true; then the tree is empty.
    pub fn release(&mut self, limit: usize) -> bool {
        let (mut left, mut freed) = (limit.max(1), 0);
        if release_node(&mut self.root, &mut left, &mut freed) {
            *self = Self::default();
            return true;
        }
        self.memory = self.memory.saturating_sub(freed);
        false
    }
}

/// Frees leaves below a node from its end, and adds up their bytes. True if the node has nothing left that is its own.
fn release_node<L: Leaf>(this: &mut Arc<Node<L>>, limit: &mut usize, freed: &mut usize) -> bool {
    let Some(node) = Arc::get_mut(this) else { return true };
    while *limit > 0 {
        match &mut node.children {
            Children::Leaves(leaves) => {
                let Some(leaf) = leaves.pop() else { return true };
                *freed += leaf.memory();
                *limit -= 1;
            }
            Children::Nodes(nodes) => {
                let Some(child) = nodes.last_mut() else { return true };
                if release_node(child, limit, freed) {
                    *limit = limit.saturating_sub(1);
                    drop(nodes.pop());
                }
            }
        }
    }
    false
}
