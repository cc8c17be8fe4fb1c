//! A large set: what commands do with it, and what the store does.

mod convert;
mod iter;

pub use iter::SetIter;

use std::any::Any;

use almandine_base::object::{Damaged, ImageCursor, Kind, Missing, Object};

use super::SetEncoding;
use crate::hashed::{Elements, Placement, below};
use crate::image::Magic;
use crate::packed::Due;
use crate::packed::entry::Bare;

const MAGIC: Magic = *b"AS\x01";

/// A set of any number of members, each below 2 GiB.
#[derive(Clone, Debug)]
pub struct SetObject {
    pub(super) members: Elements<Bare>,
    encoding: SetEncoding,
}

impl SetObject {
    /// An empty set.
    #[must_use]
    pub fn new(placement: Placement) -> Self {
        Self { members: Elements::new(placement), encoding: SetEncoding::HashTable }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.len() == 0
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> SetEncoding {
        self.encoding
    }

    /// Lets OBJECT ENCODING name another encoding.
    pub fn set_encoding(&mut self, encoding: SetEncoding) {
        self.encoding = encoding;
    }

    /// The hash of a member, for `prefetch`, `contains_hashed` and `add_hashed`.
    #[must_use]
    pub fn hash(&self, member: &[u8]) -> u64 {
        self.members.hash(member)
    }

    /// Whether it has a member.
    ///
    /// # Errors
    /// [`Missing`]: the member's chunk is not in memory.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> Result<bool, Missing> {
        self.contains_hashed(self.members.hash(member), member)
    }

    /// Whether there is a member whose hash is known.
    ///
    /// # Errors
    /// [`Missing`]: the member's chunk is not in memory.
    #[inline]
    pub fn contains_hashed(&self, hash: u64, member: &[u8]) -> Result<bool, Missing> {
        Ok(self.members.find(hash, member)?.is_some())
    }

    /// Adds a member. Says whether it is new.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn add(&mut self, member: &[u8]) -> Result<bool, Missing> {
        self.add_hashed(self.members.hash(member), member)
    }

    /// Adds a member whose hash is known. Says whether it is new.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn add_hashed(&mut self, hash: u64, member: &[u8]) -> Result<bool, Missing> {
        // What is there already copies no path.
        Ok(!self.contains_hashed(hash, member)? && self.members.set(hash, member, &[], Due::Keep)?)
    }

    /// Adds a member that is not there.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn insert(&mut self, member: &[u8]) -> Result<(), Missing> {
        let is_new = self.members.set(self.members.hash(member), member, &[], Due::Keep)?;
        debug_assert!(is_new, "a member that is there is not added");
        Ok(())
    }

    /// Removes a member. Says whether it was there. A set without members is the caller's to remove.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory; nothing has changed.
    pub fn remove(&mut self, member: &[u8]) -> Result<bool, Missing> {
        self.members.remove(member, |_| {})
    }

    /// Removes `count` members at random, or all if they are fewer, and tells each to `taken`. `random` gives 64 random bits.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; those that were told are gone.
    pub fn pop(&mut self, count: usize, random: &mut dyn FnMut() -> u64, taken: &mut dyn FnMut(&[u8])) -> Result<(), Missing> {
        let mut name = Vec::new();
        for _ in 0..count.min(self.len()) {
            let rank = below(random(), self.len());
            let Some(member) = self.nth(rank)? else { break };
            name.clear();
            name.extend_from_slice(member);
            self.remove(&name)?;
            taken(&name);
        }
        Ok(())
    }

    /// The member of this rank, below [`SetObject::len`], in the order of [`SetObject::iter`].
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    pub fn nth(&self, rank: usize) -> Result<Option<&[u8]>, Missing> {
        Ok(self.members.nth(rank)?.map(|entry| entry.field))
    }

    /// All members, in an order that only a change of the set changes.
    #[must_use]
    pub fn iter(&self) -> SetIter<'_> {
        self.iter_from(0)
    }

    /// As [`SetObject::iter`], from the member of this rank on: to go on with a snapshot after a pause.
    #[must_use]
    pub fn iter_from(&self, rank: usize) -> SetIter<'_> {
        SetIter(self.members.iter_from(rank))
    }

    /// One member at random. None if there is none.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    pub fn random(&self, bits: u64) -> Result<Option<&[u8]>, Missing> {
        self.nth(below(bits, self.len()))
    }

    /// Visits `count` different members at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; the members that were visited are no random sample.
    pub fn sample(&self, count: usize, random: &mut dyn FnMut() -> u64, visit: &mut dyn FnMut(&[u8])) -> Result<(), Missing> {
        self.members.sample(count, random, &mut |entry| visit(entry.field))
    }

    /// Visits about `count` members from `cursor` on, and returns the cursor to go on with; 0 begins, and 0 is returned at the end.
    /// Any number is a cursor. A member that is there from the first call to the last is visited at least once.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; what was visited will be visited again.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> Result<u64, Missing> {
        self.members.scan(cursor, count, &mut |entry| visit(entry.field))
    }

    /// Panics unless all is sound. Takes time in proportion to the size. For tests.
    pub fn check(&self) {
        self.members.check();
    }
}

impl Object for SetObject {
    fn kind(&self) -> Kind {
        Kind::Set
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
        size_of::<Self>() + self.members.memory()
    }

    fn snapshot(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn write_part(&self, cursor: ImageCursor, limit: usize, out: &mut Vec<u8>) -> Result<Option<ImageCursor>, Missing> {
        self.members.write_part((MAGIC, self.encoding as u8), cursor, limit, out)
    }

    fn read_part(&mut self, part: &[u8]) -> Result<bool, Damaged> {
        let (is_last, encoding) = self.members.read_part(MAGIC, part)?;
        self.encoding = SetEncoding::from_number(encoding);
        Ok(is_last)
    }

    fn next_due(&self) -> Option<u64> {
        None
    }

    fn expire(&mut self, _now: u64, _limit: usize, _removed: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
        Ok(0)
    }

    fn drop_step(&mut self, limit: usize) -> bool {
        self.members.release(limit)
    }

    fn prefetch(&self, step: u32, hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        self.members.prefetch(step, hash, fetch);
    }
}
