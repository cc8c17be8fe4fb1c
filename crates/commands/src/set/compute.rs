//! What several sets come to: a union, an intersection or a difference of them as they were at one time, computed in steps.
//! Large ones are computed beside the commands of others, and answered while they are sent.
//!
//! A reply begins with the number of members, so they are counted first. Nothing is kept of that: the members are found again
//! when they are sent. What is gathered, of many sets, is the one thing that takes memory, beside a result that is stored.

use almandine_datatypes::hyperloglog::{Registers, Way};
use almandine_datatypes::set::{Algebra, Count, Position, SetOperation, Source};
use almandine_handler::computation::Computation;
use almandine_keyspace::Refusal;
use almandine_keyspace::types::Frozen;
use almandine_keyspace::types::set::{NewSet, SetLimits, Sets};

/// Members that are met, from which on it is done beside the commands of others.
pub(super) const LARGE: usize = 16 << 10;
/// Members that a step meets.
const STEP: usize = 512;

/// Encodings of sets that no key gets do not matter.
pub(super) const NO_LIMITS: SetLimits = SetLimits { integers: usize::MAX, entries: usize::MAX, value: usize::MAX };

/// What is wanted.
pub(super) enum Goal {
    /// The number of members, up to a limit; 0 is none. `gathered` is for what is gathered on the way.
    Count { limit: usize, gathered: NewSet },
    /// About the number of members of all sets, up to a limit; 0 is none.
    Estimate { limit: usize },
    /// A set of them, in an empty one.
    Set(NewSet),
}

/// An operation on sets, and how far it is.
pub(super) struct Combination {
    pub(super) sources: Vec<Frozen>,
    operation: SetOperation,
    goal: Goal,
    stage: Stage,
}

enum Stage {
    Gathers(Position),
    Counts(Count),
    Estimates(Position, Box<Registers>),
    Builds(Position),
    /// Done, with this number of members.
    Done(Result<usize, Refusal>),
}

impl Combination {
    /// An operation on sets that were frozen: all of them are sets, or absent.
    pub(super) fn new(operation: SetOperation, sources: Vec<Frozen>, goal: Goal) -> Self {
        let stage = match goal {
            Goal::Count { .. } => Stage::Gathers(Position::default()),
            Goal::Estimate { .. } => Stage::Estimates(Position::default(), Box::default()),
            Goal::Set(_) => Stage::Builds(Position::default()),
        };
        Self { sources, operation, goal, stage }
    }

    /// Whether others should not wait for it.
    pub(super) fn is_large(&self) -> bool {
        let algebra = algebra(self.operation, &self.sources);
        let work = match &self.goal {
            Goal::Set(set) => set.work(&algebra),
            Goal::Estimate { .. } => algebra.all(),
            Goal::Count { .. } => algebra.work(),
        };
        work > LARGE
    }

    /// The number of members, once that is known: with others waiting for it, if need be.
    pub(super) fn total(&mut self) -> Result<usize, Refusal> {
        loop {
            if let Stage::Done(total) = &self.stage {
                return *total;
            }
            self.step();
        }
    }

    /// Visits members until `visit` says no more or about `steps` were met. Returns where to go on; None at the end.
    pub(super) fn visit(
        &self,
        from: Position,
        steps: usize,
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<Position>, Refusal> {
        Ok(self.shortest().visit(from, steps, visit)?)
    }

    /// The set that was wanted.
    pub(super) fn into_set(self) -> Option<NewSet> {
        if let Goal::Set(set) = self.goal { Some(set) } else { None }
    }

    /// The operation as it is cheapest once everything is gathered that should be.
    fn shortest(&self) -> Algebra<'_> {
        let algebra = algebra(self.operation, &self.sources);
        match &self.goal {
            Goal::Count { gathered, .. } if !gathered.is_empty() => algebra.with_gathered(gathered.source()),
            _ => algebra,
        }
    }

    fn next(&mut self, stage: Stage) -> Result<Stage, Refusal> {
        // Putting the sets in order takes its time, too.
        let steps = STEP.max(8 * self.sources.len());
        Ok(match stage {
            Stage::Gathers(from) => {
                let algebra = algebra(self.operation, &self.sources);
                let Goal::Count { limit, gathered } = &mut self.goal else { return Ok(stage) };
                if algebra.gathers().is_none() {
                    Stage::Counts(algebra.begin_count(*limit))
                } else if let Some(next) = gathered.gather(&algebra, from, steps)? {
                    Stage::Gathers(next)
                } else {
                    Stage::Counts(algebra.with_gathered(gathered.source()).begin_count(*limit))
                }
            }
            Stage::Counts(mut count) => {
                if self.shortest().count(&mut count, steps)? {
                    Stage::Done(Ok(count.total()))
                } else {
                    Stage::Counts(count)
                }
            }
            Stage::Estimates(from, mut registers) => {
                let algebra = algebra(self.operation, &self.sources);
                match algebra.each(from, steps, &mut |member| registers.add(member))? {
                    Some(next) => Stage::Estimates(next, registers),
                    None => {
                        let limit = if let Goal::Estimate { limit: limit @ 1.. } = self.goal { limit } else { usize::MAX };
                        let estimate = usize::try_from(registers.cardinality(Way::Words)).unwrap_or(usize::MAX);
                        Stage::Done(Ok(estimate.min(limit)))
                    }
                }
            }
            Stage::Builds(from) => {
                let algebra = algebra(self.operation, &self.sources);
                let Goal::Set(set) = &mut self.goal else { return Ok(stage) };
                set.add_result(&algebra, from, steps)?.map_or_else(|| Stage::Done(Ok(set.len())), Stage::Builds)
            }
            Stage::Done(_) => stage,
        })
    }
}

impl Computation for Combination {
    fn step(&mut self) -> bool {
        let stage = std::mem::replace(&mut self.stage, Stage::Done(Ok(0)));
        self.stage = self.next(stage).unwrap_or_else(|refusal| Stage::Done(Err(refusal)));
        matches!(self.stage, Stage::Done(_))
    }

    fn memory(&self) -> usize {
        match &self.goal {
            Goal::Count { gathered: set, .. } | Goal::Set(set) => set.memory(),
            Goal::Estimate { .. } => size_of::<Registers>(),
        }
    }
}

fn algebra(operation: SetOperation, sources: &[Frozen]) -> Algebra<'_> {
    Algebra::new(operation, sources.iter().map(source).collect())
}

fn source(frozen: &Frozen) -> Source<'_> {
    frozen.collection::<Sets>().ok().flatten().map_or(Source::EMPTY, |set| set.source())
}
