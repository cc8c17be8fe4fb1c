//! Notifying clients of changed keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use almandine_keyspace::ChangedKey;
use bytes::Bytes;

use super::options::Changed;
use super::registry::Tracker;
use super::trackers::Tracking;
use crate::client::ClientShared;
use crate::messages::Message;

/// Keys that one call takes out of an overfull table at most; more wait for the next call.
const EVICTIONS_PER_CALL: usize = 128;

/// Prefixes with the changed keys below them, and the clients that track them.
type Below<'a> = BTreeMap<&'a [u8], (Vec<&'a [u8]>, &'a BTreeSet<u64>)>;

impl Tracking {
    /// Notifies the clients that have read `key`, and forgets that they have. `by` is the client that changed it; its own
    /// notification goes to `own`, because it must follow the reply.
    pub fn invalidate(&self, key: &[u8], by: Option<u64>, own: &mut Vec<Changed>) {
        let Some(clients) = self.table.remove(key) else { return };
        self.notify_readers(key, &clients, by, own);
    }

    fn notify_readers(&self, key: &[u8], clients: &[u64], by: Option<u64>, own: &mut Vec<Changed>) {
        let message = Some(encode([key].into_iter()));
        let registry = self.read();
        for tracker in clients.iter().filter_map(|id| registry.find(*id)) {
            let is_own = by == Some(tracker.shared.id);
            // A client that changed to BCAST is notified of prefixes only.
            if tracker.options.broadcast || (is_own && tracker.options.no_loop) {
                continue;
            }
            self.deliver(tracker, &message, is_own, own);
        }
    }

    /// Notifies the clients that track prefixes of these keys, one message per prefix. The keys were changed by `by`.
    pub fn broadcast_changes<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, by: Option<u64>, own: &mut Vec<Changed>) {
        let keys: BTreeSet<&[u8]> = keys.collect();
        let registry = self.read();
        let mut below = Below::new();
        for key in keys {
            for (prefix, clients) in registry.matching(key) {
                below.entry(prefix).or_insert_with(|| (Vec::new(), clients)).0.push(key);
            }
        }
        for (keys, clients) in below.into_values() {
            let message = Some(encode(keys.into_iter()));
            for tracker in clients.iter().filter_map(|id| registry.find(*id)) {
                let is_own = by == Some(tracker.shared.id);
                if !(is_own && tracker.options.no_loop) {
                    self.deliver(tracker, &message, is_own, own);
                }
            }
        }
    }

    /// Notifies every client that tracks that all keys have changed, and forgets what they have read.
    pub fn invalidate_all(&self, by: Option<u64>, own: &mut Vec<Changed>) {
        if !self.active() {
            return;
        }
        self.table.clear();
        let registry = self.read();
        for tracker in registry.all() {
            self.deliver(tracker, &None, by == Some(tracker.shared.id), own);
        }
    }

    /// Takes keys at random out of a table that holds more than `keys_max` (0 for no limit), and notifies the clients that have
    /// read them.
    pub fn limit(&self, keys_max: usize, by: Option<u64>, own: &mut Vec<Changed>) {
        for _ in 0..EVICTIONS_PER_CALL {
            if keys_max == 0 || self.table.keys() <= keys_max {
                break;
            }
            let Some((key, clients)) = self.table.remove_random() else { break };
            self.notify_readers(&key, &clients, by, own);
        }
    }

    /// Notifies tracking clients of the changes that no worker reports: of keys that expire or are evicted, above all. Once, before
    /// there are any.
    pub fn follow_changes(self: &Arc<Self>) {
        // The store of the keyspace holds this, so it must not hold the keyspace.
        let tracking = Arc::downgrade(self);
        self.keyspace.listeners().on_changes(move |changed| {
            if let Some(tracking) = tracking.upgrade() {
                tracking.notify_changed(changed);
            }
        });
    }

    /// Notifies the clients that have read the keys, or track a prefix of them, of a change that no client is known to have made.
    fn notify_changed(&self, changed: &[ChangedKey<'_>]) {
        let mut own = Vec::new();
        let keys = || changed.iter().map(|changed| changed.key);
        // Prefixes first: a client that has heard of the change, and names a prefix then, is not notified of what was before.
        if self.broadcasts() {
            self.broadcast_changes(keys(), None, &mut own);
        }
        keys().for_each(|key| self.invalidate(key, None, &mut own));
        debug_assert!(own.is_empty(), "no client's own changes");
    }

    /// Keeps the table within its limit. Called ten times a second.
    pub(crate) fn limit_quietly(&self, keys_max: usize) {
        if !self.active() {
            return;
        }
        let mut own = Vec::new();
        self.limit(keys_max, None, &mut own);
        debug_assert!(own.is_empty(), "no client's own changes");
    }

    fn deliver(&self, tracker: &Tracker, message: &Changed, is_own: bool, own: &mut Vec<Changed>) {
        let (shared, redirect) = (&tracker.shared, tracker.options.redirect);
        let breaks = self.workers.breaks.heard_by_all();
        if redirect == 0 {
            if is_own {
                own.push(message.clone());
            } else {
                self.workers
                    .tell(shared.worker, Message::Invalidate { client: shared.id, origin: None, keys: message.clone(), breaks });
            }
            return;
        }
        let reaches = |target: Arc<ClientShared>| {
            self.workers.tell(
                target.worker,
                Message::Invalidate { client: redirect, origin: Some(shared.id), keys: message.clone(), breaks },
            )
        };
        if !self.clients.find(redirect).is_some_and(reaches) {
            self.tell_broken(shared, redirect);
        }
    }

    /// Tells a client that a message for it, redirected to `redirect`, found that connection gone. For workers: a connection may
    /// end after the message was sent to it and before it arrived.
    pub fn redirect_broken(&self, client: u64, redirect: u64) {
        if let Some(client) = self.clients.find(client)
            && client.tracking.redirect.load(Ordering::Relaxed) == redirect.cast_signed()
        {
            self.tell_broken(&client, redirect);
        }
    }

    fn tell_broken(&self, client: &ClientShared, redirect: u64) {
        client.tracking.broken.store(true, Ordering::Relaxed);
        self.workers.send(client.worker, Message::RedirectBroken { client: client.id, redirect });
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
