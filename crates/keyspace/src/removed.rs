//! Keys that were removed without a command, as the store reports them, with databases in place of namespaces.

use crate::Keyspace;
use crate::databases::settled;
use almandine_store::{Removal, RemovalReason, Removals};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A key that has expired, or gave way because memory was scarce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedKey {
    /// The database that it was in; where it was swapped meanwhile, the one that its place has now.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// Why it was removed.
    pub reason: RemovalReason,
}

impl Keyspace {
    /// Installs who is notified of removed keys while [`Keyspace::notify_removals`] says so, on a background thread and soon after; a second call
    /// changes nothing. Those of one key come in their order; `None` instead of keys says that any may have been removed. Keys of a
    /// database that was emptied meanwhile are left out.
    pub fn on_removed(&self, listener: impl Fn(Option<Vec<RemovedKey>>) + Send + Sync + 'static) {
        let namespaces = Arc::clone(&self.namespaces);
        self.store.on_removals(move |removals| {
            listener(match removals {
                Removals::These(removals) => Some(keys(&namespaces, removals)),
                Removals::Missed => None,
            });
        });
    }

    /// Whether removed keys are reported from now on: each that is found from now on.
    pub fn notify_removals(&self, notify: bool) {
        self.store.notify_removals(notify);
    }
}

fn keys(namespaces: &[AtomicU32], removals: Vec<Removal>) -> Vec<RemovedKey> {
    // There may be thousands of databases, but most keys are in the one of the key before.
    let mut last = 0;
    let is = |db: usize, namespace| settled(&namespaces[db]) == namespace;
    let named = removals.into_iter().filter_map(|Removal { namespace, key, reason }| {
        if !is(last, namespace) {
            let find = || (0..namespaces.len()).find(|&db| is(db, namespace));
            // Twice, because it may have been swapped from one behind to one before.
            last = find().or_else(find)?;
        }
        Some(RemovedKey { db: last as u16, key, reason })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Put};
    use std::sync::Mutex;

    #[test]
    fn removed_keys_come_with_their_databases() {
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&told);
        keyspace.on_removed(move |keys| ear.lock().unwrap().extend(keys.expect("few")));
        keyspace.notify_removals(true);
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(1_000);
        for db in [3, 0, 7] {
            let mut writer = accessor.writer(db);
            let key = writer.key(b"k");
            writer.upsert(key, b"", Put { expiry_ms: Some(2_000), ..Put::default() }).unwrap();
        }
        accessor.end_batch();
        accessor.begin_batch(2_000);
        for db in [3, 0, 7] {
            let mut writer = accessor.writer(db);
            let key = writer.key(b"k");
            assert!(!writer.delete(key));
        }
        // Emptying a database takes its removals along: who hears of one has heard of the other.
        let mut writer = accessor.writer(7);
        let key = writer.key(b"other");
        writer.upsert(key, b"", Put::default()).unwrap();
        drop(writer);
        accessor.flush(&[7]);
        accessor.end_batch();
        keyspace.store.maintain(2_000);
        let told = told.lock().unwrap();
        let removed = |db| RemovedKey { db, key: (*b"k").into(), reason: RemovalReason::Expired };
        assert_eq!(told[..], [removed(3), removed(0)]);
    }
}
