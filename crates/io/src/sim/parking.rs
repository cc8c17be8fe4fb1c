//! What `park` and `unpark` of the standard library are, for a simulated thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::turn::{self, Place};
use super::wait_point::WaitPoint;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    is_ended: AtomicBool,
    ended: WaitPoint,
}

impl Parking {
    /// For the calling thread, if that is simulated.
    pub(crate) fn current() -> Option<Self> {
        (turn::place() == Place::Thread).then(Self::default)
    }

    /// Waits, unless the end of the wait has come before.
    pub(crate) fn park(&self, time_max: Duration) {
        // Nothing runs between the look and the wait.
        if !self.is_ended.swap(false, Ordering::Relaxed) {
            self.ended.wait("is parked", turn::later_ns(time_max));
            self.is_ended.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn unpark(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.ended.notify_all();
    }
}
