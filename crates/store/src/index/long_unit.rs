//! The latches of a unit of work that takes long: no session need wait for one.
//!
//! Such a unit goes on in a thread of its own, with its latches. It says so here, with the numbers of their buckets, before it
//! leaves the thread that began it, and takes them back before it releases the first of them. A session that waits for a latch
//! looks here: if it has something else to do it gives up, and begins anew when the unit has ended. There is one such unit at a
//! time.

use std::collections::HashSet;

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// The buckets of the unit.
#[derive(Default)]
pub(crate) struct LongUnit {
    /// How many there are. Looked at without the mutex.
    count: AtomicU64,
    buckets: Mutex<HashSet<u64>>,
}

impl LongUnit {
    /// It holds these buckets from now on.
    pub(crate) fn hold(&self, numbers: impl Iterator<Item = u64>) {
        let mut buckets = self.buckets();
        debug_assert_eq!(self.count.load(Ordering::Relaxed), buckets.len() as u64, "INV-LATCH-5: the count is that of the set");
        buckets.extend(numbers);
        self.count.store(buckets.len() as u64, Ordering::Relaxed);
    }

    /// It is about to release them.
    pub(crate) fn end(&self) {
        let mut buckets = self.buckets();
        debug_assert_eq!(self.count.load(Ordering::Relaxed), buckets.len() as u64, "INV-LATCH-5: the count is that of the set");
        *buckets = HashSet::new();
        self.count.store(0, Ordering::Relaxed);
    }

    /// Whether it holds a bucket.
    #[inline]
    pub(crate) fn holds(&self, number: u64) -> bool {
        self.is_any() && self.buckets().contains(&number)
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    #[cfg(not(loom))]
    fn buckets(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.buckets.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[cfg(loom)]
    fn buckets(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.buckets.lock().expect("loom's threads do not panic with it")
    }
}
