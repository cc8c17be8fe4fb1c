//! Growth and shrinking, one bucket at a time, by the background thread only.
//!
//! A step latches the two buckets concerned (lower number first, the order that all lock plans use), rebuilds them from the
//! hashes of their records' keys, publishes the new bucket count while both are latched, and unlatches. Whoever computed its
//! bucket with the old count finds the version moved or, having latched, the count changed, and starts over (INV-INDEX-1).

use super::bucket::Entry;
use super::{BUCKETS_MIN, Index};
use crate::sync::Ordering;

/// Overflow slots that must be free for a step, so that rebuilding two buckets cannot run out of them.
const HEADROOM: u64 = if cfg!(loom) { 2 } else { 1024 };

/// The background's tool to resize the index. Owns its scratch space.
pub(crate) struct Resize {
    entries: Vec<Entry>,
}

impl Resize {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::with_capacity(64) }
    }

    /// Splits the next bucket. `hash_of` gives the hash of the key of the record at an address. Returns whether it grew.
    pub(crate) fn grow(&mut self, index: &Index, hash_of: impl Fn(u64) -> u64) -> bool {
        let buckets = index.len();
        if buckets >= index.buckets_max || index.overflow.headroom() < HEADROOM {
            return false;
        }
        let source = buckets - Self::half(buckets);
        index.bucket(source).lock_exclusive();
        index.bucket(buckets).lock_exclusive();
        self.redistribute(index, source, buckets + 1, hash_of);
        index.buckets.store(buckets + 1, Ordering::Release);
        index.bucket(buckets).unlock_exclusive();
        index.bucket(source).unlock_exclusive();
        true
    }

    /// Merges the last bucket into the one it was split from. Returns whether it shrank.
    pub(crate) fn shrink(&mut self, index: &Index, hash_of: impl Fn(u64) -> u64) -> bool {
        let buckets = index.len();
        if buckets <= BUCKETS_MIN || index.overflow.headroom() < HEADROOM {
            return false;
        }
        let last = buckets - 1;
        let target = last - Self::half(last);
        index.bucket(target).lock_exclusive();
        index.bucket(last).lock_exclusive();
        self.entries.clear();
        index.collect(last, &mut self.entries);
        index.clear(last);
        debug_assert!(self.entries.iter().all(|entry| Index::bucket_of(hash_of(entry.address()), last) == target));
        for &entry in &self.entries {
            // The slots just given back cover what the target may need.
            let inserted = index.insert(target, entry);
            debug_assert!(inserted.is_ok(), "INV-INDEX-2: no entry is lost by a resize");
        }
        index.buckets.store(last, Ordering::Release);
        index.bucket(last).unlock_exclusive();
        index.bucket(target).unlock_exclusive();
        true
    }

    fn redistribute(&mut self, index: &Index, source: u64, buckets: u64, hash_of: impl Fn(u64) -> u64) {
        self.entries.clear();
        index.collect(source, &mut self.entries);
        index.clear(source);
        for &entry in &self.entries {
            let number = Index::bucket_of(hash_of(entry.address()), buckets);
            debug_assert!(number == source || number == buckets - 1);
            let inserted = index.insert(number, entry);
            debug_assert!(inserted.is_ok(), "INV-INDEX-2: no entry is lost by a resize");
        }
    }

    /// The largest power of two not above `buckets`.
    fn half(buckets: u64) -> u64 {
        1 << (u64::BITS - 1 - buckets.leading_zeros())
    }

    /// Prefetches the buckets of the next `count` splits or merges; then their records with [`Resize::entries_ahead`].
    pub(crate) fn entries_ahead(&mut self, index: &Index, first: u64, count: u64, mut visit: impl FnMut(u64)) {
        for number in first..first + count {
            super::prefetch(std::ptr::from_ref(index.bucket(number)).cast());
        }
        for number in first..first + count {
            for slot in &index.bucket(number).entries {
                let entry = Entry(slot.load(Ordering::Relaxed));
                if entry != Entry::EMPTY {
                    visit(entry.address());
                }
            }
        }
    }

    /// The bucket that the next growth step splits.
    pub(crate) fn next_source(index: &Index) -> u64 {
        let buckets = index.len();
        buckets - Self::half(buckets)
    }
}

impl Index {
    /// Makes the memory of the next `buckets` buckets resident, so that a split does not wait for the system.
    pub(crate) fn prefault_ahead(&self, from: u64, buckets: u64) {
        self.memory.prefault(from, from + buckets);
    }

    /// Gives the whole huge pages between `from` and `to` back to the system. The caller has let an epoch pass since these
    /// buckets went out of use, so that no reader or waiting writer is on them.
    pub(crate) fn release_range(&self, from: u64, to: u64) {
        self.memory.release(from, to);
    }
}
