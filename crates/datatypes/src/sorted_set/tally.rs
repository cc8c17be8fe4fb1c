//! Members of several sources, each with one score: what unions, intersections and differences are made in.

use crate::hashed::Placement;
use crate::packed::{Scored, score};

/// How scores of one member become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Their sum; 0 where that is no number.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

impl Aggregate {
    /// The score that follows from two.
    #[must_use]
    pub fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Sum => number(one + other),
            Self::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Self::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

/// A product of weight and score; 0 where that is no number, as of infinity and nothing.
#[must_use]
pub fn weighted(weight: f64, score: f64) -> f64 {
    number(weight * score)
}

fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    /// Where the member begins, and its length.
    at: usize,
    len: u32,
    score: f64,
}

/// Different members with scores, in any order.
#[derive(Clone, Debug)]
pub struct Tally {
    placement: Placement,
    /// The members, one behind the other.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Where entries are, one more than that, from the lowest bits of their hashes on; none while members are only pushed.
    slots: Vec<u32>,
}

/// Slots at least.
const SLOTS_MIN: usize = 64;

impl Tally {
    /// An empty one.
    #[must_use]
    pub fn new(placement: Placement) -> Self {
        Self { placement, bytes: Vec::new(), entries: Vec::new(), slots: Vec::new() }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a member that is not there. After this, [`Tally::add`] must not be used.
    pub fn push(&mut self, member: &[u8], score: f64) {
        debug_assert!(self.slots.is_empty(), "members are either pushed or added");
        self.insert(0, member, score);
    }

    fn insert(&mut self, hash: u64, member: &[u8], score: f64) {
        self.entries.push(Entry { hash, at: self.bytes.len(), len: member.len() as u32, score });
        self.bytes.extend_from_slice(member);
    }

    /// Adds a score to those that a member has.
    pub fn add(&mut self, member: &[u8], score: f64, aggregate: Aggregate) {
        if (self.entries.len() + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let (hash, mask) = (self.placement.hash(member), self.slots.len() - 1);
        let mut slot = hash as usize & mask;
        while let Some(index) = (self.slots[slot] as usize).checked_sub(1) {
            let entry = &self.entries[index];
            if entry.hash == hash && self.bytes[entry.at..entry.at + entry.len as usize] == *member {
                self.entries[index].score = aggregate.of(entry.score, score);
                return;
            }
            slot = (slot + 1) & mask;
        }
        self.insert(hash, member, score);
        self.slots[slot] = self.entries.len() as u32;
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(SLOTS_MIN);
        self.slots.clear();
        self.slots.resize(size, 0);
        for (index, entry) in (1..).zip(&self.entries) {
            let mut slot = entry.hash as usize & (size - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = index;
        }
    }

    /// Keeps the members for which `keep`, which may change their scores, says so. After this, [`Tally::add`] must not be used.
    ///
    /// # Errors
    /// Those of `keep`, at the first one.
    pub fn retain<E>(&mut self, mut keep: impl FnMut(&[u8], &mut f64) -> Result<bool, E>) -> Result<(), E> {
        self.slots.clear();
        let (bytes, mut failed) = (&self.bytes, Ok(()));
        self.entries.retain_mut(|entry| {
            let kept = failed.is_ok().then(|| keep(&bytes[entry.at..entry.at + entry.len as usize], &mut entry.score));
            kept.is_none_or(|kept| {
                kept.unwrap_or_else(|error| {
                    failed = Err(error);
                    true
                })
            })
        });
        failed
    }

    /// Puts the members in order.
    pub fn sort(&mut self) {
        self.slots.clear();
        let bytes = &self.bytes;
        let member = |entry: &Entry| &bytes[entry.at..entry.at + entry.len as usize];
        self.entries.sort_unstable_by(|one, other| {
            score::key(one.score).cmp(&score::key(other.score)).then_with(|| member(one).cmp(member(other)))
        });
    }

    /// The members, in order behind [`Tally::sort`].
    pub fn iter(&self) -> impl Iterator<Item = Scored<'_>> + Clone {
        self.entries.iter().map(|entry| Scored {
            member: &self.bytes[entry.at..entry.at + entry.len as usize],
            score: entry.score,
            due: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn scores_of_a_member_become_one() {
        let mut tally = Tally::new(Placement::weak(7, 6));
        let mut model: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        for n in 0..3000u32 {
            let member = (n * 7919 % 701).to_string().into_bytes();
            let score = f64::from(n % 13) - 6.0;
            tally.add(&member, score, Aggregate::Sum);
            model.entry(member).and_modify(|sum| *sum += score).or_insert(score);
        }
        tally.sort();
        let mut expected: Vec<_> = model.into_iter().collect();
        expected.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
        assert!(tally.iter().map(|entry| (entry.member.to_vec(), entry.score)).eq(expected.iter().cloned()));
        let kept: Result<(), ()> = tally.retain(|member, score| {
            *score = 1.0;
            Ok(member.len() == 2)
        });
        assert_eq!((kept, tally.len()), (Ok(()), 90));
        assert!(tally.iter().all(|entry| entry.score == 1.0 && entry.member.len() == 2));
        assert_eq!(tally.retain(|_, _| Err(5)), Err(5));
        assert_eq!(tally.len(), 90);
    }

    #[test]
    fn what_is_no_number_is_nothing() {
        let infinity = f64::INFINITY;
        assert_eq!(Aggregate::Sum.of(infinity, -infinity).to_bits(), 0);
        assert_eq!([Aggregate::Min.of(1.0, 2.0), Aggregate::Max.of(1.0, 2.0), Aggregate::Sum.of(1.0, 2.0)], [1.0, 2.0, 3.0]);
        assert_eq!([weighted(0.0, infinity), weighted(2.0, 1.5)], [0.0, 3.0]);
    }
}
