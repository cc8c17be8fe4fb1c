//! Watching keys, and what becomes of watched keys when databases get other contents.

use crate::watch::table::Watcher;
use crate::{Accessor, Key, Keyspace, Missing};
use almandine_base::steps;
use almandine_store::Consumer;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

/// Keys of which a client's watch ends within one epoch: memory that others free waits for the end of the longest.
const LEFT_AT_ONCE: usize = 1024;

/// What came of watching a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The client has watched it before.
    Before,
    /// It is watched from now on, and exists.
    Existing,
    /// It is watched from now on, and does not exist.
    Absent,
}

impl Keyspace {
    /// Counts watched keys up or down; while there are any, changes are told. Only the first and the last touch the flag, which
    /// every write reads.
    fn count_watched(&self, more: isize) {
        let mut watched = self.watches.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *watched;
        *watched = before.saturating_add_signed(more);
        if (before > 0) != (*watched > 0) {
            self.store.listeners().tell_changes(Consumer::Watch, *watched > 0);
        }
    }
}

impl Accessor {
    /// The keys that clients watch.
    #[inline]
    pub fn watching(&mut self) -> WatchedKeys<'_> {
        WatchedKeys { accessor: self }
    }
}

/// The keys that clients watch.
pub struct WatchedKeys<'a> {
    pub(crate) accessor: &'a mut Accessor,
}

impl WatchedKeys<'_> {
    /// Begins to watch a key for a client, unless it watches it already. From now on, `watcher` hears of every change.
    ///
    /// A key that is past its time is removed first: a worker whose batch has begun before that time would change it, which
    /// would be a change of a key that did not exist.
    ///
    /// # Errors
    /// When a record has to be read first; then nothing is watched.
    pub fn watch(&mut self, db: u16, key: &[u8], watcher: &Arc<Watcher>) -> Result<Watched, Missing> {
        let key = self.accessor.key(db, key);
        let watched = self.accessor.enter_watch(db, key, watcher)?;
        if watched != Watched::Absent
            || !self.accessor.session.notes().has_met_expired()
            || self.accessor.session.notes().holds_expiry()
        {
            return Ok(watched);
        }
        self.accessor.leave_watch(key, watcher);
        self.accessor.session.notes().remove_met_expired(key);
        self.accessor.enter_watch(db, key, watcher)
    }

    /// As [`WatchedKeys::watch`], of a key that the unit of work has latched, which removes nothing.
    ///
    /// # Errors
    /// When a record has to be read first; then it is not watched.
    pub fn watch_latched(&mut self, db: u16, key: &[u8], watcher: &Arc<Watcher>) -> Result<Watched, Missing> {
        debug_assert!(self.accessor.in_unit(), "INV-CHANGE-1: a change behind the look is told");
        let key = self.accessor.key(db, key);
        self.accessor.enter_watch(db, key, watcher)
    }

    /// Ends watching keys for a client, within a batch; outside of a unit of work the epoch is left between some keys and the
    /// next ones.
    pub fn unwatch<'k>(&mut self, keys: impl Iterator<Item = (u16, &'k [u8])>, watcher: &Arc<Watcher>) {
        let mut left = 0usize;
        for (number, (db, key)) in keys.enumerate() {
            if number > 0 && number.is_multiple_of(LEFT_AT_ONCE) {
                self.accessor.renew_epoch();
            }
            let key = self.accessor.key(db, key);
            left += usize::from(self.accessor.keyspace.watches.leave(&key, watcher));
        }
        if left > 0 {
            self.accessor.keyspace.count_watched(-left.cast_signed());
        }
    }
}

impl Accessor {
    /// Enters a key among those that are watched and looks whether it exists.
    fn enter_watch(&mut self, db: u16, key: Key<'_>, watcher: &Arc<Watcher>) -> Result<Watched, Missing> {
        let keyspace = Arc::clone(&self.keyspace);
        // Before it is in the table: a change behind the look below is told.
        keyspace.count_watched(1);
        if !keyspace.watches.enter(&key, watcher) {
            keyspace.count_watched(-1);
            return Ok(Watched::Before);
        }
        self.session.notes().forget_met_expired();
        // Behind the entry, and under the latch: a change that this look misses finds the entry.
        let mut reader = self.reader(db);
        reader.plan().lock_shared(&[(db, key.bytes)]);
        let exists = reader.peek(key);
        drop(reader);
        if exists.is_err() {
            self.leave_watch(key, watcher);
        }
        Ok(if exists? { Watched::Existing } else { Watched::Absent })
    }

    fn leave_watch(&mut self, key: Key<'_>, watcher: &Arc<Watcher>) {
        if self.keyspace.watches.leave(&key, watcher) {
            self.keyspace.count_watched(-1);
        }
    }

    /// Changes the namespaces of databases. Marks the clients that watch keys of them that exist, in their own database or,
    /// where these are `swapped`, in any of them; the entries get the namespaces that the databases have after `remap`. The
    /// caller is alone.
    pub(crate) fn remap_watched(&mut self, dbs: &[u16], swapped: bool, remap: impl FnOnce(&Keyspace)) {
        debug_assert!(self.is_alone(), "INV-NS-2: what databases hold changes for everybody at once");
        let keyspace = Arc::clone(&self.keyspace);
        let before = self.by_namespace(dbs);
        let mut moved = Vec::new();
        if *keyspace.watches.watched.lock().unwrap_or_else(PoisonError::into_inner) > 0 {
            moved = keyspace.watches.take_namespaces(|namespace| before.contains_key(&namespace));
        }
        for (name, watchers) in &moved {
            steps::take(1);
            let own = before.get(&name.namespace);
            let concerned = if swapped { dbs } else { own.map_or(&[][..], std::slice::from_ref) };
            if concerned.iter().any(|&db| self.may_exist(db, &name.key)) {
                watchers.mark();
            }
        }
        // Outside the epoch: it may wait until namespaces are free.
        self.outside_epoch(|| remap(&keyspace));
        for (name, watchers) in moved {
            let Some(&db) = before.get(&name.namespace) else { continue };
            keyspace.watches.put(&self.key(db, &name.key), watchers);
        }
    }

    /// Databases by the namespaces that they have now.
    pub(crate) fn by_namespace(&self, dbs: &[u16]) -> HashMap<u16, u16> {
        dbs.iter().map(|&db| (self.keyspace.namespace(db), db)).collect()
    }

    /// Whether a key exists, or may: what is on the device is not asked.
    pub(crate) fn may_exist(&mut self, db: u16, key: &[u8]) -> bool {
        let mut reader = self.reader(db);
        let key = reader.key(key);
        let exists = reader.peek(key);
        drop(reader);
        self.session.cold().forget_wanted();
        exists.unwrap_or(true)
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
        let value = reader.read(key).unwrap()?;
        Some(u64::from_le_bytes((*value).try_into().unwrap()))
    }

    fn begin_unit(accessor: &mut Accessor, keys: &[(u16, &[u8], bool)]) {
        accessor.unit().plan();
        for &(db, key, write) in keys {
            accessor.unit().add(db, key, write);
        }
        accessor.unit().begin();
    }

    fn set(accessor: &mut Accessor, db: u16, key: &[u8], value: u64) {
        let mut writer = accessor.writer(db);
        let key = writer.key(key);
        writer.upsert(key, &value.to_le_bytes(), Put::default()).unwrap();
    }

    /// INV-CHANGE-1: a client that finds no mark under the latch has read the last value. The keys share places of the table.
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
                accessor.watching().watch(0, key, &watcher).unwrap();
                let value = get(&mut accessor, 0, key).unwrap_or(0);
                accessor.end_batch();
                accessor.begin_batch(0);
                begin_unit(&mut accessor, &[(0, &key[..], true)]);
                if !watcher.has_changed() {
                    set(&mut accessor, 0, key, value + 1);
                    done += 1;
                }
                accessor.unit().end();
                accessor.watching().unwatch([(0, &key[..])].into_iter(), &watcher);
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
            assert_eq!(ahead.watching().watch(0, key, &watcher), Ok(if exists { Watched::Existing } else { Watched::Absent }));
            assert_eq!(ahead.watching().watch(0, key, &watcher), Ok(Watched::Before));
            ahead.end_batch();
            let mut writer = behind.writer(0);
            let deleted = writer.key(key);
            assert_eq!((writer.delete(deleted), watcher.has_changed()), (Ok(exists), exists));
            drop(writer);
            ahead.begin_batch(1000);
            ahead.watching().unwatch([(0, key)].into_iter(), &watcher);
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
                            accessor.unit().end();
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
                accessor.unit().end();
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
        assert_eq!(accessor.watching().watch(1, b"there", &watchers[0]), Ok(Watched::Existing));
        assert_eq!(accessor.watching().watch(1, b"nowhere", &watchers[1]), Ok(Watched::Absent));
        assert_eq!(accessor.watching().watch(2, b"there", &watchers[2]), Ok(Watched::Absent));
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
            accessor.watching().unwatch([(db, key)].into_iter(), watcher);
        }
        assert_eq!(*keyspace.watches.watched.lock().unwrap(), 0);
        accessor.end_batch();
    }
}
