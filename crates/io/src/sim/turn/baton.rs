//! The baton of one thread: given by another thread, taken by its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Baton {
    given: AtomicBool,
    owner: Mutex<Option<Thread>>,
}

impl Baton {
    /// Says which thread waits for it. To be called before it is given.
    pub(super) fn belongs_to(&self, owner: Thread) {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(owner);
    }

    /// Lets its owner run.
    pub(super) fn give(&self) {
        self.given.store(true, Ordering::Release);
        if let Some(owner) = &*self.owner.lock().unwrap_or_else(PoisonError::into_inner) {
            owner.unpark();
        }
    }

    /// Waits until it is given.
    pub(super) fn take(&self) {
        while !self.given.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    /// Waits until it is given, or for some real time. False when it was not given.
    pub(super) fn take_within(&self, time_max: Duration) -> bool {
        let begin = Instant::now();
        while !self.given.swap(false, Ordering::Acquire) {
            let Some(left) = time_max.checked_sub(begin.elapsed()) else { return false };
            thread::park_timeout(left);
        }
        true
    }
}
