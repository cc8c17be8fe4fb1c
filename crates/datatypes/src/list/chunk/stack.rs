//! The elements at an end of a large list. The top is the end of the list, the bottom is next to its middle.
//!
//! They lie as in a listpack, bottom first: each entry has its size behind it, so that the top one is found without an index. What
//! is read backwards has seven bits per byte, the least significant last, and the high bit in all bytes but the first.

use crate::packed::Element;
use crate::packed::listpack::{Encoded, parse, size_at, trailer_len};
use crate::tree::{SHARED_BYTES, size_class, size_class_below};

use super::{CHUNK_BYTES_MAX, CHUNK_ELEMENTS_MAX, Chunk, HEADER};

/// Elements of a stack at most. More than a chunk has, so that a push and a pop in turn do not make and take a chunk each.
const ELEMENTS_MAX: usize = CHUNK_ELEMENTS_MAX * 3 / 2;

/// Bytes of a stack at most.
const BYTES_MAX: usize = CHUNK_BYTES_MAX * 3 / 2;

/// Bytes behind an entry at most.
const TRAILER_MAX_BYTES: usize = 5;

/// Elements one above the other.
#[derive(Clone, Debug, Default)]
pub(in crate::list) struct Stack {
    bytes: Vec<u8>,
    count: usize,
}

impl Stack {
    pub(in crate::list) fn len(&self) -> usize {
        self.count
    }

    /// Its entries, each with its size behind it.
    pub(in crate::list) fn entries(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of its allocation.
    pub(in crate::list) fn memory(&self) -> usize {
        size_class(self.bytes.capacity())
    }

    /// Whether its bottom should become a chunk.
    #[inline]
    pub(in crate::list) fn is_large(&self) -> bool {
        self.count > ELEMENTS_MAX || self.bytes.len() > BYTES_MAX
    }

    /// Puts an element on top.
    #[inline]
    pub(in crate::list) fn push(&mut self, new: &Encoded) {
        let [head, data] = new.parts();
        if let [first] = head
            && data.len() < 64
        {
            // Most are so short; then each of the three parts is written without a call.
            self.reserve(data.len() + 2);
            self.bytes.push(*first);
            self.bytes.extend_from_slice(data);
            self.bytes.push(1 + data.len() as u8);
            self.count += 1;
            return;
        }
        let (trailer, len) = trailer(new.size());
        self.reserve(new.size() + len);
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(data);
        self.bytes.extend_from_slice(&trailer[..len]);
        self.count += 1;
    }

    /// Puts an entry on top.
    fn push_entry(&mut self, entry: &[u8]) {
        let (trailer, len) = trailer(entry.len());
        self.reserve(entry.len() + len);
        self.bytes.extend_from_slice(entry);
        self.bytes.extend_from_slice(&trailer[..len]);
        self.count += 1;
    }

    /// Puts an entry on top that has its size behind it already.
    pub(in crate::list) fn push_whole(&mut self, entry: &[u8]) {
        self.reserve(entry.len());
        self.bytes.extend_from_slice(entry);
        self.count += 1;
    }

    /// Grows by a quarter, to what an allocator gives anyhow.
    #[inline]
    fn reserve(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            self.bytes.reserve_exact(size_class(needed + needed / 4) - self.bytes.len());
        }
    }

    /// The element on top, and the bytes that it takes here.
    #[inline]
    pub(in crate::list) fn top(&self) -> Option<(Element<'_>, usize)> {
        self.entry_before(self.bytes.len())
    }

    /// The element whose bytes end at `end`, and how many they are.
    #[inline]
    pub(in crate::list) fn entry_before(&self, end: usize) -> Option<(Element<'_>, usize)> {
        let (size, trailer) = size_before(&self.bytes, end)?;
        let start = end.checked_sub(size + trailer)?;
        Some((parse(&self.bytes[..end], start)?.0, size + trailer))
    }

    /// The element whose bytes begin at `start`, and how many they are.
    #[inline]
    pub(in crate::list) fn entry_at(&self, start: usize) -> Option<(Element<'_>, usize)> {
        let (element, size) = parse(&self.bytes, start)?;
        Some((element, size + trailer_len(size)))
    }

    /// Takes the top element away, which has `size` bytes.
    #[inline]
    pub(in crate::list) fn drop_top(&mut self, size: usize) {
        self.bytes.truncate(self.bytes.len() - size);
        self.count -= 1;
    }

    /// Where an element begins, counted from the bottom; or the end, if there is none.
    pub(in crate::list) fn offset(&self, from_bottom: usize) -> usize {
        if from_bottom >= self.count {
            return self.bytes.len();
        }
        if from_bottom <= self.count / 2 {
            return (0..from_bottom).fold(0, |at, _| size_at(&self.bytes, at).map_or(at, |size| at + size + trailer_len(size)));
        }
        (from_bottom..self.count)
            .fold(self.bytes.len(), |end, _| size_before(&self.bytes, end).map_or(end, |(size, trailer)| end - size - trailer))
    }

    /// Replaces elements, counted from the bottom, by a new one, if there is any.
    pub(in crate::list) fn splice(&mut self, from_bottom: usize, gone: usize, new: Option<&Encoded>) {
        let (start, end) = (self.offset(from_bottom), self.offset(from_bottom + gone));
        let size = new.map_or(0, |new| new.size());
        let (trailer, len) = trailer(size);
        let len = if new.is_some() { len } else { 0 };
        let old = self.bytes.len();
        let after = old - (end - start) + size + len;
        self.reserve(after.saturating_sub(old));
        self.bytes.resize(old.max(after), 0);
        self.bytes.copy_within(end..old, start + size + len);
        self.bytes.truncate(after);
        new.into_iter().for_each(|new| new.write(&mut self.bytes[start..]));
        self.bytes[start + size..start + size + len].copy_from_slice(&trailer[..len]);
        self.count = self.count + usize::from(new.is_some()) - gone;
    }

    /// Removes the elements at these places, which ascend, counted from the bottom.
    pub(in crate::list) fn remove(&mut self, places: &[usize]) {
        let mut kept = Vec::with_capacity(self.bytes.len());
        let (mut at, mut gone) = (0, places.iter().peekable());
        for index in 0..self.count {
            let size = size_at(&self.bytes, at).map_or(0, |size| size + trailer_len(size));
            if gone.next_if_eq(&&index).is_none() {
                kept.extend_from_slice(&self.bytes[at..at + size]);
            }
            at += size;
        }
        self.bytes = kept;
        self.count -= places.len();
    }

    /// Keeps the elements on top, as many as this.
    pub(in crate::list) fn keep_top(&mut self, count: usize) {
        let gone = self.count - count;
        self.bytes.drain(..self.offset(gone));
        self.count = count;
    }

    /// Keeps the elements at the bottom, as many as this.
    pub(in crate::list) fn keep_bottom(&mut self, count: usize) {
        self.bytes.truncate(self.offset(count));
        self.count = count;
    }

    /// Takes the bottom out, as the chunk that it makes in this order or in the other. There is an element.
    pub(in crate::list) fn take_chunk(&mut self, is_reversed: bool) -> Chunk {
        let most = self.measure(CHUNK_ELEMENTS_MAX, CHUNK_BYTES_MAX).1;
        // Fewer elements, so that they fill an allocation.
        let before = SHARED_BYTES + HEADER;
        let (count, bytes) = self.measure(CHUNK_ELEMENTS_MAX, size_class_below(before + most).saturating_sub(before));
        let chunk = Chunk::fill(count, bytes, |out| {
            let (mut from, mut to) = (0, if is_reversed { bytes } else { 0 });
            for _ in 0..count {
                let size = size_at(&self.bytes, from).unwrap_or(0);
                to -= if is_reversed { size } else { 0 };
                out[to..to + size].copy_from_slice(&self.bytes[from..from + size]);
                to += if is_reversed { 0 } else { size };
                from += size + trailer_len(size);
            }
        });
        self.keep_top(self.count - count);
        chunk
    }

    /// How many elements at the bottom, one at least, are within these limits, and the bytes of their entries.
    fn measure(&self, elements: usize, bytes: usize) -> (usize, usize) {
        let (mut at, mut count, mut sum) = (0, 0, 0);
        while let Some(size) = size_at(&self.bytes, at)
            && (count == 0 || (count < elements && sum + size <= bytes))
        {
            (count, sum) = (count + 1, sum + size);
            at += size + trailer_len(size);
        }
        (count, sum)
    }

    /// Puts all elements of a chunk on top: its last one above all, or, reversed, its first one.
    pub(in crate::list) fn push_chunk(&mut self, chunk: &Chunk, is_reversed: bool) {
        let entries = chunk.entries();
        self.reserve(entries.len() + chunk.len() * 2);
        let mut at = 0;
        if !is_reversed {
            while let Some(size) = size_at(entries, at) {
                self.push_entry(&entries[at..at + size]);
                at += size;
            }
            return;
        }
        let mut starts = [0u16; CHUNK_ELEMENTS_MAX + 1];
        debug_assert!(chunk.len() <= CHUNK_ELEMENTS_MAX && chunk.is_ordinary(), "INV-LIST-1: chunks have few elements");
        for start in starts.iter_mut().take(chunk.len()) {
            *start = at as u16;
            at += size_at(entries, at).unwrap_or(0);
        }
        for start in starts[..chunk.len()].iter().rev() {
            let start = usize::from(*start);
            self.push_entry(&entries[start..at]);
            at = start;
        }
    }

    /// Panics unless it is sound. For tests.
    pub(in crate::list) fn check(&self) {
        let (mut at, mut count) = (0, 0);
        while let Some(size) = size_at(&self.bytes, at) {
            at += size + trailer_len(size);
            count += 1;
            assert_eq!(size_before(&self.bytes, at), Some((size, trailer_len(size))), "an entry has its size behind it");
        }
        assert_eq!((at, count), (self.bytes.len(), self.count), "a stack counts its elements");
        assert!(!self.is_large(), "INV-LIST-1: a stack has few elements");
    }
}

/// What stands behind an entry of this size.
#[inline]
fn trailer(size: usize) -> ([u8; TRAILER_MAX_BYTES], usize) {
    let len = trailer_len(size);
    let mut bytes = [size as u8, 0, 0, 0, 0];
    if len > 1 {
        for (i, byte) in bytes[..len].iter_mut().rev().enumerate() {
            *byte = (size >> (7 * i)) as u8 & 0x7F | if i + 1 < len { 0x80 } else { 0 };
        }
    }
    (bytes, len)
}

/// The size that stands before `end`, and the bytes that it takes.
#[inline]
fn size_before(bytes: &[u8], end: usize) -> Option<(usize, usize)> {
    let last = *bytes.get(end.checked_sub(1)?)?;
    if last < 0x80 {
        return Some((usize::from(last), 1));
    }
    let (mut size, mut len) = (usize::from(last & 0x7F), 1);
    while len < TRAILER_MAX_BYTES {
        let byte = *bytes.get(end.checked_sub(len + 1)?)?;
        size |= usize::from(byte & 0x7F) << (7 * len);
        len += 1;
        if byte < 0x80 {
            break;
        }
    }
    Some((size, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_backwards() {
        for size in [1, 127, 128, 16_382, 16_383, 2_097_150, 2_097_151, 1 << 30] {
            let (bytes, len) = trailer(size);
            assert_eq!(size_before(&bytes, len), Some((size, len)), "{size}");
        }
    }
}
