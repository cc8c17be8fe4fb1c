//! Growth and shrinking, one bucket at a time, by the background thread only.
//!
//! A step latches the two buckets concerned (lower number first, the order that all lock plans use), rebuilds them by the hash
//! bits that their entries know (a record in memory gives its whole hash), publishes the new bucket count while both are
//! latched, and unlatches. A session that computed its bucket with the old count finds the version moved or, having latched,
//! the count changed, and starts over (INV-INDEX-1).

use super::entry::{Entry, Tag};
use super::{BUCKETS_MIN, Index};
use crate::sync::{AtomicU64, Ordering};
use almandine_base::points::point;
use almandine_base::sometimes;

/// Overflow buckets that must be free for a step, so that rebuilding two buckets cannot run out of them.
const HEADROOM: u64 = if cfg!(loom) { 2 } else { 1024 };

/// What became of a step of growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resized {
    /// A bucket was split.
    Done,
    /// The index has no room.
    Full,
    /// The entry with this address knows no more of its hash, and its record is not in memory. Nothing has changed.
    Unknown(u64),
}

/// The background's tool to resize the index. Owns its scratch space.
pub(crate) struct Resize {
    entries: Vec<Entry>,
    /// Entries as they will be, and whether they go to the upper one of two buckets.
    placed: Vec<(Entry, bool)>,
}

/// Puts an entry back that a step has taken out. There is room: the step began with free overflow buckets for all of them.
fn insert(index: &Index, number: u64, entry: Entry) {
    let inserted = index.insert(number, entry);
    // Also in release builds: a key that is gone without a word is worse than a server that stops.
    assert!(inserted.is_ok(), "INV-INDEX-2: no entry is lost by a resize");
}

impl Resize {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::with_capacity(64), placed: Vec::with_capacity(64) }
    }

    /// Splits the next bucket. `hash_of` gives the hash of the key of the record at an address, if it is in memory.
    pub(crate) fn grow(&mut self, index: &Index, hash_of: impl Fn(u64) -> Option<u64>) -> Resized {
        let buckets = index.len();
        if buckets >= index.buckets_max || index.overflow.headroom() < HEADROOM {
            return Resized::Full;
        }
        let source = buckets - Self::half(buckets);
        debug_assert!(source < buckets, "INV-LATCH-3: the lower bucket is latched first");
        let _source_latch = index.latch(source);
        self.entries.clear();
        index.collect(source, &mut self.entries);
        // Where each entry goes is known before anything changes: no entry is left over.
        let level = Index::level(source, buckets) + 1;
        self.placed.clear();
        for entry in &self.entries {
            let placed = match (hash_of(entry.address()), entry.split()) {
                (Some(hash), _) => (entry.renew(Tag::new(hash, level)), Index::bucket_of(hash, buckets + 1) == buckets),
                (None, Some(split)) => split,
                (None, None) => {
                    sometimes!("a bucket is not split before a record is read from the device");
                    return Resized::Unknown(entry.address());
                }
            };
            self.placed.push(placed);
        }
        let _new_latch = index.latch(buckets);
        debug_assert!(
            index.bucket(buckets).overflow() == 0 && index.bucket(buckets).matches_nothing(),
            "INV-INDEX-2: a bucket beyond the count is empty"
        );
        index.clear(source);
        point("splits a bucket");
        let mut short = [false; 2];
        for (entry, upper) in self.placed.drain(..) {
            short[usize::from(upper)] |= entry.is_short();
            insert(index, if upper { buckets } else { source }, entry);
        }
        index.bucket(source).set_short_tags(short[0]);
        index.bucket(buckets).set_short_tags(short[1]);
        point("has split a bucket");
        index.buckets.store(buckets + 1, Ordering::Release);
        sometimes!("the index grows by a bucket");
        Resized::Done
    }

    /// Merges the last bucket into the one it was split from. Returns whether it shrank.
    pub(crate) fn shrink(&mut self, index: &Index) -> bool {
        let buckets = index.len();
        if buckets <= BUCKETS_MIN || index.overflow.headroom() < HEADROOM {
            return false;
        }
        let last = buckets - 1;
        let target = last - Self::half(last);
        debug_assert!(target < last, "INV-LATCH-3: the lower bucket is latched first");
        let _target_latch = index.latch(target);
        let Some(_last_latch) = index.latch_planned(last, || index.gives_way()) else { return false };
        let mut short = false;
        self.entries.clear();
        for (number, bit) in [(target, false), (last, true)] {
            let from = self.entries.len();
            index.collect(number, &mut self.entries);
            index.clear(number);
            for entry in &mut self.entries[from..] {
                *entry = entry.merge(bit);
                short |= entry.is_short();
            }
        }
        for entry in self.entries.drain(..) {
            // The cells just given back cover what the target may need.
            insert(index, target, entry);
        }
        index.bucket(target).set_short_tags(short);
        index.bucket(last).set_short_tags(false);
        point("has merged a bucket");
        index.buckets.store(last, Ordering::Release);
        sometimes!("the index shrinks by a bucket");
        true
    }

    /// The largest power of two not above `buckets`.
    fn half(buckets: u64) -> u64 {
        debug_assert_ne!(buckets, 0, "there is always a bucket");
        1 << (u64::BITS - 1 - buckets.leading_zeros())
    }

    /// Asks the cache for `count` buckets and their overflow buckets, and calls `visit` with the addresses in them, so that the
    /// caller can ask for their records. What is read here without a latch is a hint.
    pub(crate) fn entries_ahead(&mut self, index: &Index, first: u64, count: u64, mut visit: impl FnMut(u64)) {
        let buckets = first..first + count;
        buckets.clone().for_each(|number| index.prefetch_bucket(number));
        let mut look = |cell: &AtomicU64| {
            let entry = Entry(cell.load(Ordering::Relaxed));
            if entry != Entry::EMPTY {
                visit(entry.address());
            }
        };
        for number in buckets.clone() {
            let bucket = index.bucket(number);
            bucket.entries.iter().for_each(&mut look);
            if bucket.overflow() != 0 {
                super::prefetch(std::ptr::from_ref(index.overflow.at(bucket.overflow())).cast());
            }
        }
        for number in buckets {
            let bucket = index.bucket(number);
            if bucket.overflow() != 0 {
                index.overflow.at(bucket.overflow()).entries.iter().for_each(&mut look);
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

    /// As [`Index::prefault_ahead`], for overflow buckets.
    pub(crate) fn prefault_overflow_ahead(&self) {
        self.overflow.prefault_ahead();
    }

    /// Gives the whole huge pages between `from` and `to` back to the system. The caller has let an epoch pass since these
    /// buckets went out of use, so that no reader or waiting writer is on them.
    pub(crate) fn release_range(&self, from: u64, to: u64) {
        debug_assert!(from >= self.len(), "INV-INDEX-1: buckets in use keep their memory");
        self.memory.release(from, to);
    }
}
