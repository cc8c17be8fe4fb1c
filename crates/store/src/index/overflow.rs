//! Overflow buckets: the few entries that do not fit their bucket's cache line.
//!
//! They come from one reserved range, are numbered from 1, and are recycled through a lock-free stack of free numbers. The
//! memory is never unmapped while the index lives, so a late optimistic reader that follows a stale link reads another
//! bucket's entries at worst, and its validation fails.

use super::bucket::OverflowBucket;
use super::table::Table;
use crate::sync::{AtomicU64, Ordering};
use std::io;

pub(super) struct OverflowArea {
    memory: Table<OverflowBucket>,
    buckets_max: u64,
    /// Overflow buckets ever used; the next fresh one is this plus one.
    used: AtomicU64,
    /// Head of the free stack: change count in the upper half against ABA, number in the lower.
    free: AtomicU64,
    free_count: AtomicU64,
}

impl OverflowArea {
    pub(super) fn new(buckets_max: u64) -> io::Result<Self> {
        let buckets_max = buckets_max.clamp(1024, (1 << super::bucket::OVERFLOW_BITS) - 2);
        let memory = Table::<OverflowBucket>::new(buckets_max + 1)?;
        let buckets_max = memory.len() - 1;
        let zero = || AtomicU64::new(0);
        Ok(Self { memory, buckets_max, used: zero(), free: zero(), free_count: zero() })
    }

    #[inline]
    pub(super) fn at(&self, number: u32) -> &OverflowBucket {
        self.memory.at(u64::from(number))
    }

    /// An empty overflow bucket, or none when the area is used up.
    pub(super) fn allocate(&self) -> Option<u32> {
        let mut head = self.free.load(Ordering::Acquire);
        while head as u32 != 0 {
            let next = self.at(head as u32).next.load(Ordering::Relaxed) as u32;
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(next);
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
        let cell = self.at(number);
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            cell.next.store(u64::from(head as u32), Ordering::Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(number);
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(current) => head = current,
            }
        }
        self.free_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Overflow buckets that can still be allocated.
    pub(super) fn headroom(&self) -> u64 {
        self.buckets_max.saturating_sub(self.used.load(Ordering::Relaxed)) + self.free_count.load(Ordering::Relaxed)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed) * size_of::<OverflowBucket>() as u64
    }
}
