//! A large sorted set made of members that come in order, at once or in steps.

use std::iter::Peekable;

use almandine_base::object::Object;

use crate::hashed::{Placement, bound};
use crate::sorted_set::Scored;

use super::SortedSetObject;
use crate::sorted_set::chunk::index::IndexChunk;
use crate::sorted_set::chunk::order::{Bound, OrderChunk};
use crate::sorted_set::tally::{By, Tally};

/// Members and bytes of a chunk: three quarters of what it may have, so that some can come.
const CHUNK_LEN: usize = 48;
const CHUNK_BYTES: usize = 6 * 1024;
const INDEX_LEN: usize = 96;

impl SortedSetObject {
    /// A sorted set of members that ascend. Their expiries stay.
    #[must_use]
    pub fn from_ascending<'m>(members: impl Iterator<Item = Scored<'m>>, placement: Placement) -> Self {
        let mut set = Self::new(placement);
        let (mut members, mut hashes) = (members.peekable(), Vec::with_capacity(CHUNK_LEN));
        while members.peek().is_some() {
            set.append_some(&mut members, |entry| hashes.push((bound(placement.hash(entry.member)), entry.score)));
        }
        hashes.sort_unstable_by_key(|(hash, _)| *hash);
        let mut from = 0;
        while from < hashes.len() {
            from += set.append_hashes(hashes[from..].iter().copied());
        }
        set
    }

    /// Puts some members behind all others, as many as make a chunk, and tells each. Says how many.
    fn append_some<'m>(
        &mut self,
        members: &mut Peekable<impl Iterator<Item = Scored<'m>>>,
        mut told: impl FnMut(&Scored<'m>),
    ) -> usize {
        let (mut chunk, mut bytes) = (Vec::with_capacity(CHUNK_LEN), 0);
        while let Some(entry) =
            members.next_if(|entry| chunk.is_empty() || (chunk.len() < CHUNK_LEN && bytes + entry.member.len() <= CHUNK_BYTES))
        {
            bytes += entry.member.len();
            told(&entry);
            chunk.push(entry);
        }
        let len = chunk.len();
        self.append(&mut chunk);
        len
    }

    /// Puts some entries behind all others of the index, as many as make a chunk. Says how many.
    fn append_hashes(&mut self, hashes: impl Iterator<Item = (u32, f64)>) -> usize {
        let mut chunk: Vec<(u32, f64)> = Vec::with_capacity(INDEX_LEN);
        for entry in hashes {
            // Members of one hash belong together.
            if chunk.len() >= INDEX_LEN && chunk.last().is_some_and(|last| last.0 != entry.0) {
                break;
            }
            chunk.push(entry);
        }
        if let Some(first) = chunk.first() {
            self.index.append(first.0, IndexChunk::build(&chunk));
        }
        chunk.len()
    }

    /// Puts members behind all others, if there are any, and takes them out of `chunk`.
    fn append(&mut self, chunk: &mut Vec<Scored<'_>>) {
        let Some(first) = chunk.first() else { return };
        let last = self.order.len().checked_sub(1).and_then(|rank| self.order().nth(rank as usize).ok().flatten());
        let bound = last.map_or_else(Bound::default, |last| Bound::between(last.key(), first.key()));
        debug_assert!(chunk.is_sorted_by(|one, next| one.key() < next.key()), "members ascend");
        self.order.append(bound, OrderChunk::of(chunk));
        chunk.clear();
    }
}

/// A large sorted set made in steps of what a tally has.
#[derive(Debug)]
pub struct Assembly {
    set: SortedSetObject,
    stage: Stage,
    longest: usize,
}

impl Assembly {
    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.set.memory()
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The tally is put in the order of hashes.
    Hashes,
    /// The index is made, from this entry on.
    Index(usize),
    /// The tally is put in the order of scores.
    Scores,
    /// The order is made, from this member on.
    Order(usize),
}

impl Assembly {
    /// One that has not begun.
    #[must_use]
    pub fn new(tally: &Tally) -> Self {
        Self { set: SortedSetObject::new(tally.placement()), stage: Stage::Hashes, longest: 0 }
    }

    /// Goes on by about `count` members of the tally, always the same one. True: all are in.
    pub fn step(&mut self, tally: &mut Tally, count: usize) -> bool {
        match self.stage {
            Stage::Hashes => {
                if tally.sort(By::Hash, count) {
                    self.stage = Stage::Index(0);
                }
                false
            }
            Stage::Index(from) => {
                let mut next = from;
                while next < tally.len() && next - from < count {
                    next += self.set.append_hashes(tally.hashes(next));
                }
                self.stage = if next < tally.len() { Stage::Index(next) } else { Stage::Scores };
                false
            }
            Stage::Scores => {
                if tally.sort(By::Score, count) {
                    self.stage = Stage::Order(0);
                }
                false
            }
            Stage::Order(from) => {
                let (mut next, mut members) = (from, tally.iter_from(from).peekable());
                while members.peek().is_some() && next - from < count {
                    next += self.set.append_some(&mut members, |entry| self.longest = self.longest.max(entry.member.len()));
                }
                self.stage = Stage::Order(next);
                next >= tally.len()
            }
        }
    }

    /// The sorted set, and the bytes of its longest member.
    #[must_use]
    pub fn finish(self) -> (SortedSetObject, usize) {
        (self.set, self.longest)
    }
}
