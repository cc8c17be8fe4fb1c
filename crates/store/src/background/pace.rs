//! Pacing: the background works in short bursts, so that a worker on the same core waits for one burst at most.
//!
//! A scheduler lets a thread that computes run for milliseconds before one that has just been woken. Sleeping for a moment
//! after each burst gives the core away at once. When the background falls behind, its bursts become longer.

use almandine_io::{clock, thread};
use std::time::Duration;

/// Longest stretch of work in nanoseconds.
const BURST_NS: u64 = 150_000;
/// The same when the background has fallen behind.
const HURRIED_BURST_NS: u64 = 1_000_000;
/// Rest between bursts. The system's timer slack adds about as much.
const REST: Duration = Duration::from_micros(50);

/// The pace of one background task.
pub(crate) struct Pace {
    burst_start_ns: u64,
    polite: bool,
}

impl Pace {
    /// A pace that rests only if there are others to be polite to.
    pub(crate) fn new(polite: bool) -> Self {
        Self { burst_start_ns: clock::monotonic_ns(), polite }
    }

    /// Called between pieces of work, outside every latch and epoch. Rests if the burst has been long enough.
    pub(crate) fn yield_to_workers(&mut self, hurry: bool) {
        let burst_ns = if hurry { HURRIED_BURST_NS } else { BURST_NS };
        if self.polite && clock::monotonic_ns() - self.burst_start_ns > burst_ns {
            thread::sleep(REST);
            self.burst_start_ns = clock::monotonic_ns();
        }
    }
}
