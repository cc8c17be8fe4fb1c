//! A run: product code in a world of one seed.

use std::sync::{Arc, Once};
use std::{fmt, panic};

use almandine_base::mutants::Mutant;
use almandine_io::sim::choice::{ChoiceRecord, Choices, Subsystem};
use almandine_io::sim::trace::Counts;
use almandine_io::sim::turn::{self, Place, Schedule};
use almandine_io::sim::world::World;

/// What a run follows from.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All choices.
    pub seed: u64,
    /// What the scheduler may do.
    pub schedule: Schedule,
    /// Choices instead of those of the seed.
    pub choices: Option<ChoiceRecord>,
    /// Steps that the product leaves out.
    pub left_out: Vec<Mutant>,
    /// How much virtual time the run may take.
    pub time_max_ns: u64,
    /// All events are told in words, and not the last ones alone.
    pub tells_all: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What went wrong: a panic, a deadlock, a thread that kept the baton.
    pub failure: Option<String>,
    /// A hash of all events, and their number.
    pub trace_hash: (u64, u64),
    /// Virtual time in nanoseconds.
    pub end_ns: u64,
    /// The last events in words.
    pub last: String,
    /// All choices.
    pub choices: ChoiceRecord,
    /// What threads came to.
    pub counts: Counts,
}

impl Plan {
    /// A plan of ten virtual minutes.
    #[must_use]
    pub fn new(seed: u64, schedule: Schedule) -> Self {
        Self { seed, schedule, choices: None, left_out: Vec::new(), time_max_ns: 600_000_000_000, tells_all: false }
    }

    /// Leaves steps out.
    #[must_use]
    pub fn without(mut self, left_out: &[Mutant]) -> Self {
        self.left_out = left_out.to_vec();
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failure, trace_hash: (hash, events), end_ns, last, .. } = self;
        let seconds = end_ns / 1_000_000_000;
        writeln!(f, "{last}{}", failure.as_deref().unwrap_or("nothing went wrong"))?;
        write!(f, "{events} events in {seconds} virtual seconds, hash {hash:016x}")
    }
}

/// Panics of simulated threads are told by the outcome of their run, and not as they happen: to name the functions on a stack takes
/// longer than the run.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if turn::place() == Place::Outside {
                shown(panic);
            }
        }));
    });
}

/// What a client of the simulation does next: a number below `limit`, chosen by the seed. 0 outside of a simulation.
#[must_use]
pub fn choose(limit: u64) -> u64 {
    turn::simulation().map_or(0, |turn| turn.below(Subsystem::Clients, limit))
}

/// Runs what `start` starts in a world, until all of it has ended.
pub fn run(plan: &Plan, start: impl FnOnce(&Arc<World>)) -> Outcome {
    let choices = plan.choices.clone().map_or_else(|| Choices::from_seed(plan.seed), Choices::from_record);
    World::enter(choices, plan.schedule.clone(), |world| {
        world.turn().leave_out(&plan.left_out);
        if plan.tells_all {
            turn::keep_all_events(world.turn());
        }
        start(world);
        let ended = world.run(plan.time_max_ns);
        let turn = world.turn();
        let unfinished = || (turn.now_ns() >= plan.time_max_ns).then(|| "it has not ended in time".to_owned());
        let failure = ended.err().or_else(unfinished);
        let (choices, counts) = (turn.record(), turn.counts());
        Outcome { failure, trace_hash: turn.trace_hash(), end_ns: turn.now_ns(), last: turn.trace_words(), choices, counts }
    })
}

/// As [`run`], twice: the same must happen.
///
/// # Panics
/// When something else happens, with both outcomes.
pub fn run_twice(plan: &Plan, start: impl Fn(&Arc<World>)) -> Outcome {
    let (first, second) = (run(plan, &start), run(plan, &start));
    assert!(first == second, "seed {} does not repeat:\n{first}\n\n{second}", plan.seed);
    first
}
