//! Overflow buckets: the few entries that do not fit their bucket's cache line.
//!
//! They come from one reserved range, are numbered from 1, and are recycled through a lock-free stack of free numbers. The
//! memory is never unmapped while the index lives, so a late optimistic reader that follows a stale link reads another
//! bucket's entries at worst, and its validation fails.

use super::bucket::OverflowBucket;
use super::table::Table;
use crate::sync::{AtomicU64, Ordering};
use almandine_base::points::point;
use crossbeam_utils::CachePadded;
use std::io;

/// Overflow buckets that are made resident together: one huge page.
const RESIDENT_STEP: u64 = 1 << 16;
/// Fresh resident ones that are kept ready: what a quarter of a million new keys need.
const RESIDENT_MIN: u64 = 1 << 14;

pub(super) struct OverflowArea {
    memory: Table<OverflowBucket>,
    buckets_max: u64,
    /// Overflow buckets ever used; the next fresh one is this plus one.
    used: CachePadded<AtomicU64>,
    /// Head of the free stack: change count in the upper half against ABA, number in the lower.
    free: CachePadded<AtomicU64>,
    /// How many are free, at least: one is counted before it is pushed, so that the count never falls below zero.
    free_count: CachePadded<AtomicU64>,
    /// Overflow buckets up to this number have been made resident. Written by the background.
    resident: AtomicU64,
}

impl OverflowArea {
    pub(super) fn new(buckets_max: u64) -> io::Result<Self> {
        let buckets_max = buckets_max.clamp(1024, (1 << super::bucket::OVERFLOW_BITS) - 2);
        let memory = Table::<OverflowBucket>::new(buckets_max + 1)?;
        let buckets_max = memory.len() - 1;
        debug_assert!(buckets_max < 1 << super::bucket::OVERFLOW_BITS, "a link reaches every bucket");
        let zero = || CachePadded::new(AtomicU64::new(0));
        Ok(Self { memory, buckets_max, used: zero(), free: zero(), free_count: zero(), resident: AtomicU64::new(0) })
    }

    #[inline]
    pub(super) fn at(&self, number: u32) -> &OverflowBucket {
        debug_assert_ne!(number, 0, "INV-INDEX-3: zero ends a chain");
        self.memory.at(u64::from(number))
    }

    /// An empty overflow bucket, or none when the area is used up.
    pub(super) fn allocate(&self) -> Option<u32> {
        let mut head = self.free.load(Ordering::Acquire);
        while head as u32 != 0 {
            let next = self.at(head as u32).next.load(Ordering::Relaxed) as u32;
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(next);
            point("takes an overflow bucket");
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.free_count.fetch_sub(1, Ordering::Relaxed);
                    self.at(head as u32).next.store(0, Ordering::Relaxed);
                    return Some(head as u32);
                }
                Err(current) => head = current,
            }
        }
        let number = self.used.fetch_add(1, Ordering::Relaxed) + 1;
        if number > self.buckets_max {
            self.used.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        u32::try_from(number).ok()
    }

    /// Takes back an overflow bucket whose entries are empty.
    pub(super) fn release(&self, number: u32) {
        debug_assert!(u64::from(number) <= self.buckets_max, "what comes back was given out");
        self.free_count.fetch_add(1, Ordering::Relaxed);
        let cell = self.at(number);
        debug_assert!(
            cell.entries.iter().all(|entry| entry.load(Ordering::Relaxed) == 0),
            "INV-INDEX-2: a bucket is given back when no entry is in it"
        );
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            cell.next.store(u64::from(head as u32), Ordering::Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(number);
            point("gives an overflow bucket back");
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(current) => head = current,
            }
        }
    }

    /// Makes the memory of the next overflow buckets resident when few resident ones are left, so that no session waits for the
    /// system under a latch. Background only.
    pub(super) fn prefault_ahead(&self) {
        let resident = self.resident.load(Ordering::Relaxed);
        if resident < self.buckets_max && self.used.load(Ordering::Relaxed) + RESIDENT_MIN > resident {
            self.memory.prefault(resident, resident + RESIDENT_STEP);
            self.resident.store(resident + RESIDENT_STEP, Ordering::Relaxed);
        }
    }

    /// Overflow buckets that can still be allocated.
    pub(super) fn headroom(&self) -> u64 {
        self.buckets_max.saturating_sub(self.used.load(Ordering::Relaxed)) + self.free_count.load(Ordering::Relaxed)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed) * size_of::<OverflowBucket>() as u64
    }
}
