//! A large hash: what commands do with it, and what the store does.

use std::any::Any;

use almandine_base::object::{Damaged, ImageCursor, Kind, Missing, Object};

use crate::packed::{Due, Encoding, Entry};
use crate::tree::{ByBound, ByRank, Tree};

use super::chunk::Chunk;
use super::iter::Iter;
use super::place::{Placement, bound};

/// A hash of any number of fields.
///
/// A field and its value have less than 2 GiB together.
///
/// A field whose expiry has passed is there until [`Object::expire`] removes it: nothing here knows the time.
#[derive(Clone, Debug)]
pub struct HashObject {
    pub(super) tree: Tree<Chunk>,
    pub(super) placement: Placement,
    pub(super) encoding: Encoding,
    /// Parts of an image that were read.
    pub(super) parts: u32,
}

impl HashObject {
    /// An empty hash.
    #[must_use]
    pub fn new(placement: Placement) -> Self {
        Self { tree: Tree::default(), placement, encoding: Encoding::HashTable, parts: 0 }
    }

    /// How many fields there are.
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
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Lets OBJECT ENCODING name another encoding.
    pub fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// The field's entry.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    #[inline]
    pub fn find(&self, field: &[u8]) -> Result<Option<Entry<'_>>, Missing> {
        self.find_hashed(self.placement.hash(field), field)
    }

    /// As [`HashObject::find`], for who has the field's hash already.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    #[inline]
    pub fn find_hashed(&self, hash: u64, field: &[u8]) -> Result<Option<Entry<'_>>, Missing> {
        let chunk = self.tree.leaf(&mut ByBound(bound(hash)))?;
        Ok(chunk.find(hash, field).map(|found| found.entry))
    }

    /// Sets a field. Says whether it is new.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    #[inline]
    pub fn set(&mut self, field: &[u8], value: &[u8], due: Due) -> Result<bool, Missing> {
        self.set_hashed(self.placement.hash(field), field, value, due)
    }

    /// As [`HashObject::set`], for who has the field's hash already.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn set_hashed(&mut self, hash: u64, field: &[u8], value: &[u8], due: Due) -> Result<bool, Missing> {
        debug_assert_eq!(hash, self.placement.hash(field), "the hash is the field's");
        self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.set(hash, field, value, due))
    }

    /// Gives a field another expiry, or none. Says whether there is such a field.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn set_due(&mut self, field: &[u8], due: Option<u64>) -> Result<bool, Missing> {
        let hash = self.placement.hash(field);
        match self.find_hashed(hash, field)? {
            None => Ok(false),
            Some(entry) if entry.due == due => Ok(true),
            Some(_) => self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.set_due(hash, field, due)),
        }
    }

    /// Removes a field. Says whether there was one. A hash without fields is the caller's to remove.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn remove(&mut self, field: &[u8]) -> Result<bool, Missing> {
        let hash = self.placement.hash(field);
        // What is not there copies no path.
        if self.find_hashed(hash, field)?.is_none() {
            return Ok(false);
        }
        self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.remove(hash, field))
    }

    /// Removes a field and appends its value to `out`. Says whether there was one.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn take(&mut self, field: &[u8], out: &mut Vec<u8>) -> Result<bool, Missing> {
        let hash = self.placement.hash(field);
        let Some(entry) = self.find_hashed(hash, field)? else { return Ok(false) };
        out.extend_from_slice(entry.value);
        self.tree.update(&mut ByBound(bound(hash)), &self.placement, |chunk| chunk.remove(hash, field))
    }

    /// The entry of this rank, below [`HashObject::len`], in the order of [`HashObject::iter`].
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    pub fn nth(&self, rank: usize) -> Result<Option<Entry<'_>>, Missing> {
        if rank >= self.len() {
            return Ok(None);
        }
        let mut route = ByRank(rank as u64);
        let chunk = self.tree.leaf(&mut route)?;
        Ok(chunk.nth(route.0 as usize))
    }

    /// All entries, in an order that only a change of the hash changes.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// As [`HashObject::iter`], from the entry of this rank on: to go on with a snapshot after a pause.
    #[must_use]
    pub fn iter_from(&self, rank: usize) -> Iter<'_> {
        if rank >= self.len() {
            return Iter::empty();
        }
        let mut route = ByRank(rank as u64);
        let leaves = self.tree.leaves(&mut route);
        Iter::new(leaves, route.0 as usize)
    }

    /// The hash of a field, for `prefetch`, `find_hashed` and `set_hashed`.
    #[must_use]
    pub fn hash(&self, field: &[u8]) -> u64 {
        self.placement.hash(field)
    }

    /// Panics unless all is sound. Takes time in proportion to the size. For tests.
    pub fn check(&self) {
        self.tree.check(&self.placement);
    }
}

impl Object for HashObject {
    fn kind(&self) -> Kind {
        Kind::Hash
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
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
        super::image::write_part(self, cursor, limit, out)
    }

    fn read_part(&mut self, part: &[u8]) -> Result<bool, Damaged> {
        super::image::read_part(self, part)
    }

    fn next_due(&self) -> Option<u64> {
        self.tree.next_due()
    }

    fn expire(&mut self, now: u64, limit: usize, removed: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
        super::expiry::expire(self, now, limit, removed)
    }

    fn drop_step(&mut self, limit: usize) -> bool {
        self.tree.release(limit)
    }

    fn prefetch(&self, step: u32, hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        if step == 0 {
            return self.tree.prefetch_root(fetch);
        }
        if let Ok(chunk) = self.tree.leaf(&mut ByBound(bound(hash))) {
            chunk.prefetch(step > 1, hash, fetch);
        }
    }
}
