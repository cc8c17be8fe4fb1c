//! A consumer group: how far it has read, its consumers, and what they have not acknowledged.

pub(super) mod pending;
mod sorted;

pub use pending::{Pending, UNOWNED};

use std::sync::Arc;

use almandine_base::object::Missing;

use crate::tree::{SHARED_BYTES, size_class};

use self::pending::PendingList;
use super::StreamId;

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: Arc<[u8]>,
    /// When it was last heard of, in milliseconds since 1970.
    pub seen: u64,
    /// When it last got or claimed an entry. None: never.
    pub active: Option<u64>,
    /// How many entries it has not acknowledged.
    pub pending: u64,
}

/// A consumer group of a stream.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) name: Arc<[u8]>,
    pub(super) last_id: StreamId,
    pub(super) read: Option<u64>,
    pub(super) pending: PendingList,
    /// By their numbers. A number that is free is taken again.
    consumers: Vec<Option<Consumer>>,
    /// The numbers of consumers, by name.
    names: Vec<u32>,
    /// Bytes of the names.
    name_bytes: usize,
    /// Pending entries without an owner.
    released: u64,
}

impl Group {
    /// A group without consumers.
    pub(super) fn new(name: &[u8], last_id: StreamId, read: Option<u64>) -> Self {
        Self {
            name: name.into(),
            last_id,
            read,
            pending: PendingList::default(),
            consumers: Vec::new(),
            names: Vec::new(),
            name_bytes: name_bytes(name),
            released: 0,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The id of the last entry that was delivered.
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// How many entries were read to come there. None: not known.
    #[must_use]
    pub fn entries_read(&self) -> Option<u64> {
        self.read
    }

    /// How many entries are pending.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.pending.len()
    }

    /// Of them, those without an owner.
    #[must_use]
    pub fn released(&self) -> u64 {
        self.released
    }

    /// The consumers with their numbers, by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (u32, &Consumer)> {
        self.names.iter().map(|number| (*number, self.at(*number)))
    }

    fn at(&self, number: u32) -> &Consumer {
        match self.consumers.get(number as usize) {
            Some(Some(consumer)) => consumer,
            _ => unreachable!("INV-STREAM-2: a name has a consumer"),
        }
    }

    /// The consumer with a number. None for [`UNOWNED`].
    #[must_use]
    pub fn consumer(&self, number: u32) -> Option<&Consumer> {
        self.consumers.get(number as usize)?.as_ref()
    }

    /// The number of the consumer with a name, or where it would be among the names.
    fn place(&self, name: &[u8]) -> Result<u32, usize> {
        let found = self.names.binary_search_by(|number| (*self.at(*number).name).cmp(name));
        found.map(|index| self.names[index])
    }

    /// The number of the consumer with a name.
    #[must_use]
    pub fn find_consumer(&self, name: &[u8]) -> Option<u32> {
        self.place(name).ok()
    }

    /// What is pending with an id.
    pub fn get_pending(&self, id: StreamId) -> Result<Option<Pending>, Missing> {
        self.pending.get(id)
    }

    /// What is pending from an id on, in the order of ids.
    pub fn pending_from(&self, id: StreamId) -> impl Iterator<Item = Result<Pending, Missing>> + '_ {
        self.pending.iter_from(id)
    }

    /// The ids of what a consumer has, from one on.
    pub fn owned_from(&self, owner: u32, id: StreamId) -> impl Iterator<Item = Result<StreamId, Missing>> + '_ {
        self.pending.owned_from(owner, id)
    }

    /// What is pending with the lowest and with the highest id.
    pub fn pending_ends(&self) -> Result<Option<(StreamId, StreamId)>, Missing> {
        let Some(last) = self.pending().checked_sub(1) else { return Ok(None) };
        Ok(self.pending.nth(0)?.zip(self.pending.nth(last)?).map(|(first, last)| (first.id, last.id)))
    }

    /// What was delivered the longest ago; of several, that with the lowest id.
    pub fn oldest_pending(&self) -> Result<Option<Pending>, Missing> {
        self.pending.oldest()
    }

    /// Says how far the group has read.
    pub fn set_read(&mut self, last_id: StreamId, read: Option<u64>) {
        (self.last_id, self.read) = (last_id, read);
    }

    /// The number of the consumer with this name, which is made if it is not there. Says whether it was made.
    pub fn ensure_consumer(&mut self, name: &[u8], now: u64) -> (u32, bool) {
        let index = match self.place(name) {
            Ok(number) => return (number, false),
            Err(index) => index,
        };
        let consumer = Some(Consumer { name: name.into(), seen: now, active: None, pending: 0 });
        let number = match self.consumers.iter().position(Option::is_none) {
            Some(free) if self.names.len() < self.consumers.len() => {
                self.consumers[free] = consumer;
                free as u32
            }
            _ => {
                self.consumers.push(consumer);
                self.consumers.len() as u32 - 1
            }
        };
        self.names.insert(index, number);
        self.name_bytes += name_bytes(name);
        (number, true)
    }

    /// Says when a consumer was last heard of, and when it last got something.
    pub fn touch(&mut self, number: u32, seen: u64, active: Option<u64>) {
        if let Some(Some(consumer)) = self.consumers.get_mut(number as usize) {
            (consumer.seen, consumer.active) = (seen, active);
        }
    }

    /// Takes a consumer away with all that it has not acknowledged. Says how many entries that were; None: there is no such
    /// consumer.
    ///
    /// # Errors
    /// [`Missing`]: a part of the list is not in memory; some may be gone.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Result<Option<u64>, Missing> {
        let Ok(number) = self.place(name) else { return Ok(None) };
        let mut gone = 0;
        loop {
            let first = self.pending.owned_from(number, StreamId::MIN).next();
            let Some(id) = first.transpose()? else { break };
            self.acknowledge(id)?;
            gone += 1;
        }
        self.names.retain(|other| *other != number);
        self.consumers[number as usize] = None;
        while let Some(None) = self.consumers.last() {
            self.consumers.pop();
        }
        self.name_bytes -= name_bytes(name);
        Ok(Some(gone))
    }

    fn count(&mut self, owner: u32, change: impl FnOnce(&mut u64)) {
        match self.consumers.get_mut(owner as usize) {
            Some(Some(consumer)) => change(&mut consumer.pending),
            _ => change(&mut self.released),
        }
    }

    /// Says that an entry is pending, whatever it was before.
    pub fn pend(&mut self, pending: Pending) -> Result<(), Missing> {
        debug_assert!(pending.owner == UNOWNED || self.consumer(pending.owner).is_some(), "the owner is a consumer");
        let before = self.pending.put(pending)?;
        if let Some(before) = before {
            self.count(before.owner, |count| *count -= 1);
        }
        self.count(pending.owner, |count| *count += 1);
        Ok(())
    }

    /// Says that an entry is not pending. Says whether it was.
    pub fn acknowledge(&mut self, id: StreamId) -> Result<bool, Missing> {
        let gone = self.pending.remove(id)?;
        if let Some(gone) = gone {
            self.count(gone.owner, |count| *count -= 1);
        }
        Ok(gone.is_some())
    }

    pub(super) fn memory(&self) -> usize {
        // What a vector that grows may have, so that a copy takes as much.
        let grown = |len: usize, size: usize| if len == 0 { 0 } else { size_class(len.next_power_of_two().max(4) * size) };
        let consumers = grown(self.consumers.len(), size_of::<Option<Consumer>>());
        let names = grown(self.names.len(), size_of::<u32>());
        size_class(SHARED_BYTES + size_of::<Self>()) + consumers + names + self.name_bytes + self.pending.memory()
    }

    /// Frees a bounded number of parts. True when nothing is left.
    pub(super) fn release(&mut self, limit: usize) -> bool {
        self.pending.release(limit)
    }

    pub(super) fn check(&self) {
        self.pending.check();
        assert!(self.consumers().map(|(_, consumer)| &consumer.name).is_sorted(), "names ascend");
        for (number, consumer) in self.consumers() {
            let owned = self.pending.owned_from(number, StreamId::MIN).count() as u64;
            assert_eq!(owned, consumer.pending, "INV-STREAM-2: a consumer knows how much it has");
        }
        let released = self.pending.owned_from(UNOWNED, StreamId::MIN).count() as u64;
        assert_eq!(released, self.released, "INV-STREAM-2: a consumer knows how much it has");
    }
}

/// Bytes of a name's allocation.
fn name_bytes(name: &[u8]) -> usize {
    size_class(SHARED_BYTES + name.len())
}
