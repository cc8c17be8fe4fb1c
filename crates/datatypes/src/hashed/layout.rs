//! Where the parts of a chunk's allocation lie, and how they move.
//!
//! ```text
//! entries, one after the other, as in a packed hash
//! slack
//! …
//! group 1: 8 bytes of hashes, 8 offsets of 2 bytes           fields 8 to 15
//! group 0: 8 bytes of hashes, 8 offsets of 2 bytes           fields 0 to 7
//! bytes of entries 4 | fields 2 | 0 2 | earliest expiry 8    header
//! ```
//!
//! Entries grow upwards, groups downwards. Both header and groups are found from the end alone, so that their cache lines, four at
//! most, come at the same time, and the entry's after them.
//!
//! Fields are in the order in which they came. A removed one leaves no hole: what follows moves. The allocation grows with its
//! contents, by size classes of the allocator, so that slack is an eighth at most in the mean, however full the chunk is.
//!
//! A field larger than a chunk has one for itself. Where entries begin beyond 65,534 bytes, which takes fields that cannot be
//! parted because their hashes are equal, offsets say only that, and the entry is walked to.

use crate::packed::ELEMENTS_MAX;
use crate::packed::entry::EntryShape;
use crate::tree::{NEVER, SHARED_BYTES, size_class};

use super::tags;

pub(super) const HEADER: usize = 16;
/// What a field takes of its group.
pub(super) const SLOT: usize = 3;
const GROUP: usize = tags::BLOCK * SLOT;
const FAR: usize = u16::MAX as usize;
const CACHE_LINE: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Bytes of entries.
    pub(super) used: usize,
    /// Fields.
    pub(super) count: usize,
    /// The earliest expiry, or [`NEVER`].
    pub(super) due: u64,
}

impl Header {
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Self {
        let Some(&[a, b, c, d, e, f, _, _, ref due @ ..]) = bytes.last_chunk::<HEADER>() else {
            return Self { used: 0, count: 0, due: NEVER };
        };
        Self {
            used: u32::from_le_bytes([a, b, c, d]) as usize,
            count: usize::from(u16::from_le_bytes([e, f])),
            due: u64::from_le_bytes(*due),
        }
    }

    #[inline]
    pub(super) fn write(self, bytes: &mut [u8]) {
        let Some(header) = bytes.last_chunk_mut::<HEADER>() else { return };
        header[..4].copy_from_slice(&(self.used as u32).to_le_bytes());
        header[4..6].copy_from_slice(&(self.count as u16).to_le_bytes());
        header[8..].copy_from_slice(&self.due.to_le_bytes());
    }
}

/// The bytes of hashes and the offsets of eight fields.
#[derive(Clone, Copy, Debug)]
struct Group {
    tags: u64,
    offsets: u128,
}

impl Group {
    #[inline]
    fn read(bytes: &[u8], group: usize) -> Self {
        let end = bytes.len() - HEADER - GROUP * group;
        let (Some(tags), Some(offsets)) = (bytes[end - GROUP..end].first_chunk(), bytes[..end].last_chunk()) else {
            return Self { tags: 0, offsets: 0 };
        };
        Self { tags: u64::from_le_bytes(*tags), offsets: u128::from_le_bytes(*offsets) }
    }

    #[inline]
    fn write(self, bytes: &mut [u8], group: usize) {
        let end = bytes.len() - HEADER - GROUP * group;
        let group = &mut bytes[end - GROUP..end];
        group[..tags::BLOCK].copy_from_slice(&self.tags.to_le_bytes());
        group[tags::BLOCK..].copy_from_slice(&self.offsets.to_le_bytes());
    }

    fn tag(self, at: usize) -> u8 {
        (self.tags >> (8 * at)) as u8
    }

    #[inline]
    fn offset(self, at: usize) -> u16 {
        (self.offsets >> (16 * at)) as u16
    }

    fn set(&mut self, at: usize, tag: u8, offset: u16) {
        self.tags = self.tags & !(0xFF << (8 * at)) | u64::from(tag) << (8 * at);
        self.offsets = self.offsets & !(0xFFFF << (16 * at)) | u128::from(offset) << (16 * at);
    }
}

/// Bytes of a chunk with entries of this size and number.
pub(super) fn least(used: usize, count: usize) -> usize {
    used + count.div_ceil(tags::BLOCK) * GROUP + HEADER
}

/// Bytes that a chunk should have for them: up to the next size class.
pub(super) fn capacity(used: usize, count: usize) -> usize {
    size_class(SHARED_BYTES + least(used, count)) - SHARED_BYTES
}

pub(super) fn tag_of(bytes: &[u8], index: usize) -> u8 {
    Group::read(bytes, index / tags::BLOCK).tag(index % tags::BLOCK)
}

#[inline]
fn near(bytes: &[u8], index: usize) -> usize {
    usize::from(Group::read(bytes, index / tags::BLOCK).offset(index % tags::BLOCK))
}

/// Where a field's entry begins.
#[inline]
pub(super) fn start<S: EntryShape>(bytes: &[u8], header: Header, index: usize) -> usize {
    match near(bytes, index) {
        FAR => far_start::<S>(bytes, header, index),
        start => start,
    }
}

#[cold]
fn far_start<S: EntryShape>(bytes: &[u8], header: Header, index: usize) -> usize {
    let known = (0..index).rev().find(|i| near(bytes, *i) != FAR).unwrap_or(0);
    let entries = &bytes[..header.used];
    (known..index).fold(near(bytes, known), |at, _| S::parse(entries, at).map_or(at, |(_, size)| at + size))
}

pub(super) fn set_slot(bytes: &mut [u8], index: usize, tag: u8, start: usize) {
    let mut group = Group::read(bytes, index / tags::BLOCK);
    group.set(index % tags::BLOCK, tag, start.min(FAR) as u16);
    group.write(bytes, index / tags::BLOCK);
}

/// The fields from `first` on, at most 64, whose hashes have this byte: a bit for each, the first one the lowest.
#[inline]
pub(super) fn tagged(bytes: &[u8], header: Header, first: usize, tag: u8) -> u64 {
    const ALL: usize = ELEMENTS_MAX / tags::BLOCK;
    let count = (header.count - first).min(ELEMENTS_MAX);
    let bits =
        |number: usize| tags::bits(tags::matches(Group::read(bytes, first / tags::BLOCK + number).tags, tag)) << (8 * number);
    // Usually all groups are looked at, even those behind the last field: no branch depends on the number of fields.
    let has_all = first == 0 && bytes.len() >= HEADER + ALL * GROUP;
    let numbers = if has_all { 0..ALL } else { 0..count.div_ceil(tags::BLOCK) };
    numbers.fold(0, |found, number| found | bits(number)) & u64::MAX.checked_shr((ELEMENTS_MAX - count) as u32).unwrap_or(0)
}

/// The cache lines of header and groups.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = *const u8> {
    let index = bytes.len().min(HEADER + ELEMENTS_MAX * SLOT);
    let index = &bytes[bytes.len() - index..];
    index.iter().rev().step_by(CACHE_LINE).chain(index.first()).map(std::ptr::from_ref)
}

/// Takes a field's slot out; those after it move up.
pub(super) fn remove_slot(bytes: &mut [u8], header: Header, index: usize) {
    let (mut stay, last) = (index % tags::BLOCK, (header.count - 1) / tags::BLOCK);
    for number in index / tags::BLOCK..=last {
        let group = Group::read(bytes, number);
        let next = if number < last { Group::read(bytes, number + 1) } else { Group { tags: 0, offsets: 0 } };
        let (tags, offsets) = ((1 << (8 * stay)) - 1, (1 << (16 * stay)) - 1);
        Group {
            tags: group.tags & tags | (group.tags >> 8) & !tags | next.tags << 56,
            offsets: group.offsets & offsets | (group.offsets >> 16) & !offsets | next.offsets << 112,
        }
        .write(bytes, number);
        stay = 0;
    }
}

/// Lets the first `old` bytes of a field's entry take `new` bytes: what follows moves, and so do its offsets. Returns the header
/// after it.
pub(super) fn resize<S: EntryShape>(bytes: &mut [u8], index: usize, at: usize, (old, new): (usize, usize)) -> Header {
    let header = Header::read(bytes);
    if old == new {
        return header;
    }
    let after = Header { used: header.used - old + new, ..header };
    if at + old < header.used {
        let is_far = header.used.max(after.used) >= FAR;
        let starts: Vec<usize> =
            if is_far { (index + 1..header.count).map(|i| start::<S>(bytes, header, i)).collect() } else { Vec::new() };
        bytes.copy_within(at + old..header.used, at + new);
        for (i, start) in (index + 1..).zip(starts) {
            let tag = tag_of(bytes, i);
            set_slot(bytes, i, tag, start - old + new);
        }
        if !is_far {
            move_offsets(bytes, header, index + 1, (new as u16).wrapping_sub(old as u16));
        }
    }
    after.write(bytes);
    after
}

/// Adds to the offsets of all fields from one on.
fn move_offsets(bytes: &mut [u8], header: Header, from: usize, delta: u16) {
    for number in from / tags::BLOCK..header.count.div_ceil(tags::BLOCK) {
        let mut group = Group::read(bytes, number);
        let first = from.saturating_sub(number * tags::BLOCK);
        let mut offsets: [[u8; 2]; tags::BLOCK] = group.offsets.to_le_bytes().as_chunks::<2>().0.try_into().unwrap_or_default();
        for (i, offset) in offsets.iter_mut().enumerate() {
            let delta = if i < first { 0 } else { delta };
            *offset = u16::from_le_bytes(*offset).wrapping_add(delta).to_le_bytes();
        }
        group.offsets = u128::from_le_bytes(offsets.as_flattened().try_into().unwrap_or_default());
        group.write(bytes, number);
    }
}
