//! CLIENT TRACKING: which client may hold a copy of which key, and telling it when the key changes.
//!
//! Two ways, as in Redis. By default a key that a tracking client reads is remembered with the client ([`table`]), and forgotten with the
//! one message that tells of its change. With BCAST a client names prefixes ([`registry`]) and hears of every change below them; nothing is
//! remembered then.
//!
//! *The race of a read with a write.* A key is remembered before it is read, so a write that the read did not see finds it; and once more
//! after it was read if any message went out meanwhile, so that a later write finds it too. At worst a client is told once too often.
//!
//! *Expiry.* The store removes expired records in the background and tells nobody. But whatever changes a remembered key forgets it, so
//! the expiry that it had when it was read is still the one it has: [`due`] keeps these, and [`Node::sample`] tells about them on time.
//!
//! While nobody tracks, all of this costs the callers a relaxed load before and after a group of commands ([`Tracking::active`]).

mod due;
mod registry;
mod table;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use crate::clients::ClientShared;
use crate::control::Message;
use crate::{Node, lock};

use due::Due;
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
#[derive(Debug, Default)]
pub struct Tracking {
    clients: AtomicUsize,
    prefixes: AtomicUsize,
    registry: RwLock<Registry>,
    table: Table,
    due: Mutex<Due>,
}

impl Tracking {
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
            self.due().clear();
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

    /// Notes when a key of a database expires; `None` for never. Beyond `keys_max` keys (0 for no limit) nothing more is noted.
    pub fn note_expiry(&self, db: u16, key: &[u8], expiry_ms: Option<i64>, keys_max: usize) {
        self.due().note(db, key, expiry_ms, keys_max);
    }

    fn publish(&self, registry: &Registry) {
        self.prefixes.store(registry.prefixes(), Ordering::Relaxed);
        self.clients.store(registry.clients(), Ordering::SeqCst);
    }

    fn read(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self) -> MutexGuard<'_, Due> {
        lock(&self.due)
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
    pub fn broadcast_changes(&self, keys: &[Vec<u8>], by: Option<u64>, own: &mut Vec<Changed>) {
        let keys: BTreeSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
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
        self.tracking.due().clear();
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

    /// What is due: expired keys, and keys beyond the limit. Called ten times a second.
    pub(crate) fn sample_tracking(&self, now_ms: i64) {
        if !self.tracking.active() {
            return;
        }
        let expired = self.tracking.due().take(now_ms);
        let mut own = Vec::new();
        expired.iter().for_each(|key| self.invalidate(key, None, &mut own));
        if self.tracking.broadcasts() {
            self.broadcast_changes(&expired, None, &mut own);
        }
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
