//! What debug builds check: the keys that a batch has changed (`check`), and that no read is nested in another. Release builds
//! note nothing.

use std::cell::Cell;

/// Keys that are noted at most.
const TOUCHED_MAX: usize = 16;

/// Hashes of the keys that a batch has changed, and whether a value is visited under a shared hold.
#[derive(Default)]
pub(super) struct Touched {
    hashes: Vec<u64>,
    visiting: Cell<bool>,
}

impl Touched {
    #[inline]
    pub(super) fn note(&mut self, hash: u64) {
        if cfg!(debug_assertions) && self.hashes.len() < TOUCHED_MAX {
            self.hashes.push(hash);
        }
    }

    pub(super) fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.hashes)
    }

    /// Runs a visitor under a shared hold. Do not latch or read another key in it: a writer that waits for this hold may be the
    /// one that is waited for.
    #[inline]
    pub(super) fn visit<R>(&self, visitor: impl FnOnce() -> R) -> R {
        debug_assert!(!self.visiting.replace(true), "INV-LATCH-4: a thread that has a shared hold takes no other one");
        let result = visitor();
        if cfg!(debug_assertions) {
            self.visiting.set(false);
        }
        result
    }

    /// Whether a visitor runs under a shared hold; for assertions.
    #[inline]
    pub(super) fn is_visiting(&self) -> bool {
        self.visiting.get()
    }
}
