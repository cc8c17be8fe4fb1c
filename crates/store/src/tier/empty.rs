//! Emptying memory: all pages leave for the device at once, so that whatever is asked for next is cold.
//!
//! Tests ask for it, because little data would never leave by itself. The cascade does it, in its usual order; it must not take
//! shortcuts, or tests would prove something that does not happen.

use super::Tier;
use crate::log::Log;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Sleep between two looks at how far the cascade is.
const LOOK: Duration = Duration::from_micros(100);

/// What was asked for, and how far it is.
#[derive(Default)]
pub(crate) struct Emptying {
    /// Pages below this number are to leave.
    below: AtomicU64,
    /// Pages below this number have left.
    left: AtomicU64,
}

impl Emptying {
    /// Whether a page is to leave, whatever the budget says.
    pub(super) fn includes(&self, page: u64) -> bool {
        page < self.below.load(Ordering::Relaxed)
    }

    /// The cascade has nothing below this page any more.
    pub(super) fn reached(&self, page: u64) {
        self.left.fetch_max(page, Ordering::AcqRel);
    }
}

impl Tier {
    /// Lets all pages leave that are in memory now. False when the device has not taken them in time.
    pub(crate) fn empty_memory(&self, log: &Log, within: Duration) -> bool {
        let below = log.tail_page().max(log.cache_page()) + 1;
        let deadline = Instant::now() + within;
        self.emptying.below.fetch_max(below, Ordering::Relaxed);
        while self.emptying.left.load(Ordering::Acquire) < below {
            if Instant::now() > deadline {
                return false;
            }
            self.waker.wake();
            std::thread::sleep(LOOK);
        }
        true
    }
}
