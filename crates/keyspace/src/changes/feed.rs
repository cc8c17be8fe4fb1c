//! Changes of keys, as the store notes them, with databases in place of namespaces.

use crate::access::namespaces::Namespaces;
use crate::changes::listeners::ChangedKey;
use crate::{Accessor, Keyspace};
use almandine_store::{Change, Consumer, Effect};
use std::sync::Arc;

impl Keyspace {
    /// Has the store tell of what it notes and no accessor takes. Once, when it was opened.
    pub(crate) fn listen(&self) {
        let (namespaces, listeners) = (Arc::clone(&self.namespaces), Arc::clone(&self.listeners));
        self.store.listeners().on_changes(move |changes| {
            if let Some(listener) = listeners.effects.get() {
                listener(changes);
            }
            if let Some(listener) = listeners.keys.get() {
                listener(&changes.untold().filter_map(|change| name(&namespaces, &change)).collect::<Vec<_>>());
            }
        });
    }
}

/// The calls that get what a keyspace tells of.
#[derive(Clone, Copy)]
pub struct Listeners<'k> {
    pub(crate) keyspace: &'k Keyspace,
}

impl Keyspace {
    /// The calls that get what this keyspace tells of.
    #[must_use]
    pub fn listeners(&self) -> Listeners<'_> {
        Listeners { keyspace: self }
    }
}

impl Listeners<'_> {
    /// Sets what is called, by a background thread, when commands that found [`Keyspace::is_stalled`] may go on.
    pub fn on_stall_end(self, call: impl Fn() + Send + Sync + 'static) {
        self.keyspace.store.listeners().on_stall_end(call);
    }

    /// Installs a listener for the changes that no accessor takes ([`ChangeFeed::drain`]), above all of keys that expire or are
    /// evicted in the background. It is called soon after they were made, on any thread; the changes of one session come in their
    /// order, and keys of a database that was emptied meanwhile are left out. A second call changes nothing.
    pub fn on_changes(self, listener: impl Fn(&[ChangedKey<'_>]) + Send + Sync + 'static) {
        let _ = self.keyspace.listeners.keys.set(Box::new(listener));
    }

    /// Whether changes are noted from now on: each of a key that is found from now on.
    pub fn note_changes(self, note: bool) {
        self.keyspace.store.listeners().tell_changes(Consumer::Keys, note);
    }
}

impl Accessor {
    /// What the accessor has changed, and which events are told.
    #[inline]
    pub fn changes(&mut self) -> ChangeFeed<'_> {
        ChangeFeed { accessor: self }
    }
}

/// What the accessor has changed, and which events are told.
pub struct ChangeFeed<'a> {
    pub(crate) accessor: &'a mut Accessor,
}

impl ChangeFeed<'_> {
    /// Whether the batch has changed anything since [`ChangeFeed::drain`], while changes are noted.
    #[inline]
    #[must_use]
    pub fn any(&mut self) -> bool {
        self.accessor.session.notes().has_changes()
    }

    /// Whether commands that write should wait, because the operation log may have no room for what they do; as long as
    /// [`Keyspace::is_stalled`] would have them wait.
    #[inline]
    #[must_use]
    pub fn lacks_log_room(&mut self) -> bool {
        self.accessor.session.notes().lacks_log_room()
    }

    /// Takes the changes that this accessor has made in its batch, in their order, and the removals that it came upon.
    pub fn drain(&mut self, mut each: impl FnMut(ChangedKey<'_>)) {
        let namespaces = &self.accessor.keyspace.namespaces;
        self.accessor.session.notes().drain_changes(|change| {
            if let Some(changed) = name(namespaces, &change) {
                each(changed);
            }
        });
    }
}

impl Accessor {
    /// Adds to the count of changes.
    pub(crate) fn count_changes(&mut self, more: i64) {
        self.session.notes().count_changes(more);
    }
}

/// A change with its database; none when that was emptied.
fn name<'c>(namespaces: &Namespaces, change: &Change<'c>) -> Option<ChangedKey<'c>> {
    let Change { namespace, key, removal, .. } = *change;
    if matches!(change.effect, Some(Effect::Database(_) | Effect::Lost)) {
        return None;
    }
    Some(ChangedKey { db: namespaces.database(namespace)?, key, removal })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Put};
    use almandine_store::RemovalReason;
    use std::sync::Mutex;

    type Told = Vec<(u16, Vec<u8>, Option<RemovalReason>)>;

    fn keyspace() -> Arc<Keyspace> {
        let store = almandine_store::Options { background: false, ..Default::default() };
        Keyspace::open(Options { store, ..Options::default() }).unwrap()
    }

    fn put(accessor: &mut Accessor, db: u16, key: &[u8], expiry_ms: Option<i64>) {
        let mut writer = accessor.writer(db);
        let key = writer.key(key);
        writer.upsert(key, b"", Put { expiry_ms, ..Put::default() }).unwrap();
    }

    fn drained(accessor: &mut Accessor) -> Told {
        let mut told = Vec::new();
        accessor.changes().drain(|changed| told.push((changed.db, changed.key.to_vec(), changed.removal)));
        assert!(!accessor.changes().any());
        told
    }

    #[test]
    fn an_accessor_takes_its_changes_and_what_it_came_upon() {
        let keyspace = keyspace();
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(1_000);
        put(&mut accessor, 0, b"unheard", None);
        assert!(!accessor.changes().any());
        keyspace.listeners().note_changes(true);
        put(&mut accessor, 3, b"a", Some(2_000));
        put(&mut accessor, 0, b"b", None);
        assert_eq!(drained(&mut accessor), [(3, b"a".to_vec(), None), (0, b"b".to_vec(), None)]);
        accessor.end_batch();
        accessor.begin_batch(2_000);
        let mut writer = accessor.writer(3);
        let key = writer.key(b"a");
        assert_eq!(writer.delete(key), Ok(false));
        drop(writer);
        put(&mut accessor, 3, b"a", None);
        let expired = Some(RemovalReason::Expired);
        assert_eq!(drained(&mut accessor), [(3, b"a".to_vec(), expired), (3, b"a".to_vec(), None)]);
        keyspace.listeners().note_changes(false);
        put(&mut accessor, 3, b"a", None);
        assert!(!accessor.changes().any());
        accessor.end_batch();
    }

    #[test]
    fn what_nobody_takes_comes_with_its_database() {
        let keyspace = keyspace();
        let told: Arc<Mutex<Told>> = Arc::default();
        let ear = Arc::clone(&told);
        let owned = |changed: &ChangedKey<'_>| (changed.db, changed.key.to_vec(), changed.removal);
        keyspace.listeners().on_changes(move |changes| ear.lock().unwrap().extend(changes.iter().map(owned)));
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(1_000);
        for db in [3, 0, 7] {
            put(&mut accessor, db, b"k", Some(2_000));
        }
        keyspace.listeners().note_changes(true);
        // Before a database is emptied, for keys of it have no name then.
        put(&mut accessor, 7, b"k", None);
        accessor.flush(&[7]);
        accessor.end_batch();
        assert_eq!(std::mem::take(&mut *told.lock().unwrap()), [(7, b"k".to_vec(), None)]);
        keyspace.store.maintain(2_000);
        let mut told = told.lock().unwrap();
        told.sort_unstable_by_key(|(db, ..)| *db);
        let expired = |db| (db, b"k".to_vec(), Some(RemovalReason::Expired));
        assert_eq!(told[..], [expired(0), expired(3)]);
    }
}
