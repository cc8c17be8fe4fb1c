//! Atomics and spinning: the standard ones, or loom's when the model checker runs.

#[cfg(not(loom))]
use almandine_base::points::point;
#[cfg(not(loom))]
pub(crate) use almandine_io::sync::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Waits a little; after some rounds gives the processor away, because the holder may not be running, and in the end sleeps,
/// because the holder may be a background thread that ranks behind the one that waits.
pub(crate) struct Backoff(u32);

#[cfg(not(loom))]
const SPINS: u32 = 7;
#[cfg(not(loom))]
const YIELDS: u32 = 16;
#[cfg(not(loom))]
const SLEEP: std::time::Duration = std::time::Duration::from_micros(20);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(0)
    }

    #[cfg(not(loom))]
    pub(crate) fn wait(&mut self) {
        point("backs off");
        if self.0 < SPINS {
            for _ in 0..1 << self.0 {
                std::hint::spin_loop();
            }
        } else if self.0 < SPINS + YIELDS {
            almandine_io::thread::yield_now();
        } else {
            almandine_io::thread::sleep(SLEEP);
        }
        self.0 += 1;
    }

    /// A thread that has waited for this long waits for a thread that the checker does not let run: from there on it explores
    /// nothing more, and lets all of them run by turns. A circle of waiting threads is still noticed.
    #[cfg(loom)]
    pub(crate) fn wait(&mut self) {
        const EXPLORED: u32 = 6;
        self.0 += 1;
        if self.0 > EXPLORED {
            loom::skip_branch();
        }
        loom::thread::yield_now();
    }
}
