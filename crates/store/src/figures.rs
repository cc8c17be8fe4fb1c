//! What a store holds and has done, in numbers.

use crate::counters::Totals;
use crate::memory::MemoryUse;
use crate::progress::Work;
use crate::store::Store;
use crate::tier::Tier;
use crate::tier::statistics::TierStatistics;
use std::sync::atomic::{AtomicU64, Ordering};

impl Store {
    /// What the store holds and has done, in numbers.
    #[must_use]
    pub fn figures(&self) -> Figures<'_> {
        Figures { store: self }
    }
}

/// What the store holds and has done, in numbers.
#[derive(Clone, Copy)]
pub struct Figures<'s> {
    store: &'s Store,
}

impl Figures<'_> {
    /// Bytes that are kept for a copy of one moment: of what sessions have changed before its walk came.
    #[must_use]
    pub fn copying_bytes(self) -> u64 {
        self.store.inner.consumers.copying.bytes()
    }

    /// Live records of a namespace, and those of them with an expiry. Exact.
    #[must_use]
    pub fn namespace_len(self, namespace: u16) -> (u64, u64) {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        self.store.inner.counters.namespace_totals(namespace)
    }

    /// Sums of the sessions' counters.
    #[must_use]
    pub fn totals(self) -> Totals {
        self.store.inner.counters.totals()
    }

    /// What the background has done so far.
    #[must_use]
    pub fn work(self) -> Work {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let progress = &self.store.inner.background.progress;
        let (values_waiting, values_freed) = self.store.inner.background.garbage.values();
        // What waits is read first: it is counted as swept before it waits no more.
        let namespaces_waiting = self.store.inner.namespaces.waiting();
        Work {
            buckets_split: read(&progress.buckets_split),
            buckets_merged: read(&progress.buckets_merged),
            pages_evacuated: read(&progress.pages_evacuated),
            records_moved: read(&progress.records_moved),
            namespaces_swept: progress.namespaces_swept.load(Ordering::Acquire),
            buckets_swept: read(&progress.buckets_swept),
            namespaces_waiting,
            values_freed,
            values_waiting,
        }
    }

    /// Memory by use.
    #[must_use]
    pub fn memory(self) -> MemoryUse {
        self.store.inner.memory()
    }

    /// Bytes that count against the budget.
    #[must_use]
    pub fn used_bytes(self) -> u64 {
        self.memory().used_bytes()
    }

    /// Buckets of the index.
    #[must_use]
    pub fn index_buckets(self) -> u64 {
        let buckets = self.store.inner.index.len();
        debug_assert_ne!(buckets, 0, "every hash leads to a bucket");
        buckets
    }

    /// The memory budget in bytes; 0: none.
    #[must_use]
    pub fn budget_bytes(self) -> u64 {
        self.store.inner.budget_bytes()
    }

    /// What the tier below memory has done; nothing without a device.
    #[must_use]
    pub fn tier(self) -> Option<TierStatistics> {
        self.store.inner.tier.as_ref().map(Tier::statistics)
    }

    /// Whether all addresses of the log have been used, after 2 PiB of writes: then writes are refused until a restart.
    #[must_use]
    pub fn is_used_up(self) -> bool {
        self.store.inner.log.is_used_up()
    }
}
