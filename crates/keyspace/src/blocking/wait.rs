//! Waiting for keys, and serving waiters.
//!
//! A unit of work that has changed a key which is waited for keeps its latches to its end ([`WaiterService::has_ready`]); then its
//! worker serves the waiters, one after the other, and releases the latches ([`UnitOfWork::end`]).

use crate::access::accessor::Unit;
use crate::access::plan::KeyPlan;
use crate::blocking::queues::{Awaited, Queue, WaitedKeys, Waiter, WaiterKeys};
use crate::changes::feed::Listeners;
use crate::key_table::Name;
use crate::{Accessor, Keyspace, Missing};
use almandine_base::steps;
use almandine_store::{Consumer, Key, Kind, Need, ReadyKey, Slot};
use std::any::Any;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Keys whose queues a waiter leaves within one epoch: memory that others free waits for the end of the longest.
const LEFT_AT_ONCE: usize = 1024;

impl Keyspace {
    /// Counts waiters up or down; while there are any, changes are told to them. They still are when the last one is gone, until
    /// [`Keyspace::forget_waiting`].
    fn count_waiting(&self, more: isize) {
        let mut told = self.waiters.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.waiting = told.waiting.saturating_add_signed(more);
        self.waiters.any.store(told.waiting > 0, Ordering::Relaxed);
        if told.waiting > 0 && !told.told {
            told.told = true;
            self.store.listeners().tell_changes(Consumer::Wait, true);
        }
    }

    /// Ends the telling of changes if there are no waiters. To be called from time to time.
    pub fn forget_waiting(&self) {
        let mut told = self.waiters.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.told && told.waiting == 0 {
            told.told = false;
            self.store.listeners().tell_changes(Consumer::Wait, false);
        }
    }

    /// How many keys are waited for.
    #[must_use]
    pub fn waited_keys(&self) -> WaitedKeys {
        self.waiters.waited_keys()
    }
}

impl Listeners<'_> {
    /// Installs a listener for keys that the store has removed by itself, because they have expired for instance, and that have a
    /// waiter for their end. It is called on any thread, under the key's latch, and has a worker serve the waiters by
    /// [`WaiterService::make_ready`]. A second call changes nothing.
    pub fn on_lost(self, listener: impl Fn(ReadyKey) + Send + Sync + 'static) {
        let waiters = Arc::clone(&self.keyspace.waiters);
        self.keyspace.store.listeners().on_lost(move |key| {
            if waiters.misses(key) {
                listener(ReadyKey { namespace: key.namespace, key: key.bytes.into(), hash: key.hash });
            }
        });
    }
}

impl KeyPlan<'_, '_> {
    /// Begins to wait for keys of this database. All of them are latched, and have been since it was found that none of them has
    /// anything for the waiter.
    pub fn wait(&mut self, keys: WaiterKeys, awaited: Awaited, request: Box<dyn Any + Send + Sync>) -> Arc<Waiter> {
        let keyspace = Arc::clone(&self.keys.accessor.keyspace);
        // Before it enters a queue: sessions that change a key behind these latches look for waiters.
        keyspace.count_waiting(1);
        let waiter = keyspace.waiters.make(self.keys.db, awaited, keys, request);
        for key in waiter.keys() {
            let key = self.keys.key(key);
            debug_assert!(
                self.keys.accessor.is_alone() || self.keys.accessor.session.plan().holds(key.hash),
                "INV-BLOCK-2: a waiter enters under the latch"
            );
            keyspace.waiters.enter(&key, &waiter);
        }
        waiter
    }
}

impl Accessor {
    /// Serving the waiters of keys that a unit of work has made ready.
    #[inline]
    pub fn serving(&mut self) -> WaiterService<'_> {
        WaiterService { accessor: self }
    }
}

/// Serving the waiters of keys that a unit of work has made ready.
pub struct WaiterService<'a> {
    pub(crate) accessor: &'a mut Accessor,
}

impl WaiterService<'_> {
    /// Whether the unit of work that has just ended has made keys ready that have waiters, or may have been given some. Then its
    /// latches are still held, and the waiters must be served before [`UnitOfWork::end`].
    #[inline]
    #[must_use]
    pub fn has_ready(&mut self) -> bool {
        self.accessor.unit == Unit::Growing || !self.accessor.session.ready().is_empty()
    }

    /// Begins a unit of work in which those of these keys that have waiters are ready, though it has not changed them: they were
    /// removed before, or time has passed, which alone may give their waiters something. The caller serves the waiters as behind
    /// a change, and ends the unit in any case.
    pub fn make_ready(&mut self, keys: Vec<ReadyKey>) {
        self.accessor.unit().plan();
        self.accessor.hashes.extend(keys.iter().map(|ready| ready.hash));
        self.accessor.modes.extend(keys.iter().map(|_| true));
        self.accessor.unit().begin();
        for ready in keys {
            if self.accessor.keyspace.waiters.note_unchanged(&key_of(&ready)) {
                self.accessor.session.ready().add(ready);
            }
        }
    }

    /// Begins to serve the waiters of the keys that are ready: `ready` gets these, in the order in which they became so.
    pub fn begin(&mut self, ready: &mut VecDeque<ReadyKey>) {
        self.accessor.session.plan().close_unit();
        self.accessor.tell_held();
        self.accessor.session.ready().move_to(ready);
        if self.accessor.unit == Unit::Growing {
            self.accessor.unit = Unit::Planned;
        }
        if !self.accessor.in_unit() {
            // A verb that latches by itself has changed something.
            self.accessor.unit().plan();
            self.accessor.hashes.extend(ready.iter().map(|ready| ready.hash));
            self.accessor.modes.extend(ready.iter().map(|_| true));
            self.accessor.unit().begin();
        }
    }

    /// Takes the keys that were made ready while others were served.
    pub fn take_ready(&mut self, ready: &mut VecDeque<ReadyKey>) {
        self.accessor.session.ready().move_to(ready);
    }

    /// The turn of a ready key has come: when it is changed from now on, it is ready again.
    pub fn take_turn(&mut self, ready: &ReadyKey) {
        self.accessor.keyspace.waiters.take_turn(&key_of(ready));
    }

    /// Whether a ready key still has waiters, of whatever type.
    #[must_use]
    pub fn is_waited_for(&mut self, ready: &ReadyKey) -> bool {
        self.accessor.keyspace.waiters.is_waited_for(&key_of(ready))
    }

    /// The first waiter of a ready key that wants it as it is now, of this type or gone, of those behind the waiter `last`.
    #[must_use]
    pub fn next(&mut self, ready: &ReadyKey, kind: Option<Kind>, last: Option<&Waiter>) -> Option<Arc<Waiter>> {
        self.accessor.keyspace.waiters.behind(&key_of(ready), last.map_or(0, Waiter::ticket), kind)
    }

    /// The type that a ready key has now, if it is there.
    ///
    /// # Errors
    /// When it must be read from the device first, or cannot be.
    pub fn kind_of(&mut self, ready: &ReadyKey) -> Result<Option<Kind>, Missing> {
        debug_assert!(
            self.accessor.in_unit(),
            "INV-BLOCK-1: a waiter is served under the latches of the unit that made the key ready"
        );
        let key = key_of(ready);
        if self.accessor.cold().is_possible() {
            self.accessor.cold().probe(key, Need::Read)?;
        }
        Ok(match self.accessor.session.entry(key)? {
            Slot::Occupied(entry) => Some(entry.kind()),
            Slot::Vacant(_) => None,
        })
    }

    /// Ends a command that was served: for consumers of effects, what it has done is a unit of work of its own.
    pub fn end_command(&mut self) {
        self.accessor.session.plan().close_unit();
        self.accessor.tell_held();
        self.accessor.namespaces.clear();
    }

    /// Ends a unit of work, though it has made keys ready: for the proof that this would be noticed.
    #[cfg(any(feature = "mutants", loom))]
    pub fn release_early(&mut self) {
        if self.accessor.in_unit() {
            self.accessor.unit().end();
        } else {
            self.accessor.session.plan().unlock_all();
        }
        almandine_io::thread::yield_now();
    }
}

impl Accessor {
    /// Clients that wait for keys: the queues that they leave, and what serving them will need.
    #[inline]
    pub fn waiters(&mut self) -> WaiterQueues<'_> {
        WaiterQueues { accessor: self }
    }
}

/// Clients that wait for keys: the queues that they leave, and what serving them will need.
pub struct WaiterQueues<'a> {
    pub(crate) accessor: &'a mut Accessor,
}

impl WaiterQueues<'_> {
    /// A waiter whose wait has ended leaves the queues of its keys, if it has not, within a batch; outside of a unit of work the
    /// epoch is left between some keys and the next ones.
    pub fn leave(&mut self, waiter: &Waiter) {
        if !waiter.leave() {
            return;
        }
        for (number, key) in waiter.keys().enumerate() {
            if number > 0 && number.is_multiple_of(LEFT_AT_ONCE) {
                self.accessor.renew_epoch();
            }
            let key = self.accessor.key(waiter.db(), key);
            self.accessor.keyspace.waiters.leave(&key, waiter);
        }
        self.accessor.keyspace.count_waiting(-1);
    }

    /// A waiter that was just served leaves the queues of its keys, unless it has many keys: then the worker of its connection,
    /// which holds no latches, takes it out. Until then its places are passed over.
    pub fn leave_served(&mut self, waiter: &Waiter) {
        debug_assert!(waiter.has_ended(), "INV-BLOCK-3: only a wait that has ended leaves its queues");
        if waiter.keys().nth(LEFT_AT_ONCE).is_none() {
            self.leave(waiter);
        }
    }

    /// The keys of a waiter, for [`WaiterService::make_ready`], within a batch.
    #[must_use]
    pub fn keys_of(&mut self, waiter: &Waiter) -> Vec<ReadyKey> {
        let ready = |bytes: &[u8]| {
            let Key { namespace, hash, .. } = self.accessor.key(waiter.db(), bytes);
            ReadyKey { namespace, key: bytes.into(), hash }
        };
        waiter.keys().map(ready).collect()
    }

    /// Whether this unit of work may change all keys of a waiter.
    #[must_use]
    pub fn holds_all_of(&mut self, waiter: &Waiter) -> bool {
        let mut reader = self.accessor.reader(waiter.db());
        waiter.keys().all(|key| {
            let key = reader.key(key);
            reader.plan().holds(key)
        })
    }
}

impl Accessor {
    /// Ends what a command has latched; it stays if keys were made ready.
    #[inline]
    pub(crate) fn end_command(&mut self) {
        if self.session.plan().end_command() {
            self.unit = Unit::Planned;
        }
        self.namespaces.clear();
    }

    /// Does something to the namespaces of databases, alone. Waiters for keys of these databases wait on, for the keys that the
    /// databases have then; those of these keys that exist are ready.
    pub(crate) fn remap_waiting(&mut self, dbs: &[u16], remap: impl FnOnce(&mut Self)) {
        debug_assert!(self.is_alone(), "INV-NS-2: what databases hold changes for everybody at once");
        let keyspace = Arc::clone(&self.keyspace);
        let before = self.by_namespace(dbs);
        let moved: Vec<(Name, Queue)> = keyspace.waiters.take_namespaces(|namespace| before.contains_key(&namespace));
        remap(self);
        // What the transaction has done before may have noted a key for the queue that it had then.
        let noted: HashSet<ReadyKey> = self.session.ready().list().iter().cloned().collect();
        for (name, queue) in moved {
            steps::take(1);
            let Some(&db) = before.get(&name.namespace) else { continue };
            let is_ready = self.may_exist(db, &name.key) || queue.tells_gone();
            let key = self.key(db, &name.key);
            let ready = ReadyKey { namespace: key.namespace, key: key.bytes.into(), hash: key.hash };
            let is_noted = noted.contains(&ready);
            if is_ready && !is_noted {
                self.session.ready().add(ready);
            }
            keyspace.waiters.put(&key, queue, is_ready || is_noted);
        }
    }
}

fn key_of(ready: &ReadyKey) -> Key<'_> {
    let ReadyKey { namespace, key, hash } = ready;
    Key { namespace: *namespace, glance: almandine_store::GlanceId::default(), bytes: key, hash: *hash }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::list::{End, ListLimits, Lists};
    use crate::{EndOfWait, Options, Writer};
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU64;
    use std::thread;
    use std::time::Duration;

    fn keyspace() -> Arc<Keyspace> {
        let store = almandine_store::Options { background: false, ..Default::default() };
        Keyspace::open(Options { store, ..Options::default() }).unwrap()
    }

    fn limits() -> ListLimits {
        ListLimits::new(-2)
    }

    const LISTS: Awaited = Awaited { kind: Kind::List, or_gone: false };

    /// What a waiter is given.
    type Given = Arc<Mutex<Vec<Vec<u8>>>>;

    fn pop(writer: &mut Writer<'_>, key: &[u8]) -> Option<Vec<u8>> {
        let key = writer.key(key);
        let mut list = writer.write_as::<Lists>(key, limits()).unwrap();
        let mut element = None;
        if list.existed() {
            list.pop(End::Left, 1, |bytes| element = Some(bytes.to_vec())).unwrap();
            list.commit().unwrap();
        }
        element
    }

    /// BLPOP of one key: an element, or a place in the queue.
    fn pop_or_wait(accessor: &mut Accessor, db: u16, name: &[u8], given: &Given) -> Result<Vec<u8>, Arc<Waiter>> {
        let mut writer = accessor.writer(db);
        let key = writer.key(name);
        writer.plan().lock_one(key);
        match pop(&mut writer, name) {
            Some(element) => Ok(element),
            None => {
                let keys = WaiterKeys::new([name].into_iter(), None);
                Err(writer.plan().wait(keys, LISTS, Box::new(Arc::clone(given))))
            }
        }
    }

    /// RPUSH, and what follows it.
    fn push(accessor: &mut Accessor, db: u16, name: &[u8], element: &[u8]) {
        let mut writer = accessor.writer(db);
        let key = writer.key(name);
        writer.plan().lock_one(key);
        let mut list = writer.write_as::<Lists>(key, limits()).unwrap();
        list.push(End::Right, element).unwrap();
        list.commit().unwrap();
        drop(writer);
        serve(accessor);
    }

    fn serve(accessor: &mut Accessor) {
        if !accessor.serving().has_ready() {
            return;
        }
        let mut keys = VecDeque::new();
        accessor.serving().begin(&mut keys);
        for ready in keys.drain(..) {
            let mut last: Option<Arc<Waiter>> = None;
            while let Ok(kind) = accessor.serving().kind_of(&ready)
                && let Some(waiter) = accessor.serving().next(&ready, kind, last.as_deref())
            {
                if waiter.begin_to_serve() {
                    let element = pop(&mut accessor.writer(waiter.db()), &ready.key).expect("what the waiter was promised");
                    waiter.request().downcast_ref::<Given>().unwrap().lock().unwrap().push(element);
                    waiter.served();
                    accessor.waiters().leave(&waiter);
                }
                last = Some(waiter);
            }
            accessor.serving().take_turn(&ready);
        }
        accessor.serving().take_ready(&mut keys);
        assert!(keys.is_empty(), "what who waited has taken makes nothing ready");
        accessor.unit().end();
    }

    /// INV-BLOCK-1, INV-BLOCK-2 and INV-BLOCK-3: of what several threads push, take, wait for and cease to wait for, nothing is
    /// lost, doubled, or left beside a waiter.
    #[test]
    fn nothing_is_lost_between_looking_and_waiting() {
        const ELEMENTS: u64 = 30_000;
        let keyspace = keyspace();
        let (pushed, taken) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        let producer = |keyspace: &Arc<Keyspace>| {
            let mut accessor = keyspace.accessor().unwrap();
            loop {
                let number = pushed.fetch_add(1, Ordering::Relaxed);
                if number >= ELEMENTS {
                    return;
                }
                accessor.begin_batch(0);
                push(&mut accessor, 0, if number.is_multiple_of(3) { b"a" } else { b"b" }, &number.to_le_bytes());
                accessor.end_batch();
            }
        };
        let consumer = |keyspace: &Arc<Keyspace>, name: &[u8]| {
            let (mut accessor, given) = (keyspace.accessor().unwrap(), Given::default());
            let mut own = Vec::new();
            for round in 0u64.. {
                accessor.begin_batch(0);
                let looked = pop_or_wait(&mut accessor, 0, name, &given);
                accessor.end_batch();
                match looked {
                    Ok(element) => own.push(element),
                    Err(waiter) => {
                        let patience = if round.is_multiple_of(2) { 20 } else { 20_000 };
                        let is_over = || (0..patience).all(|_| given.lock().unwrap().is_empty());
                        while is_over() && waiter.end() == EndOfWait::Serving {}
                        while waiter.end() == EndOfWait::Serving {}
                        accessor.begin_batch(0);
                        accessor.waiters().leave(&waiter);
                        accessor.end_batch();
                        own.append(&mut given.lock().unwrap());
                        if pushed.load(Ordering::Relaxed) >= ELEMENTS && round.is_multiple_of(64) {
                            break;
                        }
                    }
                }
            }
            taken.lock().unwrap().append(&mut own);
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| producer(&keyspace));
            }
            for name in [b"a", b"b", b"b"] {
                scope.spawn(|| consumer(&keyspace, name));
            }
        });
        let (mut accessor, mut taken) = (keyspace.accessor().unwrap(), taken.into_inner().unwrap());
        accessor.begin_batch(0);
        for name in [b"a", b"b"] {
            while let Ok(element) = pop_or_wait(&mut accessor, 0, name, &Given::default()) {
                taken.push(element);
            }
        }
        accessor.end_batch();
        let mut numbers: Vec<u64> = taken.iter().map(|element| u64::from_le_bytes((**element).try_into().unwrap())).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..ELEMENTS), "{} of {ELEMENTS}", numbers.len());
    }

    /// INV-BLOCK-2: the waiters of a key are served in the order of their arrival; places of waiters that are gone are passed
    /// over.
    #[test]
    fn a_queue_is_served_from_its_front() {
        const WAITERS: usize = 500;
        let keyspace = keyspace();
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(0);
        let given: Vec<Given> = (0..WAITERS).map(|_| Given::default()).collect();
        let waiters: Vec<Arc<Waiter>> =
            given.iter().map(|given| pop_or_wait(&mut accessor, 0, b"k", given).expect_err("nothing is there")).collect();
        assert_eq!(keyspace.waited_keys().keys, 1);
        let gone = |number: usize| !number.is_multiple_of(3);
        for number in (0..WAITERS).rev().filter(|number| gone(*number)) {
            assert_eq!(waiters[number].end(), EndOfWait::Now);
            assert_eq!(waiters[number].end(), EndOfWait::Before);
            accessor.waiters().leave(&waiters[number]);
            accessor.waiters().leave(&waiters[number]);
        }
        let left: Vec<usize> = (0..WAITERS).filter(|number| !gone(*number)).collect();
        for number in &left {
            push(&mut accessor, 0, b"k", &number.to_le_bytes());
            assert_eq!(*given[*number].lock().unwrap(), [number.to_le_bytes()]);
        }
        assert_eq!((keyspace.waited_keys().keys, keyspace.waiters.told.lock().unwrap().waiting), (0, 0));
        push(&mut accessor, 0, b"k", b"left");
        assert!(!accessor.serving().has_ready() && pop_or_wait(&mut accessor, 0, b"k", &given[0]).is_ok());
        keyspace.forget_waiting();
        assert!(!keyspace.waiters.told.lock().unwrap().told);
        accessor.end_batch();
    }

    /// INV-BLOCK-3: a waiter that is served with one key, perhaps in vain, is not passed over for another key that is ready at the
    /// same time.
    #[test]
    fn a_waiter_served_with_one_key_is_not_passed_over_for_another() {
        for in_vain in [false, true] {
            let waiter = keyspace().waiters.make(0, LISTS, WaiterKeys::default(), Box::new(()));
            assert!(waiter.begin_to_serve());
            thread::scope(|scope| {
                let other = scope.spawn(|| waiter.begin_to_serve());
                thread::sleep(Duration::from_millis(20));
                assert!(!other.is_finished(), "it is not decided yet");
                if in_vain {
                    waiter.go_on_waiting()
                } else {
                    waiter.served()
                }
                assert_eq!(other.join().unwrap(), in_vain);
            });
        }
    }

    #[test]
    fn a_wait_stays_with_its_database() {
        let keyspace = keyspace();
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(0);
        let given = Given::default();
        assert!(pop_or_wait(&mut accessor, 1, b"k", &given).is_err());
        push(&mut accessor, 0, b"k", b"other database");
        push(&mut accessor, 1, b"other", b"key");
        accessor.flush(&[0, 1]);
        assert!(!accessor.serving().has_ready());
        push(&mut accessor, 2, b"k", b"swapped");
        accessor.swap(1, 3);
        assert!(!accessor.serving().has_ready() && given.lock().unwrap().is_empty());
        accessor.swap(1, 2);
        assert!(accessor.serving().has_ready() && accessor.is_alone());
        serve(&mut accessor);
        assert_eq!(*given.lock().unwrap(), [b"swapped"]);
        accessor.end_batch();
    }
}
