//! A session's batches: entering the epoch, leaving it, and what is due at their ends.

use super::allocate;
use crate::log::NO_PAGE;
use crate::record::WORD;
use crate::record::heap::SharedValue;
use crate::record::key::{GlanceId, Key};
use crate::session::heat::evict::make_room;
use crate::session::thread_state::ThreadState;
use crate::shared::Shared;
use almandine_base::step;
use almandine_epoch::Participant;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Limbo records after which a session moves the epoch itself instead of waiting for the background.
const LIMBO_BEFORE_BUMP: usize = 128;
/// Limbo records that one batch settles at most.
const SETTLE_PER_BATCH: usize = 1024;
/// A thread's session with the store. Enter it, do a batch of operations, leave it.
pub struct Session {
    pub(crate) store: Arc<Shared>,
    pub(crate) local: ThreadState,
}

impl Session {
    /// Drops a heap value that was shared. One without another holder that takes long to free is freed in the background.
    pub(crate) fn release(&self, value: SharedValue) {
        self.store.discard(value);
    }

    /// A session with a thread number and an epoch slot of its own; none when all are taken.
    pub(crate) fn open(store: &Arc<Shared>) -> Option<Self> {
        Self::register(store, store.take_thread()?, store.epoch.register())
    }

    /// As [`Session::open`], for a session that others may keep out while they are alone ([`crate::Plan::begin_alone`]).
    pub(crate) fn open_gated(store: &Arc<Shared>) -> Option<Self> {
        Self::register(store, store.take_thread()?, store.epoch.register_gated())
    }

    fn register(store: &Arc<Shared>, thread: usize, participant: Option<Participant>) -> Option<Self> {
        debug_assert!(thread < store.counters.threads.len(), "each thread has counters of its own");
        // Without one, for which the disk has no room, its units go beside the rings, and replies wait for them.
        let _ = store.consumers.log().map(|rings| rings.open(thread));
        if store.consumers.has_order() {
            // The ring may have units of the session that had the thread's number before: numbers ascend in it (INV-ORDER-1).
            store.consumers.begin_epoch();
        }
        match participant {
            Some(participant) => Some(Self { store: Arc::clone(store), local: ThreadState::new(participant, thread) }),
            None => {
                store.release_thread(thread);
                None
            }
        }
    }

    /// Begins a batch: from here on, what is read stays readable. `now_ms` is the time by which records expire.
    ///
    /// No guard ends the batch by its drop: a worker keeps its session in one struct with what the commands of the batch change,
    /// and leaves the epoch for a moment in the middle of a unit of work. Debug builds check INV-LATCH-2 instead.
    #[inline]
    pub fn enter(&mut self, now_ms: i64) {
        while !self.try_enter(now_ms) {
            self.local.participant.await_gate();
        }
    }

    /// The same, without waiting: false, and outside, while another session is alone.
    #[inline]
    pub(crate) fn try_enter(&mut self, now_ms: i64) -> bool {
        debug_assert!(self.local.held.is_empty(), "INV-LATCH-2: a batch begins without latches");
        self.local.now_ms = now_ms;
        self.local.glances.clear();
        let enters;
        // In this order: a head that moves later leaves its pages in memory until this batch has ended (INV-TIER-1).
        step!(HeadInEpoch, enters = self.local.participant.try_enter_gated(), then self.local.head = self.store.log.head());
        enters
    }

    /// Ends a batch.
    #[inline]
    pub fn leave(&mut self) {
        debug_assert!(self.local.held.is_empty(), "INV-LATCH-2: no latch outlives its batch");
        debug_assert!(self.local.participant.is_inside(), "INV-LATCH-2: a batch ends once");
        self.look_at_budget();
        if cfg!(debug_assertions) {
            self.check_touched();
        }
        debug_assert!(
            !self.local.notes.unit.is_open() || self.local.participant.has_gate_closed(),
            "INV-ORDER-1: a unit of work takes its number under its latches"
        );
        let anything_died = self.local.free.limbo_len() != 0 || !self.local.dead_keys.is_empty();
        if anything_died {
            self.tag();
        }
        self.local.participant.leave();
        if anything_died {
            self.settle();
        }
        if self.leaves_changes() {
            self.hand_over_changes();
        }
    }

    /// Goes on in the present epoch, between two commands of a unit of work that takes long: nothing that was read before is used
    /// from here on, so what died meanwhile need not wait for it, nor what it has not numbered yet. It stays in its batch for those
    /// that want to be alone, and keeps its latches.
    pub(crate) fn renew(&mut self) {
        debug_assert!(self.local.participant.is_inside(), "INV-LATCH-2: a unit of work lies within a batch");
        self.local.glances.clear();
        step!(HeadInEpoch, self.local.participant.refresh(), then self.local.head = self.store.log.head());
    }

    /// Makes room when enough has been allocated since the last look. Inside the epoch, without latches.
    #[inline]
    pub(crate) fn look_at_budget(&mut self) {
        if self.local.allocated.words >= self.local.allocated.quantum_words {
            make_room(&self.store, &mut self.local);
        }
    }

    /// Counts bytes against the budget that the store does not allocate, since the last batch: the end of this one makes room
    /// for them, if it must.
    pub fn count_growth(&mut self, bytes: usize) {
        self.local.allocated.words += bytes / WORD;
    }

    /// Says within a batch that it is later now.
    #[inline]
    pub fn pass_time(&mut self, now_ms: i64) {
        debug_assert!(now_ms >= self.local.now_ms, "INV-EXP-1: what has expired stays so");
        self.local.now_ms = now_ms;
    }

    /// The time of the batch in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.local.now_ms
    }

    /// The hash of a key.
    #[inline]
    #[must_use]
    pub(crate) fn hash(&self, namespace: u16, key: &[u8]) -> u64 {
        self.store.hash(namespace, key)
    }

    /// A key with its hash.
    #[inline]
    #[must_use]
    pub fn key<'k>(&self, namespace: u16, bytes: &'k [u8]) -> Key<'k> {
        Key { namespace, glance: GlanceId::default(), bytes, hash: self.hash(namespace, bytes) }
    }

    /// Says of what the batch has unlinked that it died in this epoch or before.
    fn tag(&mut self) {
        if self.local.free.has_untagged() || self.local.dead_keys.has_untagged() {
            // One fence for all of it.
            let epoch = self.store.epoch.current();
            self.local.free.tag(epoch);
            self.local.dead_keys.tag(epoch);
        }
    }

    /// Reclaims what no reader can reach any more. While the epoch goes on in which the oldest died, there is nothing to look for.
    fn settle(&mut self) {
        let (epoch, local) = (&self.store.epoch, &mut self.local);
        let Some(oldest) = local.free.oldest_epoch().into_iter().chain(local.dead_keys.oldest_epoch()).min() else { return };
        if !epoch.is_over(oldest) {
            // Nothing can be safe before the epoch ends, so there is nothing to look for.
            if local.free.limbo_len() < LIMBO_BEFORE_BUMP && !local.dead_keys.press() {
                return;
            }
            epoch.bump();
        }
        let safe = if epoch.safe_cached() >= oldest { epoch.safe_cached() } else { epoch.safe() };
        local.free.settle(safe, &self.store.log, SETTLE_PER_BATCH);
        local.free.share(&self.store.shared_free, false);
        local.dead_keys.settle(safe);
    }

    /// Passes all freed space on to the other sessions. For threads that free and do not allocate.
    pub(crate) fn surrender_free_space(&mut self) {
        self.tag();
        let safe = self.store.epoch.safe();
        self.local.free.settle(safe, &self.store.log, usize::MAX);
        self.local.dead_keys.settle(safe);
        self.local.free.share(&self.store.shared_free, true);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The rest of the chunk is written to, so its page must not leave memory meanwhile (INV-TIER-1).
        if !self.local.participant.is_inside() {
            self.local.participant.enter();
        }
        // A lock plan that a panic has left behind must not hold others up.
        self.store.end_unit(&mut self.local);
        self.local.held.release(&self.store.index);
        self.retire_chunk();
        if self.local.free.has_untagged() {
            self.local.free.tag(self.store.epoch.current());
        }
        self.local.participant.leave();
        self.surrender_free_space();
        self.local.dead_keys.hand_over(&self.store.epoch);
        self.store.release_thread(self.local.thread);
    }
}

impl Session {
    fn retire_chunk(&mut self) {
        debug_assert!(self.local.held.is_empty(), "INV-LATCH-2: a session ends without latches");
        let Self { store, local } = self;
        allocate::abandon_chunk(store, local);
        store.threads.active_pages[local.thread].store(NO_PAGE, Ordering::Release);
    }
}
