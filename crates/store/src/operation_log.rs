//! The operation log of a store: turning it on, and what its writer takes.
//!
//! While it is on, each unit of work that changes something is encoded as it does so, and published in its thread's ring before
//! the latches of what it has changed are released. The rings are made for the threads that there are, and for each session that
//! is opened later; they stay for as long as the store does.

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

    /// Says that a namespace holds what an earlier run has called so. Before the log is turned on.
    pub fn adopt(self, namespace: u16, contents: u64) {
        self.store.inner.consumers.set_contents(namespace, contents);
    }
}
