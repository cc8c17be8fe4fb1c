//! What damage a start has met, where it is to begin without what is damaged.

use almandine_io::sync::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Damaged pages, and keys that were lost.
#[derive(Default)]
pub(crate) struct Forgiven {
    on: AtomicBool,
    pages: Mutex<BTreeSet<u64>>,
    keys: AtomicU64,
}

impl Forgiven {
    fn set(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a store begins without what is damaged.
    pub(crate) fn turn_on(&self) {
        debug_assert!(self.set().is_empty(), "INV-RETAIN-1: what is damaged refuses a start, unless that was said before");
        self.on.store(true, Ordering::Relaxed);
    }

    /// Notes that a page is damaged; false: that is not forgiven.
    #[must_use]
    pub(crate) fn page(&self, page: u64) -> bool {
        let is_on = self.on.load(Ordering::Relaxed);
        if is_on {
            self.set().insert(page);
        }
        is_on
    }

    /// Counts a lost key; false: that is not forgiven.
    #[must_use]
    pub(crate) fn key(&self) -> bool {
        let is_on = self.on.load(Ordering::Relaxed);
        self.keys.fetch_add(u64::from(is_on), Ordering::Relaxed);
        is_on
    }

    /// Whether a page was found damaged.
    pub(crate) fn has(&self, page: u64) -> bool {
        self.on.load(Ordering::Relaxed) && self.set().contains(&page)
    }

    pub(crate) fn pages(&self) -> Vec<u64> {
        self.set().iter().copied().collect()
    }

    /// How many pages are damaged, and how many keys are lost.
    pub(crate) fn lost(&self) -> (u64, u64) {
        let lost = (self.set().len() as u64, self.keys.load(Ordering::Relaxed));
        debug_assert!(lost == (0, 0) || self.on.load(Ordering::Relaxed), "INV-RETAIN-1: what is damaged refuses a start");
        lost
    }
}
