//! What several sorted sets come to: computed in steps, of values as they were at one time. Large ones are computed beside the
//! commands of others.
//!
//! A union adds up all members of all sources. An intersection and a difference keep those members of the smallest, or the
//! first, source that they find in the others, or do not find there. Sources are added up from the smallest on, as in Redis:
//! sums of floats depend on it.

use std::ops::Range;

use almandine_base::output::{Broken, Stream};
use almandine_base::steps;
use almandine_datatypes::packed::ELEMENTS_MAX;
use almandine_datatypes::sorted_set::{Aggregate, Assembly, By, Sieve, Tally, number};
use almandine_handler::computation::Computation;
use almandine_keyspace::Refusal;
use almandine_keyspace::types::Frozen;
use almandine_keyspace::types::set::{Set, Sets};
use almandine_keyspace::types::sorted_set::{NewSortedSet, SortedSet, SortedSets};
use almandine_resp::Reply;

use super::access::Shape;
use super::range::STREAM_BYTES;

/// Members of all sources from which on it is done beside the commands of others.
const LARGE: usize = 16 << 10;
/// Members that a step meets.
const STEP: usize = 512;

/// What is asked of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Intersection,
    Difference,
}

/// What is done with the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Answer,
    Store,
    /// Only how many members an intersection has is asked, and no more of them than this.
    Count {
        limit: usize,
    },
}

/// What scores count.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// Of each source; none for 1.
    pub(super) each: Vec<f64>,
    pub(super) aggregate: Aggregate,
    /// Whether scores do not matter: COUNT adds up weights alone.
    pub(super) alone: bool,
}

impl Default for Weights {
    fn default() -> Self {
        Self { each: Vec::new(), aggregate: Aggregate::Sum, alone: false }
    }
}

impl Weights {
    /// What a member with this score counts in a source; 0 where that is no number, as of infinity and nothing.
    fn value(&self, source: usize, score: f64) -> f64 {
        number(self.product(source, score))
    }

    /// The same before it is made a number. Redis' intersections aggregate it so for all sources but the first: it turns a sum
    /// to 0 and is neither less nor greater than another.
    fn product(&self, source: usize, score: f64) -> f64 {
        let weight = self.each.get(source).copied().unwrap_or(1.0);
        if self.alone { weight } else { weight * score }
    }
}

/// An operation on sorted sets, and how far it is.
pub(super) struct Combination {
    operation: Operation,
    goal: Goal,
    weights: Weights,
    sources: Vec<Frozen>,
    /// Which members of the first source count; None: all of them.
    ranks: Option<Range<usize>>,
    /// In which order the sources are met.
    order: Vec<usize>,
    tally: Tally,
    stage: Stage,
    outcome: Result<(), Refusal>,
}

enum Stage {
    /// The members of a source are added, or pushed, from a rank on.
    Gather(usize, usize),
    /// The members of the smallest source are looked for in the others, from a rank on; the second number of them is in all.
    Count(usize, usize),
    /// Those that are not in a source, or that are, go.
    Sift(usize, Sieve),
    Sort,
    Assemble(Box<Assembly>),
    Done(Option<Box<Assembly>>),
    /// The number of members that are in all sources.
    Counted(usize),
}

/// The members of a source: scored, or each with score 1.
enum Members<'f> {
    Scored(SortedSet<'f>),
    Plain(Set<'f>),
}

impl<'f> Members<'f> {
    /// None: there was no key.
    fn of(source: &'f Frozen) -> Result<Option<Self>, Refusal> {
        match source.collection::<SortedSets>() {
            Ok(set) => Ok(set.map(Self::Scored)),
            Err(_) => Ok(source.collection::<Sets>()?.map(Self::Plain)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Scored(set) => set.len(),
            Self::Plain(set) => set.len(),
        }
    }

    /// Visits the members of some ranks.
    fn visit(&self, ranks: Range<usize>, mut visit: impl FnMut(&[u8], f64)) -> Result<(), Refusal> {
        match self {
            Self::Scored(set) => set.range(ranks).try_for_each(|entry| entry.map(|entry| visit(entry.member, entry.score))),
            Self::Plain(set) => {
                let members = set.source().iter_from(ranks.start).take(ranks.len());
                for member in members {
                    visit(&member?, 1.0);
                }
                Ok(())
            }
        }
    }

    /// Visits the members of some ranks until `is_found` says that it is; whether it did.
    fn find(&self, ranks: Range<usize>, mut is_found: impl FnMut(&[u8]) -> Result<bool, Refusal>) -> Result<bool, Refusal> {
        match self {
            Self::Scored(set) => {
                for entry in set.range(ranks) {
                    if is_found(entry?.member)? {
                        return Ok(true);
                    }
                }
            }
            Self::Plain(set) => {
                for member in set.source().iter_from(ranks.start).take(ranks.len()) {
                    if is_found(&member?)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// The score of a member, if there is one.
    fn score(&self, member: &[u8]) -> Result<Option<f64>, Refusal> {
        steps::take(1);
        match self {
            Self::Scored(set) => set.score(member),
            Self::Plain(set) => Ok(set.contains(member)?.then_some(1.0)),
        }
    }
}

fn len_of(source: &Frozen) -> usize {
    Members::of(source).ok().flatten().map_or(0, |members| members.len())
}

impl Combination {
    /// An operation on values that were frozen: all of them are sorted sets or sets, or absent.
    pub(super) fn new(operation: Operation, sources: Vec<Frozen>, weights: Weights, goal: Goal, tally: Tally) -> Self {
        let mut order: Vec<usize> = (0..sources.len()).collect();
        let lens: Vec<usize> = sources.iter().map(len_of).collect();
        if operation != Operation::Difference {
            order.sort_by_key(|source| lens[*source]);
        }
        let (mut tally, mut stage) = (tally, Stage::Gather(0, 0));
        let is_union = operation == Operation::Union;
        match goal {
            Goal::Count { .. } => stage = Stage::Count(0, 0),
            _ => {
                let members = if is_union { lens.iter().sum() } else { lens[order[0]] };
                tally.reserve(members, members * 16, is_union);
            }
        }
        Self { operation, goal, weights, sources, ranks: None, order, tally, stage, outcome: Ok(()) }
    }

    /// A part of one sorted set.
    pub(super) fn part(source: Frozen, ranks: Range<usize>, tally: Tally) -> Self {
        let mut part = Self::new(Operation::Difference, Vec::from([source]), Weights::default(), Goal::Store, tally);
        part.stage = Stage::Gather(0, ranks.start);
        part.ranks = Some(ranks);
        part
    }

    /// What it is computed from.
    pub(super) fn sources(&self) -> &[Frozen] {
        &self.sources
    }

    /// Whether each source was there.
    pub(super) fn found(&self) -> impl Iterator<Item = bool> {
        self.sources.iter().map(|source| Members::of(source).is_ok_and(|members| members.is_some()))
    }

    /// Whether others should not wait for it.
    pub(super) fn is_large(&self) -> bool {
        match (&self.ranks, self.goal) {
            (Some(ranks), _) => ranks.len() > LARGE,
            (None, Goal::Count { .. }) => {
                let smallest = self.order.first().map_or(0, |smallest| len_of(&self.sources[*smallest]));
                smallest.saturating_mul(self.sources.len()) > LARGE
            }
            (None, _) => self.sources.iter().map(len_of).sum::<usize>() > LARGE,
        }
    }

    /// Computes it while others wait.
    pub(super) fn finish(&mut self) {
        while !self.advance(usize::MAX) {}
    }

    /// The members: in order, if they are for an answer.
    pub(super) fn into_tally(self) -> Result<Tally, Refusal> {
        self.outcome.map(|()| self.tally)
    }

    /// How many members are in all sources, or the limit of [`Goal::Count`] if that is less.
    pub(super) fn into_count(self) -> Result<usize, Refusal> {
        debug_assert!(self.outcome.is_err() || matches!(self.stage, Stage::Counted(_)), "a count has ended");
        self.outcome.map(|()| if let Stage::Counted(count) = self.stage { count } else { 0 })
    }

    /// Puts the members into a new sorted set.
    pub(super) fn store(self, new: &mut NewSortedSet) -> Result<(), Refusal> {
        self.outcome?;
        match self.stage {
            Stage::Done(Some(assembly)) => {
                let (object, longest) = assembly.finish();
                new.take(object, longest)
            }
            _ => new.fill(self.tally.iter().map(Ok)),
        }
    }

    /// Goes on by about `count` members. True: it is done.
    fn advance(&mut self, count: usize) -> bool {
        let stage = std::mem::replace(&mut self.stage, Stage::Done(None));
        self.stage = match self.next(stage, count) {
            Ok(stage) => stage,
            Err(refusal) => {
                self.outcome = Err(refusal);
                Stage::Done(None)
            }
        };
        matches!(self.stage, Stage::Done(_) | Stage::Counted(_))
    }

    fn next(&mut self, stage: Stage, count: usize) -> Result<Stage, Refusal> {
        match stage {
            Stage::Gather(at, from) => self.gather(at, from, count),
            Stage::Count(from, counted) => self.count(from, counted, count),
            Stage::Sift(at, sieve) => self.sift(at, sieve, count),
            Stage::Sort => Ok(if self.tally.sort(By::Score, count) { Stage::Done(None) } else { Stage::Sort }),
            Stage::Assemble(mut assembly) => {
                let is_done = assembly.step(&mut self.tally, count);
                Ok(if is_done { Stage::Done(Some(assembly)) } else { Stage::Assemble(assembly) })
            }
            done @ (Stage::Done(_) | Stage::Counted(_)) => Ok(done),
        }
    }

    fn gather(&mut self, at: usize, from: usize, count: usize) -> Result<Stage, Refusal> {
        let Self { operation, weights, sources, ranks, order, tally, .. } = self;
        let source = order[at];
        if let Some(members) = Members::of(&sources[source])? {
            let end = ranks.as_ref().map_or(usize::MAX, |ranks| ranks.end).min(members.len());
            let to = from.saturating_add(count).min(end);
            members.visit(from..to.max(from), |member, score| {
                steps::take(1);
                let value = weights.value(source, score);
                match operation {
                    Operation::Union => tally.add(member, value, weights.aggregate),
                    _ => tally.push(member, value),
                }
            })?;
            if to < end {
                return Ok(Stage::Gather(at, to));
            }
        }
        Ok(match self.operation {
            Operation::Union if at + 1 < self.order.len() => Stage::Gather(at + 1, 0),
            Operation::Union => self.gathered(),
            _ => Stage::Sift(1, Sieve::default()),
        })
    }

    /// Looks for the next `steps` members of the smallest source in the others, up to the limit.
    fn count(&self, from: usize, mut counted: usize, steps: usize) -> Result<Stage, Refusal> {
        let Goal::Count { limit } = self.goal else { return Ok(Stage::Counted(counted)) };
        let members: Vec<Option<Members<'_>>> =
            self.order.iter().map(|source| Members::of(&self.sources[*source])).collect::<Result<_, _>>()?;
        let Some((Some(smallest), others)) = members.split_first() else { return Ok(Stage::Counted(0)) };
        let to = from.saturating_add(steps).min(smallest.len());
        // The limit is met within a step, too.
        let is_over = smallest.find(from..to, |member| {
            for other in others {
                let Some(other) = other else { return Ok(false) };
                if other.score(member)?.is_none() {
                    return Ok(false);
                }
            }
            counted += 1;
            Ok(counted >= limit)
        })?;
        Ok(if is_over || to == smallest.len() { Stage::Counted(counted) } else { Stage::Count(to, counted) })
    }

    fn sift(&mut self, at: usize, mut sieve: Sieve, count: usize) -> Result<Stage, Refusal> {
        let operation = self.operation;
        let Self { weights, sources, order, tally, .. } = self;
        let Some(source) = order.get(at).copied().filter(|_| !tally.is_empty()) else { return Ok(self.gathered()) };
        let members = Members::of(&sources[source])?;
        let is_last = tally.sift(&mut sieve, count, |member, sum| {
            let here = members.as_ref().map_or(Ok(None), |members| members.score(member))?;
            Ok::<bool, Refusal>(match (operation, here) {
                (Operation::Difference, here) => here.is_none(),
                (_, None) => false,
                (_, Some(here)) => {
                    *sum = weights.aggregate.of(*sum, weights.product(source, here));
                    true
                }
            })
        })?;
        Ok(if is_last { Stage::Sift(at + 1, Sieve::default()) } else { Stage::Sift(at, sieve) })
    }

    /// What follows when all members are known.
    fn gathered(&self) -> Stage {
        match self.goal {
            Goal::Store if self.tally.len() > ELEMENTS_MAX => Stage::Assemble(Box::new(Assembly::new(&self.tally))),
            _ => Stage::Sort,
        }
    }
}

impl Computation for Combination {
    fn step(&mut self) -> bool {
        self.advance(STEP)
    }

    fn memory(&self) -> usize {
        let assembled = match &self.stage {
            Stage::Assemble(assembly) | Stage::Done(Some(assembly)) => assembly.memory(),
            _ => 0,
        };
        self.tally.memory() + assembled
    }
}

/// Answers members that are in order: many of them while the reply is sent.
pub(super) fn answer(reply: &mut Reply<'_>, tally: Tally, shape: Shape) {
    reply.array(shape.elements(tally.len()));
    let bytes = tally.member_bytes() + 16 * tally.len();
    if bytes >= STREAM_BYTES && reply.out.may_stream() {
        reply.out.end_with(Box::new(TallyStream { tally, next: 0, shape }));
        return;
    }
    for entry in tally.iter() {
        shape.write(reply, &entry);
    }
}

/// The rest of a reply.
struct TallyStream {
    tally: Tally,
    next: usize,
    shape: Shape,
}

impl Stream for TallyStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let begin = out.len();
        for entry in self.tally.iter_from(self.next) {
            self.shape.append(out, &entry);
            self.next += 1;
            if out.len() - begin >= limit {
                break;
            }
        }
        Ok(self.next < self.tally.len())
    }
}
