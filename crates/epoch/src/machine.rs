//! The epoch-protected state machine: control work that advances in phases while workers keep running.
//!
//! Workers only ever read the phase. One background thread drives: it publishes a phase, bumps the epoch, and waits until every
//! participant has left the epochs before. From then on every worker that is inside acts according to the new phase, and the
//! phase's *step* runs, which says what comes next.
//!
//! ```text
//!   driver    publish A · bump · · · · · [step A] publish B · bump · · · · · [step B] …
//!   workers   rest rest A rest A A A A A  A  A  A  A B A B B B B B B B B B B B B
//!                      └ A not settled ┘            └ not settled ┘
//! ```
//! So workers of *adjacent* phases may overlap, and code must be correct for both; workers two phases apart never do.
//!
//! Page compaction, index growth, checkpoints and slot migration are each a type of phases and a closure:
//!
//! ```
//! # use std::sync::Arc;
//! # use almandine_epoch::{Epoch, Machine, Phase, Progress, Step};
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! enum Growth { Rest, Prepare, Split }
//! impl Phase for Growth {
//!     fn to_word(self) -> u64 { self as u64 }
//!     fn from_word(word: u64) -> Self { [Self::Rest, Self::Prepare, Self::Split][word as usize] }
//! }
//! let machine = Machine::new(Arc::new(Epoch::new(8)), Growth::Rest);
//! let mut chunks = 3;
//! let mut run = machine.start(Growth::Prepare, move |phase| match phase {
//!     Growth::Prepare => Step::Next(Growth::Split),  // every worker takes latches now: the table may be split
//!     Growth::Split if chunks > 0 => { chunks -= 1; Step::Wait }  // a bounded piece of work for each poll
//!     Growth::Split => Step::Next(Growth::Rest),
//!     Growth::Rest => Step::Done,
//! }).expect("nothing else drives it");
//! while run.poll() == Progress::Waiting {}
//! assert_eq!(machine.phase(), Growth::Rest);
//! ```
//!
//! # Why no worker is in an earlier phase when a step runs
//!
//! The phase is stored before the bump that ends epoch *E*, and the step waits for `safe() ≥ E`. That is the retirement argument of
//! [`crate::epoch`] with "unlink x" read as "store the phase": a participant that the scan let pass either entered after, and then
//! reads this phase or a later one; or has left, and then what it did happens before the step.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use almandine_base::step;

use crate::epoch::Epoch;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// A phase that fits into one word, so that workers read it with one load. It may carry data, such as a checkpoint's version.
pub trait Phase: Copy + Send + 'static {
    /// The word that stands for this phase.
    fn to_word(self) -> u64;
    /// The inverse of [`Self::to_word`]; only ever given its results.
    fn from_word(word: u64) -> Self;
}

/// What a step decides once its phase has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<P> {
    /// The work of this phase goes on: run the step again at the next poll.
    Wait,
    /// Publish this phase; its step runs when it has settled.
    Next(P),
    /// The run is over; the machine stays in the phase it is in.
    Done,
}

/// What a poll found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Poll again later.
    Waiting,
    /// The run is over.
    Finished,
}

/// Another run is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another run of this state machine is under way")
    }
}

impl std::error::Error for Busy {}

/// A phase that workers read and one [`Run`] at a time changes.
pub struct Machine<P> {
    epoch: Arc<Epoch>,
    word: AtomicU64,
    /// Whether a run exists. Guards `word` against a second writer.
    running: AtomicBool,
    phase: PhantomData<P>,
}

impl<P: Phase> Machine<P> {
    /// A machine in its phase of rest.
    pub fn new(epoch: Arc<Epoch>, rest: P) -> Arc<Self> {
        let word = AtomicU64::new(rest.to_word());
        Arc::new(Self { epoch, word, running: AtomicBool::new(false), phase: PhantomData })
    }

    /// The phase. A worker reads it once after each `enter` or `refresh` and keeps to it until it leaves: read
    /// later, it may already be the next.
    #[inline]
    pub fn phase(&self) -> P {
        P::from_word(self.word.load(Ordering::Acquire))
    }

    /// Publishes `first` and returns the run that takes it from there. `step` runs on the thread that polls,
    /// each time a phase has settled; it must not block.
    pub fn start(self: &Arc<Self>, first: P, step: impl FnMut(P) -> Step<P> + Send + 'static) -> Result<Run<P>, Busy> {
        // Acquire: takes over from the run before. Relaxed on failure: nothing is concluded from it.
        if self.running.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(Busy);
        }
        let settles_after = self.publish(first);
        debug_assert_eq!(self.phase().to_word(), first.to_word(), "nobody else publishes while this run exists");
        Ok(Run { machine: Arc::clone(self), phase: first, settles_after, finished: false, step: Box::new(step) })
    }

    /// Returns the epoch that must be safe before `phase` has settled.
    fn publish(&self, phase: P) -> u64 {
        step!(PublishBeforeBump, self.word.store(phase.to_word(), Ordering::Release), then self.epoch.bump())
    }
}

impl<P: Phase + fmt::Debug> fmt::Debug for Machine<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("phase", &self.phase()).finish_non_exhaustive()
    }
}

/// One journey of a machine through its phases. It advances only when polled, so one thread drives many.
///
/// Dropped before it is finished, it leaves the machine in the phase it reached; the next run starts from there.
#[must_use = "a run advances only when it is polled"]
pub struct Run<P: Phase> {
    machine: Arc<Machine<P>>,
    phase: P,
    settles_after: u64,
    finished: bool,
    step: Box<dyn FnMut(P) -> Step<P> + Send>,
}

impl<P: Phase> Run<P> {
    /// Runs the phase's step if the phase has settled, and publishes what the step asks for. Never waits.
    pub fn poll(&mut self) -> Progress {
        if self.finished {
            return Progress::Finished;
        }
        let epoch = &self.machine.epoch;
        if epoch.safe_cached() < self.settles_after && epoch.safe() < self.settles_after {
            return Progress::Waiting;
        }
        debug_assert!(epoch.safe_cached() >= self.settles_after, "E3: nobody is in an earlier phase");
        debug_assert_eq!(self.machine.phase().to_word(), self.phase.to_word(), "the phase is the one that has settled");
        match (self.step)(self.phase) {
            Step::Wait => Progress::Waiting,
            Step::Next(phase) => {
                self.phase = phase;
                let settles_after = self.machine.publish(phase);
                debug_assert!(settles_after > self.settles_after, "each phase ends an epoch of its own");
                self.settles_after = settles_after;
                Progress::Waiting
            }
            Step::Done => {
                self.finished = true;
                debug_assert!(self.machine.running.load(Ordering::Relaxed), "one run at a time");
                self.machine.running.store(false, Ordering::Release);
                Progress::Finished
            }
        }
    }

    /// The phase that was published last.
    pub fn phase(&self) -> P {
        self.phase
    }
}

impl<P: Phase> Drop for Run<P> {
    fn drop(&mut self) {
        if !self.finished {
            debug_assert!(self.machine.running.load(Ordering::Relaxed), "one run at a time");
            self.machine.running.store(false, Ordering::Release);
        }
    }
}

impl<P: Phase + fmt::Debug> fmt::Debug for Run<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("phase", &self.phase).field("finished", &self.finished).finish_non_exhaustive()
    }
}
