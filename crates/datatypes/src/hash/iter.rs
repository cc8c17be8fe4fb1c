//! All fields of a hash.

use almandine_base::object::Missing;

use crate::packed::Entry;
use crate::tree::Leaves;

use super::chunk::{Chunk, Entries};

/// The entries of a hash. Ends after an error.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    leaves: Option<Leaves<'a, Chunk>>,
    entries: Entries<'a>,
}

impl<'a> Iter<'a> {
    /// From the entry of a rank within the first of some leaves on.
    pub(super) fn new(leaves: Leaves<'a, Chunk>, rank: usize) -> Self {
        let mut iter = Self { leaves: Some(leaves), entries: Entries::default() };
        iter.by_ref().take(rank).for_each(drop);
        iter
    }

    pub(super) fn empty() -> Self {
        Self { leaves: None, entries: Entries::default() }
    }
}

impl<'a> Iterator for Iter<'a> {
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
