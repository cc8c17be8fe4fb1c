//! The groups of a stream, by name, and what is given to them.

use std::sync::Arc;

use almandine_base::object::Missing;

use super::StreamObject;
use crate::stream::StreamId;
use crate::stream::entry::StreamEntry;
use crate::stream::group::{Group, Pending};
use crate::tree::{SHARED_BYTES, size_class};

/// The groups of a stream, by name. The number of a group holds until one comes or goes. Snapshots share what does not change.
#[derive(Clone, Debug, Default)]
pub struct StreamGroups {
    all: Arc<[Arc<Group>]>,
    /// Bytes of the groups.
    bytes: usize,
}

impl StreamGroups {
    /// How many groups there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The groups, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.all.iter().map(|group| &**group)
    }

    /// The number of the group with a name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.all.binary_search_by(|group| (*group.name).cmp(name)).ok()
    }

    /// The group with a name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&Group> {
        self.find(name).map(|index| &*self.all[index])
    }

    /// The group of a number. None: there is no such group.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<&Group> {
        self.all.get(index).map(|group| &**group)
    }

    /// Adds a group. Says no, and changes nothing, if there is one of this name.
    pub fn create(&mut self, name: &[u8], last_id: StreamId, read: Option<u64>) -> bool {
        let Err(index) = self.all.binary_search_by(|group| (*group.name).cmp(name)) else { return false };
        let group = Group::new(name, last_id, read);
        self.bytes += group.memory();
        let (before, behind) = self.all.split_at(index);
        self.all = before.iter().cloned().chain([Arc::new(group)]).chain(behind.iter().cloned()).collect();
        true
    }

    /// Takes a group away. Says whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(index) = self.find(name) else { return false };
        self.bytes -= self.all[index].memory();
        let (before, behind) = self.all.split_at(index);
        self.all = before.iter().chain(&behind[1..]).cloned().collect();
        true
    }

    /// Changes the group of a number. None: there is no such group.
    pub fn change<R>(&mut self, index: usize, change: impl FnOnce(&mut Group) -> R) -> Option<R> {
        let group = Arc::make_mut(Arc::make_mut(&mut self.all).get_mut(index)?);
        let before = group.memory();
        let result = change(group);
        self.bytes = self.bytes - before + group.memory();
        Some(result)
    }

    /// Whether a group has not read an entry, or not acknowledged it.
    pub fn is_referenced(&self, id: StreamId) -> Result<bool, Missing> {
        for group in self.iter() {
            if group.last_id < id || group.get_pending(id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(in crate::stream) fn memory(&self) -> usize {
        let array = if self.is_empty() { 0 } else { size_class(SHARED_BYTES + size_of_val(&*self.all)) };
        array + self.bytes
    }

    /// Frees about `limit` parts. True when nothing is left.
    pub(in crate::stream) fn release(&mut self, limit: usize) -> bool {
        // Groups that a snapshot has, too, are its.
        let groups = Arc::get_mut(&mut self.all).unwrap_or_default();
        groups.iter_mut().filter_map(Arc::get_mut).all(|group| group.release(limit))
    }

    pub(in crate::stream) fn check(&self) {
        assert!(self.all.is_sorted_by(|one, other| one.name < other.name));
        self.iter().for_each(Group::check);
        assert_eq!(self.bytes, self.iter().map(Group::memory).sum::<usize>());
    }
}

impl StreamObject {
    /// Gives a group at most `count` entries that it has not read, and tells each. They are pending then for a consumer, unless
    /// that is None.
    ///
    /// # Errors
    /// [`Missing`]: a part is not in memory; those that were told are delivered.
    pub fn deliver(
        &mut self,
        group: usize,
        consumer: Option<u32>,
        (count, now): (u64, u64),
        visit: &mut dyn FnMut(StreamEntry<'_>),
    ) -> Result<u64, Missing> {
        let (counters, entries) = (self.counters()?, &self.entries);
        let delivered = self.groups.change(group, |group| {
            let Some(from) = group.last_id.next() else { return Ok(0) };
            let mut delivered = 0;
            for entry in entries.range(from, StreamId::MAX)? {
                if delivered == count {
                    break;
                }
                let entry = entry?;
                group.read = counters.read_next(group.read, group.last_id, entry.id);
                group.last_id = entry.id;
                if let Some(owner) = consumer {
                    group.pend(Pending { id: entry.id, time: now, count: 1, owner })?;
                }
                visit(entry);
                delivered += 1;
            }
            Ok(delivered)
        });
        delivered.unwrap_or(Ok(0))
    }
}
