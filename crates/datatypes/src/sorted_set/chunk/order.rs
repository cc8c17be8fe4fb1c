//! Chunks of members in the order of their scores.
//!
//! ```text
//! bytes of entries 4 | members 4 | earliest expiry 8           header
//! entries, ascending, as in a packed sorted set
//! slack
//! offsets of the entries: 2 bytes each, the first one last     4 bytes where there are more than 64 KiB of entries
//! ```
//!
//! A chunk is searched by halves. The bound between two chunks is a score, and where both have members of that score, the shortest
//! beginning of a member that tells them apart.

use std::sync::Arc;

use crate::packed::ELEMENTS_MAX;
use crate::packed::entry::{FieldEntry, Head};
use crate::sorted_set::{Scored, score};
use crate::tree::{Leaf, NEVER, SHARED_BYTES, Summary, size_class, zeroes};

use crate::sorted_set::edge::Edge;

const HEADER: usize = 16;
const CHUNK_MAX_BYTES: usize = 8 * 1024;
const MERGED_MAX: usize = ELEMENTS_MAX * 3 / 4;
/// Bytes of a chunk that keeps its allocation while members go.
const SMALL_BYTES: usize = 512;
/// Cache lines of a chunk's beginning that are fetched ahead.
const PREFETCHED_LINES: usize = 16;

/// What parts chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sorted_set) struct Bound {
    pub(in crate::sorted_set) key: u64,
    member: Option<Arc<[u8]>>,
}

impl Bound {
    pub(in crate::sorted_set) fn member(&self) -> &[u8] {
        self.member.as_deref().unwrap_or_default()
    }

    /// The least bound that is above one member and not above the next.
    pub(in crate::sorted_set) fn between(one: (u64, &[u8]), next: (u64, &[u8])) -> Self {
        if one.0 != next.0 {
            return Self { key: next.0, member: None };
        }
        let common = one.1.iter().zip(next.1).take_while(|(one, next)| one == next).count();
        Self { key: next.0, member: Some(next.1[..next.1.len().min(common + 1)].into()) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Header {
    used: usize,
    count: usize,
    due: u64,
}

impl Header {
    #[inline]
    fn read(bytes: &[u8]) -> Self {
        let Some(&[a, b, c, d, e, f, g, h, ref due @ ..]) = bytes.first_chunk::<HEADER>() else {
            return Self { used: 0, count: 0, due: NEVER };
        };
        let (used, count) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize);
        Self { used, count, due: u64::from_le_bytes(*due) }
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&(self.used as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.count as u32).to_le_bytes());
        bytes[8..HEADER].copy_from_slice(&self.due.to_le_bytes());
    }

    /// Bytes of an offset.
    fn slot(self) -> usize {
        if self.used > usize::from(u16::MAX) { 4 } else { 2 }
    }

    fn least(self) -> usize {
        HEADER + self.used + self.count * self.slot()
    }

    fn capacity(self) -> usize {
        size_class(SHARED_BYTES + self.least()) - SHARED_BYTES
    }
}

/// A chunk of members with scores.
#[derive(Clone, Debug)]
pub(in crate::sorted_set) struct OrderChunk {
    bytes: Arc<[u8]>,
}

impl Default for OrderChunk {
    fn default() -> Self {
        Self::build(&[], false)
    }
}

/// An entry in its three parts.
type Parts<'a> = [&'a [u8]; 3];

impl OrderChunk {
    pub(in crate::sorted_set) fn len(&self) -> usize {
        Header::read(&self.bytes).count
    }

    /// Tells the cache lines that a look-up may read: those of most chunks are few.
    pub(in crate::sorted_set) fn prefetch(&self, fetch: &mut dyn FnMut(*const u8)) {
        let (first, others) = self.bytes.split_at(self.bytes.len().min(PREFETCHED_LINES * 64));
        first.chunks(64).for_each(|line| fetch(line.as_ptr()));
        others.rchunks(64).take(3).for_each(|line| fetch(line.as_ptr()));
    }

    /// Where an entry begins in the bytes of entries, or where the last one ends.
    #[inline]
    fn start(&self, header: Header, index: usize) -> usize {
        if index >= header.count {
            return header.used;
        }
        let slot = header.slot();
        let at = self.bytes.len() - (index + 1) * slot;
        match self.bytes[at..at + slot] {
            [a, b] => usize::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => 0,
        }
    }

    fn entries(&self, header: Header) -> &[u8] {
        &self.bytes[HEADER..HEADER + header.used]
    }

    /// The bytes of an entry.
    fn raw(&self, header: Header, index: usize) -> &[u8] {
        &self.entries(header)[self.start(header, index)..self.start(header, index + 1)]
    }

    /// The entries from one on.
    pub(in crate::sorted_set) fn from(&self, index: usize) -> &[u8] {
        let header = Header::read(&self.bytes);
        &self.entries(header)[self.start(header, index)..]
    }

    /// Appends the entries from one on to `out`.
    pub(in crate::sorted_set) fn write_from(&self, index: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.from(index));
    }

    #[inline]
    pub(in crate::sorted_set) fn nth(&self, index: usize) -> Option<Scored<'_>> {
        let header = Header::read(&self.bytes);
        if index >= header.count {
            return None;
        }
        FieldEntry::parse(self.entries(header), self.start(header, index)).map(|(entry, _)| entry.into())
    }

    pub(in crate::sorted_set) fn iter(&self) -> impl Iterator<Item = Scored<'_>> {
        self.iter_from(0)
    }

    /// Members from one on.
    pub(in crate::sorted_set) fn iter_from(&self, index: usize) -> impl Iterator<Item = Scored<'_>> {
        let mut rest = self.from(index);
        std::iter::from_fn(move || {
            let (entry, size) = FieldEntry::parse(rest, 0)?;
            rest = &rest[size..];
            Some(entry.into())
        })
    }

    /// How many members lie below an edge.
    pub(in crate::sorted_set) fn below(&self, edge: &Edge) -> usize {
        let header = Header::read(&self.bytes);
        let entries = self.entries(header);
        let (mut low, mut left) = (0, header.count);
        while left > 0 {
            let half = left / 2;
            let is_below = Scored::key_at(entries, self.start(header, low + half)).is_some_and(|key| edge.is_above(key));
            // Without a branch, which would be guessed wrong every other time.
            low += if is_below { half + 1 } else { 0 };
            left = if is_below { left - half - 1 } else { half };
        }
        low
    }

    /// A member of this score.
    pub(in crate::sorted_set) fn find(&self, score: f64, member: &[u8]) -> Option<(usize, Scored<'_>)> {
        let index = self.below(&Edge::before_member(score, member));
        self.nth(index).filter(|entry| entry.member == member && entry.score == score).map(|entry| (index, entry))
    }

    /// Inserts a member that is not there.
    pub(in crate::sorted_set) fn insert(&mut self, new: &Scored) {
        let index = self.below(&Edge::before_member(new.score, new.member));
        self.replace(index, 0, Some(new));
    }

    /// Removes the member of this rank.
    pub(in crate::sorted_set) fn remove_nth(&mut self, index: usize) {
        debug_assert!(index < self.len(), "the member is there");
        self.replace(index, 1, None);
    }

    /// Removes members from a rank on.
    pub(in crate::sorted_set) fn remove_many(&mut self, index: usize, count: usize) {
        debug_assert!(index + count <= self.len(), "the members are there");
        if count == 1 {
            return self.replace(index, 1, None);
        }
        let header = Header::read(&self.bytes);
        let kept = (0..index).chain(index + count..header.count);
        let kept: Vec<Parts> = kept.map(|index| [self.raw(header, index), &[][..], &[][..]]).collect();
        *self = Self::build(&kept, header.due != NEVER);
    }

    /// Gives a member another score, or another expiry, with which it stays at its place; or leaves everything as it is and says
    /// no.
    pub(in crate::sorted_set) fn exchange(&mut self, score: f64, new: &Scored) -> bool {
        let Some((index, _)) = self.find(score, new.member) else { return false };
        let is_above_left = index.checked_sub(1).and_then(|left| self.nth(left)).is_some_and(|left| left.key() < new.key());
        let is_below_right = self.nth(index + 1).is_some_and(|right| new.key() < right.key());
        // At either end of a chunk only the same score is known to belong there.
        let stays = score == new.score || (is_above_left && is_below_right);
        if stays {
            self.replace(index, 1, Some(new));
        }
        stays
    }

    /// Takes a member to its place with another score, if that is surely in this chunk; else takes it out and says no.
    pub(in crate::sorted_set) fn shift(&mut self, index: usize, new: &Scored) -> bool {
        let last = self.len() - 1;
        let key = |index: usize| self.nth(index).map(|entry| entry.key() < new.key());
        let is_above_left = index.checked_sub(1).and_then(key);
        let is_below_right = if index == last { None } else { key(index + 1).map(|is_above| !is_above) };
        if is_above_left == Some(true) && is_below_right == Some(true) {
            self.replace(index, 1, Some(new));
            return true;
        }
        // What is between the first and the last of the others belongs here.
        let (lowest, highest) = (usize::from(index == 0), if index == last { last.saturating_sub(1) } else { last });
        let stays = lowest < highest && key(lowest) == Some(true) && key(highest) == Some(false);
        self.replace(index, 1, None);
        if stays {
            self.insert(new);
        }
        stays
    }

    /// Removes at most `limit` members that are due at `now`, and tells each.
    pub(in crate::sorted_set) fn expire(&mut self, now: u64, limit: usize, removed: &mut dyn FnMut(Scored<'_>)) -> usize {
        let mut count = 0;
        let header = Header::read(&self.bytes);
        let mut kept = Vec::with_capacity(header.count);
        for (index, entry) in self.iter().enumerate() {
            if entry.due.is_some_and(|due| due <= now) && count < limit {
                count += 1;
                removed(entry);
            } else {
                kept.push([self.raw(header, index), &[], &[]]);
            }
        }
        *self = Self::build(&kept, true);
        count
    }

    /// Replaces `gone` entries, none or one, by a new one, if there is any.
    fn replace(&mut self, index: usize, gone: usize, new: Option<&Scored>) {
        let header = Header::read(&self.bytes);
        let width = new.map_or(0, |new| score::len(new.score));
        let head = new.map_or(Head::EMPTY, |new| Head::new(new.member.len(), width, new.due));
        let score = score::encode(new.map_or(0.0, |new| new.score), width);
        let parts = [head.bytes(), new.map_or(&[][..], |new| new.member), score.as_slice()];
        let (start, end) = (self.start(header, index), self.start(header, index + gone));
        let size: usize = parts.iter().map(|part| part.len()).sum();
        let added = usize::from(new.is_some());
        let after = Header { used: header.used - (end - start) + size, count: header.count - gone + added, ..header };
        let len = self.bytes.len();
        let ample = Header { used: after.used + after.used / 8, count: after.count + 4, ..after }.capacity();
        // A chunk that is emptied, as by pops, is not made anew for each of its last elements.
        let is_ample = ample >= len || len <= SMALL_BYTES;
        let fits = after.least() <= len && is_ample && header.slot() == after.slot() && header.slot() == 2;
        match Arc::get_mut(&mut self.bytes).filter(|_| fits) {
            Some(bytes) => {
                bytes.copy_within(HEADER + end..HEADER + header.used, HEADER + start + size);
                let mut at = HEADER + start;
                for part in parts {
                    bytes[at..at + part.len()].copy_from_slice(part);
                    at += part.len();
                }
                // The offsets of those behind move by a place, and by what the bytes have moved.
                let (low, high) = (len - 2 * header.count, len - 2 * (index + gone));
                bytes.copy_within(low..high, low + 2 * gone - 2 * added);
                let delta = (size as u16).wrapping_sub((end - start) as u16);
                let moved = &mut bytes[len - 2 * after.count..len - 2 * (index + added)];
                for offset in moved.as_chunks_mut::<2>().0 {
                    *offset = u16::from_le_bytes(*offset).wrapping_add(delta).to_le_bytes();
                }
                if added > 0 {
                    bytes[len - 2 * (index + 1)..len - 2 * index].copy_from_slice(&(start as u16).to_le_bytes());
                }
                after.write(bytes);
            }
            None => {
                let old = |range: std::ops::Range<usize>| range.map(|i| [self.raw(header, i), &[][..], &[][..]]);
                let all: Vec<Parts> = old(0..index).chain(new.map(|_| parts)).chain(old(index + gone..header.count)).collect();
                *self = Self::build(&all, header.due != NEVER || new.is_some_and(|new| new.due.is_some()));
                return;
            }
        }
        if header.due != NEVER || new.is_some_and(|new| new.due.is_some()) {
            let due = self.iter().filter_map(|entry| entry.due).min().unwrap_or(NEVER);
            let bytes = Arc::get_mut(&mut self.bytes);
            debug_assert!(bytes.is_some(), "INV-TREE-2: what was changed in place has one owner");
            bytes.into_iter().for_each(|bytes| Header { due, ..after }.write(bytes));
        }
    }

    /// A chunk of members that ascend.
    pub(in crate::sorted_set) fn of(members: &[Scored<'_>]) -> Self {
        let heads: Vec<_> = members
            .iter()
            .map(|new| {
                let width = score::len(new.score);
                (Head::new(new.member.len(), width, new.due), score::encode(new.score, width))
            })
            .collect();
        let parts = members.iter().zip(&heads).map(|(new, (head, score))| [head.bytes(), new.member, score.as_slice()]);
        Self::build(&parts.collect::<Vec<_>>(), members.iter().any(|new| new.due.is_some()))
    }

    /// A chunk of entries in this order, of which some may expire or none does.
    fn build(entries: &[Parts], expires: bool) -> Self {
        let size = |parts: &Parts| parts.iter().map(|part| part.len()).sum::<usize>();
        let header = Header { used: entries.iter().map(size).sum(), count: entries.len(), due: NEVER };
        let mut all = zeroes(header.capacity());
        let (mut at, slot) = (0, header.slot());
        if let Some(bytes) = Arc::get_mut(&mut all) {
            let len = bytes.len();
            for (index, parts) in entries.iter().enumerate() {
                let offset = len - (index + 1) * slot;
                bytes[offset..offset + slot].copy_from_slice(&(at as u32).to_le_bytes()[..slot]);
                for part in parts {
                    bytes[HEADER + at..HEADER + at + part.len()].copy_from_slice(part);
                    at += part.len();
                }
            }
            let parsed = if expires { header.count } else { 0 };
            let due = (0..parsed).fold((0, NEVER), |(at, due), _| {
                let entry = FieldEntry::parse(&bytes[HEADER..HEADER + header.used], at);
                entry.map_or((at, due), |(entry, size)| (at + size, due.min(entry.due.unwrap_or(NEVER))))
            });
            Header { due: due.1, ..header }.write(bytes);
        }
        Self { bytes: all }
    }
}

impl Leaf for OrderChunk {
    type Bound = Bound;
    type Context = ();

    fn summary(&self) -> Summary {
        let header = Header::read(&self.bytes);
        Summary { count: header.count as u64, due: header.due }
    }

    fn memory(&self) -> usize {
        SHARED_BYTES + self.bytes.len()
    }

    fn bound_memory(bound: &Bound) -> usize {
        bound.member.as_ref().map_or(0, |member| size_class(SHARED_BYTES + member.len()))
    }

    fn is_large(&self) -> bool {
        let header = Header::read(&self.bytes);
        header.count > ELEMENTS_MAX || (header.count > 1 && header.least() > CHUNK_MAX_BYTES)
    }

    fn is_small(&self) -> bool {
        let header = Header::read(&self.bytes);
        header.count < ELEMENTS_MAX / 4 && header.used < CHUNK_MAX_BYTES / 4
    }

    fn split(&mut self, (): &()) -> Option<(Bound, Self)> {
        let header = Header::read(&self.bytes);
        let half = (1..header.count).find(|index| self.start(header, *index) >= header.used / 2)?;
        let cut = if header.count > ELEMENTS_MAX { header.count / 2 } else { half };
        let raw: Vec<Parts> = (0..header.count).map(|index| [self.raw(header, index), &[][..], &[][..]]).collect();
        let bound = Bound::between(self.nth(cut - 1)?.key(), self.nth(cut)?.key());
        let expires = header.due != NEVER;
        let (lower, upper) = (Self::build(&raw[..cut], expires), Self::build(&raw[cut..], expires));
        *self = lower;
        Some((bound, upper))
    }

    fn merge(&mut self, right: &Self) -> bool {
        let (left, other) = (Header::read(&self.bytes), Header::read(&right.bytes));
        let both = Header { used: left.used + other.used, count: left.count + other.count, due: NEVER };
        if both.count > MERGED_MAX || both.least() > CHUNK_MAX_BYTES * 3 / 4 {
            return false;
        }
        let own = (0..left.count).map(|index| [self.raw(left, index), &[][..], &[][..]]);
        let others = (0..other.count).map(|index| [right.raw(other, index), &[][..], &[][..]]);
        let all: Vec<Parts> = own.chain(others).collect();
        *self = Self::build(&all, left.due.min(other.due) != NEVER);
        true
    }

    fn check(&self, (low, high): (&Bound, Option<&Bound>), (): &()) {
        let header = Header::read(&self.bytes);
        assert!(header.least() <= self.bytes.len(), "{header:?}");
        assert_eq!(self.memory(), size_class(self.memory()), "an allocation is a size class");
        let (mut at, mut due, mut last) = (0, NEVER, None);
        for index in 0..header.count {
            let (entry, size) = FieldEntry::parse(self.entries(header), at).expect("an entry is whole");
            assert_eq!(self.start(header, index), at);
            let entry = Scored::from(entry);
            let bound = |bound: &Bound| (bound.key, bound.member().to_vec());
            let key = (entry.key().0, entry.member.to_vec());
            assert!(bound(low) <= key && high.is_none_or(|high| key < bound(high)), "INV-TREE-1: members lie in their chunk");
            assert!(last.as_ref().is_none_or(|last| *last < key), "members ascend");
            last = Some(key);
            due = due.min(entry.due.unwrap_or(NEVER));
            at += size;
        }
        assert_eq!((at, due), (header.used, header.due));
    }
}
