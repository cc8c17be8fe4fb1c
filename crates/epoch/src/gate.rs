//! The gate: one participant works alone, while all others that enter through the gate are outside.
//!
//! For work whose extent is unknown before it runs. A participant that asks to be alone closes the gate and waits until the
//! others have left; the others wait in front of it. Work that is done alone is one step for every observer (E4).
//!
//! ```text
//! participant P (enter_gated)        participant A (ask_alone, is_alone, end_alone)
//!  g1  mine = e      (release)        a1  closed = true
//!  g2  fence         (seq_cst)        a2  fence          (seq_cst)
//!  g3  closed?       (acquire)        a3  all others outside? (acquire)
//!      yes: leave, wait, g1           a4  works
//!  g4  works                          a5  closed = false (release)
//!  g5  mine = 0      (release)
//! ```
//!
//! If a3 does not see g1, then P's fence does not precede A's, so a2 precedes g2 in their order and g3 sees a1, or a5, which it
//! acquires: P waits, or comes after A. If a3 sees g1, A waits for g5, which it acquires. Either way a4 and g4 do not overlap.
//! The fence at g2 is the one of every entry, so the gate costs an entry one load.

use std::sync::PoisonError;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};

/// The gate of one epoch.
pub(crate) struct Gate {
    /// Read by every entry, written only by the participant that is alone.
    pub(crate) closed: CachePadded<AtomicBool>,
    /// Whether a participant has asked to be alone.
    asked: Mutex<bool>,
    opened: Condvar,
}

impl Default for Gate {
    fn default() -> Self {
        Self { closed: CachePadded::new(AtomicBool::new(false)), asked: Mutex::new(false), opened: Condvar::new() }
    }
}

impl Gate {
    /// Waits for its turn to be alone, outside the epoch.
    pub(crate) fn take_turn(&self) {
        *self.await_opened() = true;
    }

    /// Gives its turn up, with the gate open again.
    pub(crate) fn end_turn(&self) {
        debug_assert!(!self.closed.load(Ordering::Relaxed), "E4: a turn ends with an open gate");
        let mut asked = self.lock();
        debug_assert!(*asked, "E4: a turn ends once");
        *asked = false;
        self.opened.notify_all();
    }

    /// Waits until no participant is alone or has asked for it.
    pub(crate) fn await_opened(&self) -> MutexGuard<'_, bool> {
        let mut asked = self.lock();
        while *asked {
            asked = self.opened.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
        asked
    }

    /// The same, but for no longer than this.
    #[cfg(not(loom))]
    pub(crate) fn await_opened_for(&self, time_max: std::time::Duration) {
        drop(self.opened.wait_timeout_while(self.lock(), time_max, |asked| *asked));
    }

    /// Models know no time.
    #[cfg(loom)]
    pub(crate) fn await_opened_for(&self, _: std::time::Duration) {
        drop(self.await_opened());
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
