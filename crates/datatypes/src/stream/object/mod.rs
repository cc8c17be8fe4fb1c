//! A stream: what commands do with it, and what the store does.

mod counters;
mod entries;
mod groups;
mod image;
mod iter;
mod radix;

pub use counters::StreamCounters;
pub use entries::{Keep, Trim};
pub use iter::{StreamBackwards, StreamIter};

use std::any::Any;
use std::sync::Arc;

use almandine_base::object::{Damaged, ImageCursor, Kind, Missing, Object};

use crate::tree::{SHARED_BYTES, size_class};

use self::entries::Entries;
use super::StreamId;
use super::chunk::block::NodeLimits;
use super::entry::StreamEntry;
use super::group::Group;
use super::producers::Producers;

/// Elements of an entry that Redis does not take are larger, in bytes of all fields and values.
pub const ENTRY_MAX_BYTES: usize = super::chunk::block::LISTPACK_MAX_BYTES;

/// A stream of any number of entries, with its groups.
#[derive(Clone, Debug, Default)]
pub struct StreamObject {
    pub(super) entries: Entries,
    pub(super) last_id: StreamId,
    pub(super) max_deleted: StreamId,
    pub(super) added: u64,
    /// By name.
    pub(super) groups: Arc<[Arc<Group>]>,
    /// Bytes of the groups.
    pub(super) group_bytes: usize,
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

    /// How many nodes Redis would have.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn nodes(&self) -> Result<usize, Missing> {
        Ok(self.entries.radix()?.keys)
    }

    /// How many keys and nodes the radix tree has in which Redis would keep the stream.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn radix_tree(&self) -> Result<(usize, usize), Missing> {
        let size = self.entries.radix()?;
        Ok((size.keys, size.nodes()))
    }

    /// What a group's progress is reckoned by.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn counters(&self) -> Result<StreamCounters, Missing> {
        let first = self.first()?.map_or(StreamId::MIN, |entry| entry.id);
        Ok(StreamCounters { len: self.len(), added: self.added, first, last: self.last_id, max_deleted: self.max_deleted })
    }

    /// The first entry.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn first(&self) -> Result<Option<StreamEntry<'_>>, Missing> {
        self.entries.first()
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<StreamEntry<'_>> {
        self.entries.last()
    }

    /// An entry.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn get(&self, id: StreamId) -> Result<Option<StreamEntry<'_>>, Missing> {
        self.entries.get(id)
    }

    /// Entries from one id to another, both included.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn range(&self, start: StreamId, end: StreamId) -> Result<StreamIter<'_>, Missing> {
        self.entries.range(start, end)
    }

    /// The same entries, the last one first.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn backwards(&self, start: StreamId, end: StreamId) -> Result<StreamBackwards<'_>, Missing> {
        self.entries.backwards(start, end)
    }

    /// How many entries have a lower id.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn rank(&self, id: StreamId) -> Result<u64, Missing> {
        self.entries.rank(id)
    }

    /// How many entries have this id or a lower one.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn rank_behind(&self, id: StreamId) -> Result<u64, Missing> {
        id.next().map_or(Ok(self.len()), |next| self.entries.rank(next))
    }

    /// Appends an entry, whose id is above the last one.
    pub fn append<'f>(&mut self, id: StreamId, fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone, limits: NodeLimits) {
        debug_assert!(id > self.last_id, "INV-STREAM-1: ids ascend");
        self.entries.append(id, fields, limits);
        self.last_id = id;
        self.added = self.added.wrapping_add(1);
    }

    /// Deletes an entry. Says whether it was there.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory; nothing has changed.
    pub fn remove(&mut self, id: StreamId) -> Result<bool, Missing> {
        let removed = self.entries.remove(id)?;
        if removed {
            self.max_deleted = self.max_deleted.max(id);
        }
        Ok(removed)
    }

    /// How many entries a trim takes from the front.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn trimmed(&self, trim: &Trim) -> Result<u64, Missing> {
        self.entries.trimmed(trim)
    }

    /// How many entries the node at a rank has, where one begins, and the id of the last one that it ever had.
    ///
    /// # Errors
    /// [`Missing`]: a block is not in memory.
    pub fn node(&self, rank: u64) -> Result<(u64, StreamId), Missing> {
        self.entries.node(rank).map(|node| (node.entries, node.last))
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

    pub(super) fn producers_mut(&mut self) -> &mut Producers {
        Arc::make_mut(self.producers.get_or_insert_default())
    }

    /// Tells `fetch` what is read first when an entry is added.
    pub fn prefetch_end(&self, fetch: &mut dyn FnMut(*const u8)) {
        self.entries.tail.prefetch(fetch);
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
            .range(StreamId::MIN, StreamId::MAX)
            .expect("all is in memory")
            .map(|entry| entry.expect("all is in memory").id)
            .collect();
        assert!(ids.is_sorted_by(|one, other| one < other) && ids.len() as u64 == self.len(), "INV-STREAM-1: ids ascend");
        assert!(ids.last().is_none_or(|last| *last <= self.last_id), "INV-STREAM-1: no entry is behind the last id");
        assert!(self.groups.is_sorted_by(|one, other| one.name < other.name));
        self.groups.iter().for_each(|group| group.check());
        assert_eq!(self.group_bytes, self.groups.iter().map(|group| group.memory()).sum::<usize>());
    }
}

impl Object for StreamObject {
    fn kind(&self) -> Kind {
        Kind::Stream
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn elements(&self) -> usize {
        self.len() as usize
    }

    fn memory(&self) -> usize {
        let groups = if self.groups.is_empty() { 0 } else { size_class(SHARED_BYTES + size_of_val(&*self.groups)) };
        let producers = self.producers.as_ref().map_or(0, |producers| producers.memory());
        size_of::<Self>() + self.entries.memory() + groups + self.group_bytes + producers
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

    fn next_due(&self) -> Option<u64> {
        None
    }

    fn expire(&mut self, _now: u64, _limit: usize, _removed: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
        Ok(0)
    }

    fn drop_step(&mut self, limit: usize) -> bool {
        if let Some(older) = &mut self.entries.older
            && !older.release(limit)
        {
            return false;
        }
        self.entries.older = None;
        // Groups that a snapshot has, too, are its.
        let groups = Arc::get_mut(&mut self.groups).unwrap_or_default();
        groups.iter_mut().filter_map(Arc::get_mut).all(|group| group.release(limit))
    }

    fn prefetch(&self, step: u32, _hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        if step == 0 {
            self.prefetch_end(fetch);
        }
    }
}
