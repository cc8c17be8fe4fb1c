//! Watched keys: which clients must hear that a key has changed since they looked at it (WATCH).
//!
//! A table by hash. A client enters a key and then looks at it under its latch; whoever changes the key later does so under that latch and marks
//! the client's [`Watcher`] (INV-CHANGE-1). While nobody watches, a change costs one load; while somebody does, one load more, and a mutex only
//! where a watched key has the same place in the table.
//!
//! What only the store removes (expired and evicted keys) marks nobody: a transaction looks again whether the keys that were there still are.

use crate::{Accessor, Keyspace, Missing};
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

    fn mark(&self) {
        self.changed.store(true, Ordering::Release);
    }
}

/// One key as one client watches it.
#[derive(Debug)]
struct Entry {
    namespace: u16,
    key: Box<[u8]>,
    watcher: Arc<Watcher>,
}

#[derive(Debug, Default)]
struct Place {
    /// Entries of this place.
    count: AtomicUsize,
    entries: Mutex<Vec<Entry>>,
}

impl Place {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, entry: Entry) {
        let mut entries = self.entries();
        entries.push(entry);
        self.count.store(entries.len(), Ordering::SeqCst);
    }

    /// Takes out the entries of which `goes` says so.
    fn take(&self, goes: impl FnMut(&mut Entry) -> bool) -> Vec<Entry> {
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
    watched: Mutex<usize>,
    places: Box<[Place]>,
}

impl Watches {
    pub(crate) fn new() -> Self {
        Self { watched: Mutex::new(0), places: (0..PLACES).map(|_| Place::default()).collect() }
    }

    fn place(&self, hash: u64) -> &Place {
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

impl Keyspace {
    /// Counts watched keys up or down; while there are any, changes are told.
    fn count_watched(&self, more: isize) {
        let mut watched = self.watches.watched.lock().unwrap_or_else(PoisonError::into_inner);
        *watched = watched.saturating_add_signed(more);
        self.store.tell_changes(*watched > 0);
    }
}

impl Accessor {
    /// Begins to watch a key for a client, and returns whether the key exists. From now on, `watcher` hears of every change.
    ///
    /// # Errors
    /// When a record has to be read first; then nothing is watched.
    pub fn watch(&mut self, db: u16, key: &[u8], watcher: &Arc<Watcher>) -> Result<bool, Missing> {
        let key = self.key(db, key);
        if self.has_cold() {
            self.require(key, almandine_store::Need::Read)?;
        }
        let keyspace = Arc::clone(&self.keyspace);
        keyspace.count_watched(1);
        let entry = Entry { namespace: key.namespace, key: key.bytes.into(), watcher: Arc::clone(watcher) };
        keyspace.watches.place(key.hash).add(entry);
        // Behind the entry, and under the latch: a change that this look misses finds the entry.
        let mut reader = self.reader(db);
        reader.lock_shared(&[(db, key.bytes)]);
        let exists = reader.peek(key);
        drop(reader);
        if let Err(missing) = self.check_met() {
            self.unwatch(db, key.bytes, watcher);
            return Err(missing);
        }
        Ok(exists)
    }

    /// Ends watching a key for a client, within a batch.
    pub fn unwatch(&mut self, db: u16, key: &[u8], watcher: &Arc<Watcher>) {
        let key = self.key(db, key);
        let is_it = |entry: &mut Entry| Arc::ptr_eq(&entry.watcher, watcher) && *entry.key == *key.bytes;
        let taken = self.keyspace.watches.place(key.hash).take(is_it);
        debug_assert!(taken.len() <= 1, "a client watches a key once");
        self.keyspace.count_watched(-taken.len().cast_signed());
    }

    /// Changes the namespaces of databases. Marks the clients that watch keys of them that exist, in their own database or, where these are
    /// `swapped`, in any of them; the entries get the namespaces that the databases have after `remap`. The caller is alone.
    pub(crate) fn remap_watched(&mut self, dbs: &[u16], swapped: bool, remap: impl FnOnce(&Keyspace)) {
        debug_assert!(self.is_alone(), "INV-NS-2: what databases hold changes for everybody at once");
        let keyspace = Arc::clone(&self.keyspace);
        let before: Vec<(u16, u16)> = dbs.iter().map(|&db| (keyspace.namespace(db), db)).collect();
        let mut moved = Vec::new();
        if *keyspace.watches.watched.lock().unwrap_or_else(PoisonError::into_inner) > 0 {
            for place in keyspace.watches.places.iter().filter(|place| place.count.load(Ordering::Relaxed) != 0) {
                moved.extend(place.take(|entry| before.iter().any(|&(namespace, _)| namespace == entry.namespace)));
            }
        }
        let db_of = |entry: &Entry| before.iter().find(|known| known.0 == entry.namespace).map_or(0, |known| known.1);
        let mut exists = |entry: &Entry| {
            let own = db_of(entry);
            dbs.iter().filter(|&&db| swapped || db == own).any(|&db| self.may_exist(db, &entry.key))
        };
        let existed: Vec<bool> = moved.iter().map(&mut exists).collect();
        // Outside the epoch: it may wait until namespaces are free.
        self.outside_epoch(|| remap(&keyspace));
        for (mut entry, existed) in moved.into_iter().zip(existed) {
            if existed {
                entry.watcher.mark();
            }
            let db = db_of(&entry);
            entry.namespace = keyspace.namespace(db);
            let hash = self.key(db, &entry.key).hash;
            keyspace.watches.place(hash).add(entry);
        }
    }

    /// Whether a key exists, or may: what is on the device is not asked.
    fn may_exist(&mut self, db: u16, key: &[u8]) -> bool {
        let mut reader = self.reader(db);
        let key = reader.key(key);
        let exists = reader.peek(key);
        drop(reader);
        let met = self.check_met();
        self.forget_wanted();
        exists || met.is_err()
    }
}
