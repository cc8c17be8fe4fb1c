//! Union, intersection and difference of sets, without a result that is built: each goes through some of the sets and looks the
//! members up in others.
//!
//! *Intersection*: through the smallest, each member looked up in the others, the smaller ones first. *Difference*: through the
//! first, its members looked up in the others, the larger ones first. *Union*: through all, the largest first, the members of each
//! looked up in those before it. Large sets are in the order of one hash, so look-ups of members that come in that order are in the
//! same chunks again and again. Sets of integers ascend and are merged.
//!
//! With many sets a union would look up more than it costs to gather all members in a set of their own; so would a difference from
//! many:
//! [`Algebra::gathers`].
//!
//! Everything can be done in steps over snapshots of the sets: each step goes on where the one before has ended.

mod builder;
mod source;

pub use builder::Builder;
pub use source::{Source, SourceMembers};

use std::ops::Range;

use almandine_base::object::Missing;

use super::packed::IntegerCursor;
use crate::packed::Member;

use super::object::SetObject;

/// Look-ups in large sets that cost as much as adding a member to one.
const GATHER_COST: usize = 5;
/// SourceMembers of packed sets whose comparison costs as much as a look-up in a large one.
const SCAN_COST: usize = 16;

/// What is asked of several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// What is in one of them.
    Union,
    /// What is in all of them.
    Intersection,
    /// What is in the first and in no other.
    Difference,
}

/// Where a step goes on: in which set, at which of its members. The beginning is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    source: usize,
    rank: usize,
}

/// An operation on sets, in the order in which that is cheapest.
#[derive(Clone, Debug)]
pub struct Algebra<'s> {
    operation: SetOperation,
    sources: Vec<Source<'s>>,
}

/// Going through one set.
struct Pass {
    /// Its members are taken that are in all of these,
    within: Range<usize>,
    /// and in none of these.
    outside: Range<usize>,
}

/// A number of members, as far as they are counted.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    position: Position,
    /// Those of the first set that are in others are counted off its size.
    subtracts: bool,
    total: usize,
    limit: usize,
}

impl Count {
    /// The number, once all is counted.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total.min(self.limit)
    }
}

impl<'s> Algebra<'s> {
    /// An operation on sets in the order in which a command names them. Absent ones are empty.
    #[must_use]
    pub fn new(operation: SetOperation, mut sources: Vec<Source<'s>>) -> Self {
        match operation {
            SetOperation::Union => sources.sort_by_key(|source| std::cmp::Reverse(source.len())),
            SetOperation::Intersection => sources.sort_by_key(Source::len),
            SetOperation::Difference => {
                sources.get_mut(1..).unwrap_or_default().sort_by_key(|source| std::cmp::Reverse(source.len()));
            }
        }
        if operation != SetOperation::Intersection {
            let mut at = 0;
            sources.retain(|source| {
                at += 1;
                !source.is_empty() || at == 1
            });
        }
        Self { operation, sources }
    }

    /// SourceMembers that going through all of it meets at most.
    #[must_use]
    pub fn work(&self) -> usize {
        let all = match self.operation {
            SetOperation::Union => &self.sources[..],
            SetOperation::Intersection | SetOperation::Difference => self.sources.get(..1).unwrap_or_default(),
        };
        all.iter().map(Source::len).sum()
    }

    /// SourceMembers of all sets together.
    #[must_use]
    pub fn all(&self) -> usize {
        self.sources.iter().map(Source::len).sum()
    }

    /// The sets, in the order of passes, whose members should be gathered in one first, which then stands for all of them.
    #[must_use]
    pub fn gathers(&self) -> Option<Range<usize>> {
        let lens = |sources: &[Source<'_>]| sources.iter().map(Source::len).sum::<usize>();
        let costs = |sources: &[Source<'_>]| sources.iter().map(cost).sum::<usize>();
        let (range, lookups) = match self.operation {
            SetOperation::Intersection => return None,
            SetOperation::Union => {
                let lookups = (1..self.sources.len()).map(|at| self.sources[at].len() * costs(&self.sources[..at])).sum();
                (0..self.sources.len(), lookups)
            }
            SetOperation::Difference => {
                let (first, others) = self.sources.split_first()?;
                (1..self.sources.len(), first.len() * costs(others).saturating_sub(1))
            }
        };
        (lens(&self.sources[range.clone()]) * GATHER_COST < lookups).then_some(range)
    }

    /// As if the sets that should be gathered were this one.
    #[must_use]
    pub fn with_gathered(&self, gathered: Source<'s>) -> Self {
        let first = if self.operation == SetOperation::Difference { self.sources.get(..1).unwrap_or_default() } else { &[] };
        Self { operation: self.operation, sources: [first, &[gathered]].concat() }
    }

    /// Adds members of the sets that are to be gathered, after having met about `steps` of them. Returns where to go on; None at
    /// the end.
    pub fn gather(&self, from: Position, steps: usize, into: &mut Builder) -> Result<Option<Position>, Missing> {
        let range = self.gathers().unwrap_or_default();
        let mut added = Ok(true);
        let next = self.each_of(range, from, steps, &mut |member| {
            added = into.add(member);
            added.is_ok()
        })?;
        added.map(|_| next)
    }

    /// Visits about `steps` members of each set, some of them more than once. Returns where to go on; None at the end.
    pub fn each(&self, from: Position, steps: usize, visit: &mut dyn FnMut(&[u8])) -> Result<Option<Position>, Missing> {
        self.each_of(0..self.sources.len(), from, steps, &mut |member| {
            visit(member);
            true
        })
    }

    fn each_of(
        &self,
        range: Range<usize>,
        from: Position,
        steps: usize,
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<Position>, Missing> {
        let (mut at, mut left) = (Position { source: from.source.max(range.start), ..from }, steps);
        while at.source < range.end {
            for member in self.sources[at.source].iter_from(at.rank) {
                if left == 0 || !visit(&member?) {
                    return Ok(Some(at));
                }
                (at.rank, left) = (at.rank + 1, left - 1);
            }
            at = Position { source: at.source + 1, rank: 0 };
        }
        Ok(None)
    }

    /// The pass through a set. None: there is no such pass.
    fn pass(&self, source: usize, subtracts: bool) -> Option<Pass> {
        let all = self.sources.len();
        match self.operation {
            _ if source >= all => None,
            _ if subtracts => Some(Pass { within: 0..1, outside: 1..source }),
            SetOperation::Union => Some(Pass { within: 0..0, outside: 0..source }),
            SetOperation::Intersection => (source == 0).then_some(Pass { within: 1..all, outside: 0..0 }),
            SetOperation::Difference => (source == 0).then_some(Pass { within: 0..0, outside: 1..all }),
        }
    }

    /// Visits members of the result until `visit` says no more or about `steps` were met. Returns where to go on; None at the end.
    pub fn visit(&self, from: Position, steps: usize, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<Option<Position>, Missing> {
        self.visit_passes(from, false, steps, visit)
    }

    fn visit_passes(
        &self,
        mut at: Position,
        subtracts: bool,
        mut left: usize,
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<Position>, Missing> {
        while let Some(pass) = self.pass(at.source, subtracts) {
            let (source, within, outside) = (&self.sources[at.source], &self.sources[pass.within], &self.sources[pass.outside]);
            if let Some(mut merge) = Merge::new(source, within, outside) {
                while let Some(number) = merge.driver.get(at.rank) {
                    if left == 0 {
                        return Ok(Some(at));
                    }
                    (at.rank, left) = (at.rank + 1, left - 1);
                    if merge.takes(number) && !visit(&Member::from(number)) {
                        return Ok(Some(at));
                    }
                }
            } else {
                for member in source.iter_from(at.rank) {
                    if left == 0 {
                        return Ok(Some(at));
                    }
                    let member = member?;
                    (at.rank, left) = (at.rank + 1, left - 1);
                    if takes(&member, within, outside)? && !visit(&member) {
                        return Ok(Some(at));
                    }
                }
            }
            at = Position { source: at.source + 1, rank: 0 };
        }
        Ok(None)
    }

    /// Begins to count the members of the result, up to a limit; 0 is none.
    #[must_use]
    pub fn begin_count(&self, limit: usize) -> Count {
        let limit = if limit == 0 { usize::MAX } else { limit };
        let first = self.sources.first().map_or(0, Source::len);
        let others: usize = self.sources.iter().skip(1).map(Source::len).sum();
        let subtracts = self.operation == SetOperation::Difference && others < first;
        let (position, total) = match self.operation {
            // All of these count without being looked at.
            SetOperation::Union => (Position { source: 1, rank: 0 }, first),
            SetOperation::Difference if subtracts => (Position { source: 1, rank: 0 }, first),
            _ => (Position::default(), 0),
        };
        Count { position, subtracts, total, limit }
    }

    /// Counts on, meeting about `steps` members. Says whether that was all.
    pub fn count(&self, count: &mut Count, steps: usize) -> Result<bool, Missing> {
        let Count { position, subtracts, mut total, limit } = *count;
        if !subtracts && total >= limit {
            return Ok(true);
        }
        let next = self.visit_passes(position, subtracts, steps, &mut |_| {
            total = if subtracts { total - 1 } else { total + 1 };
            subtracts || total < limit
        })?;
        *count = Count { position: next.unwrap_or(position), total, ..*count };
        Ok(next.is_none() || (!subtracts && total >= limit))
    }

    /// What a large first set has in common with the result is shared with it.
    fn shares(&self, into: &Builder) -> Option<&'s SetObject> {
        let Some((Source::Object(first), others)) = self.sources.split_first() else { return None };
        let shares = match self.operation {
            SetOperation::Union => into.is_table(first.len()),
            SetOperation::Intersection => false,
            SetOperation::Difference => {
                let taken: usize = others.iter().map(Source::len).sum();
                taken < first.len() / 2 && into.is_table(first.len() - taken)
            }
        };
        shares.then_some(*first)
    }

    /// SourceMembers that [`Algebra::build`] meets at most.
    #[must_use]
    pub fn build_work(&self, into: &Builder) -> usize {
        match self.shares(into) {
            Some(_) => self.sources.iter().skip(1).map(Source::len).sum(),
            None => self.work(),
        }
    }

    /// Adds members of the result to a set that was empty at the beginning, meeting about `steps`. Returns where to go on; None at
    /// the end, where it has all of them.
    pub fn build(&self, from: Position, steps: usize, into: &mut Builder) -> Result<Option<Position>, Missing> {
        let shared = self.shares(into);
        if let Some(first) = shared.filter(|_| from == Position::default()) {
            into.begin_with(first);
        }
        let removes = shared.is_some() && self.operation == SetOperation::Difference;
        let mut done = Ok(true);
        let mut take = |member: &[u8]| {
            done = if removes { into.remove(member) } else { into.add(member) };
            done.is_ok()
        };
        let next = match self.operation {
            _ if shared.is_some() => self.each_of(1..self.sources.len(), from, steps, &mut take),
            // What was added before is found in the result.
            SetOperation::Union => self.each_of(0..self.sources.len(), from, steps, &mut take),
            _ => self.visit(from, steps, &mut take),
        };
        done.and(next)
    }
}

/// What looking a member up costs, in look-ups in large sets.
fn cost(source: &Source<'_>) -> usize {
    match source {
        Source::Packed(packed) if packed.integers().is_none() => 1 + packed.len() / SCAN_COST,
        _ => 1,
    }
}

/// The integers of a set and of those that decide on them, if all are integers.
struct Merge<'s> {
    driver: IntegerCursor<'s>,
    within: Vec<IntegerCursor<'s>>,
    outside: Vec<IntegerCursor<'s>>,
}

impl<'s> Merge<'s> {
    fn new(driver: &Source<'s>, within: &[Source<'s>], outside: &[Source<'s>]) -> Option<Self> {
        let integers = |source: &Source<'s>| match source {
            Source::Packed(packed) => packed.integers(),
            Source::Object(_) => None,
        };
        let all = |sources: &[Source<'s>]| sources.iter().map(integers).collect::<Option<_>>();
        Some(Self { driver: integers(driver)?, within: all(within)?, outside: all(outside)? })
    }

    fn takes(&mut self, number: i64) -> bool {
        self.within.iter_mut().all(|cursor| cursor.meets(number)) && !self.outside.iter_mut().any(|cursor| cursor.meets(number))
    }
}

/// Whether a member is in all of the first and in none of the second sets.
#[inline]
fn takes(member: &[u8], within: &[Source<'_>], outside: &[Source<'_>]) -> Result<bool, Missing> {
    for source in within {
        if !source.contains(member)? {
            return Ok(false);
        }
    }
    for source in outside {
        if source.contains(member)? {
            return Ok(false);
        }
    }
    Ok(true)
}
