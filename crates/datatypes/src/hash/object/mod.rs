//! A large hash: what commands do with it, and what the store does.

mod convert;

use std::any::Any;

use almandine_base::object::{Damaged, ImageCursor, Kind, Missing, Object};

use crate::hashed::{Elements, Placement, below};
use crate::image::Magic;
use crate::packed::entry::Valued;
use crate::packed::{Due, FieldEntry, HashEncoding};

/// The fields of a hash. Ends after an error.
pub type HashIter<'a> = crate::hashed::HashedIter<'a, Valued>;

const MAGIC: Magic = *b"AH\x01";

/// A hash of any number of fields.
///
/// A field and its value have less than 2 GiB together.
///
/// A field whose expiry has passed is there until [`Object::expire`] removes it: nothing here knows the time.
#[derive(Clone, Debug)]
pub struct HashObject {
    pub(super) fields: Elements<Valued>,
    pub(super) encoding: HashEncoding,
}

impl HashObject {
    /// An empty hash.
    #[must_use]
    pub fn new(placement: Placement) -> Self {
        Self { fields: Elements::new(placement), encoding: HashEncoding::HashTable }
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.len() == 0
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> HashEncoding {
        self.encoding
    }

    /// Lets OBJECT ENCODING name another encoding.
    pub fn set_encoding(&mut self, encoding: HashEncoding) {
        self.encoding = encoding;
    }

    /// The field's entry.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    #[inline]
    pub fn find(&self, field: &[u8]) -> Result<Option<FieldEntry<'_>>, Missing> {
        self.find_hashed(self.fields.hash(field), field)
    }

    /// A field whose hash is known.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    #[inline]
    pub fn find_hashed(&self, hash: u64, field: &[u8]) -> Result<Option<FieldEntry<'_>>, Missing> {
        self.fields.find(hash, field)
    }

    /// Sets a field. Says whether it is new.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    #[inline]
    pub fn set(&mut self, field: &[u8], value: &[u8], due: Due) -> Result<bool, Missing> {
        self.set_hashed(self.fields.hash(field), field, value, due)
    }

    /// Sets a field whose hash is known. Says whether it is new.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn set_hashed(&mut self, hash: u64, field: &[u8], value: &[u8], due: Due) -> Result<bool, Missing> {
        self.fields.set(hash, field, value, due)
    }

    /// Sets a field to what `make` makes of the entry that it has, in one walk. Returns that, and whether the field is new.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; `make` was not called. And those of `make`; nothing has changed then.
    pub fn edit<V: AsRef<[u8]>, E>(
        &mut self,
        field: &[u8],
        due: Due,
        make: impl FnOnce(Option<FieldEntry<'_>>) -> Result<V, E>,
    ) -> Result<Result<(bool, V), E>, Missing> {
        self.fields.edit(field, due, make)
    }

    /// Gives a field another expiry, or none. Says whether there is such a field.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn set_due(&mut self, field: &[u8], due: Option<u64>) -> Result<bool, Missing> {
        self.fields.set_due(self.fields.hash(field), field, due)
    }

    /// Removes a field. Says whether there was one. A hash without fields is the caller's to remove.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn remove(&mut self, field: &[u8]) -> Result<bool, Missing> {
        self.fields.remove(field, |_| {})
    }

    /// Removes a field and appends its value to `out`. Says whether there was one.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn take(&mut self, field: &[u8], out: &mut Vec<u8>) -> Result<bool, Missing> {
        self.fields.remove(field, |entry| out.extend_from_slice(entry.value))
    }

    /// The entry of this rank, below [`HashObject::len`], in the order of [`HashObject::iter`].
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    pub fn nth(&self, rank: usize) -> Result<Option<FieldEntry<'_>>, Missing> {
        self.fields.nth(rank)
    }

    /// All entries, in an order that only a change of the hash changes.
    #[must_use]
    pub fn iter(&self) -> HashIter<'_> {
        self.iter_from(0)
    }

    /// Visits all entries, in the order of [`HashObject::iter`] and in less time.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; the entries before it were visited.
    #[inline]
    pub fn visit<'a>(&'a self, visit: impl FnMut(FieldEntry<'a>)) -> Result<(), Missing> {
        self.fields.visit(visit)
    }

    /// As [`HashObject::iter`], from the entry of this rank on: to go on with a snapshot after a pause.
    #[must_use]
    pub fn iter_from(&self, rank: usize) -> HashIter<'_> {
        self.fields.iter_from(rank)
    }

    /// One field at random. None if there is none.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    pub fn random(&self, bits: u64) -> Result<Option<FieldEntry<'_>>, Missing> {
        self.nth(below(bits, self.len()))
    }

    /// Visits `count` different fields at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; the fields that were visited are no random sample.
    pub fn sample(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        visit: &mut dyn FnMut(FieldEntry<'_>),
    ) -> Result<(), Missing> {
        self.fields.sample(count, random, visit)
    }

    /// Visits about `count` fields from `cursor` on, and returns the cursor to go on with; 0 begins, and 0 is returned at the end.
    /// Any number is a cursor. A field that is there from the first call to the last is visited at least once.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; what was visited will be visited again.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(FieldEntry<'_>)) -> Result<u64, Missing> {
        self.fields.scan(cursor, count, visit)
    }

    /// The hash of a field, for `prefetch`, `find_hashed` and `set_hashed`.
    #[must_use]
    pub fn hash(&self, field: &[u8]) -> u64 {
        self.fields.hash(field)
    }

    /// Panics unless all is sound. Takes time in proportion to the size. For tests.
    pub fn check(&self) {
        self.fields.check();
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
        size_of::<Self>() + self.fields.memory()
    }

    fn snapshot(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn write_part(&self, cursor: ImageCursor, limit: usize, out: &mut Vec<u8>) -> Result<Option<ImageCursor>, Missing> {
        self.fields.write_part((MAGIC, self.encoding as u8), cursor, limit, out)
    }

    fn read_part(&mut self, part: &[u8]) -> Result<bool, Damaged> {
        let (is_last, encoding) = self.fields.read_part(MAGIC, part)?;
        self.encoding = HashEncoding::from_number(encoding);
        Ok(is_last)
    }

    fn next_due(&self) -> Option<u64> {
        self.fields.next_due()
    }

    fn expire(&mut self, now: u64, limit: usize, removed: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
        self.fields.expire(now, limit, removed)
    }

    fn drop_step(&mut self, limit: usize) -> bool {
        self.fields.release(limit)
    }

    fn prefetch(&self, step: u32, hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        self.fields.prefetch(step, hash, fetch);
    }
}
