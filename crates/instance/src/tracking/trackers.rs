//! The state of tracking: the clients that track, and what each of them has read.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use almandine_keyspace::Keyspace;

use super::options::TrackingOptions;
use super::registry::Registry;
use super::table::Table;
use crate::client::{ClientShared, Clients};
use crate::messages::Workers;

/// Figures for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackingTotals {
    /// Clients that track.
    pub clients: usize,
    /// Keys remembered.
    pub keys: usize,
    /// Pairs of key and client.
    pub items: usize,
    /// Prefixes of clients with BCAST.
    pub prefixes: usize,
}

/// Which client tracks what.
pub struct Tracking {
    /// How many clients track.
    trackers: AtomicUsize,
    prefixes: AtomicUsize,
    registry: RwLock<Registry>,
    pub(super) table: Table,
    pub(super) keyspace: Arc<Keyspace>,
    pub(super) clients: Arc<Clients>,
    pub(super) workers: Arc<Workers>,
}

impl std::fmt::Debug for Tracking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tracking({:?})", self.totals())
    }
}

impl Tracking {
    /// The keys of `keyspace`, which no client tracks yet.
    pub(crate) fn new(keyspace: Arc<Keyspace>, clients: Arc<Clients>, workers: Arc<Workers>) -> Self {
        Self {
            trackers: AtomicUsize::new(0),
            prefixes: AtomicUsize::new(0),
            registry: RwLock::default(),
            table: Table::default(),
            keyspace,
            clients,
            workers,
        }
    }

    /// Whether a client tracks.
    #[inline]
    #[must_use]
    pub fn active(&self) -> bool {
        self.trackers.load(Ordering::Relaxed) > 0
    }

    /// Whether a client tracks by prefix.
    #[must_use]
    pub fn broadcasts(&self) -> bool {
        self.prefixes.load(Ordering::Relaxed) > 0
    }

    /// Whether a client tracks a prefix of `key`.
    #[must_use]
    pub fn is_broadcast(&self, key: &[u8]) -> bool {
        self.broadcasts() && self.read().matching(key).next().is_some()
    }

    /// Starts tracking for a client, or changes how it tracks; `prefixes` are added to those that it has.
    pub fn enable(&self, client: &Arc<ClientShared>, options: TrackingOptions, prefixes: &[&[u8]]) {
        let mut registry = self.write();
        registry.enable(client, options, prefixes);
        self.publish(&registry);
        client.tracking.show(Some(options));
    }

    /// Ends tracking for a client. What is remembered of it goes when its keys change, or with the last client.
    pub fn disable(&self, client: &ClientShared) {
        let mut registry = self.write();
        registry.disable(client.id);
        self.publish(&registry);
        client.tracking.show(None);
        if registry.is_empty() {
            self.table.clear();
        }
    }

    /// Figures for INFO.
    #[must_use]
    pub fn totals(&self) -> TrackingTotals {
        TrackingTotals {
            clients: self.trackers.load(Ordering::Relaxed),
            keys: self.table.keys(),
            items: self.table.items(),
            prefixes: self.prefixes.load(Ordering::Relaxed),
        }
    }

    /// Counts keys that were taken out of the table: the same number before and after means that none was.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.table.stamp()
    }

    /// Remembers that a client reads `key`. Nothing is remembered for one that does not track.
    pub fn remember(&self, client: u64, key: &[u8]) {
        self.table.insert(key, client);
    }

    /// The registry's writer lock is held, so that the last word here is about its last state.
    fn publish(&self, registry: &Registry) {
        self.keyspace.listeners().note_changes(!registry.is_empty());
        self.prefixes.store(registry.prefixes(), Ordering::Relaxed);
        self.trackers.store(registry.clients(), Ordering::SeqCst);
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry.write().unwrap_or_else(PoisonError::into_inner)
    }
}
