//! A stream: what commands do with it, and what the store does.

mod counters;
mod entries;
mod groups;
mod image;
mod iter;
mod radix;

pub use counters::StreamCounters;
pub use entries::{Keep, StreamEntries, Trim};
pub use groups::StreamGroups;
pub use iter::{StreamBackwards, StreamIter};

use std::sync::Arc;

use almandine_base::object::{Damaged, ImageCursor, Kind, Missing, Object};

use super::StreamId;
use super::chunk::block::NodeLimits;
use super::producers::Producers;

/// Elements of an entry that Redis does not take are larger, in bytes of all fields and values.
pub const ENTRY_MAX_BYTES: usize = super::chunk::block::LISTPACK_MAX_BYTES;

/// A stream of any number of entries, with its groups.
#[derive(Clone, Debug, Default)]
pub struct StreamObject {
    pub(super) entries: StreamEntries,
    pub(super) last_id: StreamId,
    pub(super) max_deleted: StreamId,
    pub(super) added: u64,
    pub(super) groups: StreamGroups,
    pub(super) producers: Option<Arc<Producers>>,
    /// Parts of an image that were read.
    pub(super) parts: u32,
}

impl StreamObject {
    /// An empty stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &StreamEntries {
        &self.entries
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &StreamGroups {
        &self.groups
    }

    /// The groups, to be changed.
    pub fn groups_mut(&mut self) -> &mut StreamGroups {
        &mut self.groups
    }

    /// The id of the last entry that was added.
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The highest id of an entry that was deleted.
    #[must_use]
    pub fn max_deleted(&self) -> StreamId {
        self.max_deleted
    }

    /// How many entries were ever added.
    #[must_use]
    pub fn entries_added(&self) -> u64 {
        self.added
    }

    /// What a group's progress is reckoned by.
    pub fn counters(&self) -> Result<StreamCounters, Missing> {
        let first = self.entries.first()?.map_or(StreamId::MIN, |entry| entry.id);
        Ok(StreamCounters { len: self.len(), added: self.added, first, last: self.last_id, max_deleted: self.max_deleted })
    }

    /// Appends an entry, whose id is above the last one.
    pub fn append<'f>(&mut self, id: StreamId, fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone, limits: NodeLimits) {
        debug_assert!(id > self.last_id, "INV-STREAM-1: ids ascend");
        self.entries.append(id, fields, limits);
        self.last_id = id;
        self.added = self.added.wrapping_add(1);
    }

    /// Deletes an entry. Says whether it was there.
    pub fn remove(&mut self, id: StreamId) -> Result<bool, Missing> {
        let removed = self.entries.remove(id)?;
        if removed {
            self.max_deleted = self.max_deleted.max(id);
        }
        Ok(removed)
    }

    /// Takes the first entries away.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory; some may be gone.
    pub fn skip(&mut self, count: u64) -> Result<(), Missing> {
        self.entries.skip(count)
    }

    /// Sets what is told of entries that were added and deleted.
    pub fn set_last(&mut self, last_id: StreamId, added: u64, max_deleted: StreamId) {
        (self.last_id, self.added, self.max_deleted) = (last_id, added, max_deleted);
    }

    /// The producers that send entries with ids of their own. None: there was never one.
    #[must_use]
    pub fn producers(&self) -> Option<&Producers> {
        self.producers.as_deref()
    }

    /// The producers, to be changed; from now on there are some.
    pub fn producers_mut(&mut self) -> &mut Producers {
        Arc::make_mut(self.producers.get_or_insert_default())
    }

    /// Forgets what producers' ids are past their time.
    pub fn expire_producers(&mut self, now: u64) {
        if self.producers.is_some() {
            self.producers_mut().expire(now);
        }
    }

    /// Panics unless all is sound. Takes time in proportion to the size. For tests.
    pub fn check(&self) {
        use crate::tree::Leaf;
        if let Some(older) = &self.entries.older {
            older.check(&());
            assert!(!older.is_empty() && self.entries.tail.len() > 0, "INV-STREAM-1: the last block has entries");
        }
        self.entries.tail.check((&StreamId::MIN, None), &());
        assert_eq!(self.entries.radix(), radix::count(&self.entries), "INV-STREAM-1: the size of the radix tree is known");
        let ids: Vec<StreamId> = self
            .entries
            .range(StreamId::MIN, StreamId::MAX)
            .expect("all is in memory")
            .map(|entry| entry.expect("all is in memory").id)
            .collect();
        assert!(ids.is_sorted_by(|one, other| one < other) && ids.len() as u64 == self.len(), "INV-STREAM-1: ids ascend");
        assert!(ids.last().is_none_or(|last| *last <= self.last_id), "INV-STREAM-1: no entry is behind the last id");
        self.groups.check();
    }
}

impl Object for StreamObject {
    fn kind(&self) -> Kind {
        Kind::Stream
    }

    fn elements(&self) -> usize {
        self.len() as usize
    }

    fn memory(&self) -> usize {
        let producers = self.producers.as_ref().map_or(0, |producers| producers.memory());
        size_of::<Self>() + self.entries.memory() + self.groups.memory() + producers
    }

    fn snapshot(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn write_part(&self, cursor: ImageCursor, limit: usize, out: &mut Vec<u8>) -> Result<Option<ImageCursor>, Missing> {
        image::write_part(self, cursor, limit, out)
    }

    fn read_part(&mut self, part: &[u8]) -> Result<bool, Damaged> {
        image::read_part(self, part)
    }

    fn drop_step(&mut self, limit: usize) -> bool {
        if let Some(older) = &mut self.entries.older
            && !older.release(limit)
        {
            return false;
        }
        self.entries.older = None;
        self.groups.release(limit)
    }

    fn prefetch(&self, step: u32, _hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        if step == 0 {
            self.entries.tail.prefetch(fetch);
        }
    }
}
