//! All elements.

use almandine_base::object::Missing;
use almandine_base::steps;

use crate::tree::Leaves;

use super::chunk::{Chunk, Entries};
use super::object::HashedType;

/// The elements of a collection. Ends after an error.
#[derive(Clone, Debug)]
pub struct HashedIter<'a, S: HashedType> {
    leaves: Option<Leaves<'a, Chunk<S>>>,
    entries: Entries<'a, S>,
}

impl<'a, S: HashedType> HashedIter<'a, S> {
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

impl<'a, S: HashedType> Iterator for HashedIter<'a, S> {
    type Item = Result<S::Item<'a>, Missing>;

    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(S::item(entry)));
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
