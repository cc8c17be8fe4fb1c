//! Chunks of scores in the order of their members' hashes.
//!
//! ```text
//! members 4 | bytes of a score 4                    header
//! hashes, ascending: 4 bytes each
//! slack
//! scores, the first one last: each as wide as the widest of them
//! ```
//!
//! A hash stands for a member. Two members of the same hash have an entry each, so one that is found is a candidate.

use std::sync::Arc;

use crate::sorted_set::score;
use crate::tree::{Leaf, NEVER, SHARED_BYTES, Summary, size_class, zeroes};

const HEADER: usize = 8;
const HASH: usize = 4;

/// Entries of a chunk at most.
const ENTRIES_MAX: usize = 128;
const MERGED_MAX: usize = ENTRIES_MAX * 3 / 4;

/// A chunk of hashes with scores.
#[derive(Clone, Debug)]
pub(in crate::sorted_set) struct IndexChunk {
    bytes: Arc<[u8]>,
}

impl Default for IndexChunk {
    fn default() -> Self {
        Self::build(&[])
    }
}

fn least(count: usize, width: usize) -> usize {
    HEADER + count * (HASH + width)
}

fn capacity(count: usize, width: usize) -> usize {
    size_class(SHARED_BYTES + least(count, width)) - SHARED_BYTES
}

fn write_header(bytes: &mut [u8], count: usize, width: usize) {
    bytes[..4].copy_from_slice(&(count as u32).to_le_bytes());
    bytes[4..HEADER].copy_from_slice(&(width as u32).to_le_bytes());
}

impl IndexChunk {
    /// How many entries there are, and the bytes of a score.
    #[inline]
    fn header(&self) -> (usize, usize) {
        let Some(&[a, b, c, d, e, f, g, h]) = self.bytes.first_chunk::<HEADER>() else { return (0, 0) };
        (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize)
    }

    pub(in crate::sorted_set) fn len(&self) -> usize {
        self.header().0
    }

    fn hashes(&self) -> &[[u8; HASH]] {
        self.bytes[HEADER..HEADER + self.len() * HASH].as_chunks().0
    }

    fn score(&self, index: usize) -> f64 {
        let (_, width) = self.header();
        let end = self.bytes.len() - index * width;
        score::decode(&self.bytes[end - width..end])
    }

    /// The first entry whose hash is not below.
    #[inline]
    fn first(&self, hash: u32) -> usize {
        // No branch depends on the hashes, and the compiler compares several at once.
        self.hashes().iter().map(|other| u32::from(u32::from_le_bytes(*other) < hash)).sum::<u32>() as usize
    }

    /// The scores of members with this hash.
    pub(in crate::sorted_set) fn candidates(&self, hash: u32) -> impl Iterator<Item = f64> {
        let first = self.first(hash);
        let equal = self.hashes()[first..].iter().take_while(move |other| u32::from_le_bytes(**other) == hash);
        equal.enumerate().map(move |(i, _)| self.score(first + i))
    }

    /// Tells the cache lines that a look-up reads.
    pub(in crate::sorted_set) fn prefetch(&self, fetch: &mut dyn FnMut(*const u8)) {
        self.bytes[..HEADER + self.len() * HASH].iter().step_by(64).for_each(|line| fetch(line));
    }

    /// All entries.
    pub(in crate::sorted_set) fn iter(&self) -> impl Iterator<Item = (u32, f64)> {
        self.hashes().iter().enumerate().map(|(i, hash)| (u32::from_le_bytes(*hash), self.score(i)))
    }

    /// Adds an entry.
    pub(in crate::sorted_set) fn insert(&mut self, hash: u32, score: f64) {
        let (index, (count, width)) = (self.first(hash), self.header());
        let fits = score::fits(score, width) && least(count + 1, width) <= self.bytes.len();
        let Some(bytes) = Arc::get_mut(&mut self.bytes).filter(|_| fits) else {
            let mut all: Vec<(u32, f64)> = self.iter().collect();
            all.insert(index, (hash, score));
            *self = Self::build(&all);
            return;
        };
        let (at, end, len) = (HEADER + index * HASH, HEADER + count * HASH, bytes.len());
        bytes.copy_within(at..end, at + HASH);
        bytes[at..at + HASH].copy_from_slice(&hash.to_le_bytes());
        let at = len - index * width;
        bytes.copy_within(len - count * width..at, len - (count + 1) * width);
        bytes[at - width..at].copy_from_slice(score::encode(score, width).as_slice());
        write_header(bytes, count + 1, width);
    }

    fn place(&self, hash: u32, score: f64) -> Option<usize> {
        let (first, hashes) = (self.first(hash), self.hashes());
        let of_hash = |index: &usize| hashes.get(*index).is_some_and(|other| u32::from_le_bytes(*other) == hash);
        (first..).take_while(of_hash).find(|index| self.score(*index).to_bits() == score.to_bits())
    }

    /// Removes an entry. Says whether it was there.
    pub(in crate::sorted_set) fn remove(&mut self, hash: u32, score: f64) -> bool {
        let Some(index) = self.place(hash, score) else { return false };
        let (count, width) = self.header();
        let is_ample = capacity(count + count / 8, width) >= self.bytes.len();
        let Some(bytes) = Arc::get_mut(&mut self.bytes).filter(|_| is_ample) else {
            let mut all: Vec<(u32, f64)> = self.iter().collect();
            all.remove(index);
            *self = Self::build(&all);
            return true;
        };
        let (at, end, len) = (HEADER + index * HASH, HEADER + count * HASH, bytes.len());
        bytes.copy_within(at + HASH..end, at);
        bytes.copy_within(len - count * width..len - (index + 1) * width, len - (count - 1) * width);
        write_header(bytes, count - 1, width);
        true
    }

    /// Replaces a score. Says whether it was there.
    pub(in crate::sorted_set) fn exchange(&mut self, hash: u32, before: f64, after: f64) -> bool {
        let Some(index) = self.place(hash, before) else { return false };
        let (_, width) = self.header();
        let Some(bytes) = Arc::get_mut(&mut self.bytes).filter(|_| score::fits(after, width)) else {
            let mut all: Vec<(u32, f64)> = self.iter().collect();
            all[index].1 = after;
            *self = Self::build(&all);
            return true;
        };
        let end = bytes.len() - index * width;
        bytes[end - width..end].copy_from_slice(score::encode(after, width).as_slice());
        true
    }

    /// A chunk of ascending entries.
    pub(in crate::sorted_set) fn build(entries: &[(u32, f64)]) -> Self {
        let width = score::common_width(entries.iter().map(|(_, score)| *score));
        let mut all = zeroes(capacity(entries.len(), width));
        if let Some(bytes) = Arc::get_mut(&mut all) {
            let len = bytes.len();
            write_header(bytes, entries.len(), width);
            for (i, (hash, score)) in entries.iter().enumerate() {
                bytes[HEADER + i * HASH..HEADER + (i + 1) * HASH].copy_from_slice(&hash.to_le_bytes());
                bytes[len - (i + 1) * width..len - i * width].copy_from_slice(score::encode(*score, width).as_slice());
            }
        }
        Self { bytes: all }
    }
}

impl Leaf for IndexChunk {
    type Bound = u32;
    type Context = ();

    fn summary(&self) -> Summary {
        Summary { count: self.len() as u64, due: NEVER }
    }

    fn memory(&self) -> usize {
        SHARED_BYTES + self.bytes.len()
    }

    fn is_large(&self) -> bool {
        self.len() > ENTRIES_MAX
    }

    fn is_small(&self) -> bool {
        self.len() < ENTRIES_MAX / 4
    }

    fn split(&mut self, (): &()) -> Option<(u32, Self)> {
        let all: Vec<(u32, f64)> = self.iter().collect();
        let half = all.len() / 2;
        let differs = |at: &usize| all[*at].0 != all[*at - 1].0;
        let cut = (half..all.len()).find(differs).or_else(|| (1..half).rev().find(differs))?;
        *self = Self::build(&all[..cut]);
        Some((all[cut].0, Self::build(&all[cut..])))
    }

    fn merge(&mut self, right: &Self) -> bool {
        if self.len() + right.len() > MERGED_MAX {
            return false;
        }
        let all: Vec<(u32, f64)> = self.iter().chain(right.iter()).collect();
        *self = Self::build(&all);
        true
    }

    #[inline]
    fn position(bounds: &[u32], bound: &u32) -> usize {
        let Some((_, bounds)) = bounds.split_first() else { return 0 };
        bounds.iter().map(|other| u32::from(other <= bound)).sum::<u32>() as usize
    }

    fn check(&self, (low, high): (&u32, Option<&u32>), (): &()) {
        let (count, width) = self.header();
        assert!(least(count, width) <= self.bytes.len());
        assert_eq!(self.memory(), size_class(self.memory()), "an allocation is a size class");
        assert!(self.iter().is_sorted_by_key(|(hash, _)| hash), "hashes ascend");
        let lies = |hash: u32| *low <= hash && high.is_none_or(|high| hash < *high);
        assert!(self.iter().all(|(hash, _)| lies(hash)), "INV-TREE-1: members lie in their chunk");
    }
}
