//! Atomics and spinning: the standard ones, or loom's when the model checker runs.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Waits a little; after some rounds gives the processor away, because the holder may not be running.
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(0)
    }

    #[cfg(not(loom))]
    pub(crate) fn wait(&mut self) {
        if self.0 < 7 {
            for _ in 0..1 << self.0 {
                std::hint::spin_loop();
            }
            self.0 += 1;
        } else {
            almandine_io::thread::yield_now();
        }
    }

    #[cfg(loom)]
    pub(crate) fn wait(&mut self) {
        self.0 += 1;
        loom::thread::yield_now();
    }
}
