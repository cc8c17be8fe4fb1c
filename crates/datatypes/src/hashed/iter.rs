//! All elements.

use almandine_base::object::Missing;
use almandine_base::steps;

use crate::packed::FieldEntry;
use crate::packed::entry::EntryShape;
use crate::tree::Leaves;

use super::chunk::{Chunk, Entries};

/// The entries of a collection. Ends after an error.
#[derive(Clone, Debug)]
pub struct HashedIter<'a, S: EntryShape> {
    leaves: Option<Leaves<'a, Chunk<S>>>,
    entries: Entries<'a, S>,
}

impl<'a, S: EntryShape> HashedIter<'a, S> {
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

impl<'a, S: EntryShape> Iterator for HashedIter<'a, S> {
    type Item = Result<FieldEntry<'a>, Missing>;

    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(entry));
            }
            match self.leaves.as_mut()?.next()? {
                Ok(chunk) => self.entries = chunk.iter(),
                Err(missing) => {
                    self.leaves = None;
                    return Some(Err(missing));
                }
            }
        }
    }
}
