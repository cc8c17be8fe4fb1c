//! Members in order, either way.

use almandine_base::object::Missing;
use almandine_base::steps;

use crate::packed::entry::FieldEntry;
use crate::sorted_set::Scored;
use crate::tree::{ByRank, Leaves, Tree};

use crate::sorted_set::chunk::order::OrderChunk;

/// Members, ascending. Ends after an error.
#[derive(Clone, Debug)]
pub struct SortedSetIter<'a> {
    leaves: Option<Leaves<'a, OrderChunk>>,
    /// The entries of the chunk that are left.
    rest: &'a [u8],
}

impl<'a> SortedSetIter<'a> {
    pub(in crate::sorted_set) fn new(order: &'a Tree<OrderChunk>, rank: usize) -> Self {
        if rank as u64 >= order.len() {
            return Self { leaves: None, rest: &[] };
        }
        let mut route = ByRank(rank as u64);
        let leaves = order.leaves(&mut route);
        let mut iter = Self { leaves: Some(leaves), rest: &[] };
        let chunk = iter.leaves.as_mut().and_then(|leaves| leaves.next()).and_then(Result::ok);
        iter.rest = chunk.map_or(&[], |chunk| chunk.from(route.0 as usize));
        iter
    }
}

impl<'a> Iterator for SortedSetIter<'a> {
    type Item = Result<Scored<'a>, Missing>;

    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        loop {
            if let Some((entry, size)) = FieldEntry::parse(self.rest, 0) {
                self.rest = &self.rest[size..];
                return Some(Ok(entry.into()));
            }
            match self.leaves.as_mut()?.next()? {
                Ok(chunk) => self.rest = chunk.from(0),
                Err(missing) => {
                    (self.leaves, self.rest) = (None, &[]);
                    return Some(Err(missing));
                }
            }
        }
    }
}

/// Members, descending. Ends after an error.
#[derive(Clone, Debug)]
pub struct SortedSetBackwards<'a> {
    order: &'a Tree<OrderChunk>,
    /// Members before those that were given.
    left: usize,
    chunk: Option<&'a OrderChunk>,
    /// Of them, those in the chunk.
    in_chunk: usize,
}

impl<'a> SortedSetBackwards<'a> {
    /// Begins with the highest of the `left` lowest members.
    pub(in crate::sorted_set) fn new(order: &'a Tree<OrderChunk>, left: usize) -> Self {
        Self { order, left: left.min(order.len() as usize), chunk: None, in_chunk: 0 }
    }
}

impl<'a> Iterator for SortedSetBackwards<'a> {
    type Item = Result<Scored<'a>, Missing>;

    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        let rank = self.left.checked_sub(1)?;
        if self.in_chunk == 0 {
            let mut route = ByRank(rank as u64);
            match self.order.leaf(&mut route) {
                Ok(chunk) => (self.chunk, self.in_chunk) = (Some(chunk), route.0 as usize + 1),
                Err(missing) => {
                    self.left = 0;
                    return Some(Err(missing));
                }
            }
        }
        (self.left, self.in_chunk) = (rank, self.in_chunk - 1);
        self.chunk?.nth(self.in_chunk).map(Ok)
    }
}
