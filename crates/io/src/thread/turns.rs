//! Yields of a thread that has much to do behind the workers.
//!
//! A thread that sleeps now and then, as one that writes files does, is owed processor time when it wakes up: the system lets it
//! run for a millisecond and more, however it is ranked, and a worker on the same processor waits so long. So it yields every
//! 50 µs, which costs a microsecond where nothing else is ready. Each yield also puts it behind the others; where workers are
//! ready all the time it would have hardly any of the processor. Then it does not yield, and has what its [rank](super::Rank)
//! gives it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::yield_now;
use crate::clock;
#[cfg(feature = "sim")]
use crate::sim::turn::{self, Place};

/// For how long it runs before it yields.
const RUN_NS: u64 = 50_000;
/// Work between two looks at the clock, in bytes, or in what takes as long.
const WORK_BYTES: usize = 4096;
/// What a key takes beside its bytes, in such.
const KEY_BYTES: usize = 256;
/// How often it looks what it gets.
const LOOK_NS: u64 = 200_000_000;
/// It is starved when it waits for the processor for more than this many times as long as it has it, and until it waits for less
/// than as long.
const STARVED: u64 = 3;

/// See the module.
#[derive(Debug)]
pub struct Turns {
    work_bytes: usize,
    yielded_ns: u64,
    looked_ns: u64,
    /// What the system says of the thread; none where it says nothing.
    figures: Option<File>,
    /// Nanoseconds for which it has had the processor, and for which it has waited for it.
    before: (u64, u64),
    is_starved: bool,
}

impl Turns {
    /// For the calling thread, which is to use it alone.
    #[must_use]
    pub fn new() -> Self {
        let (now, figures) = (clock::monotonic_ns(), File::open("/proc/thread-self/schedstat").ok());
        let before = figures.as_ref().and_then(read).unwrap_or_default();
        Self { work_bytes: 0, yielded_ns: now, looked_ns: now, figures, before, is_starved: false }
    }

    /// It has dealt with a key and this many bytes: it yields if it is time.
    #[inline]
    pub fn step(&mut self, bytes: usize) {
        self.work_bytes += KEY_BYTES + bytes;
        if self.work_bytes >= WORK_BYTES {
            self.work_bytes = 0;
            self.look();
        }
    }

    #[cold]
    fn look(&mut self) {
        #[cfg(feature = "sim")]
        if turn::place() != Place::Outside {
            return;
        }
        let now = clock::monotonic_ns();
        if now - self.yielded_ns < RUN_NS {
            return;
        }
        self.yielded_ns = now;
        if now - self.looked_ns >= LOOK_NS {
            self.looked_ns = now;
            if let Some(figures) = self.figures.as_ref().and_then(read) {
                let (ran_ns, waited_ns) = (figures.0 - self.before.0, figures.1 - self.before.1);
                self.is_starved = is_starved(self.is_starved, ran_ns, waited_ns);
                self.before = figures;
            }
        }
        if !self.is_starved {
            yield_now();
            self.yielded_ns = clock::monotonic_ns();
        }
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self::new()
    }
}

fn is_starved(was: bool, ran_ns: u64, waited_ns: u64) -> bool {
    waited_ns > if was { ran_ns } else { STARVED * ran_ns }
}

/// How long a thread has run, and waited for the processor.
fn read(figures: &File) -> Option<(u64, u64)> {
    let mut text = [0; 64];
    let count = figures.read_at(&mut text, 0).ok()?;
    let mut words = std::str::from_utf8(text.get(..count)?).ok()?.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_starved_until_it_waits_for_less_than_it_runs() {
        assert!(!is_starved(false, 100, 300) && is_starved(false, 100, 301));
        assert!(is_starved(true, 100, 101) && !is_starved(true, 100, 100));
        assert!(!is_starved(true, 0, 0), "it has slept all the time");
    }

    #[test]
    fn what_the_system_says_of_a_thread_is_read() {
        let Ok(figures) = File::open("/proc/thread-self/schedstat") else { return };
        let (before_ns, _) = read(&figures).unwrap();
        let mut turns = Turns::new();
        while clock::monotonic_ns() - turns.looked_ns < LOOK_NS / 2 {
            turns.step(WORK_BYTES);
        }
        let (after_ns, _) = read(&figures).unwrap();
        assert!(after_ns > before_ns, "{before_ns} {after_ns}");
    }
}
