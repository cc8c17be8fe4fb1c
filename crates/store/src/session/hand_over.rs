//! Keys that a unit of work has made ready for those who wait for them.
//!
//! A change of a key that somebody waits for is noted under its latch. The unit keeps its latches to its end, and then those who wait are served
//! under them: nobody else comes between (INV-BLOCK-1).

use super::batch::Session;
use super::local::Local;
use crate::key::{Key, ReadyKey};
use crate::record::Kind;
use crate::shared::Inner;

/// Latches that no session has: the one that gets them releases them.
#[derive(Debug)]
#[must_use = "they are released by who takes them over"]
pub struct Latches(Vec<u64>);

impl Inner {
    /// Notes a changed key if somebody waits for it. Its bucket is latched exclusively.
    #[cold]
    pub(super) fn note_ready(&self, local: &mut Local, key: &Key<'_>, kind: Option<Kind>) {
        if self.consumers.awaited.get().is_some_and(|awaited| awaited(key, kind)) {
            debug_assert!(
                !local.notes.ready.iter().any(|ready| ready.namespace == key.namespace && *ready.key == *key.bytes),
                "INV-BLOCK-1: a key is noted once before its turn"
            );
            local.notes.ready.push(ReadyKey { namespace: key.namespace, key: key.bytes.into(), hash: key.hash });
        }
    }
}

impl Session {
    /// Whether the unit of work has made keys ready.
    #[inline]
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.local.notes.ready.is_empty()
    }

    /// Whether a key is among those that the unit of work has made ready.
    #[must_use]
    pub fn is_ready(&self, ready: &ReadyKey) -> bool {
        self.local.notes.ready.contains(ready)
    }

    /// Says that a key is ready, for another reason than a change of its own.
    pub fn add_ready(&mut self, ready: ReadyKey) {
        debug_assert!(!self.is_ready(&ready), "INV-BLOCK-1: a key is noted once before its turn");
        self.local.notes.ready.push(ready);
    }

    /// Takes the keys that were made ready, in their order.
    pub fn take_ready(&mut self) -> Vec<ReadyKey> {
        std::mem::take(&mut self.local.notes.ready)
    }

    /// Releases all latches but those of these keys, which are held exclusively.
    pub fn keep_only(&mut self, ready: &[u64]) {
        self.local.held.keep_only(&self.store.index, ready);
        debug_assert!(
            ready.iter().all(|&hash| self.holds_exclusively(hash)),
            "INV-BLOCK-1: a ready key stays latched until its turn"
        );
    }

    /// Whether the session holds the latch of the bucket where a hash belongs, exclusively.
    #[must_use]
    pub fn holds_exclusively(&self, hash: u64) -> bool {
        self.local.held.holds_exclusively(&self.store.index, hash)
    }

    /// Latches the bucket of a hash beside those that are held, whatever its number; unless `gives_up` says so while somebody has to be waited for.
    /// Only one session at a time may do this: others who hold latches and wait give way to it (INV-LATCH-3).
    pub fn hold_another(&mut self, hash: u64, gives_up: impl FnMut() -> bool) -> bool {
        if self.holds_exclusively(hash) {
            return true;
        }
        let Some(latch) = self.store.index.latch_out_of_order(hash, gives_up) else { return false };
        self.local.held.adopt(latch.keep(), hash);
        debug_assert!(self.holds_exclusively(hash), "INV-LATCH-1: what is latched is known to be held");
        true
    }

    /// Gives the latches away, all of them exclusive ones, for another session to take over.
    pub fn give_latches(&mut self) -> Latches {
        let latches = Latches(self.local.held.give_away());
        debug_assert!(!self.holds_latches(), "INV-LATCH-1: what is given away is not held");
        latches
    }

    /// Takes over the latches of another session, with a hash of a key that is under one of them.
    pub fn adopt_latches(&mut self, latches: Latches, hash: u64) {
        debug_assert!(!latches.0.is_empty(), "INV-BLOCK-1: a ready key comes with its latch");
        latches.0.into_iter().for_each(|number| self.local.held.adopt(number, hash));
    }

    /// Whether the session holds the latch of the bucket where a hash belongs.
    #[must_use]
    pub fn holds(&self, hash: u64) -> bool {
        self.held_bucket(hash).is_some()
    }
}
