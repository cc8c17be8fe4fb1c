//! CLIENT TRACKING: which client may hold a copy of which key, and telling it when the key changes.
//!
//! Two ways, as in Redis. By default a key that a tracking client reads is remembered with the client ([`table`]), and forgotten with the
//! one message that tells of its change. With BCAST a client names prefixes ([`registry`]) and hears of every change below them; nothing is
//! remembered then.
//!
//! *The race of a read with a write.* A key is remembered before it is read, so a write that the read did not see finds it; and once more
//! after it was read if any message went out meanwhile, so that a later write finds it too. At worst a client is told once too often.
//!
//! *What no command changes.* While somebody tracks, the store tells of the keys that it removes by itself, expired or to make room, and never
//! before somebody could have read one without being remembered (INV-REMOVED-1). Its background thread brings them to
//! [`Node::follow_removals`].
//!
//! While nobody tracks, all of this costs the callers a relaxed load before and after a group of commands ([`Tracking::active`]).

mod registry;
mod table;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use almandine_keyspace::{Keyspace, RemovedKey};
use bytes::Bytes;

use crate::Node;
use crate::clients::ClientShared;
use crate::control::Message;

use registry::{Registry, Tracker};
use table::Table;

/// Keys that one call takes out of an overfull table at most; more wait for the next call.
const EVICTIONS_PER_CALL: usize = 128;

/// What CLIENT TRACKING ON was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackingOptions {
    /// BCAST: by prefix instead of by what was read.
    pub broadcast: bool,
    /// OPTIN: only reads that follow CLIENT CACHING YES are remembered.
    pub opt_in: bool,
    /// OPTOUT: reads that follow CLIENT CACHING NO are not.
    pub opt_out: bool,
    /// NOLOOP: the client does not hear of its own changes.
    pub no_loop: bool,
    /// REDIRECT: the connection that gets the messages; 0 for the client's own.
    pub redirect: u64,
}

/// A message: the changed keys as an encoded array, or `None` when everything has changed.
pub type Changed = Option<Bytes>;

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

/// Who tracks what.
pub struct Tracking {
    clients: AtomicUsize,
    prefixes: AtomicUsize,
    registry: RwLock<Registry>,
    table: Table,
    keyspace: Arc<Keyspace>,
}

impl std::fmt::Debug for Tracking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tracking({:?})", self.totals())
    }
}

impl Tracking {
    /// Nobody tracks the keys of `keyspace` yet.
    pub(crate) fn new(keyspace: Arc<Keyspace>) -> Self {
        Self {
            clients: AtomicUsize::new(0),
            prefixes: AtomicUsize::new(0),
            registry: RwLock::default(),
            table: Table::default(),
            keyspace,
        }
    }

    /// Whether anybody tracks.
    #[inline]
    #[must_use]
    pub fn active(&self) -> bool {
        self.clients.load(Ordering::Relaxed) > 0
    }

    /// Whether anybody tracks by prefix.
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
        // Workers look at `clients` behind their writes, without a fence of their own: of a write that is still on its way to memory right
        // now the client may not hear, should its first read overtake it.
        std::sync::atomic::fence(Ordering::SeqCst);
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
            clients: self.clients.load(Ordering::Relaxed),
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
        self.keyspace.hear_removals(!registry.is_empty());
        self.prefixes.store(registry.prefixes(), Ordering::Relaxed);
        self.clients.store(registry.clients(), Ordering::SeqCst);
    }

    fn read(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Tells the clients that have read `key`, and forgets that they have. `by` is the client that changed it; what it is to hear itself
    /// goes to `own`, because it must follow the reply.
    pub fn invalidate(&self, key: &[u8], by: Option<u64>, own: &mut Vec<Changed>) {
        let Some(clients) = self.tracking.table.remove(key) else { return };
        self.tell_readers(key, &clients, by, own);
    }

    fn tell_readers(&self, key: &[u8], clients: &[u64], by: Option<u64>, own: &mut Vec<Changed>) {
        let message = Some(encode([key].into_iter()));
        let registry = self.tracking.read();
        for tracker in clients.iter().filter_map(|id| registry.find(*id)) {
            let is_own = by == Some(tracker.shared.id);
            // A client that changed to BCAST hears of prefixes only.
            if tracker.options.broadcast || (is_own && tracker.options.no_loop) {
                continue;
            }
            self.deliver(tracker, &message, is_own, own);
        }
    }

    /// Tells the clients that track prefixes of these keys, one message per prefix. The keys were changed by `by`.
    pub fn broadcast_changes<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, by: Option<u64>, own: &mut Vec<Changed>) {
        let keys: BTreeSet<&[u8]> = keys.collect();
        let registry = self.tracking.read();
        for (prefix, clients) in registry.by_prefix() {
            let mut below = keys.iter().copied().filter(|key| key.starts_with(prefix)).peekable();
            if below.peek().is_none() {
                continue;
            }
            let message = Some(encode(below.collect::<Vec<_>>().into_iter()));
            for tracker in clients.iter().filter_map(|id| registry.find(*id)) {
                let is_own = by == Some(tracker.shared.id);
                if !(is_own && tracker.options.no_loop) {
                    self.deliver(tracker, &message, is_own, own);
                }
            }
        }
    }

    /// Tells every client that tracks that all keys have changed, and forgets what they have read.
    pub fn invalidate_all(&self, by: Option<u64>, own: &mut Vec<Changed>) {
        if !self.tracking.active() {
            return;
        }
        self.tracking.table.clear();
        let registry = self.tracking.read();
        for tracker in registry.all() {
            self.deliver(tracker, &None, by == Some(tracker.shared.id), own);
        }
    }

    /// Takes keys at random out of a table that holds more than `keys_max` (0 for no limit), and tells the clients that have read them.
    pub fn limit_tracking(&self, keys_max: usize, by: Option<u64>, own: &mut Vec<Changed>) {
        for _ in 0..EVICTIONS_PER_CALL {
            if keys_max == 0 || self.tracking.table.keys() <= keys_max {
                break;
            }
            let Some((key, clients)) = self.tracking.table.remove_random() else { break };
            self.tell_readers(&key, &clients, by, own);
        }
    }

    /// Lets tracking clients hear of the keys that expire or give way. Once, before there are any.
    pub fn follow_removals(self: &Arc<Self>) {
        // The store of the node's own keyspace holds this, so it must not hold the node.
        let node = Arc::downgrade(self);
        self.keyspace.on_removed(move |removed| {
            if let Some(node) = node.upgrade() {
                node.tell_removed(removed.as_deref());
            }
        });
    }

    /// Tells who has read the keys, or tracks a prefix of them, that nobody changed; `None` for any keys.
    fn tell_removed(&self, removed: Option<&[RemovedKey]>) {
        let mut own = Vec::new();
        let Some(removed) = removed else {
            self.invalidate_all(None, &mut own);
            return;
        };
        let keys = || removed.iter().map(|removed| &*removed.key);
        keys().for_each(|key| self.invalidate(key, None, &mut own));
        if self.tracking.broadcasts() {
            self.broadcast_changes(keys(), None, &mut own);
        }
        debug_assert!(own.is_empty(), "nobody's own changes");
    }

    /// Keeps the table within its limit. Called ten times a second.
    pub(crate) fn sample_tracking(&self) {
        if !self.tracking.active() {
            return;
        }
        let mut own = Vec::new();
        self.limit_tracking(self.config.snapshot().settings.connections.tracking_keys_max, None, &mut own);
        debug_assert!(own.is_empty(), "nobody's own changes");
    }

    fn deliver(&self, tracker: &Tracker, message: &Changed, is_own: bool, own: &mut Vec<Changed>) {
        let shared = &tracker.shared;
        let redirect = tracker.options.redirect;
        if redirect == 0 {
            if is_own {
                own.push(message.clone());
            } else {
                self.workers
                    .send(shared.worker, Message::Invalidate { client: shared.id, redirected: false, keys: message.clone() });
            }
        } else if let Some(target) = self.clients.find(redirect) {
            self.workers.send(target.worker, Message::Invalidate { client: redirect, redirected: true, keys: message.clone() });
        } else {
            shared.tracking.broken.store(true, Ordering::Relaxed);
            self.workers.send(shared.worker, Message::RedirectBroken { client: shared.id, redirect });
        }
    }
}

/// An array of bulk strings, which is the same in both versions of the protocol.
fn encode<'k>(keys: impl ExactSizeIterator<Item = &'k [u8]>) -> Bytes {
    let mut bytes = format!("*{}\r\n", keys.len()).into_bytes();
    for key in keys {
        bytes.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.into()
}

#[cfg(test)]
mod tests;
