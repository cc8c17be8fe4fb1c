//! Keyspace events: what befalls keys, by class and name, for subscribers of their channels.
//!
//! A handler states its events as it makes its changes; what the store does by itself comes without being stated (INV-EVENT-1).
//! While no event is published, stating one costs the test of a bit that the accessor has taken when its batch began.

use crate::changes::feed::{ChangeFeed, Listeners};
use crate::changes::listeners::KeyEvent;
use crate::{Accessor, Key, Keyspace, Reader};
use almandine_base::events::Classes;
use almandine_store::{Consumer, Event, Kind, RemovalReason, push_element};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Keyspace {
    /// Has the store tell of events. Once, when it was opened.
    pub(crate) fn listen_to_events(&self) {
        let (namespaces, listeners) = (Arc::clone(&self.namespaces), Arc::clone(&self.listeners));
        self.store.listeners().on_events(move |namespace, key, event| {
            let (Some(listener), published) = (listeners.events.get(), listeners.published()) else { return };
            let tell = |class: Classes, name: &'static str, elements| {
                // Keys of a database that was emptied meanwhile have no name.
                if published.any(class)
                    && let Some(db) = namespaces.database(namespace)
                {
                    listener(&KeyEvent { published, db, key, name, elements });
                }
            };
            match event {
                Event::Created => tell(Classes::NEW, "new", &[]),
                Event::Removed(RemovalReason::Expired) => tell(Classes::EXPIRED, "expired", &[]),
                Event::Removed(RemovalReason::Evicted) => tell(Classes::EVICTED, "evicted", &[]),
                // Redis has no event for it.
                Event::Removed(RemovalReason::Damaged) => {}
                Event::ElementsExpired { kind, elements, emptied } => {
                    match kind {
                        Kind::Hash => tell(Classes::HASH, "hexpired", elements),
                        _ => tell(Classes::SORTED_SET, "zexpired", &[]),
                    }
                    if emptied {
                        tell(Classes::GENERIC, "del", &[]);
                    }
                }
                Event::Stated { class, name, elements } => tell(Classes::from_bits(class), name, elements),
            }
        });
    }
}

impl Listeners<'_> {
    /// Installs a listener for events. It is called under the latch of the key, so that the events of a key come in the order of
    /// its changes, and must not use the keyspace. A second call changes nothing.
    pub fn on_events(self, listener: impl Fn(&KeyEvent<'_>) + Send + Sync + 'static) {
        let _ = self.keyspace.listeners.events.set(Box::new(listener));
    }

    /// Which events are told from now on: to commands of batches that begin later, and of what the store does from now on.
    pub fn tell_events(self, classes: Classes) {
        let published = classes.published();
        self.keyspace.listeners.published.store(published.bits(), Ordering::SeqCst);
        self.keyspace.store.listeners().tell_changes(Consumer::Events, !published.is_empty());
    }
}

impl ChangeFeed<'_> {
    /// Looks which events are told. Between commands.
    #[inline]
    pub fn follow_events(&mut self) {
        self.accessor.published = self.accessor.keyspace.listeners.published();
    }

    /// Whether any event of these classes is told.
    #[inline]
    #[must_use]
    pub fn publishes(&self, classes: Classes) -> bool {
        self.accessor.published.any(classes)
    }
}

impl Accessor {
    /// Tells what was stated outside of any command, as where a client is served that has waited.
    #[inline]
    pub(crate) fn tell_left(&mut self) {
        if self.session.notes().has_events() {
            self.session.notes().tell_events(false);
        }
    }
}

impl<'w> Reader<'w> {
    /// The events that are told.
    #[inline]
    #[must_use]
    pub fn published(&self) -> Classes {
        self.accessor.published
    }

    /// Events of the command.
    #[inline]
    pub fn events(&mut self) -> KeyEvents<'_, 'w> {
        KeyEvents { keys: self }
    }
}

/// Events of a command, to be stated while it holds the latches of their keys.
pub struct KeyEvents<'a, 'w> {
    keys: &'a mut Reader<'w>,
}

impl KeyEvents<'_, '_> {
    /// States an event of a key that the command has latched.
    #[cold]
    #[inline(never)]
    pub fn state(self, class: Classes, name: &'static str, key: Key<'_>) {
        let key = self.keys.current(key);
        self.keys.accessor.session.notes().state_event(key.namespace, key.bytes, class.bits(), name, &[]);
    }

    /// As [`KeyEvents::state`], for a key of any database.
    #[cold]
    #[inline(never)]
    pub fn state_in(self, db: u16, class: Classes, name: &'static str, key: &[u8]) {
        let namespace = self.keys.namespace_of(db);
        self.keys.accessor.session.notes().state_event(namespace, key, class.bits(), name, &[]);
    }

    /// As [`KeyEvents::state`], about elements of the key.
    pub fn state_of<'m>(self, class: Classes, name: &'static str, key: Key<'_>, elements: impl Iterator<Item = &'m [u8]>) {
        let key = self.keys.current(key);
        let mut encoded = Vec::new();
        if self.keys.published().names_elements(class) {
            elements.for_each(|element| push_element(&mut encoded, element));
        }
        self.keys.accessor.session.notes().state_event(key.namespace, key.bytes, class.bits(), name, &encoded);
    }

    /// Takes back that keys were made, for a command that states so itself: these keys, in order.
    pub fn take_created(self) -> Vec<Vec<u8>> {
        let mut created = Vec::new();
        self.keys.accessor.session.notes().take_created(|key| created.push(key.to_vec()));
        created
    }

    /// Tells the events of a command, before its latches are released. One that is `void` begins anew and will state its own again.
    #[inline]
    pub fn end(self, void: bool) {
        let in_unit = self.keys.accessor.in_unit();
        let session = &mut self.keys.accessor.session;
        if session.notes().has_events() {
            if !in_unit && session.plan().holds_any() {
                // It has made all its changes, or none but what the store did: they are published before they are told of.
                session.plan().close_unit();
            }
            session.notes().tell_events(void);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Put, Slot};
    use almandine_oplog::{RingOptions, UnitSource};
    use std::sync::Mutex;
    use std::thread;

    type Told = Arc<Mutex<Vec<String>>>;

    fn keyspace(classes: &str) -> (Arc<Keyspace>, Told) {
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
        let told = Told::default();
        let ear = Arc::clone(&told);
        keyspace.listeners().on_events(move |event| {
            ear.lock().unwrap().push(format!("{} {}@{}", event.name, String::from_utf8_lossy(event.key), event.db));
        });
        keyspace.listeners().tell_events(Classes::parse(classes).unwrap());
        (keyspace, told)
    }

    fn put(accessor: &mut Accessor, db: u16, key: &[u8], expiry_ms: Option<i64>) {
        let mut writer = accessor.writer(db);
        let key = writer.key(key);
        writer.upsert(key, b"", Put { expiry_ms, ..Put::default() }).unwrap();
    }

    fn taken(told: &Told) -> Vec<String> {
        std::mem::take(&mut *told.lock().unwrap())
    }

    #[test]
    fn what_the_store_does_is_told_of_the_database_that_has_the_key() {
        let (keyspace, told) = keyspace("KEAn");
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(1_000);
        put(&mut accessor, 3, b"a", Some(2_000));
        put(&mut accessor, 0, b"b", Some(2_000));
        put(&mut accessor, 0, b"b", Some(2_000));
        accessor.end_batch();
        assert_eq!(taken(&told), ["new a@3", "new b@0"]);
        accessor.begin_batch(2_000);
        let mut reader = accessor.reader(3);
        let key = reader.key(b"a");
        assert_eq!(reader.exists(key), Ok(false));
        drop(reader);
        accessor.end_batch();
        assert_eq!(taken(&told), ["expired a@3"]);
        keyspace.maintain(2_000);
        assert_eq!(taken(&told), ["expired b@0"]);
        keyspace.listeners().tell_events(Classes::default());
        accessor.begin_batch(2_000);
        put(&mut accessor, 3, b"a", None);
        accessor.end_batch();
        assert!(taken(&told).is_empty());
    }

    #[test]
    fn a_command_that_begins_anew_states_its_events_once() {
        let (keyspace, told) = keyspace("Egxm");
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(1_000);
        put(&mut accessor, 0, b"k", Some(2_000));
        accessor.end_batch();
        accessor.begin_batch(2_000);
        // What the store did stays when the command begins anew.
        for (void, expected) in [(true, "expired k@0"), (false, "keymiss k@0")] {
            let mut writer = accessor.writer(0);
            let key = writer.key(b"k");
            writer.plan().lock_one(key);
            assert_eq!(writer.exists(key), Ok(false));
            writer.events().state(Classes::MISS, "keymiss", key);
            assert!(taken(&told).is_empty(), "nothing is told before the end");
            writer.events().end(void);
            drop(writer);
            assert_eq!(taken(&told), [expected]);
        }
        accessor.end_batch();
    }

    /// What the store does is told when it is in its ring, in each place that does it: a process that is killed then has it.
    #[test]
    fn with_a_log_what_the_store_does_is_told_when_it_is_published() {
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
        let options = RingOptions { directory: None, bytes: 1 << 16, log: 1, run: 1, boot: 1, first_epoch: 3 };
        let source = Arc::new(Mutex::new(keyspace.log().install(options, 0).unwrap()));
        keyspace.log().turn(true).unwrap();
        let (told, pending) = (Arc::<Mutex<Vec<(String, bool)>>>::default(), Arc::clone(&source));
        let ear = Arc::clone(&told);
        keyspace.listeners().on_events(move |event| {
            ear.lock().unwrap().push((event.name.to_owned(), pending.lock().unwrap().pending_bytes() > 0));
        });
        keyspace.listeners().tell_events(Classes::parse("Egxen").unwrap());
        let mut accessor = keyspace.accessor().unwrap();
        type Meet = fn(&Keyspace, &mut Accessor);
        let meet: [(&str, Meet); 3] = [
            ("a read", |_, accessor| {
                let mut reader = accessor.reader(0);
                let key = reader.key(b"k");
                assert_eq!(reader.exists(key), Ok(false));
            }),
            ("a write", |_, accessor| put(accessor, 0, b"k", Some(9_000))),
            ("the background", |keyspace, accessor| {
                accessor.end_batch();
                keyspace.maintain(2_000);
                accessor.begin_batch(2_000);
            }),
        ];
        for (what, meet) in meet {
            accessor.begin_batch(1_000);
            put(&mut accessor, 0, b"k", Some(2_000));
            accessor.end_batch();
            let mut units = source.lock().unwrap();
            units.raise_epoch();
            let closed = units.closed_epoch();
            units.release(closed);
            assert_eq!(units.pending_bytes(), 0);
            drop(units);
            taken_with(&told);
            accessor.begin_batch(2_000);
            meet(&keyspace, &mut accessor);
            accessor.end_batch();
            let told = taken_with(&told);
            assert!(told.first().is_some_and(|(name, _)| name == "expired"), "{what}: {told:?}");
            assert!(told.iter().all(|(_, is_published)| *is_published), "{what}: {told:?}");
        }
    }

    fn taken_with(told: &Mutex<Vec<(String, bool)>>) -> Vec<(String, bool)> {
        std::mem::take(&mut *told.lock().unwrap())
    }

    /// INV-EVENT-1: the events of a key are told in the order of its changes.
    #[test]
    fn events_come_in_the_order_of_changes() {
        const ROUNDS: i64 = 20_000;
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
        let told: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let ear = Arc::clone(&told);
        keyspace.listeners().on_events(move |event| ear.lock().unwrap().push(event.name));
        keyspace.listeners().tell_events(Classes::parse("Egx").unwrap());
        let change = |keyspace: &Arc<Keyspace>| {
            let mut accessor = keyspace.accessor().unwrap();
            for round in 0..ROUNDS {
                accessor.begin_batch(round);
                let mut writer = accessor.writer(0);
                let key = writer.key(b"k");
                writer.plan().lock_one(key);
                let name = match writer.modify(key).unwrap() {
                    Slot::Vacant(vacant) => {
                        vacant.insert(Kind::String, b"", Put { expiry_ms: Some(round + 1), ..Put::default() }).unwrap();
                        "made"
                    }
                    Slot::Occupied(occupied) => {
                        occupied.remove();
                        "removed"
                    }
                };
                writer.events().state(Classes::GENERIC, name, key);
                writer.events().end(false);
                drop(writer);
                accessor.end_batch();
            }
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| change(&keyspace));
            }
        });
        let told = told.lock().unwrap();
        // A key that is there was made; one that is gone was removed or has expired.
        let alternate = told.chunks(2).all(|pair| pair[0] == "made" && pair.get(1).is_none_or(|name| *name != "made"));
        assert!(alternate && told.len() > ROUNDS as usize, "{} events", told.len());
    }
}
