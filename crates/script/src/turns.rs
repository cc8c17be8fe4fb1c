//! Turns among workers whose scripts wait for another one whose keys show while it runs, of which one runs at a time.
//!
//! The first worker that finds the place free takes it, as with a latch: a queue would have it change its worker with each script.
//! But a worker that was refused for [`PATIENCE_NS`] asks for a turn, and the others leave the place to it until it has come. One
//! that does not come for [`ABSENCE_NS`], for it serves others or is not run, has lost its turn, and asks for another one. So a
//! worker waits for no more scripts of each of the others than one, behind its patience.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How long a worker is refused before it asks for a turn.
const PATIENCE_NS: u64 = 2_000_000;
/// How long others leave the place to a worker that does not come.
const ABSENCE_NS: u64 = 1_000_000;
/// Bits of a turn that are its worker's number, which counts from 1.
const WORKER_BITS: u32 = 16;

/// Whose turn it is.
#[derive(Debug, Default)]
pub struct Turns {
    /// The turn that a worker has asked for: its number and its worker's; 0 for none.
    next: AtomicU64,
}

/// A worker's part in it.
#[derive(Debug, Default)]
pub struct TurnWait {
    worker: u64,
    /// Since when it is refused, and when it was refused last, in monotonic nanoseconds.
    refused_ns: Option<(u64, u64)>,
    /// The turn of another worker that it leaves the place to, and since when.
    left_to: (u64, u64),
    /// How many turns it has asked for.
    asked: u64,
}

impl TurnWait {
    /// That of a worker, which was never refused.
    #[must_use]
    pub fn new(worker: usize) -> Self {
        Self { worker: worker as u64 + 1, ..Self::default() }
    }
}

impl Turns {
    /// Whether a worker has asked for a turn that it has not had.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.next.load(Relaxed) != 0
    }

    /// Whether a worker may take the place if it is free.
    #[inline]
    pub fn admit(&self, wait: &mut TurnWait, now_ns: impl FnOnce() -> u64) -> bool {
        let next = self.next.load(Relaxed);
        next == 0 || self.admit_beside(next, wait, now_ns())
    }

    #[cold]
    fn admit_beside(&self, next: u64, wait: &mut TurnWait, now_ns: u64) -> bool {
        if next & ((1 << WORKER_BITS) - 1) == wait.worker {
            return true;
        }
        if wait.left_to.0 != next {
            wait.left_to = (next, now_ns);
        }
        let is_lost = now_ns.saturating_sub(wait.left_to.1) >= ABSENCE_NS;
        if is_lost {
            let _ = self.next.compare_exchange(next, 0, Relaxed, Relaxed);
        }
        is_lost
    }

    /// A worker was refused.
    #[cold]
    pub fn refuse(&self, wait: &mut TurnWait, now_ns: u64) {
        // One that has not tried for long does not wait any more.
        let since_ns = match wait.refused_ns {
            Some((since_ns, last_ns)) if now_ns.saturating_sub(last_ns) < PATIENCE_NS => since_ns,
            _ => now_ns,
        };
        wait.refused_ns = Some((since_ns, now_ns));
        if now_ns.saturating_sub(since_ns) >= PATIENCE_NS && !self.is_asked() {
            wait.asked += 1;
            let turn = wait.asked << WORKER_BITS | wait.worker;
            let _ = self.next.compare_exchange(0, turn, Relaxed, Relaxed);
        }
    }

    /// A worker has the place. Whether that was its turn.
    #[inline]
    pub fn begin(&self, wait: &mut TurnWait) -> bool {
        wait.refused_ns.take().is_some() && self.has_turn(wait)
    }

    #[cold]
    fn has_turn(&self, wait: &TurnWait) -> bool {
        let turn = wait.asked << WORKER_BITS | wait.worker;
        self.next.compare_exchange(turn, 0, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers that try one after the other, each script of which takes `TOOK_NS`, until the last one has its first turn. It tries
    /// only while another one has the place, as it is when these have many scripts. Returns the turns of the others since it has
    /// asked, and in all.
    fn turns(workers: usize, absent_ns: u64) -> (usize, usize) {
        const TOOK_NS: u64 = 50_000;
        let turns = Turns::default();
        let mut waits: Vec<TurnWait> = (0..workers).map(TurnWait::new).collect();
        let (mut now_ns, mut others, mut behind) = (1, 0, 0);
        for round in 0.. {
            let worker = round % (workers - 1);
            let is_free = turns.admit(&mut waits[worker], || now_ns);
            if is_free {
                turns.begin(&mut waits[worker]);
                others += 1;
                behind += usize::from(turns.is_asked());
            } else {
                turns.refuse(&mut waits[worker], now_ns);
            }
            now_ns += TOOK_NS;
            let last = &mut waits[workers - 1];
            if is_free {
                turns.refuse(last, now_ns);
            } else if now_ns - last.refused_ns.unwrap().1 >= absent_ns && turns.admit(last, || now_ns) && turns.begin(last) {
                break;
            }
            assert!(round < 10_000, "it has its turn at last");
        }
        (behind, others)
    }

    #[test]
    fn a_worker_that_has_waited_for_long_is_next() {
        for workers in [2, 3, 5] {
            assert_eq!(turns(workers, 0), (0, 41), "{workers} workers");
        }
    }

    #[test]
    fn a_worker_that_does_not_come_loses_its_turn() {
        let (behind, others) = turns(2, ABSENCE_NS / 2);
        assert_eq!((behind, others), (0, 41), "half of its time is enough");
        let turns = Turns::default();
        let [mut absent, mut present] = [TurnWait::new(0), TurnWait::new(1)];
        turns.refuse(&mut absent, 0);
        turns.refuse(&mut absent, PATIENCE_NS - 1);
        assert!(!turns.is_asked());
        turns.refuse(&mut absent, PATIENCE_NS);
        assert!(turns.is_asked() && !turns.admit(&mut present, || 5 * PATIENCE_NS));
        assert!(!turns.admit(&mut present, || 5 * PATIENCE_NS + ABSENCE_NS - 1));
        assert!(turns.admit(&mut present, || 5 * PATIENCE_NS + ABSENCE_NS) && !turns.is_asked());
        assert!(!turns.begin(&mut absent), "it was lost");
        // It waits anew.
        turns.refuse(&mut absent, 9 * PATIENCE_NS);
        assert!(!turns.is_asked());
    }

    #[test]
    fn each_of_several_that_wait_has_a_turn_before_one_has_another() {
        let turns = Turns::default();
        let mut waits: Vec<TurnWait> = (0..4).map(TurnWait::new).collect();
        let mut order = Vec::new();
        // One that has no patience to show is refused each time.
        let mut busy = TurnWait::new(4);
        for step in 0..=80 {
            let now_ns = step * PATIENCE_NS / 4;
            for (worker, wait) in waits.iter_mut().enumerate() {
                if turns.is_asked() && turns.admit(wait, || now_ns) && turns.begin(wait) {
                    order.push(worker);
                }
                turns.refuse(wait, now_ns);
            }
            if turns.is_asked() {
                assert!(!turns.admit(&mut busy, || now_ns));
            }
        }
        assert!(order.len() >= 12, "{order:?}");
        for four in order.chunks_exact(4) {
            let mut sorted = four.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3], "{order:?}");
        }
    }
}
