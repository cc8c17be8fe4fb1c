//! Chunks of elements in the middle of a large list.
//!
//! ```text
//! bytes of entries 4 | elements 2           header
//! entries, as in a packed list
//! slack
//! ```
//!
//! An element is found by walking over those before it.

pub(super) mod stack;

use std::sync::Arc;

use crate::packed::Element;
use crate::packed::listpack::{Encoded, parse, size_at};
use crate::tree::{Leaf, NEVER, SHARED_BYTES, Summary, size_class, zeroes};

pub(super) const HEADER: usize = 6;

/// Elements of a chunk at most: what a look-up walks over.
pub(super) const CHUNK_ELEMENTS_MAX: usize = 128;

/// Bytes of the entries of a chunk at most, unless it has one only.
pub(super) const CHUNK_BYTES_MAX: usize = 2048 - SHARED_BYTES - HEADER;

/// A chunk of elements.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunk {
    bytes: Arc<[u8]>,
}

impl Chunk {
    /// A chunk of elements whose entries `fill` writes.
    pub(super) fn fill(count: usize, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        let mut all = zeroes(size_class(SHARED_BYTES + HEADER + bytes) - SHARED_BYTES);
        if let Some(all) = Arc::get_mut(&mut all) {
            write_header(all, bytes, count);
            fill(&mut all[HEADER..HEADER + bytes]);
        }
        Self { bytes: all }
    }

    /// A chunk of one element.
    pub(super) fn of(element: &Encoded) -> Self {
        Self::fill(1, element.size(), |out| element.write(out))
    }

    /// Bytes of entries, and how many they are.
    #[inline]
    fn header(&self) -> (usize, usize) {
        let Some(&[a, b, c, d, e, f]) = self.bytes.first_chunk::<HEADER>() else { return (0, 0) };
        (u32::from_le_bytes([a, b, c, d]) as usize, usize::from(u16::from_le_bytes([e, f])))
    }

    pub(super) fn len(&self) -> usize {
        self.header().1
    }

    /// Whether it has no more bytes than a chunk of several elements may have.
    pub(super) fn is_ordinary(&self) -> bool {
        self.header().0 <= CHUNK_BYTES_MAX
    }

    pub(super) fn entries(&self) -> &[u8] {
        let used = self.header().0;
        if used == 0 { &[] } else { &self.bytes[HEADER..HEADER + used] }
    }

    /// Where an element begins in the entries, or where the last one ends.
    #[inline]
    pub(super) fn start(&self, index: usize) -> usize {
        let (entries, (used, count)) = (self.entries(), self.header());
        if index >= count {
            return used;
        }
        (0..index).fold(0, |at, _| size_at(entries, at).map_or(at, |size| at + size))
    }

    /// The element at a place.
    #[inline]
    pub(super) fn nth(&self, index: usize) -> Option<Element<'_>> {
        parse(self.entries(), self.start(index)).map(|(element, _)| element)
    }

    /// Replaces elements by a new one, if there is any.
    pub(super) fn splice(&mut self, index: usize, gone: usize, new: Option<&Encoded>) {
        let (used, count) = self.header();
        debug_assert!(index + gone <= count, "what is replaced is there");
        let (start, end) = (self.start(index), self.start(index + gone));
        let size = new.map_or(0, |new| new.size());
        let (used_after, count) = (used - (end - start) + size, count - gone + usize::from(new.is_some()));
        let len = self.bytes.len();
        // In place, if that is neither too small nor more than a size class too large.
        let ample = size_class(SHARED_BYTES + HEADER + used_after + used_after / 8) - SHARED_BYTES;
        let fits = HEADER + used_after <= len && len <= ample;
        if let Some(bytes) = Arc::get_mut(&mut self.bytes).filter(|_| fits) {
            bytes.copy_within(HEADER + end..HEADER + used, HEADER + start + size);
            new.into_iter().for_each(|new| new.write(&mut bytes[HEADER + start..]));
            write_header(bytes, used_after, count);
            return;
        }
        let old = self.entries();
        *self = Self::fill(count, used_after, |out| {
            out[..start].copy_from_slice(&old[..start]);
            new.into_iter().for_each(|new| new.write(&mut out[start..]));
            out[start + size..].copy_from_slice(&old[end..]);
        });
    }

    /// Removes the elements at these places, which ascend.
    pub(super) fn remove(&mut self, places: &[usize]) {
        let (used, count) = self.header();
        let entries = self.entries();
        let size = |index: &usize| size_at(entries, self.start(*index)).unwrap_or(0);
        let gone: usize = places.iter().map(size).sum();
        *self = Self::fill(count - places.len(), used - gone, |out| {
            let (mut from, mut to, mut places) = (0, 0, places.iter().peekable());
            for index in 0..count {
                let size = size_at(entries, from).unwrap_or(0);
                if places.next_if_eq(&&index).is_none() {
                    out[to..to + size].copy_from_slice(&entries[from..from + size]);
                    to += size;
                }
                from += size;
            }
        });
    }
}

fn write_header(bytes: &mut [u8], used: usize, count: usize) {
    bytes[..4].copy_from_slice(&(used as u32).to_le_bytes());
    bytes[4..HEADER].copy_from_slice(&(count as u16).to_le_bytes());
}

impl Leaf for Chunk {
    type Bound = ();
    type Context = ();

    #[inline]
    fn summary(&self) -> Summary {
        Summary { count: self.len() as u64, due: NEVER }
    }

    fn memory(&self) -> usize {
        // The empty one is shared by all.
        if self.bytes.is_empty() { 0 } else { SHARED_BYTES + self.bytes.len() }
    }

    fn is_large(&self) -> bool {
        let (used, count) = self.header();
        count > CHUNK_ELEMENTS_MAX || (count > 1 && used > CHUNK_BYTES_MAX)
    }

    fn is_small(&self) -> bool {
        let (used, count) = self.header();
        count < CHUNK_ELEMENTS_MAX / 4 && used < CHUNK_BYTES_MAX / 4
    }

    fn split(&mut self, (): &()) -> Option<((), Self)> {
        let (used, count) = self.header();
        if count < 2 {
            return None;
        }
        let half = (1..count).find(|index| self.start(*index) >= used / 2).unwrap_or(count - 1);
        let cut = if count > CHUNK_ELEMENTS_MAX { count / 2 } else { half };
        let (entries, start) = (self.entries(), self.start(cut));
        let lower = Self::fill(cut, start, |out| out.copy_from_slice(&entries[..start]));
        let upper = Self::fill(count - cut, used - start, |out| out.copy_from_slice(&entries[start..]));
        *self = lower;
        Some(((), upper))
    }

    fn merge(&mut self, right: &Self) -> bool {
        let ((used, count), (used_right, count_right)) = (self.header(), right.header());
        if count + count_right > CHUNK_ELEMENTS_MAX * 3 / 4 || used + used_right > CHUNK_BYTES_MAX * 3 / 4 {
            return false;
        }
        let (left, right) = (self.entries(), right.entries());
        *self = Self::fill(count + count_right, used + used_right, |out| {
            out[..used].copy_from_slice(left);
            out[used..].copy_from_slice(right);
        });
        true
    }

    fn check(&self, _bounds: (&(), Option<&()>), (): &()) {
        let (used, count) = self.header();
        assert!(self.bytes.is_empty() || HEADER + used <= self.bytes.len(), "{used} bytes of {}", self.bytes.len());
        assert!(self.memory() == 0 || self.memory() == size_class(self.memory()), "an allocation is a size class");
        assert!(!self.is_large(), "INV-LIST-1: chunks have few elements");
        let (mut at, mut found) = (0, 0);
        while let Some((_, size)) = parse(self.entries(), at) {
            (at, found) = (at + size, found + 1);
        }
        assert_eq!((at, found), (used, count), "a chunk counts its elements");
    }
}
