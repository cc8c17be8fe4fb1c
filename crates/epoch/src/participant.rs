//! One worker's membership of the epoch: the only part of this crate that runs on the hot path.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use almandine_base::step;

use crate::epoch::{Epoch, OUTSIDE};
use crate::sync::{Ordering, fence};

/// A registered thread's reservation. It may move to another thread, but only one uses it at a time; dropping it gives the
/// reservation back.
pub struct Participant {
    epoch: Arc<Epoch>,
    index: usize,
    /// Whether it has the gate closed. (The cell makes it `!Sync`, too: two threads must not enter through one reservation.)
    alone: Cell<bool>,
}

impl Participant {
    pub(crate) fn new(epoch: Arc<Epoch>, index: usize) -> Self {
        debug_assert!(epoch.reservation(index).taken.load(Ordering::Relaxed), "nobody else gets this reservation");
        Self { epoch, index, alone: Cell::new(false) }
    }

    /// The epoch it takes part in.
    #[inline]
    pub fn epoch(&self) -> &Arc<Epoch> {
        &self.epoch
    }

    /// Enters the current epoch. Until [`Self::leave`] or [`Self::refresh`], nothing that is reachable now is reclaimed.
    #[inline]
    pub fn enter(&self) {
        debug_assert!(!self.is_inside(), "entered twice");
        self.occupy(self.epoch.observed());
        debug_assert!(self.is_inside(), "E1: what it reads from here on is not reclaimed");
    }

    /// As [`Self::enter`], through the gate: waits while another participant is alone.
    #[inline]
    pub fn enter_gated(&self) {
        while !self.try_enter_gated() {
            self.await_gate();
        }
    }

    /// The same, without waiting: false, and outside, while another participant is alone.
    #[inline]
    pub fn try_enter_gated(&self) -> bool {
        self.enter();
        // Acquire: what was done alone happens before what follows.
        let enters = !self.epoch.gate.closed.load(Ordering::Acquire) || self.alone.get();
        if !enters {
            self.leave();
        }
        enters
    }

    /// Waits until no participant is alone. From outside the epoch.
    #[cold]
    pub fn await_gate(&self) {
        drop(self.epoch.gate.await_opened());
    }

    /// The same, but for no longer than this.
    #[cold]
    pub fn await_gate_for(&self, time_max: std::time::Duration) {
        self.epoch.gate.await_opened_for(time_max);
    }

    /// Closes the gate, once no other participant has it closed. From outside the epoch. [`Self::is_alone`] says when the
    /// others have left.
    pub fn ask_alone(&self) {
        debug_assert!(!self.is_inside() && !self.alone.get(), "E4: whoever waits for others holds none of them up");
        self.epoch.gate.take_turn();
        self.alone.set(true);
        self.epoch.gate.closed.store(true, Ordering::Relaxed);
        step!(GateFence, fence(Ordering::SeqCst));
    }

    /// Whether this participant has closed the gate.
    pub fn has_gate_closed(&self) -> bool {
        self.alone.get()
    }

    /// Whether all others that enter through the gate, which this participant has closed, are outside. From the first time that
    /// it is true on, this participant is alone; it may be false again for the moment in which another one looks at the gate.
    pub fn is_alone(&self) -> bool {
        debug_assert!(self.alone.get(), "E4: only behind a closed gate is anybody alone");
        step!(GateWait, self.epoch.others_are_outside(self.index), else true)
    }

    /// Whether another participant has closed the gate. For one that does not enter through it, and must not do what the one that
    /// is alone may have to undo: what it does under a lock that the other one takes afterwards comes before that one's work.
    #[inline]
    pub fn is_kept_out(&self) -> bool {
        self.epoch.gate.closed.load(Ordering::Acquire) && !self.alone.get()
    }

    /// Opens the gate.
    pub fn end_alone(&self) {
        debug_assert!(self.alone.get(), "E4: who opens the gate has closed it");
        self.alone.set(false);
        self.epoch.gate.closed.store(false, Ordering::Release);
        self.epoch.gate.end_turn();
    }

    /// Leaves the epoch: pointers into protected memory that were obtained since `enter` are dead.
    #[inline]
    pub fn leave(&self) {
        debug_assert!(self.is_inside(), "left from outside");
        let order = step!(LeaveRelease, Ordering::Release, else Ordering::Relaxed);
        self.epoch.reservation(self.index).epoch.store(OUTSIDE, order);
    }

    /// Leaves and enters at once, for a thread that stays inside for long. A load only, when no epoch has begun meanwhile.
    #[inline]
    pub fn refresh(&self) {
        debug_assert!(self.is_inside(), "refreshed from outside");
        let observed = self.epoch.observed();
        let reserved = self.epoch.reservation(self.index).epoch.load(Ordering::Relaxed);
        debug_assert!(reserved <= observed, "epochs only grow");
        if reserved != observed {
            self.occupy(observed);
        }
    }

    /// Whether it is between [`Self::enter`] and [`Self::leave`].
    #[inline]
    pub fn is_inside(&self) -> bool {
        self.epoch.reservation(self.index).is_inside()
    }

    /// Release: what this participant read in an earlier epoch is over for a scan that sees the new one.
    /// The fence is step r3 of the argument in [`crate::epoch`].
    #[inline]
    fn occupy(&self, observed: u64) {
        self.epoch.reservation(self.index).epoch.store(observed, Ordering::Release);
        step!(EnterFence, fence(Ordering::SeqCst));
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        let reservation = self.epoch.reservation(self.index);
        debug_assert!(reservation.taken.load(Ordering::Relaxed), "a reservation is given back once");
        if self.alone.get() {
            self.end_alone();
        }
        reservation.epoch.store(OUTSIDE, Ordering::Release);
        reservation.taken.store(false, Ordering::Release);
    }
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant").field("index", &self.index).field("inside", &self.is_inside()).finish_non_exhaustive()
    }
}
