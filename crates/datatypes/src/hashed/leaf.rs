//! Chunks as leaves of a tree.

use crate::packed::ELEMENTS_MAX;
use crate::packed::entry::EntryShape;
use crate::tree::{Leaf, NEVER, SHARED_BYTES, Summary, size_class};

use super::chunk::{CHUNK_MAX_BYTES, Chunk, Place};
use super::layout::{Header, SLOT, least, set_slot, start, tag_of};
use super::place::{Placement, bound, tag};

/// Fields that two chunks together may have to become one.
const MERGED_MAX: usize = ELEMENTS_MAX * 3 / 4;

impl<S: EntryShape> Leaf for Chunk<S> {
    type Bound = u32;
    type Context = Placement;

    #[inline]
    fn summary(&self) -> Summary {
        let header = Header::read(&self.bytes);
        Summary { count: header.count as u64, due: header.due }
    }

    fn memory(&self) -> usize {
        SHARED_BYTES + self.bytes.len()
    }

    fn is_large(&self) -> bool {
        let header = Header::read(&self.bytes);
        header.count > ELEMENTS_MAX || (header.count > 1 && least(header.used, header.count) > CHUNK_MAX_BYTES)
    }

    fn is_small(&self) -> bool {
        let header = Header::read(&self.bytes);
        header.count < ELEMENTS_MAX / 4 && header.used < CHUNK_MAX_BYTES / 4
    }

    fn split(&mut self, placement: &Placement) -> Option<(u32, Self)> {
        let places = self.places();
        let bounds: Vec<u32> = self.iter().map(|entry| bound(placement.hash(entry.field))).collect();
        let cut = if places.len() > ELEMENTS_MAX { middle(&bounds) } else { None };
        let cut = cut.or_else(|| balance(&bounds, &places))?;
        let side = |is_upper: bool| {
            let pairs = bounds.iter().zip(&places);
            Self::gather(self.entries(), pairs.filter(move |(bound, _)| (**bound >= cut) == is_upper).map(|(_, place)| place))
        };
        let (lower, upper) = (side(false), side(true));
        *self = lower;
        Some((cut, upper))
    }

    fn merge(&mut self, right: &Self) -> bool {
        let (left, other) = (Header::read(&self.bytes), Header::read(&right.bytes));
        let (used, count) = (left.used + other.used, left.count + other.count);
        if count > MERGED_MAX || least(used, count) > CHUNK_MAX_BYTES * 3 / 4 {
            return false;
        }
        let bytes = self.writable(used, count);
        Header { used, count, due: left.due.min(other.due) }.write(bytes);
        bytes[left.used..used].copy_from_slice(right.entries());
        for i in 0..other.count {
            set_slot(bytes, left.count + i, tag_of(&right.bytes, i), left.used + start::<S>(&right.bytes, other, i));
        }
        true
    }

    #[inline]
    fn position(bounds: &[u32], bound: &u32) -> usize {
        // No branch depends on the bounds, and the compiler compares several at once.
        let Some((_, bounds)) = bounds.split_first() else { return 0 };
        bounds.iter().map(|other| u32::from(other <= bound)).sum::<u32>() as usize
    }

    fn check(&self, (low, high): (&u32, Option<&u32>), placement: &Placement) {
        let header = Header::read(&self.bytes);
        assert!(least(header.used, header.count) <= self.bytes.len(), "{header:?}");
        assert_eq!(self.iter().count(), header.count);
        assert_eq!(self.memory(), size_class(self.memory()), "an allocation is a size class");
        let (mut at, mut due) = (0, NEVER);
        for (index, entry) in self.iter().enumerate() {
            let hash = placement.hash(entry.field);
            assert!(*low <= bound(hash) && high.is_none_or(|high| bound(hash) < *high), "INV-TREE-1: fields lie in their chunk");
            assert_eq!((tag_of(&self.bytes, index), start::<S>(&self.bytes, header, index)), (tag(hash), at));
            assert_eq!(self.find(hash, entry.field).map(|found| found.entry), Some(entry));
            due = due.min(entry.due.unwrap_or(NEVER));
            at += S::head(entry.field.len(), entry.value.len(), entry.due).bytes().len() + entry.field.len() + entry.value.len();
        }
        assert_eq!((at, due), (header.used, header.due));
    }
}

/// The bound that parts fields in two halves. None if the lower one would be empty.
fn middle(bounds: &[u32]) -> Option<u32> {
    let mut bounds = bounds.to_vec();
    let half = bounds.len() / 2;
    let (lower, cut, _) = bounds.select_nth_unstable(half);
    lower.iter().any(|bound| bound < cut).then_some(*cut)
}

/// The bound that parts fields with about half of the bytes on either side. None if all are alike.
fn balance(bounds: &[u32], places: &[Place]) -> Option<u32> {
    let mut all: Vec<(u32, usize)> = bounds.iter().zip(places).map(|(bound, place)| (*bound, place.size + SLOT)).collect();
    all.sort_unstable();
    let half = all.iter().map(|(_, size)| size).sum::<usize>() / 2;
    let mut below = 0;
    let cuts = all.windows(2).map(|pair| {
        below += pair[0].1;
        (pair[0].0 != pair[1].0, below.abs_diff(half), pair[1].0)
    });
    cuts.filter(|(differ, ..)| *differ).map(|(_, distance, bound)| (distance, bound)).min().map(|(_, bound)| bound)
}
