//! A tree and how it is read.

use std::sync::Arc;

use almandine_base::object::Missing;

use super::leaf::{Leaf, NEVER, Summary};
use super::leaves::Leaves;
use super::node::{Child, Children, Node};
use super::route::Route;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// A counted tree of chunks. Its clone is a snapshot: one counted reference, whatever the size.
#[derive(Clone, Debug)]
pub struct Tree<L: Leaf> {
    pub(super) root: Arc<Node<L>>,
    pub(super) summary: Summary,
    pub(super) memory: usize,
}

impl<L: Leaf> Default for Tree<L> {
    fn default() -> Self {
        Self::of(L::default())
    }
}

impl<L: Leaf> Tree<L> {
    /// A tree of one leaf.
    pub(super) fn of(leaf: L) -> Self {
        let (summary, memory) = (leaf.summary(), leaf.memory());
        let root = Node::new(Child::Leaf(leaf), summary);
        Self { memory: memory + root.memory(), root: Arc::new(root), summary }
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.summary.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.summary.count == 0
    }

    /// The earliest expiry of an element.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        (self.summary.due != NEVER).then_some(self.summary.due)
    }

    /// Bytes of all nodes and leaves, shared ones included.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// The leaf that a route leads to.
    #[inline]
    pub fn leaf(&self, route: &mut impl Route<L>) -> Result<&L, Missing> {
        let mut node = &*self.root;
        loop {
            let at = route.child(node);
            match &node.children {
                Children::Leaves(leaves) => return Ok(&leaves[at]),
                Children::Nodes(nodes) => node = &nodes[at],
            }
        }
    }

    /// The leaves in order, from the one that a route leads to.
    pub fn leaves(&self, route: &mut impl Route<L>) -> Leaves<'_, L> {
        Leaves::new(&self.root, route)
    }

    /// The cache lines that a look-up reads next: with step 0 the root, with 1 its bounds, with 2 its child on the way. Gives the
    /// leaf from step 3 on.
    pub fn prefetch(&self, step: u32, route: &mut impl Route<L>, fetch: &mut dyn FnMut(*const u8)) -> Option<&L> {
        match (step, &self.root.children) {
            (0, _) => {
                let root = Arc::as_ptr(&self.root).cast::<u8>();
                fetch(root);
                fetch(root.wrapping_add(size_of::<Node<L>>() - 1));
            }
            (1, _) => {
                self.root.bounds.chunks(LINE_BYTES / size_of::<L::Bound>().max(1)).for_each(|line| fetch(line.as_ptr().cast()))
            }
            (2, Children::Leaves(leaves)) => fetch(std::ptr::from_ref(&leaves[route.child(&self.root)]).cast()),
            (2, Children::Nodes(nodes)) => fetch(Arc::as_ptr(&nodes[route.child(&self.root)]).cast()),
            _ => return self.leaf(route).ok(),
        }
        None
    }
}
