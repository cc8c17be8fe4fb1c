//! Watching keys, and what becomes of watched keys when databases get other contents.

use crate::watch::{Entry, Watcher};
use crate::{Accessor, Key, Keyspace, Missing};
use almandine_store::Consumer;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl Keyspace {
    /// Counts watched keys up or down; while there are any, changes are told.
    fn count_watched(&self, more: isize) {
        let mut watched = self.watches.watched.lock().unwrap_or_else(PoisonError::into_inner);
        *watched = watched.saturating_add_signed(more);
        self.store.tell_changes(Consumer::Watch, *watched > 0);
    }
}

impl Accessor {
    /// Begins to watch a key for a client, and returns whether the key exists. From now on, `watcher` hears of every change.
    ///
    /// A key that is past its time is removed first: a worker whose batch has begun before that time would change it, which would be a change
    /// of a key that did not exist.
    ///
    /// # Errors
    /// When a record has to be read first; then nothing is watched.
    pub fn watch(&mut self, db: u16, key: &[u8], watcher: &Arc<Watcher>) -> Result<bool, Missing> {
        let key = self.key(db, key);
        if self.has_cold() {
            self.require(key, almandine_store::Need::Read)?;
        }
        let exists = self.enter_watch(db, key, watcher)?;
        if exists || !self.session.has_met_expired() || self.session.holds_expiry() {
            return Ok(exists);
        }
        self.unwatch(db, key.bytes, watcher);
        self.session.remove_met_expired(key);
        self.enter_watch(db, key, watcher)
    }

    /// Enters a key among those that are watched and looks whether it exists.
    fn enter_watch(&mut self, db: u16, key: Key<'_>, watcher: &Arc<Watcher>) -> Result<bool, Missing> {
        let keyspace = Arc::clone(&self.keyspace);
        keyspace.count_watched(1);
        let entry = Entry { namespace: key.namespace, key: key.bytes.into(), watcher: Arc::clone(watcher) };
        keyspace.watches.place(key.hash).add(entry);
        self.session.forget_met_expired();
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
    pub(crate) fn may_exist(&mut self, db: u16, key: &[u8]) -> bool {
        let mut reader = self.reader(db);
        let key = reader.key(key);
        let exists = reader.peek(key);
        drop(reader);
        let met = self.check_met();
        self.forget_wanted();
        exists || met.is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Put};
    use std::thread;

    fn keyspace() -> Arc<Keyspace> {
        let store = almandine_store::Options { background: false, ..Default::default() };
        Keyspace::open(Options { store, ..Options::default() }).unwrap()
    }

    fn get(accessor: &mut Accessor, db: u16, key: &[u8]) -> Option<u64> {
        let mut reader = accessor.reader(db);
        let key = reader.key(key);
        let value = reader.read(key)?;
        Some(u64::from_le_bytes((*value).try_into().unwrap()))
    }

    fn begin_unit(accessor: &mut Accessor, keys: &[(u16, &[u8], bool)]) {
        accessor.plan_unit();
        for &(db, key, write) in keys {
            accessor.plan_key(db, key, write);
        }
        accessor.begin_unit();
    }

    fn set(accessor: &mut Accessor, db: u16, key: &[u8], value: u64) {
        let mut writer = accessor.writer(db);
        let key = writer.key(key);
        writer.upsert(key, &value.to_le_bytes(), Put::default()).unwrap();
    }

    /// INV-CHANGE-1: who finds no mark under the latch has read the last value. The keys share places of the table.
    #[test]
    fn a_change_is_told_before_anybody_sees_the_key() {
        const ROUNDS: usize = 20_000;
        let keyspace = keyspace();
        let count = |keyspace: &Arc<Keyspace>| {
            let mut accessor = keyspace.accessor().unwrap();
            let (mut done, key) = (0u64, b"counter");
            for _ in 0..ROUNDS {
                let watcher = Arc::new(Watcher::default());
                accessor.begin_batch(0);
                accessor.watch(0, key, &watcher).unwrap();
                let value = get(&mut accessor, 0, key).unwrap_or(0);
                accessor.end_batch();
                accessor.begin_batch(0);
                begin_unit(&mut accessor, &[(0, &key[..], true)]);
                if !watcher.has_changed() {
                    set(&mut accessor, 0, key, value + 1);
                    done += 1;
                }
                accessor.end_unit();
                accessor.unwatch(0, key, &watcher);
                accessor.end_batch();
            }
            done
        };
        let done: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| count(&keyspace))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(0);
        assert_eq!(get(&mut accessor, 0, b"counter"), Some(done));
        accessor.end_batch();
        assert!(done >= ROUNDS as u64 && *keyspace.watches.watched.lock().unwrap() == 0);
    }

    /// The clock of a batch stands still: one that began before a key's time changes it after others have seen that it is gone.
    #[test]
    fn what_had_expired_when_it_was_watched_does_not_change() {
        let keyspace = keyspace();
        let (mut behind, mut ahead) = (keyspace.accessor().unwrap(), keyspace.accessor().unwrap());
        behind.begin_batch(900);
        let mut writer = behind.writer(0);
        for key in [&b"short"[..], b"long"] {
            let expiry_ms = Some(if key == b"short" { 950 } else { 2000 });
            let key = writer.key(key);
            writer.upsert(key, b"v", Put { expiry_ms, ..Put::default() }).unwrap();
        }
        drop(writer);
        for (key, exists) in [(&b"short"[..], false), (b"long", true)] {
            let watcher = Arc::new(Watcher::default());
            ahead.begin_batch(1000);
            assert_eq!(ahead.watch(0, key, &watcher), Ok(exists));
            ahead.end_batch();
            let mut writer = behind.writer(0);
            let deleted = writer.key(key);
            assert_eq!((writer.delete(deleted), watcher.has_changed()), (exists, exists));
            drop(writer);
            ahead.begin_batch(1000);
            ahead.unwatch(0, key, &watcher);
            ahead.end_batch();
        }
        behind.end_batch();
        assert_eq!(*keyspace.watches.watched.lock().unwrap(), 0);
    }

    /// INV-NS-2: two databases are emptied and swapped at once, for units and for batches.
    #[test]
    fn databases_change_for_everybody_at_once() {
        const ROUNDS: u64 = 3_000;
        let keyspace = keyspace();
        thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let mut accessor = keyspace.accessor().unwrap();
                for round in 0..ROUNDS {
                    accessor.begin_batch(0);
                    match round % 3 {
                        0 => drop(accessor.flush(&[1, 2])),
                        1 => accessor.swap(1, 2),
                        _ => {
                            begin_unit(&mut accessor, &[(1, b"k", true), (2, b"k", true)]);
                            set(&mut accessor, 1, b"k", round);
                            set(&mut accessor, 2, b"k", round);
                            accessor.end_unit();
                        }
                    }
                    accessor.end_batch();
                    keyspace.store.maintain(0);
                }
            });
            let mut accessor = keyspace.accessor().unwrap();
            while !changing.is_finished() {
                accessor.begin_batch(0);
                begin_unit(&mut accessor, &[(1, b"k", false), (2, b"k", false)]);
                assert_eq!(get(&mut accessor, 1, b"k"), get(&mut accessor, 2, b"k"));
                accessor.end_unit();
                accessor.end_batch();
            }
        });
    }

    #[test]
    fn watched_keys_stay_with_their_database() {
        let keyspace = keyspace();
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(0);
        set(&mut accessor, 1, b"there", 1);
        let watchers: Vec<Arc<Watcher>> = (0..3).map(|_| Arc::new(Watcher::default())).collect();
        assert_eq!(accessor.watch(1, b"there", &watchers[0]), Ok(true));
        assert_eq!(accessor.watch(1, b"nowhere", &watchers[1]), Ok(false));
        assert_eq!(accessor.watch(2, b"there", &watchers[2]), Ok(false));
        let changed = |watchers: &[Arc<Watcher>]| watchers.iter().map(|watcher| watcher.has_changed()).collect::<Vec<_>>();
        accessor.flush(&[1]);
        assert_eq!(changed(&watchers), [true, false, false]);
        // The key of the emptied database is watched still; a swap changes only what exists.
        accessor.swap(1, 2);
        assert_eq!(changed(&watchers), [true, false, false]);
        set(&mut accessor, 1, b"nowhere", 1);
        assert_eq!(changed(&watchers), [true, true, false]);
        set(&mut accessor, 1, b"there", 1);
        accessor.swap(2, 1);
        assert_eq!(changed(&watchers), [true, true, true]);
        for ((db, key), watcher) in [(1, &b"there"[..]), (1, b"nowhere"), (2, b"there")].into_iter().zip(&watchers) {
            accessor.unwatch(db, key, watcher);
        }
        assert_eq!(*keyspace.watches.watched.lock().unwrap(), 0);
        accessor.end_batch();
    }
}
