//! Watched keys: which clients must hear that a key has changed since they looked at it (WATCH).
//!
//! A table by hash. A client enters a key and then looks at it under its latch; whoever changes the key later does so under that latch and marks
//! the client's [`Watcher`] (INV-CHANGE-1). While nobody watches, a change costs one load; while somebody does, one load more, and a mutex only
//! where a watched key has the same place in the table.
//!
//! What only the store removes (expired and evicted keys) marks nobody: a transaction looks again whether the keys that were there still are.

use almandine_store::Key;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places of the table. Two keys of one place cost a comparison.
const PLACES: usize = 1 << 12;

/// Whether any key that one client watches has changed.
#[derive(Debug, Default)]
pub struct Watcher {
    changed: AtomicBool,
}

impl Watcher {
    /// Whether a watched key has changed.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    pub(crate) fn mark(&self) {
        self.changed.store(true, Ordering::Release);
    }
}

/// One key as one client watches it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) namespace: u16,
    pub(crate) key: Box<[u8]>,
    pub(crate) watcher: Arc<Watcher>,
}

#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Entries of this place.
    pub(crate) count: AtomicUsize,
    entries: Mutex<Vec<Entry>>,
}

impl Place {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, entry: Entry) {
        let mut entries = self.entries();
        entries.push(entry);
        self.count.store(entries.len(), Ordering::SeqCst);
    }

    /// Takes out the entries of which `goes` says so.
    pub(crate) fn take(&self, goes: impl FnMut(&mut Entry) -> bool) -> Vec<Entry> {
        let mut entries = self.entries();
        let taken = entries.extract_if(.., goes).collect();
        self.count.store(entries.len(), Ordering::SeqCst);
        taken
    }
}

/// All watched keys.
#[derive(Debug)]
pub(crate) struct Watches {
    /// Keys of all clients together.
    pub(crate) watched: Mutex<usize>,
    pub(crate) places: Box<[Place]>,
}

impl Watches {
    pub(crate) fn new() -> Self {
        Self { watched: Mutex::new(0), places: (0..PLACES).map(|_| Place::default()).collect() }
    }

    pub(crate) fn place(&self, hash: u64) -> &Place {
        // The low bits choose the bucket of the index; these are as good.
        &self.places[(hash >> 32) as usize % PLACES]
    }

    /// Marks those who watch a key that changes. Its bucket is latched.
    pub(crate) fn changed(&self, key: &Key<'_>) {
        let place = self.place(key.hash);
        if place.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let entries = place.entries();
        let concerned = entries.iter().filter(|entry| entry.namespace == key.namespace && *entry.key == *key.bytes);
        concerned.for_each(|entry| entry.watcher.mark());
    }
}
