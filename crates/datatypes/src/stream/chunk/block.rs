//! Blocks of entries, which share the names of their fields.
//!
//! ```text
//! bytes of fields and entries 4 | entries 4 | of them taken away at the front 4 | bytes of fields 4; highest bit: part of the node
//! before entries that the node ever had 4 | bytes that it takes in Redis 4
//! id that the others count from 16 | id of the last entry that it ever had 16
//! fields: how many, then length and name of each
//! entries, ascending                                                                                              
//! ([`super::entry`]) slack
//! offsets of the entries: 2 bytes each, the first one last                            4 bytes where there are more than 64 KiB of
//! entries
//! ```
//!
//! What Redis calls a node is a listpack of up to `stream-node-max-entries` entries or `stream-node-max-bytes` bytes, and what `~`
//! trims is whole nodes. A block is a node, with as many entries and, for that, the size that Redis would see; of a very large
//! node, it is a part.

use std::sync::Arc;

use crate::packed::listpack::{integer_size, text_size};
use crate::tree::{Leaf, NEVER, SHARED_BYTES, Summary, size_class, zeroes};

use super::varint;
use crate::stream::StreamId;
use crate::stream::entry::{EntryFields, StreamEntry, delta};

const HEADER: usize = 56;
/// Bytes and entries of a block; more of the same node are in another one.
const BLOCK_MAX_BYTES: usize = 8 * 1024;
const BLOCK_MAX_ENTRIES: usize = 256;
const CONTINUES: u32 = 1 << 31;
/// Header and end of a listpack.
const LISTPACK_BYTES: usize = 7;
/// Redis puts no more into a listpack.
pub(in crate::stream) const LISTPACK_MAX_BYTES: usize = 1 << 30;

/// How large a node gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// `stream-node-max-bytes`; 0: no limit.
    pub bytes: usize,
    /// `stream-node-max-entries`; 0: no limit.
    pub entries: usize,
}

/// Where the next entry goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stream) enum Room {
    Here,
    /// Into another block of the same node.
    Behind,
    /// Into another node.
    NewNode,
}

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::stream) struct Header {
    used: usize,
    slots: usize,
    skipped: usize,
    /// Bytes of the fields.
    fields: usize,
    continues: bool,
    total: u32,
    weight: u32,
    pub(in crate::stream) base: StreamId,
    pub(in crate::stream) last: StreamId,
}

impl Header {
    #[inline]
    fn read(bytes: &[u8]) -> Self {
        let Some(bytes) = bytes.first_chunk::<HEADER>() else { return Self::default() };
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let id = |at: usize| StreamId::from_bytes(std::array::from_fn(|i| bytes[at + i]));
        Self {
            used: number(0) as usize,
            slots: number(4) as usize,
            skipped: number(8) as usize,
            fields: (number(12) & !CONTINUES) as usize,
            continues: number(12) & CONTINUES != 0,
            total: number(16),
            weight: number(20),
            base: id(24),
            last: id(40),
        }
    }

    #[inline]
    fn write(self, bytes: &mut [u8]) {
        let fields = self.fields as u32 | if self.continues { CONTINUES } else { 0 };
        let numbers = [self.used as u32, self.slots as u32, self.skipped as u32, fields, self.total, self.weight];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[24..40].copy_from_slice(&self.base.to_bytes());
        bytes[40..HEADER].copy_from_slice(&self.last.to_bytes());
    }

    /// Bytes of an offset.
    fn slot(self) -> usize {
        if self.used > usize::from(u16::MAX) { 4 } else { 2 }
    }

    fn least(self) -> usize {
        HEADER + self.used + self.slots * self.slot()
    }
}

/// The bytes of a block that has at least these.
fn capacity(least: usize) -> usize {
    size_class(SHARED_BYTES + least) - SHARED_BYTES
}

/// A block; an empty one has no bytes.
#[derive(Clone, Debug, Default)]
pub(in crate::stream) struct Block {
    bytes: Arc<[u8]>,
}

impl Block {
    pub(in crate::stream) fn header(&self) -> Header {
        Header::read(&self.bytes)
    }

    /// Entries that are there.
    #[inline]
    pub(in crate::stream) fn len(&self) -> usize {
        let header = self.header();
        header.slots - header.skipped
    }

    /// Whether it belongs to the node of the block before.
    pub(in crate::stream) fn continues(&self) -> bool {
        self.header().continues
    }

    /// An empty block whose entries have these fields.
    pub(in crate::stream) fn begin<'f>(
        base: StreamId,
        names: impl Iterator<Item = &'f [u8]> + Clone,
        continued: Option<&Self>,
    ) -> Self {
        let (mut count, mut size, mut weight) = (0, 0, LISTPACK_BYTES + integer_size(0));
        for name in names.clone() {
            count += 1;
            size += varint::len(name.len() as u64) + name.len();
            weight += text_size(name);
        }
        size += varint::len(count);
        let node = continued.map(Self::header).unwrap_or_default();
        let header = Header {
            used: size,
            fields: size,
            continues: continued.is_some(),
            total: node.total,
            weight: node.weight.max((weight + integer_size(count as i64)) as u32),
            base,
            last: base,
            ..Header::default()
        };
        let mut block = Self { bytes: zeroes(HEADER + size) };
        if let Some(bytes) = Arc::get_mut(&mut block.bytes) {
            header.write(bytes);
            let mut at = HEADER;
            varint::write(bytes, &mut at, count);
            names.for_each(|name| write_bytes(bytes, &mut at, name));
        }
        block
    }

    /// Where an entry goes whose fields and values have these bytes.
    pub(in crate::stream) fn room(&self, size: usize, limits: NodeLimits) -> Room {
        let header = self.header();
        if header.slots == 0 {
            return Room::NewNode;
        }
        let (live, max) = (header.slots - header.skipped, limits.bytes);
        let bytes_max = if max == 0 || max > LISTPACK_MAX_BYTES { LISTPACK_MAX_BYTES } else { max };
        let counts = integer_size(live as i64) + integer_size(i64::from(header.total) - live as i64);
        if header.weight as usize + counts + size >= bytes_max || (limits.entries > 0 && header.total as usize >= limits.entries) {
            Room::NewNode
        } else if header.slots >= BLOCK_MAX_ENTRIES || header.used + size > BLOCK_MAX_BYTES {
            Room::Behind
        } else {
            Room::Here
        }
    }

    /// The fields that entries may share.
    #[inline]
    pub(in crate::stream) fn fields(&self, header: Header) -> EntryFields<'_> {
        let mut names = self.bytes.get(HEADER..HEADER + header.fields).unwrap_or_default();
        let left = varint::take(&mut names).unwrap_or(0) as usize;
        EntryFields { left, names, values: None }
    }

    /// Where an entry begins behind the header, or where the last one ends.
    #[inline]
    fn start(&self, header: Header, slot: usize) -> usize {
        if slot >= header.slots {
            return header.used;
        }
        let width = header.slot();
        let at = self.bytes.len() - (slot + 1) * width;
        match self.bytes[at..at + width] {
            [a, b] => usize::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => 0,
        }
    }

    #[inline]
    fn raw(&self, header: Header, slot: usize) -> &[u8] {
        &self.bytes[HEADER + self.start(header, slot)..HEADER + self.start(header, slot + 1)]
    }

    /// An entry, of those that are there.
    #[inline]
    pub(in crate::stream) fn nth(&self, index: usize) -> Option<StreamEntry<'_>> {
        let header = self.header();
        let slot = index + header.skipped;
        if slot >= header.slots {
            return None;
        }
        StreamEntry::parse(header.base, self.fields(header), self.raw(header, slot))
    }

    /// How many entries have a lower id.
    pub(in crate::stream) fn below(&self, id: StreamId) -> usize {
        let header = self.header();
        let (mut low, mut high) = (header.skipped, header.slots);
        while low < high {
            let middle = low.midpoint(high);
            if StreamEntry::parse_id(header.base, self.raw(header, middle)).is_some_and(|other| other < id) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - header.skipped
    }

    /// Where an entry is.
    pub(in crate::stream) fn find(&self, id: StreamId) -> Option<usize> {
        let index = self.below(id);
        self.nth(index).filter(|entry| entry.id == id).map(|_| index)
    }

    /// Appends an entry, whose id is above all others.
    pub(in crate::stream) fn push<'f>(&mut self, id: StreamId, fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone) {
        let header = self.header();
        // One that was deleted may have been higher: XSETID goes back to what is there.
        debug_assert!(self.len() == 0 || self.below(id) == self.len(), "INV-STREAM-1: ids ascend");
        let (mut master, mut count, mut shares) = (self.fields(header), 0u64, true);
        let (mut values, mut names) = (0, 0);
        let mut weight = 0;
        for (name, value) in fields.clone() {
            count += 1;
            shares = shares && master.left > 0 && master.next_name() == Some(name);
            names += varint::len(name.len() as u64) + name.len();
            values += varint::len(value.len() as u64) + value.len();
            weight += text_size(value);
        }
        shares &= master.left == 0;
        let (ms, seq) = delta(header.base, id);
        let head = if shares { 0 } else { count };
        let size = varint::len(head) + varint::len(ms) + varint::len(seq) + values + if shares { 0 } else { names };
        let (ms_size, seq_size) = (integer_size(ms as i64), integer_size(id.seq.wrapping_sub(header.base.seq) as i64));
        let pieces = if shares { count + 3 } else { 2 * count + 4 };
        weight += integer_size(0) + ms_size + seq_size + integer_size(pieces as i64);
        if !shares {
            weight += integer_size(count as i64) + fields.clone().map(|(name, _)| text_size(name)).sum::<usize>();
        }
        let grown = |header: Header| Header {
            used: header.used + size,
            slots: header.slots + 1,
            total: header.total + 1,
            weight: header.weight.saturating_add(weight as u32),
            last: id,
            ..header
        };
        let (mut header, mut after) = (header, grown(header));
        if after.least() > self.bytes.len() || header.slot() != after.slot() {
            let (used, slots) = self.rebuilt(header);
            let least = grown(Header { used, slots, ..header }).least();
            let ample = self.bytes.len() + self.bytes.len() / 2;
            header = self.rebuild(
                if slots == 0 { least } else { least.max(ample.min(BLOCK_MAX_BYTES)) },
                grown(Header { used, ..header }).slot(),
            );
            after = grown(header);
        }
        let bytes = Arc::make_mut(&mut self.bytes);
        let mut at = HEADER + header.used;
        varint::write(bytes, &mut at, head);
        varint::write(bytes, &mut at, ms);
        varint::write(bytes, &mut at, seq);
        for (name, value) in fields {
            if !shares {
                write_bytes(bytes, &mut at, name);
            }
            write_bytes(bytes, &mut at, value);
        }
        let (width, len) = (after.slot(), bytes.len());
        bytes[len - after.slots * width..len - header.slots * width].copy_from_slice(&(header.used as u32).to_le_bytes()[..width]);
        after.write(bytes);
    }

    /// Bytes and entries without those that were taken away at the front.
    fn rebuilt(&self, header: Header) -> (usize, usize) {
        (header.used - (self.start(header, header.skipped) - header.fields), header.slots - header.skipped)
    }

    /// Copies all that is there to an allocation of at least these bytes, with offsets of this width.
    fn rebuild(&mut self, least: usize, width: usize) -> Header {
        let header = self.header();
        let (used, slots) = self.rebuilt(header);
        let after = Header { used, slots, skipped: 0, ..header };
        let gone = header.used - used;
        let mut all = zeroes(capacity(least));
        if let Some(bytes) = Arc::get_mut(&mut all) {
            let fields = HEADER + header.fields;
            bytes[..fields].copy_from_slice(&self.bytes[..fields]);
            bytes[fields..HEADER + used].copy_from_slice(&self.bytes[fields + gone..HEADER + header.used]);
            let len = bytes.len();
            for slot in 0..slots {
                let offset = ((self.start(header, slot + header.skipped) - gone) as u32).to_le_bytes();
                bytes[len - (slot + 1) * width..len - slot * width].copy_from_slice(&offset[..width]);
            }
            after.write(bytes);
        }
        self.bytes = all;
        after
    }

    /// Gives memory back that is not needed while nothing is appended.
    pub(in crate::stream) fn seal(&mut self) {
        let header = self.header();
        let (used, slots) = self.rebuilt(header);
        let after = Header { used, slots, ..header };
        if capacity(after.least()) < self.bytes.len() {
            self.rebuild(after.least(), after.slot());
        }
    }

    /// The bytes of the fields, and those of the entries.
    pub(in crate::stream) fn contents(&self) -> (&[u8], &[u8]) {
        let header = self.header();
        let end = HEADER + header.used;
        let range = |from: usize, to: usize| self.bytes.get(from..to).unwrap_or_default();
        (range(HEADER, HEADER + header.fields), range(HEADER + self.start(header, header.skipped), end))
    }

    /// An empty block with fields as [`Block::contents`] gives them. None: they are not sound.
    pub(in crate::stream) fn with_fields(base: StreamId, fields: &[u8], continues: bool) -> Option<Self> {
        are_fields(fields).then_some(())?;
        let header = Header { used: fields.len(), fields: fields.len(), continues, base, last: base, ..Header::default() };
        let mut all = zeroes(HEADER + fields.len());
        if let Some(bytes) = Arc::get_mut(&mut all) {
            header.write(bytes);
            bytes[HEADER..].copy_from_slice(fields);
        }
        Some(Self { bytes: all })
    }

    /// Appends an entry whose bytes are sound.
    pub(in crate::stream) fn push_raw(&mut self, id: StreamId, raw: &[u8]) {
        let header = self.header();
        let after = Header { used: header.used + raw.len(), slots: header.slots + 1, last: id, ..header };
        if after.least() > self.bytes.len() || header.slot() != after.slot() {
            self.rebuild(after.least().max(self.bytes.len() + self.bytes.len() / 2), after.slot());
        }
        let bytes = Arc::make_mut(&mut self.bytes);
        bytes[HEADER + header.used..HEADER + after.used].copy_from_slice(raw);
        let (width, len) = (after.slot(), bytes.len());
        bytes[len - after.slots * width..len - header.slots * width].copy_from_slice(&(header.used as u32).to_le_bytes()[..width]);
        after.write(bytes);
    }

    /// Takes the first entries away.
    pub(in crate::stream) fn skip(&mut self, count: usize) {
        let header = self.header();
        if header.skipped + count >= header.slots {
            *self = Self::default();
            return;
        }
        Header { skipped: header.skipped + count, ..header }.write(Arc::make_mut(&mut self.bytes));
    }

    /// Takes an entry away.
    pub(in crate::stream) fn remove(&mut self, index: usize) {
        let header = self.header();
        if index == 0 || header.slots - header.skipped == 1 {
            return self.skip(1);
        }
        let slot = index + header.skipped;
        let (start, end, width) = (self.start(header, slot), self.start(header, slot + 1), header.slot());
        let after = Header { used: header.used - (end - start), slots: header.slots - 1, ..header };
        let offsets: Vec<usize> = (slot + 1..header.slots).map(|behind| self.start(header, behind) - (end - start)).collect();
        let bytes = Arc::make_mut(&mut self.bytes);
        bytes.copy_within(HEADER + end..HEADER + header.used, HEADER + start);
        let len = bytes.len();
        if width != after.slot() {
            // Offsets become narrower.
            let before: Vec<usize> = (0..slot).map(|slot| self.start(header, slot)).collect();
            return self.write_offsets(after, before.into_iter().chain(offsets));
        }
        for (behind, offset) in (slot..).zip(offsets) {
            bytes[len - (behind + 1) * width..len - behind * width].copy_from_slice(&(offset as u32).to_le_bytes()[..width]);
        }
        after.write(bytes);
    }

    fn write_offsets(&mut self, after: Header, offsets: impl Iterator<Item = usize>) {
        let (bytes, width) = (Arc::make_mut(&mut self.bytes), after.slot());
        let len = bytes.len();
        for (slot, offset) in offsets.enumerate() {
            bytes[len - (slot + 1) * width..len - slot * width].copy_from_slice(&(offset as u32).to_le_bytes()[..width]);
        }
        after.write(bytes);
    }

    /// Says what the node was elsewhere: how many entries it ever had, the bytes that it takes in Redis, and its last entry's id.
    pub(in crate::stream) fn set_node(&mut self, total: u32, weight: u32, last: StreamId) {
        let header = self.header();
        if header.slots > 0 {
            Header { total, weight, last: last.max(header.last), ..header }.write(Arc::make_mut(&mut self.bytes));
        }
    }

    /// What [`Block::set_node`] takes.
    pub(in crate::stream) fn node(&self) -> (u32, u32, StreamId) {
        let header = self.header();
        (header.total, header.weight, header.last)
    }

    /// The cache lines that an entry at the end is written to.
    pub(in crate::stream) fn prefetch(&self, fetch: &mut dyn FnMut(*const u8)) {
        self.bytes.chunks(64).take(1).chain(self.bytes.rchunks(64).take(2)).for_each(|line| fetch(line.as_ptr()));
    }
}

#[inline]
fn write_bytes(bytes: &mut [u8], at: &mut usize, written: &[u8]) {
    varint::write(bytes, at, written.len() as u64);
    bytes[*at..*at + written.len()].copy_from_slice(written);
    *at += written.len();
}

/// Whether the bytes are a number of names and as many names.
fn are_fields(mut bytes: &[u8]) -> bool {
    let Some(count) = varint::take(&mut bytes) else { return false };
    (0..count).all(|_| varint::take_bytes(&mut bytes).is_some()) && bytes.is_empty()
}

impl Leaf for Block {
    type Bound = StreamId;
    type Context = ();

    fn summary(&self) -> Summary {
        Summary { count: self.len() as u64, due: NEVER }
    }

    fn memory(&self) -> usize {
        if self.bytes.is_empty() { 0 } else { SHARED_BYTES + self.bytes.len() }
    }

    fn is_large(&self) -> bool {
        false
    }

    /// An empty block goes; others stay as they are, as nodes of Redis do.
    fn is_small(&self) -> bool {
        self.len() == 0
    }

    fn split(&mut self, (): &()) -> Option<(StreamId, Self)> {
        None
    }

    fn merge(&mut self, _right: &Self) -> bool {
        false
    }

    fn check(&self, (low, high): (&StreamId, Option<&StreamId>), (): &()) {
        let header = self.header();
        assert!(header.least() <= self.bytes.len() || header.slots == 0, "{header:?}");
        assert_eq!(self.memory(), size_class(self.memory()), "an allocation is a size class");
        let mut before = None;
        for slot in header.skipped..header.slots {
            let entry = StreamEntry::parse(header.base, self.fields(header), self.raw(header, slot)).expect("an entry is whole");
            assert_eq!(entry.fields.end(), Some(&[][..]), "an entry is whole");
            assert!(*low <= entry.id && high.is_none_or(|high| entry.id < *high), "INV-TREE-1: entries lie in their block");
            assert!(before.is_none_or(|before| before < entry.id) && entry.id <= header.last, "INV-STREAM-1: ids ascend");
            before = Some(entry.id);
        }
    }
}
