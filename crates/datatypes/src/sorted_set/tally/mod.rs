//! Members of several sources, each with one score: what unions, intersections and differences are made in.

mod sorter;

use super::{Scored, score};
use crate::hashed::{Placement, bound};

use self::sorter::Sorter;

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

/// A score; 0 where it is no number.
#[must_use]
pub fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The member's hash; once the order is that of scores, its first bytes.
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
    /// The entries, while they are put in order.
    sorter: Option<Sorter<Entry>>,
}

impl Tally {
    /// Bytes of all members that there ever were.
    #[must_use]
    pub fn member_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let entries = self.entries.capacity() * if self.sorter.is_some() { 2 } else { 1 };
        self.bytes.capacity() + entries * size_of::<Entry>() + self.slots.capacity() * size_of::<u32>()
    }
}

/// Slots at least.
const SLOTS_MIN: usize = 64;

impl Tally {
    /// An empty one.
    #[must_use]
    pub fn new(placement: Placement) -> Self {
        Self { placement, bytes: Vec::new(), entries: Vec::new(), slots: Vec::new(), sorter: None }
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

    /// Makes room for a number of members, for all of their bytes, and for as many slots, so that nothing large is moved later.
    pub fn reserve(&mut self, members: usize, bytes: usize, slots: bool) {
        self.entries.reserve(members);
        self.bytes.reserve(bytes);
        if slots && self.entries.is_empty() {
            self.slots = vec![0; (2 * members + 2).next_power_of_two().max(SLOTS_MIN)];
        }
    }

    /// Adds a member that is not there. After this, [`Tally::add`] must not be used.
    pub fn push(&mut self, member: &[u8], score: f64) {
        debug_assert!(self.slots.is_empty(), "members are either pushed or added");
        self.insert(self.placement.hash(member), member, score);
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

    /// Keeps of the next `count` members those for which `keep`, which may change their scores, says so. True: there are no more of
    /// them. After this, [`Tally::add`] must not be used.
    ///
    /// # Errors
    /// Those of `keep`, at the first one; then members are lost.
    pub fn sift<E>(
        &mut self,
        sieve: &mut Sieve,
        count: usize,
        mut keep: impl FnMut(&[u8], &mut f64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        self.slots.clear();
        let end = sieve.read.saturating_add(count).min(self.entries.len());
        for read in sieve.read..end {
            let mut entry = self.entries[read];
            if keep(&self.bytes[entry.at..entry.at + entry.len as usize], &mut entry.score)? {
                self.entries[sieve.kept] = entry;
                sieve.kept += 1;
            }
        }
        sieve.read = end;
        let is_last = end == self.entries.len();
        if is_last {
            self.entries.truncate(sieve.kept);
            *sieve = Sieve::default();
        }
        Ok(is_last)
    }

    /// Goes on putting the members in order, by about `count` of them. True: they are. After this, [`Tally::add`] must not be used,
    /// nor may members that are in the order of their scores be put in that of their hashes.
    pub fn sort(&mut self, by: By, count: usize) -> bool {
        self.slots = Vec::new();
        let sorter = self.sorter.get_or_insert_with(|| Sorter::new(std::mem::take(&mut self.entries)));
        let bytes = &self.bytes;
        let member = |entry: &Entry| &bytes[entry.at..entry.at + entry.len as usize];
        let is_done = match by {
            By::Hash => sorter.step(count, |_| (), |one, other| one.hash.cmp(&other.hash)),
            // Hashes are not needed any more: where they were, the beginnings of members spare most looks at these.
            By::Score => sorter.step(
                count,
                |entry| entry.hash = beginning(member(entry)),
                |one, other| {
                    let keys = |entry: &Entry| (score::key(entry.score), entry.hash);
                    keys(one).cmp(&keys(other)).then_with(|| member(one).cmp(member(other)))
                },
            ),
        };
        if is_done {
            self.entries = self.sorter.take().map(Sorter::into_elements).unwrap_or_default();
        }
        is_done
    }

    /// The hashes of members from one on, as the index has them, with scores.
    pub(super) fn hashes(&self, from: usize) -> impl Iterator<Item = (u32, f64)> {
        self.entries[from.min(self.entries.len())..].iter().map(|entry| (bound(entry.hash), entry.score))
    }

    /// Members from one on, in order behind [`Tally::sort`].
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = Scored<'_>> + Clone {
        self.entries[from.min(self.entries.len())..].iter().map(|entry| Scored {
            member: &self.bytes[entry.at..entry.at + entry.len as usize],
            score: entry.score,
            due: None,
        })
    }

    /// The placement of members that it was made with.
    pub(super) fn placement(&self) -> Placement {
        self.placement
    }

    /// The members, in order behind [`Tally::sort`].
    pub fn iter(&self) -> impl Iterator<Item = Scored<'_>> + Clone {
        self.iter_from(0)
    }
}

/// The first bytes of a member, as a number that is in the same order unless it is equal.
fn beginning(member: &[u8]) -> u64 {
    member.first_chunk().map_or_else(
        || {
            let mut all = [0; 8];
            all[..member.len()].copy_from_slice(member);
            u64::from_be_bytes(all)
        },
        |first| u64::from_be_bytes(*first),
    )
}

/// How far [`Tally::sift`] is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sieve {
    read: usize,
    kept: usize,
}

/// By what members are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By their hashes, as the index has them.
    Hash,
    /// By scores, then by bytes.
    Score,
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
        while !tally.sort(By::Score, 100) {}
        let mut expected: Vec<_> = model.into_iter().collect();
        expected.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
        assert!(tally.iter().map(|entry| (entry.member.to_vec(), entry.score)).eq(expected.iter().cloned()));
        let mut sieve = Sieve::default();
        while tally
            .sift(&mut sieve, 100, |member, score| {
                *score = 1.0;
                Ok::<_, ()>(member.len() == 2)
            })
            .is_ok_and(|is_last| !is_last)
        {}
        assert_eq!(tally.len(), 90);
        assert!(tally.iter().all(|entry| entry.score == 1.0 && entry.member.len() == 2));
        assert_eq!(tally.sift(&mut sieve, 100, |_, _| Err(5)), Err(5));
    }

    #[test]
    fn what_is_no_number_is_nothing() {
        let infinity = f64::INFINITY;
        assert_eq!(Aggregate::Sum.of(infinity, -infinity).to_bits(), 0);
        assert_eq!([Aggregate::Min.of(1.0, 2.0), Aggregate::Max.of(1.0, 2.0), Aggregate::Sum.of(1.0, 2.0)], [1.0, 2.0, 3.0]);
        assert_eq!([number(0.0 * infinity), number(3.0)], [0.0, 3.0]);
        let aggregates = [Aggregate::Sum, Aggregate::Min, Aggregate::Max];
        assert_eq!(aggregates.map(|aggregate| aggregate.of(2.0, f64::NAN)), [0.0, 2.0, 2.0]);
    }
}
