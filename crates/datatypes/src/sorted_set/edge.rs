//! Places between members.

use super::{Scored, score};
use crate::tree::{Leaf, Node, Route};
use almandine_base::steps;

use super::chunk::order::{Bound, OrderChunk};

/// A place in the order: some members lie below it, all others above.
#[derive(Clone, Copy, Debug)]
pub struct Edge<'m> {
    key: u64,
    /// None: behind all members of the score.
    member: Option<&'m [u8]>,
    /// Whether that member itself lies below.
    is_behind: bool,
}

impl<'m> Edge<'m> {
    /// Before all members with this score.
    #[must_use]
    pub fn before_score(score: f64) -> Self {
        Self { key: score::key(score), member: Some(&[]), is_behind: false }
    }

    /// Behind all members with this score.
    #[must_use]
    pub fn behind_score(score: f64) -> Self {
        Self { key: score::key(score), member: None, is_behind: true }
    }

    /// Before a member of this score, whether it is there or not.
    #[must_use]
    pub fn before_member(score: f64, member: &'m [u8]) -> Self {
        Self { key: score::key(score), member: Some(member), is_behind: false }
    }

    /// Behind it.
    #[must_use]
    pub fn behind_member(score: f64, member: &'m [u8]) -> Self {
        Self { key: score::key(score), member: Some(member), is_behind: true }
    }

    /// Whether a member lies below.
    #[must_use]
    pub fn is_above_member(&self, entry: &Scored<'_>) -> bool {
        self.is_above(entry.key())
    }

    pub(super) fn is_above(&self, (key, member): (u64, &[u8])) -> bool {
        let is_past = |edge: &[u8]| member < edge || (self.is_behind && member == edge);
        key < self.key || (key == self.key && self.member.is_none_or(is_past))
    }

    /// Whether what begins at a bound may have members below, or that right behind the edge.
    fn reaches(&self, bound: &Bound) -> bool {
        bound.key < self.key || (bound.key == self.key && self.member.is_none_or(|member| bound.member() <= member))
    }
}

/// To the leaf in which an edge lies; on the way it counts the members before that leaf.
#[derive(Clone, Debug)]
pub(super) struct ByEdge<'m> {
    pub(super) edge: Edge<'m>,
    pub(super) rank: u64,
}

impl Route<OrderChunk> for ByEdge<'_> {
    #[inline]
    fn child(&mut self, node: &Node<OrderChunk>) -> usize {
        steps::take(1);
        let at = node.last(|bound: &<OrderChunk as Leaf>::Bound| self.edge.reaches(bound));
        self.rank += node.count_before(at);
        at
    }
}
