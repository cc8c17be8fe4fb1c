//! A large hash or set, without what only one of the two has.

use almandine_base::object::{Missing, PREFETCH_TO_WRITE};

use crate::packed::Due;
use crate::packed::entry::{EntryShape, FieldEntry};
use crate::tree::{ByBound, ByRank, FirstDue, Tree};

use super::chunk::Chunk;
use super::iter::HashedIter;
use super::place::{Placement, bound};

/// Elements in the order of their hashes.
#[derive(Clone, Debug)]
pub(crate) struct Elements<S: EntryShape> {
    pub(super) tree: Tree<Chunk<S>>,
    pub(super) placement: Placement,
    /// Parts of an image that were read.
    pub(super) parts: u32,
}

impl<S: EntryShape> Elements<S> {
    pub(crate) fn new(placement: Placement) -> Self {
        Self { tree: Tree::default(), placement, parts: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Bytes of all nodes and chunks.
    pub(crate) fn memory(&self) -> usize {
        self.tree.memory()
    }

    pub(crate) fn next_due(&self) -> Option<u64> {
        self.tree.next_due()
    }

    pub(crate) fn hash(&self, field: &[u8]) -> u64 {
        self.placement.hash(field)
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, field: &[u8]) -> Result<Option<FieldEntry<'_>>, Missing> {
        let chunk = self.tree.leaf(&mut ByBound(bound(hash)))?;
        Ok(chunk.find(hash, field).map(|found| found.entry))
    }

    /// Sets an element. Says whether it is new.
    pub(crate) fn set(&mut self, hash: u64, field: &[u8], value: &[u8], due: Due) -> Result<bool, Missing> {
        debug_assert_eq!(hash, self.placement.hash(field), "the hash is the element's");
        self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.set(hash, field, value, due))
    }

    /// Sets an element to what `make` makes of the entry that it has. Returns that, and whether the element is new.
    pub(crate) fn edit<V: AsRef<[u8]>, E>(
        &mut self,
        field: &[u8],
        due: Due,
        make: impl FnOnce(Option<FieldEntry<'_>>) -> Result<V, E>,
    ) -> Result<Result<(bool, V), E>, Missing> {
        let hash = self.placement.hash(field);
        self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.edit((hash, field), due, make))
    }

    /// Gives an element another expiry, or none. Says whether there is such an element.
    pub(crate) fn set_due(&mut self, hash: u64, field: &[u8], due: Option<u64>) -> Result<bool, Missing> {
        match self.find(hash, field)? {
            None => Ok(false),
            Some(entry) if entry.due == due => Ok(true),
            Some(_) => self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.set_due(hash, field, due)),
        }
    }

    /// Removes an element, which `taken` is told before. Says whether there was one.
    pub(crate) fn remove(&mut self, field: &[u8], taken: impl FnOnce(FieldEntry<'_>)) -> Result<bool, Missing> {
        let hash = self.placement.hash(field);
        // What is not there copies no path.
        let Some(entry) = self.find(hash, field)? else { return Ok(false) };
        taken(entry);
        self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.remove(hash, field))
    }

    /// The entry of this rank in the order of [`Elements::iter_from`].
    pub(crate) fn nth(&self, rank: usize) -> Result<Option<FieldEntry<'_>>, Missing> {
        if rank >= self.len() {
            return Ok(None);
        }
        let mut route = ByRank(rank as u64);
        let chunk = self.tree.leaf(&mut route)?;
        Ok(chunk.nth(route.0 as usize))
    }

    /// All entries from a rank on, in an order that only a change changes.
    pub(crate) fn iter_from(&self, rank: usize) -> HashedIter<'_, S> {
        if rank >= self.len() {
            return HashedIter::empty();
        }
        let mut route = ByRank(rank as u64);
        let leaves = self.tree.leaves(&mut route);
        HashedIter::new(leaves, route.0 as usize)
    }

    /// Visits all entries, in the order of [`Elements::iter_from`].
    #[inline]
    pub(crate) fn visit<'a>(&'a self, mut visit: impl FnMut(FieldEntry<'a>)) -> Result<(), Missing> {
        for chunk in self.tree.leaves(&mut ByRank(0)) {
            chunk?.iter().for_each(&mut visit);
        }
        Ok(())
    }

    /// See [`almandine_base::object::Object::expire`].
    pub(crate) fn expire(&mut self, now: u64, limit: usize, removed: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
        let mut count = 0;
        while count < limit && self.tree.next_due().is_some_and(|due| due <= now) {
            let gone = self.tree.update(&mut FirstDue(now), &self.placement, |chunk| chunk.expire(now, limit - count, removed))?;
            debug_assert!(gone > 0, "INV-TREE-1: where nodes say that something is due, something is");
            if gone == 0 {
                break;
            }
            count += gone;
        }
        Ok(count)
    }

    /// See [`almandine_base::object::Object::drop_step`].
    pub(crate) fn release(&mut self, limit: usize) -> bool {
        self.tree.release(limit)
    }

    /// See [`almandine_base::object::Object::prefetch`].
    pub(crate) fn prefetch(&self, step: u32, hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        if let Some(chunk) = self.tree.prefetch(step, &mut ByBound(bound(hash)), fetch) {
            if step == PREFETCH_TO_WRITE {
                // Where its references are counted.
                fetch(chunk.bytes.as_ptr());
            } else {
                chunk.prefetch(step > 3, hash, fetch);
            }
        }
    }

    /// Panics unless all is sound.
    pub(crate) fn check(&self) {
        self.tree.check(&self.placement);
    }
}
