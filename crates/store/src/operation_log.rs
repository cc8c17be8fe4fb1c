//! The operation log of a store: turning it on, and what its writer takes.
//!
//! While it is on, each unit of work that changes something is encoded as it does so, and published in its thread's ring before
//! the latches of what it has changed are released. The rings are made for the threads that there are, and for each session that
//! is opened later; they stay for as long as the store does.

use crate::session::Notes;
use crate::shared::consumers::Consumer;
use crate::store::Store;
use almandine_oplog::{Order, RingOptions, RingSource, Rings};
use std::io;
use std::sync::Arc;

impl Store {
    /// The operation log.
    #[must_use]
    pub fn operation_log(&self) -> OperationLog<'_> {
        OperationLog { store: self }
    }
}

/// The operation log of a store.
#[derive(Clone, Copy)]
pub struct OperationLog<'s> {
    store: &'s Store,
}

impl OperationLog<'_> {
    /// Makes the rings, once in the life of a store. Nothing is logged before [`OperationLog::turn`]. What namespaces hold is
    /// numbered from `first_contents` on, which no earlier run over the log has used; [`OperationLog::adopt`] gives some their
    /// numbers back.
    ///
    /// # Errors
    /// When a ring cannot be made, or there are rings.
    pub fn install(self, options: RingOptions, first_contents: u64) -> io::Result<RingSource> {
        let inner = &self.store.inner;
        let rings = Rings::new(options, inner.threads.active_pages.len(), inner.consumers.order(), Arc::clone(&inner.epoch));
        if !inner.consumers.set_log(&rings, first_contents) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // Writers that find their rings full wait as for a device that is behind.
        let waiting = Arc::downgrade(inner);
        rings.on_room(move || waiting.upgrade().into_iter().for_each(|inner| inner.end_stall()));
        // Sessions that are opened from now on make their rings themselves.
        inner.taken_threads().into_iter().try_for_each(|thread| rings.open(thread))?;
        Ok(rings.source())
    }

    /// Whether units are logged from now on: each that changes a key which is latched from now on.
    ///
    /// # Errors
    /// `NotFound` when there are no rings.
    pub fn turn(self, on: bool) -> io::Result<()> {
        if self.rings().is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.store.inner.consumers.want(Consumer::Log, on);
        debug_assert!(self.store.inner.consumers.has_order(), "INV-ORDER-1: units that are logged take numbers");
        Ok(())
    }

    /// The rings, once they are there.
    #[must_use]
    pub fn rings(self) -> Option<Arc<Rings>> {
        self.store.inner.consumers.log().map(Arc::clone)
    }

    /// Where units take their numbers.
    #[must_use]
    pub fn order(self) -> Arc<Order> {
        self.store.inner.consumers.order()
    }

    /// What a namespace holds, as entries name it.
    #[must_use]
    pub fn contents(self, namespace: u16) -> u64 {
        self.store.inner.consumers.generation(namespace)
    }

    /// Whether units of work are logged now.
    #[inline]
    #[must_use]
    pub fn is_on(self) -> bool {
        self.store.inner.consumers.wanted() & Consumer::Log as u32 != 0
    }

    /// Says that a namespace holds what an earlier run has called so. Before the log is turned on.
    pub fn adopt(self, namespace: u16, contents: u64) {
        self.store.inner.consumers.set_contents(namespace, contents);
    }
}

impl Notes<'_> {
    /// Whether a batch that writes should wait, because its units of work may find no room in this session's ring;
    /// [`crate::Listeners::on_stall_end`] tells when not any more.
    #[inline]
    #[must_use]
    pub fn lacks_log_room(&self) -> bool {
        let (consumers, thread) = (&self.session.store.consumers, self.session.local.thread);
        consumers.wanted() & Consumer::Log as u32 != 0 && consumers.log().is_some_and(|rings| !rings.has_room(thread))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::session::Session;
    use crate::{Options, Put};
    use almandine_oplog::{RingId, UnitSource};
    use std::sync::atomic::{AtomicU64, Ordering};

    fn options(bytes: usize) -> RingOptions {
        RingOptions { directory: None, bytes, log: 1, run: 1, boot: 1, first_epoch: 3 }
    }

    /// INV-ORDER-1.
    #[test]
    fn units_are_published_while_the_log_is_on_and_a_full_ring_is_told() {
        let store = Store::open(Options { background: false, ..Options::default() }).unwrap();
        let ended = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&ended);
        store.listeners().on_stall_end(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let namespace = store.allocate_namespace().unwrap();
        let mut session = store.session().unwrap();
        let set = |session: &mut Session, bytes: usize| {
            session.enter(0);
            let key = session.key(namespace, b"key");
            session.upsert(key, &vec![b'v'; bytes], Put::default()).unwrap();
            session.leave();
        };
        assert!(store.operation_log().turn(true).is_err(), "there are no rings");
        let mut source = store.operation_log().install(options(4096), 1 << 20).unwrap();
        assert!(store.operation_log().install(options(4096), 0).is_err(), "there are rings");
        assert_eq!(store.operation_log().contents(namespace), (1 << 20) + u64::from(namespace));
        set(&mut session, 10);
        assert_eq!(source.pending_bytes(), 0, "the log is off");
        store.operation_log().turn(true).unwrap();
        while !session.notes().lacks_log_room() {
            set(&mut session, 500);
        }
        let mut other = store.session().unwrap();
        assert!(!other.notes().lacks_log_room(), "it has a ring of its own");
        set(&mut other, 100);
        source.raise_epoch();
        let through = source.closed_epoch();
        let mut rings = 0;
        source.units(through, &mut |_: RingId, units: &[u8]| {
            assert!(!units.is_empty());
            rings += 1;
        });
        source.release(through);
        assert_eq!((rings, source.pending_bytes(), ended.load(Ordering::Relaxed)), (2, 0, 1));
        assert!(!session.notes().lacks_log_room());
        store.operation_log().turn(false).unwrap();
        set(&mut session, 10);
        assert_eq!(source.pending_bytes(), 0);
    }

    /// INV-ORDER-1: also of sessions that have one thread's number, and so one ring, one after the other.
    #[test]
    fn numbers_ascend_in_a_ring_through_several_sessions() {
        let store = Store::open(Options { background: false, ..Options::default() }).unwrap();
        let namespace = store.allocate_namespace().unwrap();
        let mut source = store.operation_log().install(options(1 << 16), 0).unwrap();
        store.operation_log().turn(true).unwrap();
        for number in 0..9u8 {
            let (mut session, name) = (store.session().unwrap(), [number]);
            for _ in 0..=9 - number {
                session.enter(0);
                let key = session.key(namespace, &name);
                session.upsert(key, b"value", Put::default()).unwrap();
                session.leave();
            }
        }
        source.raise_epoch();
        let through = source.closed_epoch();
        let (mut last, mut units) = (0, 0);
        source.units(through, &mut |_: RingId, mut bytes: &[u8]| {
            while let Some((head, _, rest)) = almandine_oplog::UnitHead::split(bytes) {
                assert!(head.number > last, "{:x} behind {last:x}", head.number);
                (last, bytes, units) = (head.number, rest, units + 1);
            }
        });
        assert_eq!(units, (2..=10).sum::<usize>());
    }
}
