//! All invariants of a tree at once, for tests.

use super::leaf::{Leaf, Summary};
use super::node::{CHILDREN_MAX, Children, Node};
use super::root::Tree;

/// What a subtree is found to be.
struct Found {
    summary: Summary,
    memory: usize,
    depth: usize,
}

impl<L: Leaf> Tree<L> {
    /// Panics unless the tree is sound. Takes time in proportion to its size.
    pub fn check(&self, context: &L::Context) {
        let found = check(&self.root, (&L::Bound::default(), None), context);
        assert_eq!(found.summary, self.summary, "INV-TREE-1: counts and expiries are exact");
        assert_eq!(found.memory, self.memory, "INV-TREE-1: memory is exact");
        if let Children::Nodes(nodes) = &self.root.children {
            assert!(nodes.len() > 1, "INV-TREE-1: a root above nodes has several");
        }
    }
}

fn check<L: Leaf>(node: &Node<L>, (low, high): (&L::Bound, Option<&L::Bound>), context: &L::Context) -> Found {
    assert!((1..=CHILDREN_MAX).contains(&node.len()), "INV-TREE-1: a node has {} children", node.len());
    let bounds: Vec<_> = std::iter::once(low).chain(&node.bounds[1..]).map(Some).chain([high]).collect();
    let is_ascending = bounds.windows(2).all(|pair| pair[1].is_none() || pair[0] < pair[1]);
    assert!(is_ascending || size_of::<L::Bound>() == 0, "INV-TREE-1: bounds are in order");
    assert!(node.counts_bounds(), "INV-TREE-1: memory is exact");
    let mut found: Option<Found> = None;
    let mut memory = node.memory();
    for at in 0..node.len() {
        let bounds = (bounds[at].unwrap_or(low), bounds[at + 1]);
        let child = match &node.children {
            Children::Leaves(leaves) => {
                leaves[at].check(bounds, context);
                assert!(leaves[at].summary().count > 0 || node.len() == 1, "INV-TREE-1: an empty leaf has no neighbour");
                Found { summary: leaves[at].summary(), memory: leaves[at].memory(), depth: 0 }
            }
            Children::Nodes(nodes) => check(&nodes[at], bounds, context),
        };
        assert_eq!(
            (node.counts[at], node.due(at)),
            (child.summary.count, child.summary.due),
            "INV-TREE-1: a parent knows its children"
        );
        memory += child.memory;
        found = Some(match found {
            None => child,
            Some(before) => {
                assert_eq!(before.depth, child.depth, "INV-TREE-1: all leaves are equally deep");
                Found { summary: before.summary.and(child.summary), ..child }
            }
        });
    }
    let found = found.expect("a node has children");
    Found { memory, depth: found.depth + 1, ..found }
}
