//! Counters: written by one thread each, without locked instructions, and summed by any thread.

use crate::namespace::NAMESPACES;
use almandine_io::memory::Reservation;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One thread's counters.
        #[derive(Default)]
        pub(crate) struct ThreadCounters { $($(#[$doc])* pub(crate) $name: AtomicI64,)* }

        /// Sums over all threads.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals { $($(#[$doc])* pub $name: i64,)* }

        impl Counters {
            /// Sums of all threads' counters. Not one instant, but every change is in it once its command was answered.
            pub(crate) fn totals(&self) -> Totals {
                let mut totals = Totals::default();
                for thread in &self.threads {
                    $(totals.$name += thread.$name.load(Ordering::Relaxed);)*
                }
                totals
            }
        }
    };
}

counters! {
    /// Words handed out in chunks and not yet released with their page.
    taken_words,
    /// Words of dead records in pages that are not yet released.
    free_words,
    /// Bytes of heap values and keys.
    heap_bytes,
    /// Records removed because they had expired.
    expired,
    /// Records evicted because the memory budget was used up.
    evicted,
    /// Changes of keys, as Redis counts them.
    changes,
    /// Updates done in place.
    updates_in_place,
    /// Updates that wrote a new record.
    updates_copied,
    /// Allocations served from freed space.
    revivified,
    /// Reads answered from cached copies of records on the device.
    cache_hits,
    /// Optimistic reads that had to start over.
    read_retries,
    /// Live records, all namespaces.
    live,
    /// Live records with an expiry, all namespaces.
    volatile,
}

/// All counters of a store.
pub(crate) struct Counters {
    pub(crate) threads: Box<[CachePadded<ThreadCounters>]>,
    namespaces: Reservation,
}

/// Adds to a counter that only this thread writes.
#[inline]
pub(crate) fn add(counter: &AtomicI64, amount: i64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn new(threads: usize) -> io::Result<Self> {
        Ok(Self {
            threads: (0..threads).map(|_| CachePadded::default()).collect(),
            namespaces: Reservation::small_pages(threads * NAMESPACES * size_of::<[AtomicI64; 2]>())?,
        })
    }

    /// A thread's counters of a namespace: live records, and those of them with an expiry.
    #[inline]
    pub(crate) fn namespace(&self, thread: usize, namespace: u16) -> &[AtomicI64; 2] {
        debug_assert!(thread < self.threads.len(), "each thread has counters of its own");
        let index = thread * NAMESPACES + usize::from(namespace);
        // SAFETY: the reservation holds `threads * NAMESPACES` zeroed pairs, and zero is a valid counter.
        unsafe { &*self.namespaces.base().as_ptr().cast::<[AtomicI64; 2]>().add(index) }
    }

    /// Live records of a namespace, and those of them with an expiry.
    pub(crate) fn namespace_totals(&self, namespace: u16) -> (u64, u64) {
        let mut sums = [0i64; 2];
        for thread in 0..self.threads.len() {
            let pair = self.namespace(thread, namespace);
            sums[0] += pair[0].load(Ordering::Acquire);
            sums[1] += pair[1].load(Ordering::Acquire);
        }
        (sums[0].max(0) as u64, sums[1].max(0) as u64)
    }

    /// Clears a namespace's counters in all threads. Only when no thread can use the namespace any more.
    pub(crate) fn clear_namespace(&self, namespace: u16) {
        for thread in 0..self.threads.len() {
            self.namespace(thread, namespace).iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
    }
}
