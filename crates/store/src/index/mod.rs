//! The hash index: one entry per key, in cache-line buckets addressed by linear hashing.
//!
//! The buckets lie in one reserved range of memory. With `N` buckets in use, `2^L <= N < 2^(L+1)`, a hash belongs to bucket
//! `hash mod 2^(L+1)` if that is below `N`, else to `hash mod 2^L`. Growing by one bucket splits bucket `N - 2^L`; shrinking
//! merges the last bucket back. So the index grows and shrinks a cache line at a time, in the background, with no second
//! table and no pause, and its size follows the number of keys at about the same bytes per key (ADR 13).
//!
//! A reader or writer computes its bucket from `N`, enters the bucket (version or latch), and then checks `N` again: a split
//! that moved its key holds the bucket's latch while it publishes the new `N` (INV-INDEX-1).

pub(crate) mod bucket;
mod chain;
pub(crate) mod entry;
mod glance;
pub(crate) mod latch;
mod long_unit;
#[cfg(all(test, loom))]
mod model;
mod overflow;
mod resize;
mod table;

use crate::sync::{AtomicU64, Ordering};
use almandine_base::{step, steps};
use almandine_io::memory::HUGE_PAGE_BYTES;
use bucket::{Bucket, Seen};
use entry::{Entry, Tag};
use latch::SharedLatch;
use long_unit::LongUnit;
use overflow::OverflowArea;
use std::io;
use table::Table;

pub(crate) use chain::Position;
pub(crate) use glance::Glance;
pub(crate) use latch::ExclusiveLatch;
pub(crate) use resize::{Resize, Resized};

/// Fewest buckets; a power of two. A page has room for 32 times as many; the small pages of a simulation make a small index, so
/// that it grows and shrinks with a few hundred keys.
pub(crate) const BUCKETS_MIN: u64 = if cfg!(loom) { 1 } else { (HUGE_PAGE_BYTES / size_of::<Bucket>() / 32) as u64 };

/// Keys per bucket above which the index grows. With overflow buckets this costs about 12.7 bytes per key at any size.
pub(crate) const KEYS_PER_BUCKET: u64 = 6;

/// The hash index.
pub(crate) struct Index {
    memory: Table<Bucket>,
    overflow: OverflowArea,
    buckets: AtomicU64,
    buckets_max: u64,
    /// Sessions that hold latches and wait for another one out of order.
    out_of_order: AtomicU64,
    pub(crate) long_unit: LongUnit,
}

impl Index {
    /// An index that can grow to `buckets_max`.
    ///
    /// # Errors
    /// When the address space cannot be reserved.
    pub(crate) fn new(buckets_initial: u64, buckets_max: u64) -> io::Result<Self> {
        let buckets_max = buckets_max.max(BUCKETS_MIN);
        let memory = Table::<Bucket>::new(buckets_max)?;
        let buckets_max = memory.len();
        debug_assert!(buckets_max >= BUCKETS_MIN, "the index has room for the fewest buckets");
        let buckets = buckets_initial.clamp(BUCKETS_MIN, buckets_max);
        Ok(Self {
            memory,
            overflow: OverflowArea::new(buckets_max / 2)?,
            buckets: AtomicU64::new(buckets),
            buckets_max,
            out_of_order: AtomicU64::new(0),
            long_unit: LongUnit::default(),
        })
    }

    /// Buckets in use.
    pub(crate) fn len(&self) -> u64 {
        self.buckets.load(Ordering::Acquire)
    }

    /// Bytes of memory that buckets and overflow buckets take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.len() * size_of::<Bucket>() as u64 + self.overflow.memory_bytes()
    }

    #[inline]
    pub(crate) fn bucket_of(hash: u64, buckets: u64) -> u64 {
        debug_assert_ne!(buckets, 0, "there is always a bucket");
        let mask = u64::MAX >> buckets.leading_zeros();
        let wide = hash & mask;
        if wide < buckets { wide } else { wide & (mask >> 1) }
    }

    /// How many low hash bits the keys of a bucket share.
    #[inline]
    pub(crate) fn level(number: u64, buckets: u64) -> u32 {
        debug_assert!(number < buckets, "INV-INDEX-1: a bucket within the count");
        let half_bits = u64::BITS - 1 - buckets.leading_zeros();
        let half = 1u64 << half_bits;
        half_bits + u32::from(number & (half - 1) < buckets - half)
    }

    /// The tag of a hash in the bucket where it belongs, which the caller has latched.
    #[inline]
    pub(crate) fn tag(&self, number: u64, hash: u64) -> Tag {
        debug_assert!(self.bucket(number).is_latched(), "INV-INDEX-1: a bucket keeps its level while it is latched");
        Tag::new(hash, Self::level(number, self.buckets.load(Ordering::Relaxed)))
    }

    #[inline]
    pub(crate) fn bucket(&self, number: u64) -> &Bucket {
        steps::take(1);
        // Bucket numbers come from `bucket_of` with a published bucket count, which never exceeds `buckets_max`.
        self.memory.at(number)
    }

    /// Asks the cache for the bucket of `hash`.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(std::ptr::from_ref(self.bucket(Self::bucket_of(hash, self.buckets.load(Ordering::Relaxed)))).cast());
    }

    /// Where an unvalidated look at the bucket's own entries finds `hash`; a hint for prefetching.
    #[inline]
    pub(crate) fn peek(&self, hash: u64) -> Peek {
        let buckets = self.buckets.load(Ordering::Relaxed);
        debug_assert!(buckets <= self.buckets_max, "INV-INDEX-1: the count stays within what is reserved");
        let number = Self::bucket_of(hash, buckets);
        let bucket = self.bucket(number);
        let seen = bucket.glance();
        let matches = bucket.matches(Tag::new(hash, Self::level(number, buckets)), seen.has_short_tags());
        if matches != 0 {
            let entry = bucket.entry(matches.trailing_zeros());
            return if entry == Entry::EMPTY { Peek::Nothing } else { Peek::Record(entry.address()) };
        }
        match seen.overflow() {
            0 => Peek::Nothing,
            overflow => {
                prefetch(std::ptr::from_ref(self.overflow.at(overflow)).cast());
                Peek::Overflow
            }
        }
    }

    /// As [`Index::peek`], in the first overflow bucket, which has been asked for by that.
    pub(crate) fn peek_overflow(&self, hash: u64) -> Option<u64> {
        let buckets = self.buckets.load(Ordering::Relaxed);
        let number = Self::bucket_of(hash, buckets);
        let seen = self.bucket(number).glance();
        if seen.overflow() == 0 {
            return None;
        }
        let tag = Tag::new(hash, Self::level(number, buckets));
        let entries = self.overflow.at(seen.overflow()).entries.iter().map(|cell| Entry(cell.load(Ordering::Relaxed)));
        entries.into_iter().find(|entry| entry.matches(tag, seen.has_short_tags())).map(Entry::address)
    }

    /// Enters the bucket of `hash` as an optimistic reader.
    #[inline]
    pub(crate) fn begin_read(&self, hash: u64) -> Entered {
        loop {
            if let Some(entered) = self.begin_read_unless(hash, |_| false) {
                return entered;
            }
        }
    }

    /// As [`Index::begin_read`], unless a writer is in the bucket and `gives_up` says so then of its number.
    #[inline]
    pub(crate) fn begin_read_unless(&self, hash: u64, gives_up: impl Fn(u64) -> bool) -> Option<Entered> {
        loop {
            let number = Self::bucket_of(hash, self.buckets.load(Ordering::Acquire));
            let seen = self.bucket(number).begin_read_unless(|| gives_up(number))?;
            // The count as it is now: a split before `seen` is in it, a later one fails the validation.
            let buckets = self.buckets.load(Ordering::Acquire);
            if Self::bucket_of(hash, buckets) == number {
                debug_assert!(number < buckets, "INV-INDEX-1: a bucket within the count");
                return Some(Entered { number, seen, tag: Tag::new(hash, Self::level(number, buckets)) });
            }
        }
    }

    /// Latches the bucket of `hash` exclusively. Nothing else may be latched by the caller.
    #[inline]
    pub(crate) fn lock_exclusive(&self, hash: u64) -> ExclusiveLatch<'_> {
        loop {
            let latch = self.latch(Self::bucket_of(hash, self.len()));
            // A bucket that split meanwhile may have taken the key elsewhere; one that is latched cannot split any more
            // (INV-INDEX-1).
            if Self::bucket_of(hash, self.len()) == latch.number() {
                debug_assert_eq!(Self::bucket_of(hash, self.len()), latch.number(), "INV-INDEX-1: a latched bucket keeps its keys");
                return latch;
            }
        }
    }

    /// As [`Index::lock_exclusive`], of a bucket that `hash` belonged to a moment ago, unless another holder has to be waited for
    /// and `gives_up` says so then of the bucket's number.
    #[inline]
    pub(crate) fn lock_exclusive_unless(
        &self,
        hash: u64,
        expected: Option<u64>,
        gives_up: impl Fn(u64) -> bool,
    ) -> Option<ExclusiveLatch<'_>> {
        let mut number = expected.unwrap_or_else(|| Self::bucket_of(hash, self.len()));
        loop {
            let latch = ExclusiveLatch::take_unless(self.bucket(number), number, || gives_up(number))?;
            let now = Self::bucket_of(hash, self.len());
            if now == number {
                debug_assert_eq!(latch.number(), now, "INV-INDEX-1: a latched bucket keeps its keys");
                return Some(latch);
            }
            number = now;
        }
    }

    /// As [`Index::lock_shared`], unless another holder has to be waited for and `gives_up` says so then of the bucket's number.
    #[inline]
    pub(crate) fn lock_shared_unless(&self, hash: u64, gives_up: impl Fn(u64) -> bool) -> Option<SharedLatch<'_>> {
        loop {
            let number = Self::bucket_of(hash, self.len());
            let latch = SharedLatch::take_unless(self.bucket(number), number, || gives_up(number))?;
            if Self::bucket_of(hash, self.len()) == number {
                debug_assert_eq!(latch.number(), number, "INV-LATCH-1: a guard proves a hold");
                return Some(latch);
            }
        }
    }

    /// Takes a shared hold of the bucket of `hash`. Nothing else may be latched by the caller.
    #[inline]
    pub(crate) fn lock_shared(&self, hash: u64) -> SharedLatch<'_> {
        loop {
            let latch = self.latch_shared(Self::bucket_of(hash, self.len()));
            if Self::bucket_of(hash, self.len()) == latch.number() {
                return latch;
            }
        }
    }

    /// Latches a bucket exclusively.
    #[inline]
    pub(crate) fn latch(&self, number: u64) -> ExclusiveLatch<'_> {
        ExclusiveLatch::take(self.bucket(number), number)
    }

    /// Takes a shared hold of a bucket.
    #[inline]
    pub(crate) fn latch_shared(&self, number: u64) -> SharedLatch<'_> {
        SharedLatch::take(self.bucket(number), number)
    }

    /// Latches a bucket for a plan, which may hold others, lower ones. None: another holder had to be waited for, and `gives_up`
    /// has said so then. It must release all of its own (INV-LATCH-3).
    #[inline]
    pub(crate) fn latch_planned(&self, number: u64, gives_up: impl FnMut() -> bool) -> Option<ExclusiveLatch<'_>> {
        ExclusiveLatch::take_unless(self.bucket(number), number, gives_up)
    }

    /// As [`Index::latch_planned`], shared.
    #[inline]
    pub(crate) fn latch_planned_shared(&self, number: u64, gives_up: impl FnMut() -> bool) -> Option<SharedLatch<'_>> {
        SharedLatch::take_unless(self.bucket(number), number, gives_up)
    }

    /// Whether the server, which holds latches, waits for another one out of order, perhaps for one of the caller's: that must
    /// release all of its own then and begin anew (INV-LATCH-3).
    pub(crate) fn gives_way(&self) -> bool {
        step!(GiveWay, self.is_out_of_order(), else false)
    }

    /// Latches the bucket of `hash` for the server, which holds others in no order; unless `gives_up` says so while another holder
    /// has to be waited for.
    pub(crate) fn latch_out_of_order(&self, hash: u64, gives_up: impl FnMut() -> bool) -> Option<ExclusiveLatch<'_>> {
        // For a free one no session gives way, and what all sessions read is not written.
        let at_once = self.latch_unless(hash, || true);
        if at_once.is_some() {
            return at_once;
        }
        self.out_of_order.fetch_add(1, Ordering::SeqCst);
        let latch = self.latch_unless(hash, gives_up);
        let waiting = self.out_of_order.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(waiting > 0, "INV-LATCH-3: who waits out of order is counted meanwhile");
        latch
    }

    fn latch_unless(&self, hash: u64, mut gives_up: impl FnMut() -> bool) -> Option<ExclusiveLatch<'_>> {
        loop {
            let number = Self::bucket_of(hash, self.len());
            match ExclusiveLatch::take_unless(self.bucket(number), number, &mut gives_up) {
                Some(latch) if Self::bucket_of(hash, self.len()) != number => drop(latch),
                latch => return latch,
            }
        }
    }

    /// Whether the server, which holds latches, waits for another one out of order.
    pub(crate) fn is_out_of_order(&self) -> bool {
        self.out_of_order.load(Ordering::Relaxed) != 0
    }

    /// Takes a shared hold of a glance's bucket, if that is possible at once and the bucket is as it was seen.
    #[inline]
    pub(crate) fn latch_glanced(&self, glance: &Glance) -> Option<SharedLatch<'_>> {
        debug_assert!(glance.number < self.buckets_max, "INV-INDEX-1: a bucket within what is reserved");
        let bucket = self.bucket(glance.number);
        // Only a session that holds no other latch, or waits for none meanwhile, may hold this one (INV-LATCH-3).
        SharedLatch::attempt(bucket, glance.number).filter(|_| bucket.is_version_of(glance.seen))
    }

    /// Releases a bucket whose latch was kept.
    #[inline]
    pub(crate) fn unlatch(&self, number: u64, exclusive: bool) {
        if exclusive {
            self.bucket(number).unlock_exclusive();
        } else {
            self.bucket(number).unlock_shared();
        }
    }
}

/// A bucket that an optimistic reader has entered, and the tag to look for in it.
#[derive(Clone, Copy)]
pub(crate) struct Entered {
    pub(crate) number: u64,
    pub(crate) seen: Seen,
    pub(crate) tag: Tag,
}

/// What a look at a bucket found.
pub(crate) enum Peek {
    /// An entry with the tag.
    Record(u64),
    /// No such entry here; there is an overflow bucket, which is on its way to the cache.
    Overflow,
    /// No such entry.
    Nothing,
}

/// Asks the processor to fetch the cache line at `pointer`, whatever is there.
#[inline]
pub fn prefetch(pointer: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect on memory contents and does not fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer.cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = pointer;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_bucket_share_as_many_bits_as_its_level_says() {
        for buckets in 1..200u64 {
            for hash in 0..1000u64 {
                let number = Index::bucket_of(hash, buckets);
                let level = Index::level(number, buckets);
                assert_eq!(hash & ((1 << level) - 1), number & ((1 << level) - 1));
                // One bit less would let in keys of another bucket, one more would shut own keys out.
                assert_eq!(Index::bucket_of(hash ^ (1 << level), buckets), number);
                assert!(level == 0 || Index::bucket_of(hash ^ (1 << (level - 1)), buckets) != number);
            }
        }
    }

    #[test]
    fn every_hash_has_a_bucket_and_growth_splits_one() {
        for buckets in 1..200u64 {
            for hash in 0..1000u64 {
                let before = Index::bucket_of(hash, buckets);
                let after = Index::bucket_of(hash, buckets + 1);
                assert!(before < buckets);
                if before != after {
                    let low = 1 << (u64::BITS - 1 - buckets.leading_zeros());
                    assert_eq!((before, after), (buckets - low, buckets));
                }
            }
        }
    }
}
