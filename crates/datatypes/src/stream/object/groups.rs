//! What is done to the groups of a stream, and to what they have not acknowledged.

use std::sync::Arc;

use almandine_base::object::Missing;

use super::StreamObject;
use crate::stream::StreamId;
use crate::stream::entry::StreamEntry;
use crate::stream::group::Group;
use crate::stream::group::pending::Pending;
use crate::stream::producers::ProducerLimits;

impl StreamObject {
    /// The groups, by name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.groups.iter().map(|group| &**group)
    }

    /// The number of the group with a name: it holds until a group comes or goes.
    #[must_use]
    pub fn find_group(&self, name: &[u8]) -> Option<usize> {
        self.groups.binary_search_by(|group| (*group.name).cmp(name)).ok()
    }

    /// The group with a name.
    #[must_use]
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.find_group(name).map(|index| &*self.groups[index])
    }

    /// The group of a number. None: there is no such group.
    #[must_use]
    pub fn nth_group(&self, index: usize) -> Option<&Group> {
        self.groups.get(index).map(|group| &**group)
    }

    /// Adds a group. Says no, and changes nothing, if there is one of this name.
    pub fn create_group(&mut self, name: &[u8], last_id: StreamId, read: Option<u64>) -> bool {
        let Err(index) = self.groups.binary_search_by(|group| (*group.name).cmp(name)) else { return false };
        self.insert_group(index, Group::new(name, last_id, read));
        true
    }

    pub(in crate::stream) fn insert_group(&mut self, index: usize, group: Group) {
        self.group_bytes += group.memory();
        let (before, behind) = self.groups.split_at(index);
        self.groups = before.iter().cloned().chain([Arc::new(group)]).chain(behind.iter().cloned()).collect();
    }

    /// Takes a group away. Says whether it was there.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let Some(index) = self.find_group(name) else { return false };
        self.group_bytes -= self.groups[index].memory();
        let (before, behind) = self.groups.split_at(index);
        self.groups = before.iter().chain(&behind[1..]).cloned().collect();
        true
    }

    /// Changes a group, and knows what it takes then.
    pub(in crate::stream) fn change_group<R>(&mut self, index: usize, change: impl FnOnce(&mut Group) -> R) -> Option<R> {
        let group = Arc::make_mut(Arc::make_mut(&mut self.groups).get_mut(index)?);
        let before = group.memory();
        let result = change(group);
        self.group_bytes = self.group_bytes - before + group.memory();
        Some(result)
    }

    /// Says how far a group has read.
    pub fn set_group(&mut self, index: usize, last_id: StreamId, read: Option<u64>) {
        self.change_group(index, |group| (group.last_id, group.read) = (last_id, read));
    }

    /// The number of the consumer with a name, which is made if it is not there. Says whether it was made.
    pub fn ensure_consumer(&mut self, group: usize, name: &[u8], now: u64) -> (u32, bool) {
        if let Some(number) = self.nth_group(group).and_then(|group| group.find_consumer(name)) {
            return (number, false);
        }
        self.change_group(group, |group| group.ensure_consumer(name, now)).unwrap_or_default()
    }

    /// Says when a consumer was last heard of, and when it last got something.
    pub fn touch(&mut self, group: usize, consumer: u32, seen: u64, active: Option<u64>) {
        self.change_group(group, |group| group.touch(consumer, seen, active));
    }

    /// Takes a consumer away with all that it has not acknowledged. Says how many entries that were; None: there is no such
    /// consumer.
    ///
    /// # Errors
    /// [`Missing`]: a part of the list is not in memory; some may be gone.
    pub fn remove_consumer(&mut self, group: usize, name: &[u8]) -> Result<Option<u64>, Missing> {
        self.change_group(group, |group| group.remove_consumer(name)).unwrap_or(Ok(None))
    }

    /// Says that an entry is pending, whatever it was before.
    ///
    /// # Errors
    /// [`Missing`]: a part of the list is not in memory.
    pub fn pend(&mut self, group: usize, pending: Pending) -> Result<(), Missing> {
        self.change_group(group, |group| group.pend(pending)).unwrap_or(Ok(()))
    }

    /// Says that an entry is not pending. Says whether it was.
    ///
    /// # Errors
    /// [`Missing`]: a part of the list is not in memory.
    pub fn acknowledge(&mut self, group: usize, id: StreamId) -> Result<bool, Missing> {
        if self.nth_group(group).map_or(Ok(None), |group| group.get_pending(id))?.is_none() {
            return Ok(false);
        }
        self.change_group(group, |group| group.acknowledge(id)).unwrap_or(Ok(false))
    }

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
        let counters = self.counters()?;
        let Some(this) = Arc::make_mut(&mut self.groups).get_mut(group).map(Arc::make_mut) else { return Ok(0) };
        let Some(from) = this.last_id.next() else { return Ok(0) };
        let before = this.memory();
        let mut delivered = 0;
        for entry in self.entries.range(from, StreamId::MAX)? {
            if delivered == count {
                break;
            }
            let entry = entry?;
            this.read = counters.read_next(this.read, entry.id);
            this.last_id = entry.id;
            if let Some(owner) = consumer {
                this.pend(Pending { id: entry.id, time: now, count: 1, owner })?;
            }
            visit(entry);
            delivered += 1;
        }
        self.group_bytes = self.group_bytes - before + this.memory();
        Ok(delivered)
    }

    /// Whether a group has not read an entry, or not acknowledged it.
    ///
    /// # Errors
    /// [`Missing`]: a part of a list is not in memory.
    pub fn is_referenced(&self, id: StreamId) -> Result<bool, Missing> {
        for group in self.groups() {
            if group.last_id < id || group.get_pending(id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Says that an entry is pending in no group. Says in how many it was.
    ///
    /// # Errors
    /// [`Missing`]: a part of a list is not in memory; some may be gone.
    pub fn drop_references(&mut self, id: StreamId) -> Result<usize, Missing> {
        let mut dropped = 0;
        for index in 0..self.groups.len() {
            dropped += usize::from(self.acknowledge(index, id)?);
        }
        Ok(dropped)
    }

    /// Keeps more or less of each producer; what was known is forgotten if that is a change.
    pub fn configure_producers(&mut self, limits: ProducerLimits) {
        self.producers_mut().configure(limits);
    }

    /// Keeps a producer's id for an entry. `counted`: as one that was added now.
    pub fn put_producer_id(&mut self, producer: &[u8], iid: &[u8], id: StreamId, counted: bool) {
        let producers = self.producers_mut();
        producers.put(producer, iid, id);
        producers.added += u64::from(counted);
    }

    /// Counts an entry that was not added because it was there.
    pub fn count_duplicate(&mut self) {
        self.producers_mut().duplicates += 1;
    }

    /// Says how many entries with ids of producers were ever added, and how many were there before.
    pub fn set_producer_counts(&mut self, added: u64, duplicates: u64) {
        let producers = self.producers_mut();
        (producers.added, producers.duplicates) = (added, duplicates);
    }

    /// Forgets what producers' ids are past their time.
    pub fn expire_producers(&mut self, now: u64) {
        if self.producers.is_some() {
            self.producers_mut().expire(now);
        }
    }
}
