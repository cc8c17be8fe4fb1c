//! Wakes one waiting thread without losing a signal.
//!
//! The waker publishes its work before it wakes; the waiter looks for work after each wait. If a signal is there already, the
//! *waker* is done: many wakes of a running thread read a shared cache line and do not write it.
//!
//! ```text
//! waker                                  waiter
//!  w1  publishes work                     t1  waiting = true
//!  w2  fence                              t2  fence
//!  w3  signalled? then done               t3  parks unless signalled
//!  w4  signalled = true (release)         t4  waiting = false
//!  w5  fence                              t5  signalled swapped for false (acquire)
//!  w6  waiting? then unparks              t6  fence
//!                                         t7  looks for work
//! ```
//!
//! *It does not sleep on a signal.* Of the fences w5 and t2 one is first: either w6 sees t1 and unparks, or t3 sees w4.
//! *It does not miss the work.* If t5 takes the signal of w4, it is ordered after w1. If w3 saw a signal that t5 took, then w3 did
//! not see t5, so w2 is before t6 in the order of the fences, and t7 sees w1. Without w2 the load of w3 may pass the store of w1:
//! the signal is old, the work is not there yet when t7 looks, and no thread wakes the waiter for it.

use std::sync::OnceLock;
use std::time::Duration;

use almandine_base::step;

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

use self::parked::Parked;

#[cfg(all(test, loom))]
mod model;
mod parked;

/// Wakes one waiting thread. A wake that comes before the wait is not lost. A wake while a signal is there costs a fence and a
/// load.
#[derive(Debug)]
pub struct Waker {
    /// Written by the thread that waits.
    waiting: AtomicBool,
    /// Set by the waker, taken by the waiter.
    signalled: AtomicBool,
    thread: OnceLock<Parked>,
}

impl Default for Waker {
    fn default() -> Self {
        Self::new()
    }
}

impl Waker {
    /// A waker without a thread yet; the first [`Waker::wait`] binds it to its caller.
    #[must_use]
    pub fn new() -> Self {
        Self { waiting: AtomicBool::new(false), signalled: AtomicBool::new(false), thread: OnceLock::new() }
    }

    /// Wakes the waiting thread, or makes its next wait return at once.
    pub fn wake(&self) {
        step!(AskFence, fence(Ordering::SeqCst));
        if self.signalled.load(Ordering::Relaxed) {
            return;
        }
        self.signalled.store(true, Ordering::Release);
        step!(SignalFence, fence(Ordering::SeqCst));
        if self.waiting.load(Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Waits until woken or until `timeout` has passed. Called by one thread only.
    pub fn wait(&self, timeout: Duration) {
        let thread = self.thread.get_or_init(Parked::current);
        let is_signalled = step!(SayWaiting, self.waiting.store(true, Ordering::Relaxed), then {
            step!(WaitFence, fence(Ordering::SeqCst));
            self.signalled.load(Ordering::Relaxed)
        });
        if !is_signalled {
            thread.park(timeout);
        }
        self.waiting.store(false, Ordering::Relaxed);
        self.signalled.swap(false, Ordering::Acquire);
        step!(TakeFence, fence(Ordering::SeqCst));
    }
}
