//! Changing a tree: down one path, making it the tree's own, and up again with what has changed.

use std::sync::Arc;

use almandine_base::object::Missing;

use super::leaf::{Leaf, Summary};
use super::node::{CHILDREN_MAX, Child, Children, Node, Shape};
use super::root::Tree;
use super::route::Route;

/// What the level above must know of a change below.
pub(super) struct Change<L: Leaf> {
    /// Elements that came, or went if negative.
    pub(super) count: i64,
    /// Bytes that came, or went.
    pub(super) memory: isize,
    /// The upper half of the child, if it was split.
    pub(super) split: Option<(L::Bound, Node<L>)>,
    /// Neither the summary nor the memory of the leaf has changed: nothing above it is looked at.
    pub(super) is_within: bool,
}

impl<L: Leaf> Tree<L> {
    /// Changes the leaf that a route leads to, and splits or merges it as it needs.
    ///
    /// # Errors
    /// [`Missing`]: the leaf is not in memory; `edit` was not called.
    pub fn update<R>(
        &mut self,
        route: &mut impl Route<L>,
        context: &L::Context,
        edit: impl FnOnce(&mut L) -> R,
    ) -> Result<R, Missing> {
        let mut change = Change { count: 0, memory: 0, split: None, is_within: false };
        let result = descend(&mut self.root, route, context, edit, &mut change);
        if !change.is_within {
            self.settle(change);
        }
        Ok(result)
    }

    /// After a change below the root.
    pub(super) fn settle(&mut self, mut change: Change<L>) {
        if let Some((bound, right)) = change.split.take() {
            change.memory += self.grow(bound, right);
        }
        change.memory += self.shrink();
        self.memory = self.memory.wrapping_add_signed(change.memory);
        self.summary = Summary { count: self.summary.count.wrapping_add_signed(change.count), due: self.root.earliest_due() };
    }

    /// Puts a root above the two halves of the old one. Returns the bytes that came.
    fn grow(&mut self, bound: L::Bound, right: Node<L>) -> isize {
        let summary = self.root.summary();
        let mut root = Node::new(Child::Node(self.root.clone()), summary);
        let summary = right.summary();
        root.insert(1, bound, Child::Node(Arc::new(right)), summary);
        let memory = root.memory();
        self.root = Arc::new(root);
        memory as isize
    }

    /// Takes roots away that have one child. Returns the bytes that went, as a negative number.
    fn shrink(&mut self) -> isize {
        let mut memory = 0;
        while let Children::Nodes(nodes) = &self.root.children
            && let [child] = nodes.as_slice()
        {
            memory -= self.root.memory() as isize;
            self.root = child.clone();
        }
        memory
    }
}

fn descend<L: Leaf, R>(
    this: &mut Arc<Node<L>>,
    route: &mut impl Route<L>,
    context: &L::Context,
    edit: impl FnOnce(&mut L) -> R,
    change: &mut Change<L>,
) -> R {
    let node = Arc::make_mut(this);
    let before = node.shape();
    let at = route.child(node);
    let result = match &mut node.children {
        Children::Leaves(leaves) => {
            let leaf = &mut leaves[at];
            let (summary, memory) = (leaf.summary(), leaf.memory());
            let result = edit(leaf);
            let after = leaf.summary();
            change.is_within = after == summary && leaf.memory() == memory && !leaf.is_large();
            if !change.is_within {
                change.count = after.count.wrapping_sub(summary.count) as i64;
                change.memory += leaf.memory() as isize - memory as isize;
                settle_leaf(node, at, context, change);
            }
            result
        }
        Children::Nodes(nodes) => {
            let result = descend(&mut nodes[at], route, context, edit, change);
            if !change.is_within {
                settle_node(node, at, change);
            }
            result
        }
    };
    if !change.is_within {
        settle_shape(node, before, change);
    }
    debug_assert!(Arc::get_mut(this).is_some(), "INV-TREE-2: who changes a node is its only owner");
    result
}

/// After a change of a node's children: it has not too many.
pub(super) fn settle_shape<L: Leaf>(node: &mut Node<L>, before: Shape, change: &mut Change<L>) {
    if node.shape() != before {
        change.memory += node.memory() as isize - Node::<L>::memory_of(before) as isize;
    }
    if node.len() > CHILDREN_MAX {
        let memory = node.memory() as isize;
        let (bound, right) = node.split();
        change.memory += node.memory() as isize + right.memory() as isize - memory;
        change.split = Some((bound, right));
    }
}

/// After a change of a leaf: its parent knows of it, and it is neither too large nor too small.
fn settle_leaf<L: Leaf>(node: &mut Node<L>, at: usize, context: &L::Context, change: &mut Change<L>) {
    let Children::Leaves(leaves) = &node.children else { return };
    let leaf = &leaves[at];
    let (is_large, is_small) = (leaf.is_large(), leaf.is_small());
    node.set_summary(at, leaf.summary());
    if is_large {
        split_leaf(node, at, context, change);
    } else if is_small && node.len() > 1 {
        merge_leaf(node, at, change);
    }
}

/// Splits a leaf, and its halves again, until none is too large.
fn split_leaf<L: Leaf>(node: &mut Node<L>, at: usize, context: &L::Context, change: &mut Change<L>) {
    let (mut at, mut end) = (at, at + 1);
    while at < end {
        let Children::Leaves(leaves) = &mut node.children else { return };
        let leaf = &mut leaves[at];
        let memory = leaf.memory() as isize;
        let split = if leaf.is_large() { leaf.split(context) } else { None };
        let Some((bound, right)) = split else {
            at += 1;
            continue;
        };
        change.memory += leaf.memory() as isize + right.memory() as isize - memory;
        let (left, summary) = (leaf.summary(), right.summary());
        node.set_summary(at, left);
        node.insert(at + 1, bound, Child::Leaf(right), summary);
        end += 1;
    }
}

/// Takes an empty leaf away, or merges a small one with a neighbour that has room for it.
fn merge_leaf<L: Leaf>(node: &mut Node<L>, at: usize, change: &mut Change<L>) {
    let Children::Leaves(leaves) = &mut node.children else { return };
    let memory = |leaf: &L| leaf.memory() as isize;
    if leaves[at].summary().count == 0 {
        change.memory -= memory(&leaves[at]);
        node.remove(at);
        return;
    }
    for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
        let Some([leaf, right]) = leaves.get_mut(left..left + 2) else { continue };
        let before = memory(leaf) + memory(right);
        if leaf.merge(right) {
            change.memory += memory(leaf) - before;
            let summary = leaf.summary();
            node.set_summary(left, summary);
            node.remove(left + 1);
            return;
        }
    }
}

/// After a change below a node: its parent knows of it, has its upper half, and it has not too few children.
pub(super) fn settle_node<L: Leaf>(node: &mut Node<L>, at: usize, change: &mut Change<L>) {
    let Children::Nodes(nodes) = &node.children else { return };
    let due = nodes[at].earliest_due();
    let (is_small, count) = (nodes[at].is_small(), node.counts[at].wrapping_add_signed(change.count));
    if let Some((bound, right)) = change.split.take() {
        let summary = right.summary();
        node.set_summary(at, Summary { count: count - summary.count, due });
        node.insert(at + 1, bound, Child::Node(Arc::new(right)), summary);
        return;
    }
    node.set_summary(at, Summary { count, due });
    if is_small && node.len() > 1 {
        merge_node(node, at, change);
    }
}

/// Takes an empty node away, or merges one of few children with a neighbour.
fn merge_node<L: Leaf>(node: &mut Node<L>, at: usize, change: &mut Change<L>) {
    let Children::Nodes(nodes) = &mut node.children else { return };
    if node.counts[at] == 0 {
        debug_assert_eq!(nodes[at].len(), 1, "INV-TREE-1: an empty leaf has no neighbour");
        let Children::Leaves(leaves) = &nodes[at].children else { return };
        change.memory -= (nodes[at].memory() + leaves.iter().map(L::memory).sum::<usize>()) as isize;
        node.remove(at);
        return;
    }
    for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
        let Some([one, right]) = nodes.get_mut(left..left + 2) else { continue };
        if !one.may_merge(right) {
            continue;
        }
        let before = one.memory() as isize + right.memory() as isize;
        let one = Arc::make_mut(one);
        one.merge(Node::clone(right), node.bounds[left + 1].clone());
        change.memory += one.memory() as isize - before;
        let summary = one.summary();
        node.set_summary(left, summary);
        node.remove(left + 1);
        return;
    }
}
