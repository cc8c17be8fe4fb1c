//! Lock plans: the latches of all keys of a command, taken in ascending bucket order.
//!
//! Every session that holds more than one latch takes them in that order (commands here, resizing in `index::resize`), so there is
//! no cycle of waiting (INV-LATCH-3). While a command uses one key, the cache lines of those behind it are on their way.

pub(crate) mod ahead;
pub(crate) mod glances;
pub(crate) mod held;
pub(crate) mod long_units;

use crate::index::{Index, Peek};
use crate::session::batch::Session;
use crate::session::plan::held::Modes;
use crate::sync::Backoff;
use std::collections::VecDeque;

/// Keys whose cache lines are asked for together.
const GROUP: usize = 16;

impl Session {
    /// The lock plan: the latches that a command, or a unit of several, holds.
    #[inline]
    pub fn plan(&mut self) -> Plan<'_> {
        Plan { session: self }
    }

    /// The bucket of `hash` if the session holds its latch.
    #[inline]
    pub(in crate::session) fn held_bucket(&self, hash: u64) -> Option<u64> {
        if self.local.held.is_empty() {
            return None;
        }
        let number = Index::bucket_of(hash, self.store.index.len());
        let (held, position) = self.local.held.holds(hash, number);
        if let Some(position) = position
            && position.is_multiple_of(GROUP)
        {
            self.fetch_ahead(position);
        }
        held.then_some(number)
    }

    /// Whether the session holds any latch.
    #[inline]
    #[must_use]
    pub(crate) fn holds_latches(&self) -> bool {
        !self.local.held.is_empty()
    }

    /// Asks the cache for what the keys behind those of the group that begins at `position` need: for far ones their bucket,
    /// for near ones their record.
    #[inline(never)]
    fn fetch_ahead(&self, position: usize) {
        let (index, log) = (&self.store.index, &self.store.log);
        let group = |groups: usize| self.local.held.keys(position + groups * GROUP, GROUP).iter();
        group(3).for_each(|&hash| index.prefetch(hash));
        let near = if position == 0 { 0..3 } else { 2..3 };
        for &hash in near.flat_map(group) {
            if let Peek::Record(address) = index.peek(hash)
                && address >= self.local.head
            {
                log.prefetch(address);
            }
        }
        group(1).filter_map(|&hash| index.peek_overflow(hash)).for_each(|address| log.prefetch(address));
    }
}

/// The lock plan: the latches that a command, or a unit of several, holds.
pub struct Plan<'s> {
    pub(in crate::session) session: &'s mut Session,
}

impl Plan<'_> {
    /// Latches the buckets of all `hashes`, exclusively or shared, until [`Plan::unlock_all`]. Nothing may be held yet. If the
    /// session passes by what a long unit has latched, the plan may be refused: it has none of them then
    /// ([`LongUnits::has_refused`](crate::LongUnits::has_refused)).
    pub fn lock_all(&mut self, hashes: &[u64], exclusive: bool) {
        debug_assert!(self.session.local.held.is_empty(), "INV-LATCH-3: one lock plan at a time");
        self.session.look_at_budget();
        let index = &self.session.store.index;
        let held = &mut self.session.local.held;
        if let [hash] = hashes {
            held.take_one(index, *hash, exclusive);
            return;
        }
        if held.take(index, hashes, Modes::All(exclusive)) {
            self.session.fetch_ahead(0);
        }
    }

    /// As [`Plan::lock_all`], each key's bucket exclusively or shared as `exclusive` says of the hash in its place.
    pub fn lock_each(&mut self, hashes: &[u64], exclusive: &[bool]) {
        debug_assert!(self.session.local.held.is_empty(), "INV-LATCH-3: one lock plan at a time");
        debug_assert_eq!(hashes.len(), exclusive.len(), "INV-LATCH-3: each key has its mode");
        self.session.look_at_budget();
        if let ([hash], [exclusive]) = (hashes, exclusive) {
            self.session.local.held.take_one(&self.session.store.index, *hash, *exclusive);
            return;
        }
        if self.session.local.held.take(&self.session.store.index, hashes, Modes::Each(exclusive)) {
            self.session.fetch_ahead(0);
        }
    }

    /// Begins a plan that grows while the unit of work goes on, with no key: no latch of it waits in order behind the others. False
    /// while another session has such a plan, or serves waiters by latches out of order. The end of it is
    /// [`ReadyKeys::take_over`](crate::ReadyKeys::take_over).
    #[must_use]
    pub fn try_begin_growing(&mut self) -> bool {
        debug_assert!(self.session.local.held.is_empty(), "INV-LATCH-3: one lock plan at a time");
        self.session.look_at_budget();
        self.session.serving().begin()
    }

    /// Latches the bucket of a further key, exclusively.
    pub fn grow(&mut self, hash: u64) {
        let mut given = VecDeque::new();
        self.session.serving().grow(hash, &mut given);
        self.session.local.notes.ready.extend(given);
        let Session { store, local } = &mut *self.session;
        local.held.tell_grown(&store.index);
    }

    /// Releases all latches.
    #[inline]
    pub fn unlock_all(&mut self) {
        if self.session.holds_latches() {
            self.session.end_unit();
            self.session.local.held.release(&self.session.store.index);
        }
        debug_assert!(!self.session.holds_latches(), "INV-LATCH-2: a plan is released as a whole");
    }

    /// Releases the latches of a command that has ended. Not if it has made a key with waiters ready: then the latches stay, so
    /// that no other client takes what is there for the first waiter (INV-BLOCK-1). Says whether they have.
    #[inline]
    #[must_use = "latches that stay must be released later"]
    pub fn end_command(&mut self) -> bool {
        if !self.session.holds_latches() {
            return false;
        }
        if self.session.has_ready() {
            return true;
        }
        self.session.end_unit();
        self.session.local.held.release(&self.session.store.index);
        false
    }

    /// Ends a unit of work whose latches stay: those of keys that it has made ready, or of all. What comes next is another unit.
    pub fn close_unit(&mut self) {
        let Session { store, local } = &mut *self.session;
        store.close_unit(local);
    }

    /// Whether any latch is held.
    #[inline]
    #[must_use]
    pub fn holds_any(&self) -> bool {
        self.session.holds_latches()
    }

    /// Whether the session holds the latch of the bucket where a hash belongs.
    #[must_use]
    pub fn holds(&self, hash: u64) -> bool {
        self.session.held_bucket(hash).is_some()
    }

    /// Whether the session holds the latch of the bucket where a hash belongs, exclusively.
    #[must_use]
    pub fn holds_exclusively(&self, hash: u64) -> bool {
        self.session.local.held.holds_exclusively(&self.session.store.index, hash)
    }

    /// Begins a batch, as [`Session::enter`], without waiting: false, and outside, while another session is alone.
    #[inline]
    pub fn try_enter(&mut self, now_ms: i64) -> bool {
        self.session.try_enter(now_ms)
    }

    /// Waits until no session is alone, but for no longer than this. Between batches.
    #[cold]
    pub fn await_others(&self, time_max: std::time::Duration) {
        self.session.local.participant.await_gate_for(time_max);
    }

    /// Between two operations of a batch: waits until all other sessions of [`crate::Store::session`] have ended their batches,
    /// and keeps them from beginning others until [`Plan::end_alone`]. What lies between is one step for every observer,
    /// whatever it touches.
    pub fn begin_alone(&mut self) {
        debug_assert!(!self.session.holds_latches(), "INV-LATCH-2: whoever waits for others holds none of them up");
        let now_ms = self.session.local.now_ms;
        self.session.leave();
        self.session.local.participant.ask_alone();
        let mut backoff = Backoff::new();
        while !self.session.local.participant.is_alone() {
            backoff.wait();
        }
        self.session.enter(now_ms);
        debug_assert!(self.session.local.participant.has_gate_closed(), "INV-NS-2: no other session begins a batch");
    }

    /// Lets the others go on, within the batch.
    pub fn end_alone(&mut self) {
        debug_assert!(self.session.local.participant.has_gate_closed(), "INV-NS-2: what ends alone has begun alone");
        debug_assert!(!self.session.holds_latches(), "INV-LATCH-2: what was done alone holds nobody up");
        self.close_unit();
        self.session.local.participant.end_alone();
    }
}
