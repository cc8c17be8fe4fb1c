//! What was delivered by a group and is not acknowledged: by id, and by consumer.

use almandine_base::object::Missing;

use super::sorted::{Item, Sorted};
use crate::stream::StreamId;

/// The number of no consumer: of what was given back by XNACK.
pub const UNOWNED: u32 = u32::MAX;

/// An entry that is pending. The entry itself may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The id of the entry.
    pub id: StreamId,
    /// When it was delivered last, in milliseconds since 1970.
    pub time: u64,
    /// How often it was delivered.
    pub count: u64,
    /// The number of the consumer that has it, or [`UNOWNED`].
    pub owner: u32,
}

impl Pending {
    /// A time behind all others, for what has been looked at already.
    pub const PASSED: u64 = u64::MAX - 1;
}

impl Item for Pending {
    type Key = StreamId;

    fn key(&self) -> StreamId {
        self.id
    }

    fn due(&self) -> u64 {
        self.time
    }
}

/// A consumer's part of what is pending.
#[derive(Clone, Copy, Debug)]
pub(in crate::stream) struct Owned(u32, StreamId);

impl Item for Owned {
    type Key = (u32, StreamId);

    fn key(&self) -> (u32, StreamId) {
        (self.0, self.1)
    }

    fn due(&self) -> u64 {
        u64::MAX
    }
}

/// All that is pending in a group.
#[derive(Clone, Debug, Default)]
pub(in crate::stream) struct PendingList {
    all: Sorted<Pending>,
    owned: Sorted<Owned>,
}

impl PendingList {
    pub(in crate::stream) fn len(&self) -> u64 {
        self.all.len()
    }

    pub(in crate::stream) fn memory(&self) -> usize {
        self.all.memory() + self.owned.memory()
    }

    pub(in crate::stream) fn get(&self, id: StreamId) -> Result<Option<Pending>, Missing> {
        self.all.get(id)
    }

    pub(in crate::stream) fn nth(&self, rank: u64) -> Result<Option<Pending>, Missing> {
        self.all.nth(rank)
    }

    /// Puts an entry in, and gives what it was before.
    pub(in crate::stream) fn put(&mut self, pending: Pending) -> Result<Option<Pending>, Missing> {
        let before = self.all.put(pending)?;
        if before.map(|before| before.owner) != Some(pending.owner) {
            if let Some(before) = before {
                self.owned.remove((before.owner, before.id))?;
            }
            self.owned.put(Owned(pending.owner, pending.id))?;
        }
        Ok(before)
    }

    pub(in crate::stream) fn remove(&mut self, id: StreamId) -> Result<Option<Pending>, Missing> {
        let gone = self.all.remove(id)?;
        if let Some(gone) = gone {
            self.owned.remove((gone.owner, id))?;
        }
        Ok(gone)
    }

    pub(in crate::stream) fn iter_from(&self, id: StreamId) -> impl Iterator<Item = Result<Pending, Missing>> + '_ {
        self.all.iter_from(id)
    }

    /// Ids of what a consumer has, from one on.
    pub(in crate::stream) fn owned_from(&self, owner: u32, id: StreamId) -> impl Iterator<Item = Result<StreamId, Missing>> + '_ {
        let owned =
            self.owned.iter_from((owner, id)).take_while(move |item| item.is_err() || item.is_ok_and(|item| item.0 == owner));
        owned.map(|item| item.map(|item| item.1))
    }

    /// What was delivered the longest ago.
    pub(in crate::stream) fn oldest(&self) -> Result<Option<Pending>, Missing> {
        self.all.earliest()
    }

    pub(in crate::stream) fn release(&mut self, limit: usize) -> bool {
        self.owned.release(limit) && self.all.release(limit)
    }

    pub(in crate::stream) fn check(&self) {
        self.all.check();
        self.owned.check();
        assert_eq!(self.all.len(), self.owned.len(), "INV-STREAM-2: what is pending has an owner");
        for pending in self.all.iter_from(StreamId::MIN) {
            let pending = pending.expect("all is in memory");
            let owned = self.owned.get((pending.owner, pending.id)).expect("all is in memory");
            assert!(owned.is_some(), "INV-STREAM-2: what is pending has an owner");
        }
    }
}
