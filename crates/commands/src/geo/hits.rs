//! What a search finds in a sorted set.

use std::cmp::Ordering;

use almandine_datatypes::geo::{Found, Search, Shape};
use almandine_handler::Stop;
use almandine_keyspace::types::sorted_set::{Edge, SortedSet};

use super::query::{Order, Query};

/// Sorted sets with at most this number of members are gone through at once rather than range by range.
const SMALL_MAX: usize = 64;

/// A member that was found.
pub(super) struct Hit<'s> {
    pub(super) member: &'s [u8],
    pub(super) score: f64,
    pub(super) found: Found,
    /// Where Redis would find it: the range, then the place in it.
    place: (u8, u32),
}

/// Why there are no hits.
pub(super) enum NoHits {
    /// The members to be looked at are many enough for a snapshot.
    TooMany,
    /// An error.
    Failed(Stop),
}

impl<E: Into<Stop>> From<E> for NoHits {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A range of scores that holds some of the search's ranges.
#[derive(Clone, Copy)]
struct Run {
    low: f64,
    high: f64,
}

/// The members that a query asks for, in its order. `patient`: however many have to be looked at.
pub(super) fn hits<'s>(set: &SortedSet<'s>, query: &Query, shape: Shape, patient: bool) -> Result<Vec<Hit<'s>>, NoHits> {
    let search = Search::new(shape);
    let mut collector = Collector { search: &search, hits: Vec::new(), looked: 0, patient, enough: usize::MAX };
    if query.any {
        collector.enough = query.count.unwrap_or(usize::MAX);
        for (range, [low, high]) in (0u8..).zip(search.ranges()) {
            collector.collect(set, Run { low, high }, |_| range)?;
        }
    } else {
        let ranges: Vec<[f64; 2]> = search.ranges().collect();
        let range_of = |score: f64| ranges.iter().position(|[low, high]| (*low..*high).contains(&score)).map(|at| at as u8);
        if set.raw_len() <= SMALL_MAX {
            collector.collect_all(set, range_of)?;
        } else {
            for run in runs(&ranges) {
                collector.collect(set, run, |score| range_of(score).unwrap_or(0))?;
            }
        }
    }
    let mut hits = collector.hits;
    arrange(&mut hits, query);
    Ok(hits)
}

/// The ranges in ascending order, those that follow each other in one.
fn runs(ranges: &[[f64; 2]]) -> Vec<Run> {
    let mut sorted: Vec<Run> = ranges.iter().map(|[low, high]| Run { low: *low, high: *high }).collect();
    sorted.sort_unstable_by(|one, other| one.low.total_cmp(&other.low));
    let mut runs: Vec<Run> = Vec::with_capacity(sorted.len());
    for run in sorted {
        match runs.last_mut() {
            Some(last) if last.high == run.low => last.high = run.high,
            _ => runs.push(run),
        }
    }
    runs
}

struct Collector<'q, 's> {
    search: &'q Search,
    hits: Vec<Hit<'s>>,
    /// Members that were looked at.
    looked: usize,
    patient: bool,
    /// This number of hits will do.
    enough: usize,
}

impl<'s> Collector<'_, 's> {
    /// Takes the hits of a range of scores.
    fn collect(&mut self, set: &SortedSet<'s>, run: Run, range_of: impl Fn(f64) -> u8) -> Result<(), NoHits> {
        if self.hits.len() >= self.enough {
            return Ok(());
        }
        let from = set.rank_of(&Edge::before_score(run.low))?;
        for entry in set.range(from..set.len()) {
            let entry = entry?;
            if entry.score >= run.high {
                break;
            }
            self.looked += 1;
            if !self.patient && set.is_long(self.looked) {
                return Err(NoHits::TooMany);
            }
            if let Some(found) = self.search.look(entry.score) {
                self.take(entry.member, entry.score, found, range_of(entry.score));
                if self.hits.len() >= self.enough {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes the hits of all ranges of a small sorted set.
    fn collect_all(&mut self, set: &SortedSet<'s>, range_of: impl Fn(f64) -> Option<u8>) -> Result<(), NoHits> {
        for entry in set.iter() {
            let entry = entry?;
            let Some(found) = self.search.look(entry.score) else { continue };
            if let Some(range) = range_of(entry.score) {
                self.take(entry.member, entry.score, found, range);
            }
        }
        Ok(())
    }

    fn take(&mut self, member: &'s [u8], score: f64, found: Found, range: u8) {
        self.hits.push(Hit { member, score, found, place: (range, self.hits.len() as u32) });
    }
}

/// Brings hits into the order that is asked for, as many as are.
fn arrange(hits: &mut Vec<Hit<'_>>, query: &Query) {
    // Without an order, the closest are meant when there are too many.
    let order = query.order.or_else(|| (query.count.is_some() && !query.any).then_some(Order::Ascending));
    let compare = |one: &Hit<'_>, other: &Hit<'_>| {
        let by_distance = match order {
            None => Ordering::Equal,
            Some(Order::Ascending) => one.found.distance.total_cmp(&other.found.distance),
            Some(Order::Descending) => other.found.distance.total_cmp(&one.found.distance),
        };
        by_distance.then_with(|| one.place.cmp(&other.place))
    };
    if let Some(count) = query.count.filter(|count| *count < hits.len()) {
        hits.select_nth_unstable_by(count, compare);
        hits.truncate(count);
    }
    if !hits.is_sorted_by(|one, other| compare(one, other).is_le()) {
        hits.sort_unstable_by(compare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_follow_each_other_are_one() {
        let runs = runs(&[[4.0, 6.0], [0.0, 2.0], [2.0, 4.0], [8.0, 9.0]]);
        let runs: Vec<_> = runs.into_iter().map(|run| [run.low, run.high]).collect();
        assert_eq!(runs, [[0.0, 6.0], [8.0, 9.0]]);
    }
}
