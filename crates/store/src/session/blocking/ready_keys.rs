//! Keys that a unit of work has made ready for their waiters.
//!
//! A change of a key with waiters is noted under its latch. The unit keeps its latches to its end, and then the waiters are served
//! under them: no other session comes between (INV-BLOCK-1).

use crate::record::Kind;
use crate::record::key::{Key, ReadyKey};
use crate::session::batch::Session;
use crate::session::blocking::latch_coordinator::{ServerEnd, Serving};
use crate::session::thread_state::ThreadState;
use crate::shared::Shared;
use std::collections::VecDeque;

impl Shared {
    /// Notes a changed key if it has waiters. Its bucket is latched exclusively.
    #[cold]
    pub(in crate::session) fn note_ready(&self, local: &mut ThreadState, key: &Key<'_>, kind: Option<Kind>) {
        if self.consumers.awaited.get().is_some_and(|awaited| awaited(key, kind)) {
            debug_assert!(
                !local.notes.ready.iter().any(|ready| ready.namespace == key.namespace && *ready.key == *key.bytes),
                "INV-BLOCK-1: a key is noted once before its turn"
            );
            local.notes.ready.push(ReadyKey { namespace: key.namespace, key: key.bytes.into(), hash: key.hash });
        }
    }
}

/// Keys that were ready at once for which a session keeps its memory.
const READY_KEPT: usize = 64;

impl Session {
    /// The keys that a unit of work has made ready for their waiters, and the latches that serving takes.
    #[inline]
    pub fn ready(&mut self) -> ReadyKeys<'_> {
        ReadyKeys { session: self }
    }

    /// Whether the unit of work has made keys ready.
    #[inline]
    #[must_use]
    pub(crate) fn has_ready(&self) -> bool {
        !self.local.notes.ready.is_empty()
    }

    pub(in crate::session) fn serving(&mut self) -> Serving<'_> {
        let Self { store, local } = self;
        Serving { index: &store.index, latch_coordinator: &store.latch_coordinator, held: &mut local.held }
    }
}

/// The keys that a unit of work has made ready for their waiters, and the latches that serving takes.
pub struct ReadyKeys<'s> {
    session: &'s mut Session,
}

impl ReadyKeys<'_> {
    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.session.has_ready()
    }

    /// The keys that the unit of work has made ready.
    #[must_use]
    pub fn list(&self) -> &[ReadyKey] {
        &self.session.local.notes.ready
    }

    /// Says that a key is ready, for another reason than a change of its own.
    pub fn add(&mut self, ready: ReadyKey) {
        debug_assert!(!self.session.local.notes.ready.contains(&ready), "INV-BLOCK-1: a key is noted once before its turn");
        self.session.local.notes.ready.push(ready);
    }

    /// As [`ReadyKeys::take`], behind those that are in `keys`.
    pub fn move_to(&mut self, keys: &mut VecDeque<ReadyKey>) {
        let ready = &mut self.session.local.notes.ready;
        debug_assert!(keys.back().is_none_or(|last| !ready.contains(last)), "INV-BLOCK-1: a key is noted once before its turn");
        keys.extend(ready.drain(..));
        ready.shrink_to(READY_KEPT);
    }

    /// Takes the keys that were made ready, in their order.
    pub fn take(&mut self) -> Vec<ReadyKey> {
        std::mem::take(&mut self.session.local.notes.ready)
    }

    /// Makes sure that the session holds the latch of the bucket of a hash, too, while it serves the waiters for `keys`: these
    /// are ready, and it holds their latches.
    ///
    /// # Errors
    /// When another session serves them all instead, and this one holds nothing any more: what to wait for.
    pub fn secure(&mut self, hash: u64, keys: &mut VecDeque<ReadyKey>) -> Result<(), ServerEnd> {
        self.session.plan().close_unit();
        let secured = self.session.serving().secure(hash, keys);
        let is_held = self.session.plan().holds_exclusively(hash);
        debug_assert!(secured.is_ok() == is_held, "INV-LATCH-1: what is latched is known to be held");
        secured
    }

    /// Waits until the session that serves the ready keys of this one has done so. From outside the epoch: that session may have to
    /// enter it, which another one that wants to be alone keeps it from until all have left.
    pub fn await_server(&self, server: &ServerEnd) {
        debug_assert!(!self.session.local.participant.is_inside(), "INV-LATCH-3: who waits for the server holds none up");
        self.session.store.latch_coordinator.await_end(server);
    }

    /// All waiters of this session's ready keys are served. Whether it was given more by others meanwhile: then these keys are
    /// next.
    pub fn take_over(&mut self, keys: &mut VecDeque<ReadyKey>) -> bool {
        self.session.plan().close_unit();
        self.session.serving().take_over(keys)
    }

    /// Latches the buckets of `keys` again, between two keys of which nothing was held.
    pub fn hold_again(&mut self, keys: &mut VecDeque<ReadyKey>) {
        debug_assert!(!self.session.holds_latches(), "INV-LATCH-3: one lock plan at a time");
        let hashes: Vec<u64> = keys.iter().map(|ready| ready.hash).collect();
        if self.session.local.held.is_server {
            // In no order, since it may have been given one of them.
            hashes.iter().for_each(|&hash| self.session.serving().hold_another(hash, keys));
        } else {
            self.session.plan().lock_all(&hashes, true);
        }
    }
}
