//! Serving waiters whose commands change another key than the one that is ready, as BLMOVE does.
//!
//! A unit of work holds the latches of the keys that it has made ready, and must not release them before it has the latch of the
//! other key, too (INV-BLOCK-1). Where records may be on a device it has that already ([`crate::access::destinations`]). Else it
//! is a latch out of order, which one session at a time takes, for all ([`ReadyKeys::secure`](almandine_store::ReadyKeys::secure)).

use crate::Missing;
use crate::access::accessor::Unit;
use crate::blocking::wait::WaiterService;
use almandine_store::{Need, ReadyKey};
use std::collections::VecDeque;

/// Whether a session has what it needs to serve a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secured {
    /// It has.
    Yes,
    /// It had to release its latches for a moment, since something had to be read from the device: what it knows of the ready
    /// keys is void.
    Again,
    /// Another session has served all in its place. It holds no latches any more.
    Elsewhere,
}

impl WaiterService<'_> {
    /// Makes sure that this session holds the latch of another key of a database, too, and that the key is at hand, while it
    /// serves the waiters of `current`. `keys` are ready, too, and come next.
    pub fn secure(&mut self, db: u16, other: &[u8], current: &ReadyKey, keys: &mut VecDeque<ReadyKey>) -> Secured {
        let key = self.accessor.key(db, other);
        if !self.accessor.is_alone() {
            keys.extend(self.accessor.session.ready().take());
            keys.push_front(current.clone());
            if let Err(server) = self.accessor.session.ready().secure(key.hash, keys) {
                self.accessor.wait_outside_epoch(|accessor, _| accessor.session.ready().await_server(&server));
                return Secured::Elsewhere;
            }
            keys.pop_front();
        }
        if self.accessor.cold().is_possible() && self.accessor.cold().probe(key, Need::Read) == Err(Missing::Cold) {
            return self.read_between(current, keys);
        }
        Secured::Yes
    }

    /// Called when the waiters of all ready keys are served. If this session serves for others and was given more keys meanwhile,
    /// these are next: true.
    pub fn take_over(&mut self, keys: &mut VecDeque<ReadyKey>) -> bool {
        self.accessor.session.ready().take_over(keys)
    }

    /// Reads what was missed from the device, between two holds of the latches: no latch is held across I/O. The worker waits.
    /// Meanwhile waiters keep their places, but other sessions may change the keys. It is needed only where serving takes more
    /// than a command secures before it changes anything ([`crate::access::destinations`]): a client that reads several streams
    /// looks at all whose buckets the unit has latched.
    pub fn read_between(&mut self, current: &ReadyKey, keys: &mut VecDeque<ReadyKey>) -> Secured {
        if self.accessor.is_alone() {
            return if self.accessor.unit().read_missing() { Secured::Again } else { Secured::Yes };
        }
        debug_assert_eq!(self.accessor.unit, Unit::Planned, "INV-BLOCK-1: waiters are served within a unit of work");
        keys.extend(self.accessor.session.ready().take());
        self.accessor.session.plan().unlock_all();
        self.accessor.read_wanted_outside_epoch();
        // Without latches databases may have got other namespaces (FLUSHDB, SWAPDB).
        self.accessor.namespaces.clear();
        keys.push_front(current.clone());
        self.accessor.session.ready().hold_again(keys);
        keys.pop_front();
        Secured::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::testing::{batch, keyspace_on};
    use crate::{Accessor, Key, Keyspace, Put};
    use almandine_device::{BlockingSource, Device, MemoryDevice, Source};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::sync::{Arc, Mutex, OnceLock};
    use std::time::Duration;
    use std::{io, thread};

    /// A device of which a read, once, waits until another worker has been alone.
    #[derive(Default)]
    struct Awaiting {
        device: MemoryDevice,
        keyspace: OnceLock<Arc<Keyspace>>,
        is_armed: AtomicBool,
        other_was_alone: Mutex<Option<bool>>,
        /// A worker that is within a batch when the other one asks to be alone goes on.
        within: Mutex<Option<mpsc::Sender<()>>>,
    }

    impl BlockingSource for Awaiting {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            if self.is_armed.swap(false, Ordering::Relaxed) {
                let mut other = self.keyspace.get().unwrap().accessor().unwrap();
                let (ended, end) = mpsc::channel();
                let within = self.within.lock().unwrap().take();
                thread::spawn(move || {
                    other.begin_batch(0);
                    if let Some(within) = within {
                        within.send(()).unwrap();
                    }
                    other.unit().begin_alone();
                    other.unit().end();
                    other.end_batch();
                    let _ = ended.send(());
                });
                *self.other_was_alone.lock().unwrap() = Some(end.recv_timeout(Duration::from_secs(10)).is_ok());
            }
            self.device.read(offset, buffer)
        }
    }

    /// The device as the store has it.
    struct Shared(Arc<Awaiting>);

    impl Device for Shared {
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.device.write(offset, data)
        }

        fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.0.read_at(offset, buffer)
        }

        fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
            self.0.device.discard(offset, bytes)
        }

        fn sync(&self) -> io::Result<()> {
            self.0.device.sync()
        }

        fn source(&self, offset: u64, _bytes: usize) -> io::Result<Source> {
            Ok(Source::Blocking { source: Arc::clone(&self.0) as _, offset })
        }

        fn used_bytes(&self) -> u64 {
            self.0.device.used_bytes()
        }
    }

    /// A keyspace on such a device, with the key `cold` there.
    fn with_a_cold_key(device: &Arc<Awaiting>) -> Arc<Keyspace> {
        let keyspace = keyspace_on(Some(Arc::new(Shared(Arc::clone(device)))));
        device.keyspace.set(Arc::clone(&keyspace)).ok().unwrap();
        let mut accessor = keyspace.accessor().unwrap();
        batch(&mut accessor, |accessor| {
            let mut writer = accessor.writer(0);
            let key = writer.key(b"cold");
            writer.upsert(key, b"value", Put::default())
        });
        assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
        keyspace
    }

    /// A unit of work that has made a key ready.
    fn ready(accessor: &mut Accessor, name: &'static [u8]) -> ReadyKey {
        let Key { namespace, hash, .. } = accessor.key(0, name);
        let ready = ReadyKey { namespace, key: name.into(), hash };
        accessor.serving().make_ready(vec![ready.clone()]);
        ready
    }

    #[test]
    fn a_device_that_serving_waits_for_holds_no_other_worker_up() {
        let device = Arc::new(Awaiting::default());
        let keyspace = with_a_cold_key(&device);
        let mut accessor = keyspace.accessor().unwrap();
        accessor.begin_batch(0);
        let ready = ready(&mut accessor, b"cold");
        assert_eq!(accessor.serving().kind_of(&ready), Err(Missing::Cold));
        device.is_armed.store(true, Ordering::Relaxed);
        let mut keys = VecDeque::new();
        assert_eq!(accessor.serving().read_between(&ready, &mut keys), Secured::Again);
        assert_eq!(*device.other_was_alone.lock().unwrap(), Some(true));
        assert!(accessor.serving().kind_of(&ready).is_ok_and(|kind| kind.is_some()), "it is at hand, under its latch");
        accessor.unit().end();
        accessor.end_batch();
    }

    /// One worker serves for another one, and waits for the device; a third one wants to be alone. The second has to leave its
    /// batch for that, or the three wait for each other.
    #[test]
    fn who_waits_for_the_server_keeps_no_other_worker_from_being_alone() {
        let device = Arc::new(Awaiting::default());
        let keyspace = with_a_cold_key(&device);
        let mut server = keyspace.accessor().unwrap();
        server.begin_batch(0);
        let cold = ready(&mut server, b"cold");
        let mut keys = VecDeque::new();
        assert_eq!(server.serving().secure(0, b"elsewhere", &cold, &mut keys), Secured::Yes);

        let (go_on, goes_on) = mpsc::channel();
        let (latched, is_latched) = mpsc::channel();
        let mut given = keyspace.accessor().unwrap();
        let served = thread::spawn(move || {
            given.begin_batch(0);
            let warm = ready(&mut given, b"warm");
            latched.send(()).unwrap();
            goes_on.recv().unwrap();
            let secured = given.serving().secure(0, b"elsewhere", &warm, &mut VecDeque::new());
            given.unit().end();
            given.end_batch();
            secured
        });
        is_latched.recv().unwrap();
        *device.within.lock().unwrap() = Some(go_on);
        device.is_armed.store(true, Ordering::Relaxed);
        assert_eq!(server.serving().kind_of(&cold), Err(Missing::Cold));
        assert_eq!(server.serving().read_between(&cold, &mut keys), Secured::Again);
        assert_eq!(*device.other_was_alone.lock().unwrap(), Some(true));
        while server.serving().take_over(&mut keys) {
            keys.clear();
        }
        assert_eq!(served.join().unwrap(), Secured::Elsewhere);
        server.unit().end();
        server.end_batch();
    }
}
