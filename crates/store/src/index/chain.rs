//! Walking and changing the entries of one bucket: its own seven, then its overflow buckets.
//!
//! Entries are kept dense: a hole is filled with the bucket's last entry, so the own cache line is always full before an
//! overflow bucket exists, and empty overflow buckets go back at once.

use super::bucket::{Bucket, ENTRIES, OVERFLOW_ENTRIES};
use super::entry::{Entry, Tag};
use super::{Entered, Index};
use crate::failing;
use crate::shared::written::{self, SharedLine};
use crate::sync::{AtomicU64, Ordering};
use almandine_base::points::point;

/// Overflow buckets that an optimistic reader follows before it checks that it is not lost on recycled links.
const HOPS_BETWEEN_CHECKS: usize = 16;

/// How full a bucket of the overflow area is.
pub(crate) struct Link {
    pub(crate) used: usize,
    pub(crate) places: usize,
}

/// The place of an entry: the cell that holds it.
#[derive(Clone, Copy)]
pub(crate) struct Position<'i>(pub(crate) &'i AtomicU64);

impl Position<'_> {
    pub(crate) fn entry(self) -> Entry {
        Entry(self.0.load(Ordering::Relaxed))
    }

    /// Points the entry to another record of the same key; under the exclusive latch.
    pub(crate) fn point_to(self, tag: Tag, address: u64) {
        debug_assert_ne!(self.entry(), Entry::EMPTY, "INV-LOG-1: an entry moves with its record");
        self.0.store(self.entry().at(tag, address).0, Ordering::Release);
    }

    /// Makes the entry cooler by one. Another change meanwhile wins.
    pub(crate) fn cool(self) {
        let seen = self.entry();
        if seen.heat() > 0 {
            self.set_heat(seen, seen.heat() - 1);
        }
    }

    /// Gives the entry that was seen here another heat. Another change meanwhile wins.
    pub(crate) fn set_heat(self, seen: Entry, heat: u64) {
        debug_assert_ne!(seen, Entry::EMPTY, "INV-INDEX-3: nothing is warm where nothing is");
        written::write(SharedLine::Heat);
        let _ = self.0.compare_exchange(seen.0, seen.with_heat(heat).0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Index {
    /// Calls `found` for each entry that may be the key's until it returns something. For optimistic readers: the caller
    /// validates. Returns `Err` if the walk itself noticed that the bucket changed.
    #[inline]
    pub(crate) fn find_optimistic<'i, R>(
        &'i self,
        entered: Entered,
        mut found: impl FnMut(Position<'i>, Entry) -> Option<R>,
    ) -> Result<Option<R>, ()> {
        let Entered { number, seen, tag } = entered;
        let bucket = self.bucket(number);
        let short = seen.has_short_tags();
        let mut matches = bucket.matches(tag, short);
        while matches != 0 {
            let cell = &bucket.entries[matches.trailing_zeros() as usize % ENTRIES];
            let entry = Entry(cell.load(Ordering::Acquire));
            if entry != Entry::EMPTY
                && let Some(result) = found(Position(cell), entry)
            {
                return Ok(Some(result));
            }
            matches &= matches - 1;
        }
        let mut next = seen.overflow();
        let mut hops = 0;
        while next != 0 {
            let overflow = self.overflow.at(next);
            for cell in &overflow.entries {
                let entry = Entry(cell.load(Ordering::Acquire));
                if entry.matches(tag, short)
                    && let Some(result) = found(Position(cell), entry)
                {
                    return Ok(Some(result));
                }
            }
            next = overflow.next.load(Ordering::Relaxed) as u32;
            hops += 1;
            if hops % HOPS_BETWEEN_CHECKS == 0 && !bucket.validate(seen) {
                return Err(());
            }
        }
        Ok(None)
    }

    /// As [`Index::find_optimistic`], for holders of the bucket's latch.
    #[inline(always)]
    pub(crate) fn find_latched<'i, R>(
        &'i self,
        number: u64,
        hash: u64,
        mut found: impl FnMut(u64) -> Option<R>,
    ) -> Option<(Position<'i>, R)> {
        let bucket = self.bucket(number);
        debug_assert!(bucket.is_latched(), "INV-LATCH-1: a look without validation is made under the latch");
        debug_assert_eq!(Self::bucket_of(hash, self.len()), number, "INV-INDEX-1: a latched bucket keeps its keys");
        let tag = self.tag(number, hash);
        let seen = bucket.glance();
        let short = seen.has_short_tags();
        let mut matches = bucket.matches(tag, short);
        while matches != 0 {
            let at = matches.trailing_zeros();
            let entry = bucket.entry(at);
            if entry != Entry::EMPTY
                && let Some(result) = found(entry.address())
            {
                return Some((Position(&bucket.entries[at as usize]), result));
            }
            matches &= matches - 1;
        }
        let mut next = seen.overflow();
        while next != 0 {
            let overflow = self.overflow.at(next);
            for cell in &overflow.entries {
                let entry = Entry(cell.load(Ordering::Relaxed));
                if entry.matches(tag, short)
                    && let Some(result) = found(entry.address())
                {
                    return Some((Position(cell), result));
                }
            }
            next = overflow.next.load(Ordering::Relaxed) as u32;
        }
        None
    }

    /// Adds an entry; under the exclusive latch. Fails when there is no overflow bucket left.
    #[inline]
    pub(crate) fn insert(&self, number: u64, entry: Entry) -> Result<(), ()> {
        let bucket = self.bucket(number);
        debug_assert!(bucket.is_latched_exclusively(), "INV-LATCH-1: entries change under the latch");
        debug_assert_ne!(entry.address(), 0, "INV-INDEX-3: an entry is not empty");
        match bucket.entries.iter().find(|cell| cell.load(Ordering::Relaxed) == 0) {
            Some(cell) => {
                debug_assert_eq!(bucket.overflow(), 0, "INV-INDEX-3: no overflow while the own line has room");
                cell.store(entry.0, Ordering::Release);
                Ok(())
            }
            None => self.insert_overflow(bucket, entry),
        }
    }

    fn insert_overflow(&self, bucket: &Bucket, entry: Entry) -> Result<(), ()> {
        debug_assert!(
            bucket.entries.iter().all(|cell| cell.load(Ordering::Relaxed) != 0),
            "INV-INDEX-3: no overflow while the own line has room"
        );
        let first = bucket.overflow();
        if first != 0
            && let Some(cell) = self.overflow.at(first).entries.iter().find(|cell| cell.load(Ordering::Relaxed) == 0)
        {
            cell.store(entry.0, Ordering::Release);
            return Ok(());
        }
        // All overflow buckets behind the front one are full (INV-INDEX-3), so a new one goes in front.
        if failing::allocation_fails() {
            return Err(());
        }
        let number = self.overflow.allocate().ok_or(())?;
        debug_assert_ne!(number, first, "INV-INDEX-3: a chain has no circle");
        let overflow = self.overflow.at(number);
        debug_assert!(
            overflow.entries.iter().all(|cell| cell.load(Ordering::Relaxed) == 0),
            "INV-INDEX-3: a bucket of the overflow area is given back empty"
        );
        overflow.next.store(u64::from(first), Ordering::Relaxed);
        overflow.entries[0].store(entry.0, Ordering::Release);
        point("links an overflow bucket");
        bucket.set_overflow(number);
        Ok(())
    }

    /// Removes the entry at `position`; under the exclusive latch.
    pub(crate) fn remove(&self, number: u64, position: Position<'_>) {
        let bucket = self.bucket(number);
        debug_assert!(bucket.is_latched_exclusively(), "INV-LATCH-1: entries change under the latch");
        debug_assert_ne!(position.entry(), Entry::EMPTY, "INV-INDEX-3: what is removed is there");
        let first = bucket.overflow();
        if first == 0 {
            let last = (0..ENTRIES).rev().map(|at| &bucket.entries[at]).find(|cell| cell.load(Ordering::Relaxed) != 0);
            Self::fill_hole(position, last);
            return;
        }
        // Only the front overflow bucket may be partly empty, so the last entry to move is there.
        let overflow = self.overflow.at(first);
        let last = (0..OVERFLOW_ENTRIES).rev().map(|at| &overflow.entries[at]).find(|cell| cell.load(Ordering::Relaxed) != 0);
        Self::fill_hole(position, last);
        if overflow.entries[0].load(Ordering::Relaxed) == 0 {
            bucket.set_overflow(overflow.next.load(Ordering::Relaxed) as u32);
            self.overflow.release(first);
        }
    }

    fn fill_hole(position: Position<'_>, last: Option<&AtomicU64>) {
        debug_assert!(last.is_some(), "INV-INDEX-3: the place that has room holds an entry until it is given back");
        if let Some(last) = last {
            position.0.store(last.load(Ordering::Relaxed), Ordering::Release);
            point("moved an entry");
            last.store(0, Ordering::Release);
        }
    }

    /// The first position in a latched bucket whose record's address satisfies `wanted`.
    pub(crate) fn find_any(&self, number: u64, wanted: impl Fn(u64) -> bool) -> Option<Position<'_>> {
        let check = |cell: &&AtomicU64| {
            let entry = Entry(cell.load(Ordering::Relaxed));
            entry != Entry::EMPTY && wanted(entry.address())
        };
        let bucket = self.bucket(number);
        debug_assert!(bucket.is_latched(), "INV-LATCH-1: a place stays an entry's while the bucket is latched");
        debug_assert!(number < self.len(), "INV-INDEX-1: a bucket within the count");
        if let Some(cell) = bucket.entries.iter().find(check) {
            return Some(Position(cell));
        }
        let mut next = bucket.overflow();
        while next != 0 {
            let overflow = self.overflow.at(next);
            if let Some(cell) = overflow.entries.iter().find(check) {
                return Some(Position(cell));
            }
            next = overflow.next.load(Ordering::Relaxed) as u32;
        }
        None
    }

    /// Makes all entries of a bucket cooler by one. Needs no latch: each entry is changed by compare-and-exchange.
    pub(crate) fn cool_bucket(&self, number: u64) {
        self.visit(number, |position, _| position.cool());
    }

    /// Visits the entries of a bucket without a latch: each is, or was a moment ago, an entry of the index.
    pub(crate) fn visit<'i>(&'i self, number: u64, mut each: impl FnMut(Position<'i>, Entry)) {
        let bucket = self.bucket(number);
        let mut look = |cell: &'i AtomicU64| {
            let entry = Entry(cell.load(Ordering::Acquire));
            if entry != Entry::EMPTY {
                each(Position(cell), entry);
            }
        };
        bucket.entries.iter().for_each(&mut look);
        let mut next = bucket.overflow();
        let mut hops = 0;
        // Links may be recycled meanwhile; the bound keeps the walk from running in circles.
        while next != 0 && hops < HOPS_BETWEEN_CHECKS {
            let overflow = self.overflow.at(next);
            overflow.entries.iter().for_each(&mut look);
            next = overflow.next.load(Ordering::Relaxed) as u32;
            hops += 1;
        }
    }

    /// How full each link of a latched bucket's chain is, the front first.
    pub(crate) fn overflow_counts(&self, number: u64) -> impl Iterator<Item = Link> {
        let mut next = self.bucket(number).overflow();
        std::iter::from_fn(move || {
            (next != 0).then(|| {
                let overflow = self.overflow.at(next);
                next = overflow.next.load(Ordering::Relaxed) as u32;
                Link {
                    used: overflow.entries.iter().filter(|cell| cell.load(Ordering::Relaxed) != 0).count(),
                    places: OVERFLOW_ENTRIES,
                }
            })
        })
    }

    /// Asks the cache for a bucket.
    pub(crate) fn prefetch_bucket(&self, number: u64) {
        super::prefetch(std::ptr::from_ref(self.bucket(number)).cast());
    }

    /// A bucket's own entries, for a reader that holds no latch and only wants to know what it will need: they may change at any
    /// time. Asks the cache for those in the overflow area.
    pub(crate) fn hints(&self, number: u64) -> impl Iterator<Item = Entry> {
        let bucket = self.bucket(number);
        let overflow = bucket.glance().overflow();
        if overflow != 0 {
            super::prefetch(std::ptr::from_ref(self.overflow.at(overflow)).cast());
        }
        bucket.entries.iter().map(|cell| Entry(cell.load(Ordering::Relaxed))).filter(|entry| *entry != Entry::EMPTY)
    }

    /// Appends all entries of a latched (or quiescent) bucket to `target`.
    pub(crate) fn collect(&self, number: u64, target: &mut Vec<Entry>) {
        let bucket = self.bucket(number);
        let mut push = |cell: &AtomicU64| {
            let entry = Entry(cell.load(Ordering::Acquire));
            if entry != Entry::EMPTY {
                target.push(entry);
            }
        };
        bucket.entries.iter().for_each(&mut push);
        let mut next = bucket.overflow();
        let mut hops = 0;
        // An unlatched caller (prefetching) may follow recycled links; the bound keeps it from running in circles.
        while next != 0 && hops < 1 << 16 {
            let overflow = self.overflow.at(next);
            overflow.entries.iter().for_each(&mut push);
            next = overflow.next.load(Ordering::Relaxed) as u32;
            hops += 1;
        }
    }

    /// Empties a bucket under its exclusive latch, giving its overflow buckets back.
    pub(super) fn clear(&self, number: u64) {
        let bucket = self.bucket(number);
        bucket.entries.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
        let mut next = bucket.overflow();
        bucket.set_overflow(0);
        while next != 0 {
            let overflow = self.overflow.at(next);
            let after = overflow.next.load(Ordering::Relaxed) as u32;
            overflow.entries.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
            self.overflow.release(next);
            next = after;
        }
    }
}
