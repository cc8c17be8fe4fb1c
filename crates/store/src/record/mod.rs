//! The record: one key with its value, as it lies in the log.
//!
//! ```text
//!  63            48 47        36 35          22 21       11 10     4 3     0
//! +----------------+------------+--------------+-----------+--------+-------+
//! | namespace   16 | key_len 12 | value_len 14 | units  11 | flags 7| kind 4|   header, one atomic word
//! +----------------+------------+--------------+-----------+--------+-------+
//! | key, padded with zeroes to 8 bytes                                       |
//! | value, padded to 8 bytes            (or one word: the heap handle)       |
//! | slack                                                                    |
//! | address of the original on the device, 8 bytes, only with CACHED         |
//! | entity tag, 8 bytes, only with ETAG                                      |
//! | expiry in milliseconds since the epoch, 8 bytes, only with EXPIRY        |   last word of the allocation
//! +--------------------------------------------------------------------------+
//! ```
//!
//! `units` is the allocated size in words of 8 bytes, header included, so that a page can be walked and there is no filler
//! field: slack lies between the value and the optional words at the end. There is no previous-address: the index holds one
//! entry per key, so a record is never linked from another one (ADR 12).
//!
//! Which parts change when: namespace, key length and key bytes never change between publication and reclamation, so they are read
//! as plain memory under the epoch. Everything else changes only under the exclusive bucket latch, by atomic word stores,
//! because optimistic readers may look at it meanwhile (they validate afterwards, INV-READ-1).

pub(crate) mod heap;
pub(crate) mod key;
pub(crate) mod put;

pub use almandine_base::object::Kind;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word; all records are multiples of it.
pub(crate) const WORD: usize = 8;

const UNITS_SHIFT: u32 = 11;
const UNITS_BITS: u32 = 11;
const VALUE_SHIFT: u32 = 22;
const VALUE_BITS: u32 = 14;
const KEY_SHIFT: u32 = 36;
const KEY_BITS: u32 = 12;
const NAMESPACE_SHIFT: u32 = 48;

/// Longest key in bytes that lies in the record; a longer one lies on the heap.
pub(crate) const INLINE_KEY_MAX: usize = (1 << KEY_BITS) - 1;
/// Smallest allocation in words: header, key and value of one word each never need less than two.
pub(crate) const UNITS_MIN: usize = 2;
/// Largest allocation in words.
pub(crate) const UNITS_MAX: usize = (1 << UNITS_BITS) - 1;

/// Words that a record keeps for its header and everything optional.
const RESERVED_WORDS: usize = 5;
const _: () = assert!((UNITS_MAX - RESERVED_WORDS) * WORD < 1 << VALUE_BITS, "a value that fits has a length that fits");

/// Whether a value lies in the record with its key; else it lies on the heap. As much as possible lies in records, because
/// only records can be moved out of sparse pages.
#[inline]
#[must_use]
pub const fn fits_inline(key_len: usize, value_len: usize) -> bool {
    let key_words = if key_len > INLINE_KEY_MAX { 1 } else { key_len.div_ceil(WORD) };
    RESERVED_WORDS + key_words + value_len.div_ceil(WORD) <= UNITS_MAX
}

/// The header word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(pub(crate) u64);

impl Header {
    /// The space is free: its contents mean nothing but its size.
    pub(crate) const DEAD: u64 = 1 << 4;
    /// The last word is an expiry.
    pub(crate) const EXPIRY: u64 = 1 << 5;
    /// The word before the expiry (or the last) is an entity tag.
    pub(crate) const ETAG: u64 = 1 << 6;
    /// The value is a heap handle.
    pub(crate) const HEAP_VALUE: u64 = 1 << 7;
    /// The key is a heap handle.
    pub(crate) const HEAP_KEY: u64 = 1 << 8;
    /// The value was built or changed in part rather than set as a whole.
    pub(crate) const EDITED: u64 = 1 << 9;
    /// The record is a copy of one on the device, whose address is in a word of its own.
    pub(crate) const CACHED: u64 = 1 << 10;

    const FLAGS: u64 = Self::DEAD | Self::EXPIRY | Self::ETAG | Self::HEAP_VALUE | Self::HEAP_KEY | Self::EDITED | Self::CACHED;
    const IDENTITY: u64 = (0xFFFF << NAMESPACE_SHIFT) | (((1 << KEY_BITS) - 1) << KEY_SHIFT) | Self::DEAD | Self::HEAP_KEY;

    /// A header; lengths must be within their limits.
    pub(crate) fn new(namespace: u16, key_len: usize, value_len: usize, units: usize, flags: u64, kind: Kind) -> Self {
        debug_assert!(key_len <= INLINE_KEY_MAX && value_len < 1 << VALUE_BITS && (1..=UNITS_MAX).contains(&units));
        debug_assert_eq!(flags & !Self::FLAGS, 0, "flags stay in their bits");
        Self(
            (u64::from(namespace) << NAMESPACE_SHIFT)
                | ((key_len as u64) << KEY_SHIFT)
                | ((value_len as u64) << VALUE_SHIFT)
                | ((units as u64) << UNITS_SHIFT)
                | flags
                | kind as u64,
        )
    }

    /// The header of free space.
    pub(crate) fn dead(units: usize) -> Self {
        Self::new(0, 0, 0, units, Self::DEAD, Kind::String)
    }

    /// The bits that a live record of this inline key has under [`Header::matches`].
    pub(crate) fn identity(namespace: u16, key_len: usize) -> u64 {
        (u64::from(namespace) << NAMESPACE_SHIFT) | ((key_len as u64) << KEY_SHIFT)
    }

    pub(crate) fn matches(self, identity: u64) -> bool {
        self.0 & Self::IDENTITY == identity
    }

    pub(crate) fn namespace(self) -> u16 {
        (self.0 >> NAMESPACE_SHIFT) as u16
    }

    pub(crate) fn key_len(self) -> usize {
        (self.0 >> KEY_SHIFT) as usize & INLINE_KEY_MAX
    }

    pub(crate) fn value_len(self) -> usize {
        (self.0 >> VALUE_SHIFT) as usize & ((1 << VALUE_BITS) - 1)
    }

    pub(crate) fn units(self) -> usize {
        (self.0 >> UNITS_SHIFT) as usize & UNITS_MAX
    }

    pub(crate) fn kind(self) -> Kind {
        Kind::of((self.0 & 0xF) as u8)
    }

    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    /// Words from the record's start to its value.
    pub(crate) fn value_word(self) -> usize {
        1 + self.key_len().div_ceil(WORD)
    }

    /// Words at the end for expiry and entity tag.
    pub(crate) fn optional_words(self) -> usize {
        usize::from(self.has(Self::EXPIRY)) + usize::from(self.has(Self::ETAG)) + usize::from(self.has(Self::CACHED))
    }

    /// Bytes that the value may take without a move.
    pub(crate) fn value_capacity(self) -> usize {
        debug_assert!(self.value_word() + self.optional_words() <= self.units(), "INV-LOG-2: a record's parts lie within it");
        (self.units() - self.value_word() - self.optional_words()) * WORD
    }

    pub(crate) fn with_value_len(self, len: usize) -> Self {
        debug_assert!(len < 1 << VALUE_BITS, "a longer value is on the heap");
        Self(self.0 & !(((1u64 << VALUE_BITS) - 1) << VALUE_SHIFT) | ((len as u64) << VALUE_SHIFT))
    }

    fn with_units(self, units: usize) -> Self {
        debug_assert!((1..=UNITS_MAX).contains(&units), "INV-LOG-2: a record leads to the next one");
        Self(self.0 & !((UNITS_MAX as u64) << UNITS_SHIFT) | ((units as u64) << UNITS_SHIFT))
    }

    pub(crate) fn with_flags(self, flags: u64, on: bool) -> Self {
        debug_assert_eq!(flags & !Self::FLAGS, 0, "flags stay in their bits");
        Self(if on { self.0 | flags } else { self.0 & !flags })
    }
}

/// What a new record is made of.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) namespace: u16,
    /// Bytes of the key field: the key's length, or a word for a heap handle.
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
    pub(crate) flags: u64,
    pub(crate) kind: Kind,
}

impl Shape {
    /// Words that a record of this shape takes.
    pub(crate) fn units(&self) -> usize {
        debug_assert!(self.key_len <= INLINE_KEY_MAX, "a longer key is on the heap");
        let optional = (self.flags & (Header::EXPIRY | Header::ETAG | Header::CACHED)).count_ones() as usize;
        (1 + self.key_len.div_ceil(WORD) + self.value_len.div_ceil(WORD) + optional).max(UNITS_MIN)
    }

    pub(crate) fn header(&self, units: usize) -> Header {
        debug_assert!(units >= self.units(), "INV-LOG-2: the space holds the record");
        Header::new(self.namespace, self.key_len, self.value_len, units, self.flags, self.kind)
    }
}

/// A record in the log. Holding one promises that the epoch is held, so that the memory stays what it is.
#[derive(Clone, Copy)]
pub(crate) struct Record(*const AtomicU64);

impl Record {
    /// # Safety
    /// `pointer` is the header word of allocated log space that stays mapped and is not reused while this value is used.
    pub(crate) unsafe fn new(pointer: *const AtomicU64) -> Self {
        debug_assert!(!pointer.is_null() && pointer.is_aligned(), "INV-LOG-2: records begin at words");
        Self(pointer)
    }

    /// Appends its first `units` words to `words`.
    pub(crate) fn append_words(self, units: usize, words: &mut Vec<u64>) {
        words.extend((0..units).map(|index| self.word(index).load(Ordering::Relaxed)));
    }

    fn word(self, index: usize) -> &'static AtomicU64 {
        debug_assert!(index <= UNITS_MAX, "INV-READ-1: even a torn look stays near its record");
        // SAFETY: callers stay below `units` of a header that was valid for this record; the constructor's promise covers
        // the memory. The lifetime is shortened by every use inside this module.
        unsafe { &*self.0.add(index) }
    }

    pub(crate) fn header(self) -> Header {
        Header(self.word(0).load(Ordering::Acquire))
    }

    pub(crate) fn set_header(self, header: Header) {
        debug_assert_ne!(header.units(), 0, "INV-LOG-2: a record leads to the next one");
        self.word(0).store(header.0, Ordering::Release);
    }

    /// The key field. Immutable while the record is reachable.
    pub(crate) fn key_field<'r>(self, header: Header) -> &'r [u8] {
        // SAFETY: key bytes follow the header, are inside the allocation and do not change until reclamation, which the
        // epoch delays beyond this borrow.
        unsafe { std::slice::from_raw_parts(self.0.add(1).cast::<u8>(), header.key_len()) }
    }

    /// The word that holds a heap key's handle.
    pub(crate) fn key_handle(self) -> u64 {
        self.word(1).load(Ordering::Relaxed)
    }

    pub(crate) fn set_key_handle(self, handle: u64) {
        debug_assert!(self.header().has(Header::HEAP_KEY), "only a long key has a handle");
        self.word(1).store(handle, Ordering::Relaxed);
    }

    /// Whether the inline key equals `key`, whose length already matched by [`Header::matches`].
    #[inline]
    pub(crate) fn key_equals(self, key: &[u8]) -> bool {
        let words = self.0.wrapping_add(1).cast::<u8>();
        let mut at = 0;
        while at + WORD <= key.len() {
            // SAFETY: `at + 8 <= key.len() ==` the record's key length, so both reads are inside their objects.
            let (ours, theirs) =
                unsafe { (words.add(at).cast::<u64>().read(), key.as_ptr().add(at).cast::<u64>().read_unaligned()) };
            if ours != theirs {
                return false;
            }
            at += WORD;
        }
        // SAFETY: the rest of the key, shorter than a word, inside both objects.
        at == key.len() || unsafe { std::slice::from_raw_parts(words.add(at), key.len() - at) } == &key[at..]
    }

    /// The inline value as plain memory.
    ///
    /// # Safety
    /// The caller holds the bucket latch (shared or exclusive) and makes no change while the slice lives.
    pub(crate) unsafe fn value<'r>(self, header: Header) -> &'r [u8] {
        // SAFETY: inside the allocation; no thread writes while the latch is held.
        unsafe { std::slice::from_raw_parts(self.0.add(header.value_word()).cast::<u8>(), header.value_len()) }
    }

    /// The heap handle in the value field.
    pub(crate) fn value_handle(self, header: Header) -> u64 {
        debug_assert!(header.has(Header::HEAP_VALUE), "only a large value has a handle");
        self.word(header.value_word()).load(Ordering::Relaxed)
    }

    pub(crate) fn set_value_handle(self, header: Header, handle: u64) {
        debug_assert!(header.has(Header::HEAP_VALUE), "only a large value has a handle");
        self.word(header.value_word()).store(handle, Ordering::Relaxed);
    }

    /// Copies the inline value to `target` (room for the length rounded up to a word). Sound against concurrent writers; the
    /// bytes are only meaningful once the bucket's version was validated.
    ///
    /// # Safety
    /// `target` has room for `header.value_len()` rounded up to 8 bytes.
    #[inline]
    pub(crate) unsafe fn copy_value(self, header: Header, target: *mut u8) {
        let first = header.value_word();
        let words = header.value_len().div_ceil(WORD).min(header.units() - first);
        for index in 0..words {
            let word = self.word(first + index).load(Ordering::Relaxed);
            // SAFETY: inside the room that the caller promised.
            unsafe { target.cast::<u64>().add(index).write_unaligned(word) };
        }
    }

    /// Overwrites part of the value field in place. Under the exclusive latch; `offset + bytes.len()` is within capacity.
    #[inline]
    pub(crate) fn write_value(self, header: Header, offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= header.value_capacity());
        let (at, skip) = (header.value_word() + offset / WORD, offset % WORD);
        let (first, bytes) = bytes.split_at(if skip == 0 { 0 } else { bytes.len().min(WORD - skip) });
        self.write_part(at, skip, first);
        let (at, (whole, rest)) = (at + usize::from(skip != 0), bytes.as_chunks());
        self.write_words(at, whole);
        self.write_part(at + whole.len(), 0, rest);
    }

    #[inline(always)]
    fn write_words(self, at: usize, words: &[[u8; WORD]]) {
        words.iter().zip(at..).for_each(|(&bytes, at)| self.word(at).store(u64::from_ne_bytes(bytes), Ordering::Relaxed));
    }

    /// Overwrites a part of a word from a byte of it on.
    #[inline(always)]
    fn write_part(self, at: usize, skip: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            let mut whole = self.word(at).load(Ordering::Relaxed).to_ne_bytes();
            whole[skip..skip + bytes.len()].copy_from_slice(bytes);
            self.word(at).store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
    }

    /// Fills part of the value field with zeroes, as [`Record::write_value`] does with bytes.
    pub(crate) fn zero_value(self, header: Header, offset: usize, len: usize) {
        const ZEROES: [u8; 64] = [0; 64];
        debug_assert!(offset + len <= header.value_capacity(), "INV-LOG-2: a value stays within its record");
        let mut done = 0;
        while done < len {
            let take = (len - done).min(ZEROES.len());
            self.write_value(header, offset + done, &ZEROES[..take]);
            done += take;
        }
    }

    pub(crate) fn set_value_len(self, header: Header, len: usize) -> Header {
        let header = header.with_value_len(len);
        self.set_header(header);
        header
    }

    /// Writes the optional words where they belong in an allocation cut to `units`, and returns the header for it.
    pub(crate) fn shrink_optional(self, header: Header, units: usize, expiry: Option<i64>, etag: Option<u64>) -> Header {
        debug_assert!((UNITS_MIN..=header.units()).contains(&units), "INV-LOG-2: a record shrinks within its space");
        let smaller = header.with_units(units);
        self.write_optional(smaller, expiry, etag);
        smaller
    }

    /// Copies a record into unpublished space of `units` words, which may be a little more than it had. Under the exclusive
    /// latch of the record's bucket.
    pub(crate) fn copy_whole(self, header: Header, target: Self, units: usize) {
        debug_assert!(!header.has(Header::CACHED), "a cached record is dropped, not moved");
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: what is moved is alive");
        debug_assert!(Self::packed_units(header, false) <= units, "INV-LOG-2: the space holds the record");
        for index in 1..header.units().min(units) - header.optional_words() {
            target.word(index).store(self.word(index).load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let copied = header.with_units(units);
        target.write_optional(copied, self.expiry(header), self.etag(header));
        target.set_header(copied);
    }

    /// Milliseconds since the epoch at which the record expires.
    #[inline]
    pub(crate) fn expiry(self, header: Header) -> Option<i64> {
        header.has(Header::EXPIRY).then(|| self.word(header.units() - 1).load(Ordering::Relaxed) as i64)
    }

    #[inline]
    pub(crate) fn is_expired(self, header: Header, now_ms: i64) -> bool {
        self.expiry(header).is_some_and(|at| at <= now_ms)
    }

    pub(crate) fn etag(self, header: Header) -> Option<u64> {
        header
            .has(Header::ETAG)
            .then(|| self.word(header.units() - 1 - usize::from(header.has(Header::EXPIRY))).load(Ordering::Relaxed))
    }

    /// The address of the original that a cached record is a copy of.
    pub(crate) fn original(self, header: Header) -> u64 {
        debug_assert!(header.has(Header::CACHED));
        self.word(header.units() - header.optional_words()).load(Ordering::Relaxed)
    }

    /// Says what this cached record is a copy of.
    pub(crate) fn set_original(self, header: Header, address: u64) {
        debug_assert!(header.has(Header::CACHED) && address != 0, "INV-TIER-2: a copy stands for its original");
        self.word(header.units() - header.optional_words()).store(address, Ordering::Relaxed);
    }

    /// Writes a copy of this record, marked as cached, into unpublished space of `units` words: one more than it needs itself,
    /// unless it is a cached copy already.
    pub(crate) fn copy_as_cached(self, header: Header, target: Self, units: usize, original: u64) {
        debug_assert!(!header.has(Header::DEAD) && original != 0, "INV-TIER-2: a copy stands for a live original");
        let words = if header.has(Header::HEAP_VALUE) { 1 } else { header.value_len().div_ceil(WORD) };
        for index in 1..header.value_word() + words {
            target.word(index).store(self.word(index).load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let copied = header.with_flags(Header::CACHED, true).with_units(units);
        debug_assert!(copied.value_word() + words + copied.optional_words() <= units);
        target.write_optional(copied, self.expiry(header), self.etag(header));
        target.set_original(copied, original);
        target.set_header(copied);
    }

    /// Writes a copy that is an original of its own into unpublished space of `units` words.
    pub(crate) fn copy_as_original(self, header: Header, target: Self, units: usize) {
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: what is copied is alive");
        let words = if header.has(Header::HEAP_VALUE) { 1 } else { header.value_len().div_ceil(WORD) };
        for index in 1..header.value_word() + words {
            target.word(index).store(self.word(index).load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let copied = header.with_flags(Header::CACHED, false).with_units(units);
        debug_assert!(copied.value_word() + words + copied.optional_words() <= units);
        target.write_optional(copied, self.expiry(header), self.etag(header));
        target.set_header(copied);
    }

    /// Words between the value of a record that is no copy and its optional words. They hold what an earlier record left there.
    pub(crate) fn slack(header: Header) -> std::ops::Range<usize> {
        debug_assert!(!header.has(Header::CACHED), "a copy has the address of its original there");
        let words = if header.has(Header::HEAP_VALUE) { 1 } else { header.value_len().div_ceil(WORD) };
        header.value_word() + words..header.units() - header.optional_words()
    }

    /// Words that a copy needs: the record without its slack, plus or minus the word for the original's address.
    pub(crate) fn packed_units(header: Header, cached: bool) -> usize {
        debug_assert_ne!(header.units(), 0, "INV-LOG-2: there is a record");
        let words = if header.has(Header::HEAP_VALUE) { 1 } else { header.value_len().div_ceil(WORD) };
        let copied = header.with_flags(Header::CACHED, cached);
        (copied.value_word() + words + copied.optional_words()).max(UNITS_MIN)
    }

    /// Writes the optional words for which `header` has flags.
    pub(crate) fn write_optional(self, header: Header, expiry: Option<i64>, etag: Option<u64>) {
        debug_assert_eq!(header.has(Header::EXPIRY), expiry.is_some(), "a header says whether there is an expiry");
        debug_assert_eq!(header.has(Header::ETAG), etag.is_some(), "a header says whether there is an ETag");
        let mut index = header.units();
        if header.has(Header::EXPIRY) {
            index -= 1;
            self.word(index).store(expiry.unwrap_or_default() as u64, Ordering::Relaxed);
        }
        if header.has(Header::ETAG) {
            index -= 1;
            self.word(index).store(etag.unwrap_or_default(), Ordering::Relaxed);
        }
    }

    /// Sets or removes the optional words in place if there is room; returns the new header.
    pub(crate) fn try_set_optional(self, header: Header, expiry: Option<i64>, etag: Option<u64>) -> Option<Header> {
        debug_assert!(!header.has(Header::CACHED) && !header.has(Header::DEAD), "only a live original changes in place");
        let changed = header.with_flags(Header::EXPIRY, expiry.is_some()).with_flags(Header::ETAG, etag.is_some());
        let value_words = if header.has(Header::HEAP_VALUE) { 1 } else { header.value_len().div_ceil(WORD) };
        if header.value_word() + value_words + changed.optional_words() > header.units() {
            return None;
        }
        self.write_optional(changed, expiry, etag);
        self.set_header(changed);
        Some(changed)
    }

    /// Writes a whole new record into unpublished space; the header last, so that a page walk never sees half of it.
    pub(crate) fn initialise(self, header: Header, key: &[u8], value: &[u8], expiry: Option<i64>, etag: Option<u64>) {
        debug_assert_eq!(key.len(), header.key_len());
        debug_assert_eq!(value.len(), header.value_len(), "a header says how long the value is");
        debug_assert!(
            Self::packed_units(header, header.has(Header::CACHED)) <= header.units(),
            "INV-LOG-2: the space holds the record"
        );
        let mut at = 1;
        for bytes in [key, value] {
            let (whole, rest) = bytes.as_chunks();
            self.write_words(at, whole);
            at += whole.len();
            if !rest.is_empty() {
                let mut padded = [0; WORD];
                padded[..rest.len()].copy_from_slice(rest);
                self.word(at).store(u64::from_ne_bytes(padded), Ordering::Relaxed);
                at += 1;
            }
        }
        self.write_optional(header, expiry, etag);
        self.set_header(header);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn space(units: usize) -> Vec<AtomicU64> {
        (0..units).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn header_bytes_are_pinned() {
        let header = Header::new(0x0102, 16, 8, 4, Header::EXPIRY, Kind::Hash);
        assert_eq!(header.0, 0x0102_0100_0200_2022);
        assert_eq!((header.namespace(), header.key_len(), header.value_len(), header.units()), (0x0102, 16, 8, 4));
        assert_eq!((header.kind(), header.has(Header::EXPIRY), header.has(Header::ETAG)), (Kind::Hash, true, false));
    }

    #[test]
    fn eight_byte_key_and_value_take_24_bytes() {
        let shape = Shape { namespace: 1, key_len: 8, value_len: 8, flags: 0, kind: Kind::String };
        assert_eq!(shape.units() * WORD, 24);
    }

    #[test]
    fn value_is_written_and_read_at_any_offset() {
        let words = space(16);
        let shape = Shape { namespace: 1, key_len: 5, value_len: 40, flags: Header::EXPIRY | Header::ETAG, kind: Kind::String };
        // SAFETY: `words` outlives the record and is long enough.
        let record = unsafe { Record::new(words.as_ptr()) };
        let header = shape.header(16);
        record.initialise(header, b"hello", &[b'.'; 40], Some(-5), Some(77));
        assert!(record.key_equals(b"hello") && !record.key_equals(b"hellp"));
        assert_eq!((record.expiry(header), record.etag(header)), (Some(-5), Some(77)));
        for offset in 0..20 {
            record.write_value(header, offset, b"0123456789abc");
            // SAFETY: single-threaded; no change while borrowed.
            let value = unsafe { record.value(header) };
            assert_eq!(&value[offset..offset + 13], b"0123456789abc");
        }
        let mut copy = [0u8; 40];
        // SAFETY: the target has 40 bytes.
        unsafe { record.copy_value(header, copy.as_mut_ptr()) };
        // SAFETY: as above.
        assert_eq!(&copy[..], unsafe { record.value(header) });
        let smaller = record.shrink_optional(header, 9, Some(-5), Some(77));
        record.set_header(smaller);
        assert_eq!((record.expiry(smaller), record.etag(smaller), smaller.units()), (Some(-5), Some(77), 9));
        assert!(record.try_set_optional(smaller, None, None).is_some());
    }
}
