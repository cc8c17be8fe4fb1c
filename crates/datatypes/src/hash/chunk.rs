//! A chunk: up to 64 fields of a hash in one allocation.
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
//! Entries grow upwards, groups downwards. Both header and groups are found from the end alone, so that their cache lines, four at most, come at the
//! same time, and the entry's after them.
//!
//! Fields are in the order in which they came. A removed one leaves no hole: what follows moves. The allocation grows with its contents, by size
//! classes of the allocator, so that slack is an eighth at most in the mean, however full the chunk is.
//!
//! A field larger than a chunk has one for itself. Where entries begin beyond 65,534 bytes, which takes fields that cannot be parted because their
//! hashes are equal, offsets say only that, and the entry is walked to.

use std::sync::Arc;

use crate::packed::entry::{Entry, Head};
use crate::packed::{Due, ELEMENTS_MAX};
use crate::tree::{Leaf, NEVER, SHARED_BYTES, Summary, size_class};

use super::place::{Placement, bound, tag};
use super::tags;

/// Bytes of a chunk's allocation at most, unless it has one field only.
pub(super) const CHUNK_MAX_BYTES: usize = 8 * 1024;

/// Fields that two chunks together may have to become one.
const MERGED_MAX: usize = ELEMENTS_MAX * 3 / 4;

const HEADER: usize = 16;
const GROUP: usize = tags::BLOCK * SLOT;
/// What a field takes of its group.
const SLOT: usize = 3;
const FAR: usize = u16::MAX as usize;

/// The source of bytes for new allocations.
static ZEROES: [u8; 2 * CHUNK_MAX_BYTES] = [0; 2 * CHUNK_MAX_BYTES];

/// A chunk of a hash.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    bytes: Arc<[u8]>,
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
    fn write(self, bytes: &mut [u8]) {
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

    fn offset(self, at: usize) -> u16 {
        (self.offsets >> (16 * at)) as u16
    }

    fn set(&mut self, at: usize, tag: u8, offset: u16) {
        self.tags = self.tags & !(0xFF << (8 * at)) | u64::from(tag) << (8 * at);
        self.offsets = self.offsets & !(0xFFFF << (16 * at)) | u128::from(offset) << (16 * at);
    }
}

/// A field that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    index: usize,
    start: usize,
    size: usize,
    pub(super) entry: Entry<'a>,
}

impl Chunk {
    /// How many fields there are.
    pub(super) fn len(&self) -> usize {
        Header::read(&self.bytes).count
    }

    /// The bytes of all entries.
    pub(super) fn entries(&self) -> &[u8] {
        &self.bytes[..Header::read(&self.bytes).used]
    }

    /// A field by name and hash.
    #[inline]
    pub(super) fn find(&self, hash: u64, field: &[u8]) -> Option<Found<'_>> {
        let (bytes, tag) = (&*self.bytes, tag(hash));
        let header = Header::read(bytes);
        for number in 0..header.count.div_ceil(tags::BLOCK) {
            let group = Group::read(bytes, number);
            let mut found = tags::matches(group.tags, tag);
            while found != 0 {
                let at = found.trailing_zeros() as usize / 8;
                let index = number * tags::BLOCK + at;
                found &= found - 1;
                if index >= header.count {
                    break;
                }
                let start = match usize::from(group.offset(at)) {
                    FAR => far_start(bytes, header, index),
                    start => start,
                };
                let (entry, size) = Entry::parse(&bytes[..header.used], start)?;
                if entry.field == field {
                    return Some(Found { index, start, size, entry });
                }
            }
        }
        None
    }

    /// The entry of this place in the chunk.
    pub(super) fn nth(&self, index: usize) -> Option<Entry<'_>> {
        let header = Header::read(&self.bytes);
        if index >= header.count {
            return None;
        }
        Entry::parse(self.entries(), start(&self.bytes, header, index)).map(|(entry, _)| entry)
    }

    /// Sets a field. Says whether it is new.
    pub(super) fn set(&mut self, hash: u64, field: &[u8], value: &[u8], due: Due) -> bool {
        let header = Header::read(&self.bytes);
        let found = self.find(hash, field).map(|found| (found.index, found.start, found.size, found.entry.due));
        let before = found.and_then(|(.., due)| due);
        let after = due.resolve(before);
        let head = Head::new(field.len(), value.len(), after);
        let size = head.bytes().len() + field.len() + value.len();
        let (index, start, old_size) = match found {
            Some((index, start, size, _)) => (index, start, size),
            None => (header.count, header.used, 0),
        };
        let count = header.count + usize::from(found.is_none());
        let bytes = self.writable(header.used - old_size + size, count);
        let header = resize(bytes, index, start, (old_size, size));
        let mut at = start;
        for piece in [head.bytes(), field, value] {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        if found.is_none() {
            set_slot(bytes, index, tag(hash), start);
        }
        Header { count, ..header }.write(bytes);
        self.note_due(before, after);
        found.is_none()
    }

    /// Gives a field another expiry. Says whether there is such a field.
    pub(super) fn set_due(&mut self, hash: u64, field: &[u8], after: Option<u64>) -> bool {
        let Some(Found { index, start, size, entry }) = self.find(hash, field) else { return false };
        let before = entry.due;
        let (old, head) = (entry.head().bytes().len(), Head::new(entry.field.len(), entry.value.len(), after));
        let new_size = size - old + head.bytes().len();
        let header = Header::read(&self.bytes);
        let bytes = self.writable(header.used - size + new_size, header.count);
        // The head is replaced by another, what follows it stays behind it.
        let header = resize(bytes, index, start, (old, head.bytes().len()));
        header.write(bytes);
        bytes[start..start + head.bytes().len()].copy_from_slice(head.bytes());
        self.note_due(before, after);
        true
    }

    /// Removes a field. Says whether there was one.
    pub(super) fn remove(&mut self, hash: u64, field: &[u8]) -> bool {
        let Some(Found { index, start, size, entry }) = self.find(hash, field) else { return false };
        let before = entry.due;
        let header = Header::read(&self.bytes);
        let bytes = self.writable(header.used, header.count);
        let header = resize(bytes, index, start, (size, 0));
        remove_slot(bytes, header, index);
        Header { count: header.count - 1, ..header }.write(bytes);
        self.note_due(before, None);
        self.tighten();
        true
    }

    /// Removes at most `limit` fields that are due at `now`, tells each of them, and says how many they were.
    pub(super) fn expire(&mut self, now: u64, limit: usize, removed: &mut dyn FnMut(&[u8])) -> usize {
        let mut count = 0;
        let kept = self.gather(|_, entry| {
            let goes = count < limit && entry.due.is_some_and(|due| due <= now);
            if goes {
                count += 1;
                removed(entry.field);
            }
            !goes
        });
        *self = kept;
        count
    }

    /// A chunk of those fields that `keep` keeps, given their places and entries.
    fn gather(&self, mut keep: impl FnMut(usize, &Entry) -> bool) -> Self {
        let entries = self.entries();
        let (mut kept, mut picked, mut due) = (Vec::with_capacity(entries.len()), Vec::with_capacity(self.len()), NEVER);
        let mut at = 0;
        for (index, entry) in self.iter().enumerate() {
            let size = entry.size();
            if keep(index, &entry) {
                picked.push((tag_of(&self.bytes, index), kept.len()));
                kept.extend_from_slice(&entries[at..at + size]);
                due = due.min(entry.due.unwrap_or(NEVER));
            }
            at += size;
        }
        let mut chunk = Self { bytes: zeroes(capacity(kept.len(), picked.len())) };
        let bytes = Arc::make_mut(&mut chunk.bytes);
        Header { used: kept.len(), count: picked.len(), due }.write(bytes);
        bytes[..kept.len()].copy_from_slice(&kept);
        for (index, (tag, start)) in picked.into_iter().enumerate() {
            set_slot(bytes, index, tag, start);
        }
        chunk
    }

    /// The entries in their order.
    pub(super) fn iter(&self) -> Entries<'_> {
        Entries { entries: self.entries(), at: 0 }
    }

    /// The chunk's own bytes, with room for `used` bytes of entries and `count` fields.
    fn writable(&mut self, used: usize, count: usize) -> &mut [u8] {
        if least(used, count) > self.bytes.len() {
            self.resize_to(used, count);
        }
        Arc::make_mut(&mut self.bytes)
    }

    /// Copies the chunk into an allocation that is right for `used` bytes of entries and `count` fields.
    fn resize_to(&mut self, used: usize, count: usize) {
        let header = Header::read(&self.bytes);
        let mut all = zeroes(capacity(used, count));
        let bytes = Arc::make_mut(&mut all);
        bytes[..header.used].copy_from_slice(&self.bytes[..header.used]);
        let index = least(0, header.count);
        let end = bytes.len();
        bytes[end - index..].copy_from_slice(&self.bytes[self.bytes.len() - index..]);
        self.bytes = all;
    }

    /// Moves the chunk to a smaller allocation, if it has become more than a size class too large.
    fn tighten(&mut self) {
        let header = Header::read(&self.bytes);
        let ample = capacity(header.used + header.used / 8, header.count + 4);
        if ample < self.bytes.len() {
            self.resize_to(header.used, header.count);
        }
    }

    /// Keeps the earliest expiry true after a field's has changed.
    fn note_due(&mut self, before: Option<u64>, after: Option<u64>) {
        let header = Header::read(&self.bytes);
        let (before, after) = (before.unwrap_or(NEVER), after.unwrap_or(NEVER));
        if before == after || (before != header.due && after > header.due) {
            return;
        }
        let due = if before == header.due && after > before {
            self.iter().map(|entry| entry.due.unwrap_or(NEVER)).min().unwrap_or(NEVER)
        } else {
            header.due.min(after)
        };
        Header { due, ..header }.write(Arc::make_mut(&mut self.bytes));
    }
}

/// Zeroes in an allocation of their own.
fn zeroes(len: usize) -> Arc<[u8]> {
    ZEROES.get(..len).map_or_else(|| vec![0; len].into(), Arc::from)
}

/// Bytes that a chunk needs for so many bytes of entries of so many fields.
fn least(used: usize, count: usize) -> usize {
    used + count.div_ceil(tags::BLOCK) * GROUP + HEADER
}

/// Bytes that a chunk should have for them: up to the next size class.
fn capacity(used: usize, count: usize) -> usize {
    size_class(SHARED_BYTES + least(used, count)) - SHARED_BYTES
}

fn tag_of(bytes: &[u8], index: usize) -> u8 {
    Group::read(bytes, index / tags::BLOCK).tag(index % tags::BLOCK)
}

fn near(bytes: &[u8], index: usize) -> usize {
    usize::from(Group::read(bytes, index / tags::BLOCK).offset(index % tags::BLOCK))
}

/// Where a field's entry begins.
fn start(bytes: &[u8], header: Header, index: usize) -> usize {
    match near(bytes, index) {
        FAR => far_start(bytes, header, index),
        start => start,
    }
}

#[cold]
fn far_start(bytes: &[u8], header: Header, index: usize) -> usize {
    let known = (0..index).rev().find(|i| near(bytes, *i) != FAR).unwrap_or(0);
    let entries = &bytes[..header.used];
    (known..index).fold(near(bytes, known), |at, _| Entry::parse(entries, at).map_or(at, |(_, size)| at + size))
}

fn set_slot(bytes: &mut [u8], index: usize, tag: u8, start: usize) {
    let mut group = Group::read(bytes, index / tags::BLOCK);
    group.set(index % tags::BLOCK, tag, start.min(FAR) as u16);
    group.write(bytes, index / tags::BLOCK);
}

/// Takes a field's slot out; those after it move up.
fn remove_slot(bytes: &mut [u8], header: Header, index: usize) {
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

/// Lets the first `old` bytes of a field's entry take `new` bytes: what follows moves, and so do its offsets. Returns the header after it.
fn resize(bytes: &mut [u8], index: usize, at: usize, (old, new): (usize, usize)) -> Header {
    let header = Header::read(bytes);
    if old == new {
        return header;
    }
    let after = Header { used: header.used - old + new, ..header };
    if at + old < header.used {
        let is_far = header.used.max(after.used) >= FAR;
        let starts: Vec<usize> =
            if is_far { (index + 1..header.count).map(|i| start(bytes, header, i)).collect() } else { Vec::new() };
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

/// The entries of a chunk.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries<'a> {
    entries: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (entry, size) = Entry::parse(self.entries, self.at)?;
        self.at += size;
        Some(entry)
    }
}

impl Default for Chunk {
    fn default() -> Self {
        let mut chunk = Self { bytes: zeroes(capacity(0, 0)) };
        Header { used: 0, count: 0, due: NEVER }.write(Arc::make_mut(&mut chunk.bytes));
        chunk
    }
}

impl Leaf for Chunk {
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
        let mut all: Vec<(u32, usize)> =
            self.iter().map(|entry| (bound(placement.hash(entry.field)), entry.size() + SLOT)).collect();
        let unsorted: Vec<u32> = all.iter().map(|(bound, _)| *bound).collect();
        all.sort_unstable();
        let half = all.iter().map(|(_, size)| size).sum::<usize>() / 2;
        // The place between two different bounds with about half of the bytes on either side.
        let mut below = 0;
        let cuts = all.windows(2).map(|pair| {
            below += pair[0].1;
            (pair[0].0 != pair[1].0, below.abs_diff(half), pair[1].0)
        });
        let (_, bound) = cuts.filter(|(differ, ..)| *differ).map(|(_, distance, bound)| (distance, bound)).min()?;
        let upper = self.gather(|index, _| unsorted[index] >= bound);
        *self = self.gather(|index, _| unsorted[index] < bound);
        Some((bound, upper))
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
            set_slot(bytes, left.count + i, tag_of(&right.bytes, i), left.used + start(&right.bytes, other, i));
        }
        true
    }

    #[inline]
    fn position(bounds: &[u32], bound: &u32) -> usize {
        // No branch depends on the bounds, and the compiler compares several at once.
        bounds.iter().skip(1).map(|other| u32::from(other <= bound)).sum::<u32>() as usize
    }

    fn prefetch(&self) {
        std::hint::black_box((Header::read(&self.bytes).used, self.bytes.iter().rev().nth(128)));
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
            assert_eq!((tag_of(&self.bytes, index), start(&self.bytes, header, index)), (tag(hash), at));
            assert_eq!(self.find(hash, entry.field).map(|found| found.entry), Some(entry));
            due = due.min(entry.due.unwrap_or(NEVER));
            at += entry.size();
        }
        assert_eq!((at, due), (header.used, header.due));
    }
}
