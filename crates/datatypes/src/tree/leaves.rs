//! Leaves in order.

use almandine_base::object::Missing;
use almandine_base::steps;

use super::leaf::Leaf;
use super::node::{Children, Node};
use super::route::Route;

/// The leaves of a tree from some place on.
#[derive(Clone, Debug)]
pub struct Leaves<'a, L: Leaf> {
    /// The nodes above the next leaf, and which of their children comes next.
    path: Vec<(&'a Node<L>, usize)>,
}

impl<'a, L: Leaf> Leaves<'a, L> {
    pub(super) fn new(root: &'a Node<L>, route: &mut impl Route<L>) -> Self {
        let mut path = Vec::with_capacity(4);
        let mut node = root;
        loop {
            let at = route.child(node);
            match &node.children {
                Children::Leaves(_) => {
                    path.push((node, at));
                    return Self { path };
                }
                Children::Nodes(nodes) => {
                    path.push((node, at + 1));
                    node = &nodes[at];
                }
            }
        }
    }

    /// The bound of the next leaf. None if there is none.
    #[must_use]
    pub fn bound(&self) -> Option<&'a L::Bound> {
        self.path.iter().rev().find_map(|(node, next)| node.bounds.get(*next))
    }
}

impl<'a, L: Leaf> Iterator for Leaves<'a, L> {
    type Item = Result<&'a L, Missing>;

    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        loop {
            let (node, next) = self.path.last_mut()?;
            match &node.children {
                Children::Leaves(leaves) if *next < leaves.len() => {
                    *next += 1;
                    return Some(Ok(&leaves[*next - 1]));
                }
                Children::Nodes(nodes) if *next < nodes.len() => {
                    let child = &nodes[*next];
                    *next += 1;
                    self.path.push((child, 0));
                }
                _ => drop(self.path.pop()),
            }
        }
    }
}
