//! All elements.

use almandine_base::object::Missing;

use crate::packed::Entry;
use crate::packed::entry::Shape;
use crate::tree::Leaves;

use super::chunk::{Chunk, Entries};

/// The entries of a collection. Ends after an error.
#[derive(Clone, Debug)]
pub struct Iter<'a, S: Shape> {
    leaves: Option<Leaves<'a, Chunk<S>>>,
    entries: Entries<'a, S>,
}

impl<'a, S: Shape> Iter<'a, S> {
    /// From the entry of a rank within the first of some leaves on.
    pub(super) fn new(leaves: Leaves<'a, Chunk<S>>, rank: usize) -> Self {
        let mut iter = Self { leaves: Some(leaves), entries: Entries::default() };
        iter.by_ref().take(rank).for_each(drop);
        iter
    }

    pub(super) fn empty() -> Self {
        Self { leaves: None, entries: Entries::default() }
    }
}

impl<'a, S: Shape> Iterator for Iter<'a, S> {
    type Item = Result<Entry<'a>, Missing>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(entry));
            }
            match self.leaves.as_mut()?.next()? {
                Ok(chunk) => self.entries = chunk.iter(),
                Err(Missing) => {
                    self.leaves = None;
                    return Some(Err(Missing));
                }
            }
        }
    }
}
