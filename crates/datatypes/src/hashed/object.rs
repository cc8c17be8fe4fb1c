//! A large hash or set: what both do, and what the store does with them.

use std::fmt::Debug;

use almandine_base::object::{Damaged, ImageCursor, Kind, Missing, Object, PREFETCH_TO_WRITE};

use crate::packed::entry::{EntryShape, FieldEntry};
use crate::packed::{Due, REPACKED_MAX, REPACKED_MAX_BYTES};
use crate::tree::{ByBound, ByRank, FirstDue, Tree};

use super::chunk::Chunk;
use super::iter::HashedIter;
use super::place::{Placement, bound};

/// A type of collections whose elements are found by their hashes.
pub trait HashedType: EntryShape {
    /// What OBJECT ENCODING names.
    type Encoding: Clone + Copy + Debug + Send + Sync + 'static;
    /// An element, as it is told.
    type Item<'a>;
    /// Its number in records.
    const KIND: Kind;
    /// What tells its images from others.
    const MAGIC: [u8; 3];
    /// The encoding of a large one.
    const LARGE: Self::Encoding;

    /// The encoding with a number; unknown ones are large.
    fn encoding(number: u8) -> Self::Encoding;

    /// The number of an encoding.
    fn number(encoding: Self::Encoding) -> u8;

    /// The element of an entry.
    fn item(entry: FieldEntry<'_>) -> Self::Item<'_>;
}

/// Any number of elements, each below 2 GiB with its value, in the order of their hashes.
///
/// An element whose expiry has passed is there until [`Object::expire`] removes it: nothing here knows the time.
#[derive(Clone, Debug)]
pub struct HashedObject<S: HashedType> {
    pub(super) tree: Tree<Chunk<S>>,
    pub(super) placement: Placement,
    pub(super) encoding: S::Encoding,
    /// Parts of an image that were read.
    pub(super) parts: u32,
}

impl<S: HashedType> HashedObject<S> {
    /// One without elements.
    #[must_use]
    pub fn new(placement: Placement) -> Self {
        Self { tree: Tree::default(), placement, encoding: S::LARGE, parts: 0 }
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> S::Encoding {
        self.encoding
    }

    /// Lets OBJECT ENCODING name another encoding.
    pub fn set_encoding(&mut self, encoding: S::Encoding) {
        self.encoding = encoding;
    }

    /// The hash of an element, for [`Object::prefetch`] and look-ups.
    #[must_use]
    pub fn hash(&self, field: &[u8]) -> u64 {
        self.placement.hash(field)
    }

    /// The entry of an element whose hash is known.
    #[inline]
    pub(crate) fn entry(&self, hash: u64, field: &[u8]) -> Result<Option<FieldEntry<'_>>, Missing> {
        let chunk = self.tree.leaf(&mut ByBound(bound(hash)))?;
        Ok(chunk.find(hash, field).map(|found| found.entry))
    }

    /// Sets an element. Says whether it is new.
    #[inline]
    pub(crate) fn put(&mut self, hash: u64, field: &[u8], value: &[u8], due: Due) -> Result<bool, Missing> {
        debug_assert_eq!(hash, self.placement.hash(field), "the hash is the element's");
        self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.set(hash, field, value, due))
    }

    /// Sets an element to what `make` makes of the entry that it has. Returns that, and whether the element is new.
    pub(crate) fn edit_entry<V: AsRef<[u8]>, E>(
        &mut self,
        field: &[u8],
        due: Due,
        make: impl FnOnce(Option<FieldEntry<'_>>) -> Result<V, E>,
    ) -> Result<Result<(bool, V), E>, Missing> {
        let hash = self.hash(field);
        self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.edit((hash, field), due, make))
    }

    /// Gives an element another expiry, or none. Says whether there is such an element.
    pub(crate) fn put_due(&mut self, field: &[u8], due: Option<u64>) -> Result<bool, Missing> {
        let hash = self.hash(field);
        match self.entry(hash, field)? {
            None => Ok(false),
            Some(entry) if entry.due == due => Ok(true),
            Some(_) => self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.set_due(hash, field, due)),
        }
    }

    /// Whether it should be packed.
    pub(crate) fn is_small(&self) -> bool {
        self.len() <= REPACKED_MAX && self.tree.memory() <= REPACKED_MAX_BYTES
    }

    /// Removes an element. Says whether there was one. A collection without elements is the caller's to remove.
    pub fn remove(&mut self, field: &[u8]) -> Result<bool, Missing> {
        let hash = self.placement.hash(field);
        // What is not there copies no path.
        if self.entry(hash, field)?.is_none() {
            return Ok(false);
        }
        self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.remove(hash, field))
    }

    /// The element of this rank in the order of [`HashedObject::iter`].
    pub fn nth(&self, rank: usize) -> Result<Option<S::Item<'_>>, Missing> {
        if rank >= self.len() {
            return Ok(None);
        }
        let mut route = ByRank(rank as u64);
        let chunk = self.tree.leaf(&mut route)?;
        Ok(chunk.nth(route.0 as usize).map(S::item))
    }

    /// All elements, in an order that only a change changes.
    #[must_use]
    pub fn iter(&self) -> HashedIter<'_, S> {
        self.iter_from(0)
    }

    /// The elements from a rank on: to go on with a snapshot after a pause.
    #[must_use]
    pub fn iter_from(&self, rank: usize) -> HashedIter<'_, S> {
        if rank >= self.len() {
            return HashedIter::empty();
        }
        let mut route = ByRank(rank as u64);
        let leaves = self.tree.leaves(&mut route);
        HashedIter::new(leaves, route.0 as usize)
    }

    /// Visits all elements, in the order of [`HashedObject::iter`] and in less time.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; the elements before it were visited.
    #[inline]
    pub fn visit<'a>(&'a self, mut visit: impl FnMut(S::Item<'a>)) -> Result<(), Missing> {
        for chunk in self.tree.leaves(&mut ByRank(0)) {
            chunk?.iter().for_each(|entry| visit(S::item(entry)));
        }
        Ok(())
    }

    /// Panics unless all is sound. Takes time in proportion to the size. For tests.
    pub fn check(&self) {
        self.tree.check(&self.placement);
    }
}

impl<S: HashedType> Object for HashedObject<S> {
    fn kind(&self) -> Kind {
        S::KIND
    }

    fn elements(&self) -> usize {
        self.len()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + self.tree.memory()
    }

    fn snapshot(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn write_part(&self, cursor: ImageCursor, limit: usize, out: &mut Vec<u8>) -> Result<Option<ImageCursor>, Missing> {
        self.write_chunks_part(cursor, limit, out)
    }

    fn read_part(&mut self, part: &[u8]) -> Result<bool, Damaged> {
        self.read_chunks_part(part)
    }

    fn next_due(&self) -> Option<u64> {
        self.tree.next_due()
    }

    fn expire(&mut self, now: u64, limit: usize, removed: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
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

    fn drop_step(&mut self, limit: usize) -> bool {
        self.tree.release(limit)
    }

    fn prefetch(&self, step: u32, hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        if let Some(chunk) = self.tree.prefetch(step, &mut ByBound(bound(hash)), fetch) {
            if step == PREFETCH_TO_WRITE {
                // Where its references are counted.
                fetch(chunk.bytes.as_ptr());
            } else {
                chunk.prefetch(step > 3, hash, fetch);
            }
        }
    }
}
