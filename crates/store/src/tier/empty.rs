//! Emptying memory: all pages leave for the device at once, so that whatever is asked for next is cold.
//!
//! Tests ask for it, because little data would never leave by itself. The flusher does it, in its usual order; it must not take
//! shortcuts, or tests would prove something that does not happen.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Sleep between two looks at how far the flusher is.
pub(super) const LOOK: Duration = Duration::from_micros(100);
/// The same while the device fails, and after how many of those it is over.
pub(super) const FAILING_LOOK: Duration = Duration::from_millis(20);
pub(super) const FAILURES_MAX: u32 = 25;

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
    pub(crate) fn includes(&self, page: u64) -> bool {
        page < self.below.load(Ordering::Relaxed)
    }

    /// The flusher has nothing below this page any more.
    pub(crate) fn reached(&self, page: u64) {
        let before = self.left.fetch_max(page, Ordering::AcqRel);
        debug_assert!(before <= page, "INV-TIER-1: pages leave memory in their order");
    }

    /// Asks for all pages below this one to leave.
    pub(crate) fn ask(&self, below: u64) {
        debug_assert_ne!(below, 0, "there is a page to empty");
        self.below.fetch_max(below, Ordering::Relaxed);
    }

    /// Whether all pages below this one have left.
    pub(super) fn has_reached(&self, below: u64) -> bool {
        self.left.load(Ordering::Acquire) >= below
    }
}
