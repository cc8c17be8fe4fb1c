//! Latching out of order: where units of work meet that hold latches and need one more, whatever its number.
//!
//! Two sessions that did so could wait for each other. So only one session at a time does, the *server*. A session that comes
//! while there is one gives its latches and its ready keys to the server, and waits until the server has served them. The server
//! takes over what it was given while it waits for a latch, and before it ceases to be the server. Other sessions that hold
//! latches and wait for more release them and begin anew while it waits ([`Index::gives_way`]). So it waits for no session that
//! waits for it (INV-LATCH-3).
//!
//! A unit of work that writes and whose keys show while it runs is the server from before its first latch to its end, and latches
//! each key when it comes to it. What it is given meanwhile it serves at its end. Another such unit waits for it without a latch.

use crate::index::Index;
use crate::record::key::ReadyKey;
use crate::session::plan::held::Held;
use crate::sync::{AtomicU64, Backoff, Mutex, MutexGuard, Ordering};
use almandine_base::{sometimes, step};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// What a session gives to the server: keys that are ready, and latches, all exclusive ones, theirs among them.
struct Given {
    latches: Vec<u64>,
    keys: Vec<ReadyKey>,
}

/// Whether there is a server, and what it was given.
#[derive(Default)]
struct CoordinatorState {
    is_served: bool,
    given: Vec<Given>,
}

/// The end of the server that was given a session's ready keys: it has served them then.
#[must_use]
#[derive(Debug)]
pub struct ServerEnd {
    /// Servers that had ended when it was given them.
    before: u64,
}

/// Where the sessions of a store agree which of them is the server.
#[derive(Default)]
pub(crate) struct LatchCoordinator {
    state: Mutex<CoordinatorState>,
    /// Whether the server was given something.
    has_given: AtomicU64,
    /// How many servers have ended.
    ended: AtomicU64,
}

impl LatchCoordinator {
    fn state(&self) -> MutexGuard<'_, CoordinatorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the server has served what a session has given to it.
    pub(in crate::session) fn await_end(&self, server: &ServerEnd) {
        let mut backoff = Backoff::new();
        while step!(AwaitServer, self.ended.load(Ordering::Acquire) == server.before, else false) {
            backoff.wait();
        }
    }

    /// What the server was given. The flag changes with it, under the mutex.
    fn take(&self, state: &mut CoordinatorState) -> Vec<Given> {
        debug_assert!(state.is_served, "INV-LATCH-3: who is given something is the server");
        self.has_given.store(0, Ordering::Relaxed);
        std::mem::take(&mut state.given)
    }
}

/// A session that serves waiters, or whose plan grows, with what it holds.
pub(in crate::session) struct Serving<'s> {
    pub(in crate::session) index: &'s Index,
    pub(in crate::session) latch_coordinator: &'s LatchCoordinator,
    pub(in crate::session) held: &'s mut Held,
}

impl Serving<'_> {
    /// Makes sure that it holds the latch of the bucket of a hash, too. `keys` are those that are ready, whose latches it
    /// holds. Else the server serves them all instead, and this session holds nothing any more; it waits for the server's end.
    pub(in crate::session) fn secure(&mut self, hash: u64, keys: &mut VecDeque<ReadyKey>) -> Result<(), ServerEnd> {
        if !self.held.is_server {
            if self.held.holds_exclusively(self.index, hash) {
                return Ok(());
            }
            self.become_server(keys)?;
        }
        self.hold_another(hash, keys);
        Ok(())
    }

    /// Becomes the server before it holds anything. False while another session is.
    pub(in crate::session) fn begin(&mut self) -> bool {
        debug_assert!(self.held.is_empty() && !self.held.is_server, "INV-LATCH-2: who waits for the server holds nothing");
        self.takes_place(&mut self.latch_coordinator.state())
    }

    /// Latches the bucket of a further key of its unit, as the server. `keys` gets what is given to it meanwhile, to be served at
    /// the end of the unit.
    pub(in crate::session) fn grow(&mut self, hash: u64, keys: &mut VecDeque<ReadyKey>) {
        step!(LatchFurther, self.hold_another(hash, keys));
        self.held.note_key(hash);
    }

    fn takes_place(&mut self, state: &mut CoordinatorState) -> bool {
        debug_assert!(state.is_served || state.given.is_empty(), "INV-BLOCK-1: nothing is left at the state");
        let is_free = step!(OneServer, !state.is_served, else true);
        if is_free {
            state.is_served = true;
            self.held.is_server = true;
        }
        is_free
    }

    /// Takes the place of the server, or gives what this session has to the present one.
    fn become_server(&mut self, keys: &mut VecDeque<ReadyKey>) -> Result<(), ServerEnd> {
        // What is held shared would stand in the way of itself.
        self.held.keep_exclusive(self.index, keys.iter().map(|ready| ready.hash));
        let mut state = self.latch_coordinator.state();
        if self.takes_place(&mut state) {
            return Ok(());
        }
        sometimes!("a session gives its ready keys to the server");
        state.given.push(Given { latches: self.held.give_away(self.index), keys: keys.drain(..).collect() });
        self.latch_coordinator.has_given.store(1, Ordering::Release);
        let ended = self.latch_coordinator.ended.load(Ordering::Relaxed);
        drop(state);
        debug_assert!(self.held.is_empty(), "INV-LATCH-2: who waits for the server holds nothing");
        Err(ServerEnd { before: ended })
    }

    /// Latches another bucket, as the server, which takes over what it is given meanwhile: that may be among it.
    pub(in crate::session) fn hold_another(&mut self, hash: u64, keys: &mut VecDeque<ReadyKey>) {
        debug_assert!(self.held.is_server, "INV-LATCH-3: only the server latches out of order");
        while !self.held.holds_exclusively(self.index, hash) {
            let latch_coordinator = self.latch_coordinator;
            match self.index.latch_out_of_order(hash, || latch_coordinator.has_given.load(Ordering::Acquire) != 0) {
                Some(latch) => self.held.adopt(latch.keep(), hash),
                None => {
                    sometimes!("the server takes keys over while it waits for a latch");
                    let given = latch_coordinator.take(&mut latch_coordinator.state());
                    self.adopt(given, keys);
                }
            }
        }
    }

    fn adopt(&mut self, given: Vec<Given>, keys: &mut VecDeque<ReadyKey>) {
        for Given { latches, keys: ready } in given {
            debug_assert!(!latches.is_empty(), "INV-BLOCK-1: a ready key comes with its latch");
            latches.into_iter().for_each(|number| self.held.adopt(number, ready[0].hash));
            debug_assert!(
                ready.iter().all(|ready| self.held.holds_exclusively(self.index, ready.hash)),
                "INV-BLOCK-1: a ready key stays latched until its turn"
            );
            keys.extend(ready);
        }
    }

    /// All waiters of this session's ready keys are served. If it is the server and was given more meanwhile, these keys are
    /// next: true. Else it is the server no more.
    pub(in crate::session) fn take_over(&mut self, keys: &mut VecDeque<ReadyKey>) -> bool {
        if !self.held.is_server {
            return false;
        }
        // What was served is open again, before its givers go on.
        self.held.release(self.index);
        let mut state = self.latch_coordinator.state();
        if step!(TakeGiven, state.given.is_empty(), else true) {
            state.is_served = false;
            self.held.is_server = false;
            self.latch_coordinator.ended.fetch_add(1, Ordering::Release);
            return false;
        }
        sometimes!("the server takes keys over before it ends");
        let given = self.latch_coordinator.take(&mut state);
        drop(state);
        self.adopt(given, keys);
        true
    }
}
