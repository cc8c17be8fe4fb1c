//! Producers whose entries have ids of their own, by which an entry that is sent twice is added once.
//!
//! What is known of a producer are its last ids, each with the id of the entry that it made: a limited number, and for a limited
//! time after the entry's own time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::tree::{SHARED_BYTES, size_class};

use super::StreamId;

/// How much is kept of each producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerLimits {
    /// Seconds that an id is known.
    pub seconds: u64,
    /// Ids that are known at once.
    pub ids: u64,
}

impl Default for ProducerLimits {
    fn default() -> Self {
        Self { seconds: 100, ids: 100 }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Producer {
    ids: BTreeMap<Arc<[u8]>, StreamId>,
    /// The oldest first.
    order: VecDeque<Arc<[u8]>>,
}

impl Producer {
    fn remove_oldest(&mut self) -> usize {
        let Some(iid) = self.order.pop_front() else { return 0 };
        self.ids.remove(&iid);
        id_bytes(&iid)
    }
}

/// The producers of a stream.
#[derive(Clone, Debug, Default)]
pub struct Producers {
    pub(super) limits: ProducerLimits,
    all: BTreeMap<Arc<[u8]>, Producer>,
    pub(super) added: u64,
    pub(super) duplicates: u64,
    bytes: usize,
    /// When all were last looked through, in milliseconds since 1970.
    swept: u64,
}

/// Milliseconds between two times that all producers are looked through.
const SWEEP_MS: u64 = 1000;

impl Producers {
    /// Whether it is time to look for ids that are past theirs.
    #[must_use]
    pub fn should_expire(&self, now: u64) -> bool {
        now >= self.swept.saturating_add(SWEEP_MS)
    }

    /// How much is kept.
    #[must_use]
    pub fn limits(&self) -> ProducerLimits {
        self.limits
    }

    /// How many producers are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many of their ids are known.
    #[must_use]
    pub fn ids(&self) -> usize {
        self.all.values().map(|producer| producer.order.len()).sum()
    }

    /// How many entries with such ids were ever added.
    #[must_use]
    pub fn added(&self) -> u64 {
        self.added
    }

    /// How many were not, because they were there before.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// The producers by name, each with its ids, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], impl ExactSizeIterator<Item = (&[u8], StreamId)>)> {
        self.all.iter().map(|(name, producer)| {
            let ids = producer.order.iter().map(|iid| (&**iid, producer.ids.get(iid).copied().unwrap_or_default()));
            (&**name, ids)
        })
    }

    /// The entry that a producer's id has made, unless it is past its time.
    #[must_use]
    pub fn get(&self, producer: &[u8], iid: &[u8], now: u64) -> Option<StreamId> {
        let id = self.all.get(producer)?.ids.get(iid).copied();
        id.filter(|id| id.ms.saturating_add(self.limits.seconds * 1000) > now)
    }

    /// Keeps a producer's id for an entry, `counted` as one that was added now. The oldest ids go, if they are too many.
    pub fn put(&mut self, producer: &[u8], iid: &[u8], id: StreamId, counted: bool) {
        self.added += u64::from(counted);
        let is_new = !self.all.contains_key(producer);
        let known = self.all.entry(producer.into()).or_default();
        self.bytes += if is_new { id_bytes(producer) + size_of::<Producer>() } else { 0 };
        let bytes = id_bytes(iid);
        let iid: Arc<[u8]> = iid.into();
        if known.ids.insert(iid.clone(), id).is_none() {
            known.order.push_back(iid);
            self.bytes += bytes;
        }
        while known.order.len() as u64 > self.limits.ids {
            self.bytes -= known.remove_oldest();
        }
    }

    /// Forgets ids that are past their time, and producers without any.
    pub fn expire(&mut self, now: u64) {
        self.swept = now;
        let seconds = self.limits.seconds;
        let is_due = |id: StreamId| id.ms.saturating_add(seconds * 1000) <= now;
        let mut bytes = 0;
        self.all.retain(|name, producer| {
            while let Some(id) = producer.order.front().and_then(|iid| producer.ids.get(iid))
                && is_due(*id)
            {
                bytes += producer.remove_oldest();
            }
            let stays = !producer.order.is_empty();
            bytes += if stays { 0 } else { id_bytes(name) + size_of::<Producer>() };
            stays
        });
        self.bytes -= bytes;
    }

    /// Keeps more or less from now on; what was known is forgotten if that is a change.
    pub fn configure(&mut self, limits: ProducerLimits) {
        if limits != self.limits {
            self.all.clear();
            self.bytes = 0;
        }
        self.limits = limits;
    }

    /// Counts an entry that was not added because it was there.
    pub fn count_duplicate(&mut self) {
        self.duplicates += 1;
    }

    /// Says how many entries with ids of producers were ever added, and how many were there before.
    pub fn set_counts(&mut self, added: u64, duplicates: u64) {
        (self.added, self.duplicates) = (added, duplicates);
    }

    pub(super) fn memory(&self) -> usize {
        size_class(SHARED_BYTES + size_of::<Self>()) + self.bytes
    }
}

/// Bytes that an id takes: its own, and its places in both orders.
fn id_bytes(id: &[u8]) -> usize {
    size_class(SHARED_BYTES + id.len()) + 3 * size_of::<Arc<[u8]>>() + size_of::<StreamId>()
}
