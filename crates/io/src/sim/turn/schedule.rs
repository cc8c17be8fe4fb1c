//! Which of the threads that can run is next: at random, by priorities that change at few points, or with one thread starved;
//! and at which points a thread is stalled.

use crate::sim::choice::{Choices, Subsystem};

/// How the next thread is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Each thread that can run is as likely.
    #[default]
    Random,
    /// The thread of the highest priority; at as many steps as `changes` says, among the first `steps`, the running thread gets
    /// the lowest one. (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010.)
    /// A thread that could have run for [`OVERTAKEN_NS`] gets the highest one.
    Pct {
        /// Points at which a priority changes.
        changes: u32,
        /// Steps that the run is expected to have.
        steps: u64,
    },
    /// At random, but the thread of this name runs only when no other can, when another one has run for long without a wait, or
    /// when it could have run for [`STARVED_NS`], all such times together: where others look for what it does and never wait, it
    /// would come to nothing by a step for each.
    Starve(String),
    /// At random, and at as many points as `stalls` says, among the first `steps`, the thread that comes there is taken from its
    /// processor: at so few that the others have dense work meanwhile.
    Stall {
        /// Points at which a thread is stalled.
        stalls: u32,
        /// Points that the run is expected to have.
        steps: u64,
    },
}

/// The longest time for which a thread is starved, all times together.
pub const STARVED_NS: u64 = 10_000_000_000;

/// The longest time for which threads of higher priorities keep one from running: theirs may look for work again and again.
pub(super) const OVERTAKEN_NS: u64 = 1_000_000_000;

/// What a scheduler may do. The default is harmless: threads switch only where they wait or yield.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// How the next thread is chosen.
    pub policy: Policy,
    /// How many of a million inner points let another thread run.
    pub inner_per_million: u32,
    /// How many of a million points take the thread from its processor for 1 to 200 ms.
    pub stalls_per_million: u32,
}

/// The shortest and the longest stall of a thread by a rate, in nanoseconds.
const STALL_NS: (u64, u64) = (1_000_000, 200_000_000);
/// How many stalls of [`Policy::Stall`], each twice as long as the one before, there are to choose from.
const STALL_LENGTHS: u64 = 8;

/// Stalls of threads.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    step: u64,
    /// Steps at which the running thread is stalled.
    at: Vec<u64>,
}

impl Stalls {
    pub(super) fn new(policy: &Policy, choices: &mut Choices) -> Self {
        let Policy::Stall { stalls, steps } = policy else { return Self::default() };
        // Step 0 is never reached, so a choice of 0 stalls nothing.
        Self { step: 0, at: (0..*stalls).map(|_| choices.below(Subsystem::Schedule, steps + 1)).collect() }
    }

    /// The running thread comes to a point: for how long it is stalled there, if it is.
    pub(super) fn step(&mut self, per_million: u32, choices: &mut Choices) -> Option<u64> {
        self.step += 1;
        if choices.hits(Subsystem::Schedule, per_million) {
            return Some(STALL_NS.0 + choices.below(Subsystem::Schedule, STALL_NS.1 - STALL_NS.0));
        }
        self.at.contains(&self.step).then(|| STALL_NS.0 << choices.below(Subsystem::Schedule, STALL_LENGTHS))
    }
}

/// Prioritized threads of [`Policy::Pct`].
#[derive(Debug, Default)]
pub(super) struct Priorities {
    step: u64,
    /// Steps at which the running thread falls behind all others.
    changes: Vec<u64>,
    /// By thread; a higher one runs first.
    priorities: Vec<u64>,
    /// The next priority below all others.
    lowest: u64,
    /// The last priority above all others.
    highest: u64,
}

impl Priorities {
    pub(super) fn new(policy: &Policy, choices: &mut Choices) -> Self {
        let Policy::Pct { changes, steps } = policy else { return Self::default() };
        // Step 0 is never reached, so a choice of 0 changes nothing.
        let changes = (0..*changes).map(|_| choices.below(Subsystem::Schedule, steps + 1)).collect();
        Self { changes, lowest: u64::MAX / 2, highest: u64::MAX / 2 + (1 << 16), ..Self::default() }
    }

    pub(super) fn add(&mut self, choices: &mut Choices) {
        self.priorities.push(u64::MAX / 2 + 1 + choices.below(Subsystem::Schedule, 1 << 16));
    }

    /// The running thread comes to a point.
    pub(super) fn step(&mut self, running: usize) {
        self.step += 1;
        if self.changes.contains(&self.step) {
            self.fall_behind(running);
        }
    }

    /// The thread runs only when no other can, until those fall behind, too.
    pub(super) fn fall_behind(&mut self, thread: usize) {
        self.priorities[thread] = self.lowest;
        self.lowest -= 1;
    }

    /// The thread runs whenever it can, until others come to that, too.
    pub(super) fn go_ahead(&mut self, thread: usize) {
        self.highest += 1;
        self.priorities[thread] = self.highest;
    }

    pub(super) fn highest(&self, candidates: &[usize]) -> Option<usize> {
        candidates.iter().copied().max_by_key(|&thread| (self.priorities[thread], std::cmp::Reverse(thread)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_threads_are_stalled_as_the_policy_says() {
        let mut choices = Choices::from_seed(3);
        let mut stalls = Stalls::new(&Policy::Stall { stalls: 3, steps: 1_000 }, &mut choices);
        let lengths: Vec<u64> = (0..2_000).filter_map(|_| stalls.step(0, &mut choices)).collect();
        assert_eq!(lengths.len(), 3);
        assert!(lengths.iter().all(|length| (STALL_NS.0..STALL_NS.1).contains(length)), "{lengths:?}");
        let mut nothing = Choices::from_record(crate::sim::choice::ChoiceRecord::default());
        let mut stalls = Stalls::new(&Policy::Stall { stalls: 3, steps: 1_000 }, &mut nothing);
        assert!((0..2_000).all(|_| stalls.step(1_000, &mut nothing).is_none()), "choices of 0 stall a thread");
    }

    #[test]
    fn a_change_point_puts_the_running_thread_last() {
        let mut choices = Choices::from_seed(3);
        let mut priorities = Priorities::new(&Policy::Pct { changes: 1, steps: 10 }, &mut choices);
        (0..3).for_each(|_| priorities.add(&mut choices));
        let first = priorities.highest(&[0, 1, 2]).unwrap();
        (0..10).for_each(|_| priorities.step(first));
        assert_ne!(priorities.highest(&[0, 1, 2]), Some(first));
        assert_eq!(priorities.highest(&[first]), Some(first));
        assert_eq!(priorities.highest(&[]), None);
    }
}
