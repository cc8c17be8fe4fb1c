//! One ring: the units of one thread on their way to the files, in words that may outlive the process.
//!
//! ```text
//! words  0 magic | 1 format | 2, 3 log | 4 run | 5, 6 boot | 7 ring | 8 words of the body      least significant first
//!       16 published      words that were ever written; stored by the thread behind each unit, with release
//!       24 released       words that are in the files; stored by the writer
//!       32 void from      the first commit epoch of which a unit lies elsewhere, in memory; 0: none
//!       40 released epoch  all units up to it are in the files; stored by the writer, before *released*
//!      512 body           units, each from a word on: the head's two words, then the entries, the last word filled with zeroes
//! ```
//!
//! A position counts words from the beginning of the ring's life; its place is the remainder by the words of the body, a power of
//! two. One thread writes, one reads: what lies between *released* and *published* is the reader's, the rest the writer's.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use almandine_base::step;
use almandine_io::mapping::{SharedMapping, WORD, prefetch_for_write};

use crate::entry::{LogEntry, PlainSet, Short, Sink};
use crate::unit::{HEAD_BYTES, UnitHead, epoch_of};

/// "ALMARING".
const MAGIC: u64 = u64::from_le_bytes(*b"ALMARING");
const FORMAT: u64 = 1;
const PUBLISHED: usize = 16;
const RELEASED: usize = 24;
const VOID_FROM: usize = 32;
const RELEASED_EPOCH: usize = 40;
const BODY: usize = 512;
const HEAD_WORDS: usize = HEAD_BYTES / WORD;
const _: () = assert!(cfg!(target_endian = "little"), "the bytes of words lie in the order of the format");
/// How far ahead the cache is asked for places, and the words of one of its lines.
const AHEAD_WORDS: usize = 64;
const LINE_WORDS: usize = 8;

/// What tells a ring from those of other logs, runs and boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingName {
    /// The log.
    pub log: u128,
    /// Which start of a server over it.
    pub run: u64,
    /// Which start of the machine.
    pub boot: u128,
    /// Its number in the run.
    pub ring: u16,
}

impl RingName {
    /// The name of its mapping.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{:032x}-{}-{}.ring", self.log, self.run, self.ring)
    }

    fn words(&self) -> [u64; 8] {
        let (log, boot) = ([self.log as u64, (self.log >> 64) as u64], [self.boot as u64, (self.boot >> 64) as u64]);
        [MAGIC, FORMAT, log[0], log[1], self.run, boot[0], boot[1], u64::from(self.ring)]
    }
}

/// Why a mapping is no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRing {
    /// Its process ended while it was made: it never had a unit.
    Unmade,
    /// It has not the beginning of one.
    Other,
    /// It is one of a later version.
    Format(u64),
    /// Its positions or its units are impossible.
    Damaged,
}

impl std::fmt::Display for NoRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unmade => formatter.write_str("it was never made whole"),
            Self::Other => formatter.write_str("it is no ring of an operation log"),
            Self::Format(format) => write!(formatter, "its format {format} is unknown"),
            Self::Damaged => formatter.write_str("its positions or units are damaged"),
        }
    }
}

impl std::error::Error for NoRing {}

/// The units of one thread.
pub struct Ring {
    mapping: SharedMapping,
    words: usize,
    /// Where what was not released began when [`Ring::fills`] was true last.
    told: AtomicU64,
}

impl Ring {
    /// An empty ring of at least this many bytes: a named one in a directory, or one that ends with the process.
    ///
    /// # Errors
    /// See [`SharedMapping::create`].
    pub fn create(directory: Option<&Path>, name: &RingName, bytes: usize) -> std::io::Result<Self> {
        let words = (bytes / WORD).next_power_of_two().max(BODY);
        let mapping = match directory {
            Some(directory) => SharedMapping::create(directory, &name.file(), BODY + words)?,
            None => SharedMapping::unnamed(BODY + words)?,
        };
        let header = mapping.words();
        // The magic last: what has it is whole.
        header[8].store(words as u64, Ordering::Relaxed);
        for (at, word) in name.words().into_iter().enumerate().rev() {
            header[at].store(word, Ordering::Release);
        }
        Ok(Self { mapping, words, told: AtomicU64::new(u64::MAX) })
    }

    /// The ring that an earlier process has left in a mapping.
    ///
    /// # Errors
    /// When it is none.
    pub fn left(mapping: SharedMapping) -> Result<(RingName, Self), NoRing> {
        let header = mapping.words();
        if header.len() <= BODY {
            return Err(NoRing::Other);
        }
        let word = |at: usize| header[at].load(Ordering::Acquire);
        let wide = |at: usize| u128::from(word(at)) | u128::from(word(at + 1)) << 64;
        if word(0) == 0 {
            return Err(NoRing::Unmade);
        }
        if word(0) != MAGIC {
            return Err(NoRing::Other);
        }
        if word(1) != FORMAT {
            return Err(NoRing::Format(word(1)));
        }
        let name =
            RingName { log: wide(2), run: word(4), boot: wide(5), ring: u16::try_from(word(7)).map_err(|_| NoRing::Damaged)? };
        let words = header.len() - BODY;
        let (published, released) = (word(PUBLISHED), word(RELEASED));
        if word(8) != words as u64 || !words.is_power_of_two() || released > published || published - released > words as u64 {
            return Err(NoRing::Damaged);
        }
        Ok((name, Self { mapping, words, told: AtomicU64::new(u64::MAX) }))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.mapping.words()[at]
    }

    /// Words that are published and not released.
    fn pending(&self) -> usize {
        // The released position is not behind what it is when the other one is loaded.
        let released = self.word(RELEASED).load(Ordering::Acquire);
        (self.word(PUBLISHED).load(Ordering::Acquire) - released) as usize
    }

    /// Bytes that are published and not released.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.pending() * WORD
    }

    /// Whether a unit of half the ring would find room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pending() <= self.words / 2
    }

    /// Whether a quarter of the ring is filled; once, until something is released. For the thread that writes.
    pub(crate) fn fills(&self) -> bool {
        let released = self.word(RELEASED).load(Ordering::Acquire);
        let fills = self.pending() >= self.words / 4 && self.told.load(Ordering::Relaxed) != released;
        if fills {
            self.told.store(released, Ordering::Relaxed);
        }
        fills
    }

    /// The first commit epoch of which units lie elsewhere; 0: none.
    #[must_use]
    pub fn void_from(&self) -> u64 {
        self.word(VOID_FROM).load(Ordering::Acquire)
    }

    pub(crate) fn set_void_from(&self, epoch: u64) {
        self.word(VOID_FROM).store(epoch, Ordering::Release);
    }

    /// Whether a unit with this many bytes of entries has room. For the thread that writes.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        let words = HEAD_WORDS + bytes.div_ceil(WORD);
        words <= self.words / 2 && self.pending() + words <= self.words
    }

    /// Publishes a unit, which [fits](Self::fits). For the thread that writes.
    pub(crate) fn publish(&self, head: UnitHead, entries: &[u8]) {
        debug_assert!(self.fits(entries.len()), "INV-ORDER-1: a unit overwrites none that is not released");
        debug_assert_eq!(head.bytes as usize, entries.len(), "INV-ORDER-1: a unit comes back with the length that it had");
        let all = self.mapping.words();
        let position = all[PUBLISHED].load(Ordering::Relaxed);
        let words = HEAD_WORDS + entries.len().div_ceil(WORD);
        let place = |position: u64| &all[BODY + (position as usize & (self.words - 1))];
        place(position).store(head.number, Ordering::Relaxed);
        place(position + 1).store(u64::from(head.bytes) | u64::from(head.entries) << 32, Ordering::Relaxed);
        let (behind, before) = self.places(all, position + HEAD_WORDS as u64, words - HEAD_WORDS);
        let (first, rest) = entries.split_at((behind.len() * WORD).min(entries.len()));
        put(behind, first);
        put(before, rest);
        all[PUBLISHED].store(position + words as u64, Ordering::Release);
        self.prefetch(all, position, position + words as u64);
    }

    /// Where the entries of the next unit go. For the thread that writes, as long as it publishes no other unit.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        let all = self.mapping.words();
        let position = all[PUBLISHED].load(Ordering::Relaxed);
        let pending = (position - all[RELEASED].load(Ordering::Acquire)) as usize;
        // As far as it lies in one piece.
        let place = position as usize & (self.words - 1);
        let room = (self.words - pending).min(self.words / 2).min(self.words - place);
        Place { position, len: 0, room: (room * WORD).saturating_sub(HEAD_BYTES + WORD) }
    }

    /// Where the entries of a unit lie.
    #[inline(always)]
    fn entries_at(&self, place: &Place) -> *mut u8 {
        let body = &self.mapping.words()[BODY..];
        let begin = (place.position as usize & (self.words - 1)) + HEAD_WORDS;
        body.as_ptr().wrapping_add(begin).cast_mut().cast()
    }

    /// Writes an entry to a place; false: there is too little room in one piece, and nothing is written. For the thread that
    /// writes.
    #[inline(always)]
    pub(crate) fn append(&self, place: &mut Place, entry: &LogEntry<'_>) -> bool {
        if entry.bytes_max() > place.room.saturating_sub(place.len) {
            return false;
        }
        let begin = self.entries_at(place);
        // Nothing that was written is read again: what was stored in pieces and is loaded in others waits for all stores before it.
        let mut out = Unpublished(begin.wrapping_add(place.len));
        entry.encode(&mut out);
        place.len = out.0 as usize - begin as usize;
        debug_assert!(place.len <= place.room, "INV-ORDER-1: an entry is no longer than it says");
        true
    }

    /// As [`Ring::append`]; false, and nothing is written, also where the entry is not so plain.
    #[inline(always)]
    pub(crate) fn append_plain(&self, place: &mut Place, set: PlainSet<'_>, contents: Short) -> bool {
        if set.bytes_max() > place.room.saturating_sub(place.len) {
            return false;
        }
        let begin = self.entries_at(place);
        let mut out = Unpublished(begin.wrapping_add(place.len));
        let is_plain = set.encode(contents, &mut out);
        place.len = out.0 as usize - begin as usize;
        debug_assert!(place.len <= place.room, "INV-ORDER-1: an entry is no longer than it says");
        is_plain
    }

    /// Appends to `out` what is written to a place.
    #[cold]
    pub(crate) fn take_out(&self, place: &Place, out: &mut Vec<u8>) {
        // SAFETY: these bytes lie in the body, in one piece, and are behind what is published: no other thread uses them.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(self.entries_at(place), place.len) });
    }

    /// Publishes the unit whose entries are written to a place, which is where the next one goes from then on. For the thread that
    /// writes.
    #[inline(always)]
    pub(crate) fn publish_at(&self, place: &mut Place, number: u64, entries: u32) {
        let all = self.mapping.words();
        let (position, begin) = (place.position as usize & (self.words - 1), self.entries_at(place));
        let words = HEAD_WORDS + place.len.div_ceil(WORD);
        debug_assert_eq!(place.position, all[PUBLISHED].load(Ordering::Relaxed), "INV-ORDER-1: a unit lies behind the last one");
        debug_assert!(self.pending() + words <= self.words, "INV-ORDER-1: a unit overwrites none that is not released");
        // What fills the last word.
        Unpublished(begin.wrapping_add(place.len)).few(0, 0);
        let head = &all[BODY + position..][..HEAD_WORDS];
        head[0].store(number, Ordering::Relaxed);
        head[1].store(place.len as u64 | u64::from(entries) << 32, Ordering::Relaxed);
        let end = place.position + words as u64;
        all[PUBLISHED].store(end, Ordering::Release);
        self.prefetch(all, place.position, end);
        *place = Place { position: end, len: 0, room: place.room.saturating_sub(words * WORD) };
    }

    /// Publishes a unit of one entry at a place, where it is written once, and says its number, which is taken when it is known to
    /// have room. None, and nothing is written and no number taken: it has none, or is not so plain. For the thread that writes.
    #[inline(always)]
    pub(crate) fn publish_plain(
        &self,
        place: &mut Place,
        set: &PlainSet<'_>,
        contents: Short,
        number: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let numbers = set.numbers(contents)?;
        let len = set.bytes(numbers);
        if len > place.room {
            return None;
        }
        let all = self.mapping.words();
        debug_assert_eq!(place.position, all[PUBLISHED].load(Ordering::Relaxed), "INV-ORDER-1: a unit lies behind the last one");
        let number = number();
        step!(DrainBeforeClose);
        let begin = all[BODY..].as_ptr().wrapping_add(place.position as usize & (self.words - 1));
        let mut out = Unpublished(begin.cast_mut().cast());
        out.few(number, WORD);
        out.few(len as u64 | 1 << 32, WORD);
        set.write(numbers, &mut out);
        debug_assert_eq!(out.0 as usize - begin as usize, HEAD_BYTES + len, "INV-ORDER-1: an entry is as long as its unit says");
        // What fills the last word.
        out.few(0, 0);
        let words = HEAD_WORDS + len.div_ceil(WORD);
        debug_assert!(self.pending() + words <= self.words, "INV-ORDER-1: a unit overwrites none that is not released");
        let end = place.position + words as u64;
        all[PUBLISHED].store(end, Ordering::Release);
        self.prefetch(all, place.position, end);
        *place = Place { position: end, len: 0, room: place.room.saturating_sub(words * WORD) };
        Some(number)
    }

    /// Asks the cache for places that units behind this one will have: what is written to a line that is not there holds up each
    /// latch that is taken meanwhile.
    #[inline]
    fn prefetch(&self, all: &[AtomicU64], position: u64, end: u64) {
        let body = &all[BODY..][..self.words];
        let ask = |position: usize| prefetch_for_write(&body[position & (body.len() - 1)]);
        let (first, end) = (position as usize + AHEAD_WORDS, end as usize + AHEAD_WORDS);
        // The last two lines, which are all of nearly all units.
        ask(end - 1);
        ask(end - 1 - LINE_WORDS);
        if end - first > 2 * LINE_WORDS {
            (first..end.min(first + AHEAD_WORDS)).step_by(LINE_WORDS).for_each(ask);
        }
    }

    /// The places of some words from a position on: those up to the end of the body, and those at its beginning.
    fn places<'w>(&self, all: &'w [AtomicU64], position: u64, words: usize) -> (&'w [AtomicU64], &'w [AtomicU64]) {
        let body = &all[BODY..BODY + self.words];
        let start = position as usize & (self.words - 1);
        let whole = words.min(self.words - start);
        (&body[start..start + whole], &body[..words - whole])
    }

    /// Appends the units up to and with a commit epoch to `out`, and says where they end. For the one that reads.
    ///
    /// # Errors
    /// When what is there are no units.
    pub fn units(&self, through: u64, out: &mut Filled) -> Result<u64, NoRing> {
        self.units_from(self.first(), through, usize::MAX, out)
    }

    /// Where the first unit begins that is not released. For the one that reads.
    pub(crate) fn first(&self) -> u64 {
        self.word(RELEASED).load(Ordering::Relaxed)
    }

    /// As [`Ring::units`], from a position on, until `out` has this many bytes.
    pub(crate) fn units_from(&self, mut position: u64, through: u64, bytes: usize, out: &mut Filled) -> Result<u64, NoRing> {
        let all = self.mapping.words();
        let published = all[PUBLISHED].load(Ordering::Acquire);
        while out.len() < bytes
            && let Some((head, end)) = self.unit_at(all, position, published, through)?
        {
            self.copy(all, position, out.room((end - position) as usize * WORD));
            out.fill(HEAD_BYTES + head.bytes as usize);
            position = end;
        }
        Ok(position)
    }

    /// Copies whole units from a position on to `room`, as far as they fit. Says where they end, their bytes, and how many they
    /// are.
    pub(crate) fn units_into(&self, mut position: u64, through: u64, room: &mut [u8]) -> Result<(u64, usize, u32), NoRing> {
        let all = self.mapping.words();
        let published = all[PUBLISHED].load(Ordering::Acquire);
        let (mut bytes, mut count) = (0, 0);
        while let Some((head, end)) = self.unit_at(all, position, published, through)?
            && let Some(room) = room.get_mut(bytes..bytes + (end - position) as usize * WORD)
        {
            self.copy(all, position, room);
            bytes += HEAD_BYTES + head.bytes as usize;
            count += 1;
            position = end;
        }
        Ok((position, bytes, count))
    }

    /// The head of the unit at a position, and where it ends; none where no unit up to an epoch begins.
    #[inline(always)]
    fn unit_at(&self, all: &[AtomicU64], position: u64, published: u64, through: u64) -> Result<Option<(UnitHead, u64)>, NoRing> {
        if position >= published {
            return Ok(None);
        }
        let body = &all[BODY..][..self.words];
        let word = |position: u64| body[position as usize & (body.len() - 1)].load(Ordering::Relaxed);
        let (number, lengths) = (word(position), word(position + 1));
        if epoch_of(number) > through {
            return Ok(None);
        }
        let head = UnitHead { number, bytes: lengths as u32, entries: (lengths >> 32) as u32 };
        let end = position + (HEAD_WORDS + (head.bytes as usize).div_ceil(WORD)) as u64;
        if end > published { Err(NoRing::Damaged) } else { Ok(Some((head, end))) }
    }

    /// Copies a unit, with what fills its last word: the next one is put over that. The head in a file is as it is here.
    #[inline(always)]
    fn copy(&self, all: &[AtomicU64], position: u64, out: &mut [u8]) {
        let (body, words) = (&all[BODY..][..self.words], out.len() / WORD);
        let start = position as usize & (body.len() - 1);
        if let Some(words) = body.get(start..start + words) {
            return copy_out(words, out);
        }
        // Around the end.
        let (behind, before) = self.places(all, position, words);
        let (first, rest) = out.split_at_mut(size_of_val(behind));
        copy_out(behind, first);
        copy_out(before, rest);
    }

    /// All units up to this commit epoch are in the files.
    pub(crate) fn released_epoch(&self) -> u64 {
        self.word(RELEASED_EPOCH).load(Ordering::Acquire)
    }

    /// Gives the room up to a position back, which has all units up to a commit epoch. For the one that reads.
    pub(crate) fn release(&self, position: u64, through: u64) {
        // Without units, no group says that the log has this epoch.
        if position != self.word(RELEASED).load(Ordering::Relaxed) {
            self.word(RELEASED_EPOCH).store(through, Ordering::Release);
        }
        debug_assert!(position <= self.word(PUBLISHED).load(Ordering::Relaxed), "INV-ORDER-1: what is released was published");
        self.word(RELEASED).store(position, Ordering::Release);
    }
}

/// Where the entries of a unit go that is not published.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The position of its head.
    position: u64,
    /// Bytes of entries that are written there, and that may be.
    len: usize,
    room: usize,
}

impl Place {
    /// Nothing is written there.
    #[inline(always)]
    pub(crate) fn restart(&mut self) {
        self.len = 0;
    }
}

/// Bytes of a ring behind what is published, from an address on. There is room for what is put there, and for a word more.
struct Unpublished(*mut u8);

impl Sink for Unpublished {
    #[inline(always)]
    fn few(&mut self, bytes: u64, count: usize) {
        // SAFETY: there is room for a word ([`Place::room`] leaves one), and no other thread uses it before it is published.
        unsafe { self.0.cast::<u64>().write_unaligned(bytes.to_le()) };
        self.0 = self.0.wrapping_add(count);
    }

    #[inline(always)]
    fn many(&mut self, bytes: &[u8]) {
        // SAFETY: as above; what is copied lies elsewhere, for the ring's own bytes are lent to none.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len()) };
        self.0 = self.0.wrapping_add(bytes.len());
    }
}

/// Bytes that are filled from the front. Emptied, they keep their memory and what it holds, so that no byte is set twice.
#[derive(Debug, Default)]
pub struct Filled {
    bytes: Vec<u8>,
    len: usize,
}

impl Filled {
    /// The bytes that follow.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.len + bytes;
        if self.bytes.len() < end {
            self.bytes.resize(end.next_power_of_two(), 0);
        }
        &mut self.bytes[self.len..end]
    }

    /// This many of them were filled.
    fn fill(&mut self, bytes: usize) {
        debug_assert!(self.len + bytes <= self.bytes.len(), "only what there was room for is filled");
        self.len += bytes;
    }

    /// Empties them.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl std::ops::Deref for Filled {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Copies words that are published and not released.
#[inline(always)]
fn copy_out(words: &[AtomicU64], out: &mut [u8]) {
    assert_eq!(out.len(), size_of_val(words), "INV-ORDER-1: a unit is whole words");
    // SAFETY: both have this many bytes, and no thread writes these words.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast(), out.as_mut_ptr(), out.len()) };
}

/// Stores bytes as words, the last one filled with zeroes.
#[inline]
fn put(places: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    debug_assert_eq!(places.len(), bytes.len().div_ceil(WORD), "INV-ORDER-1: a unit fills its places");
    for (place, bytes) in places.iter().zip(whole) {
        place.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if let Some(place) = places.get(whole.len()) {
        place.store(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::unit::EPOCH_SHIFT;

    const NAME: RingName = RingName { log: 7 << 64 | 5, run: 3, boot: 1 << 100, ring: 2 };

    fn unit(epoch: u64, count: u64, entries: &[u8]) -> UnitHead {
        UnitHead { number: (epoch << EPOCH_SHIFT) + count, bytes: entries.len() as u32, entries: 1 }
    }

    /// All units that `bytes` has.
    fn split(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut units = Vec::new();
        while let Some((head, entries, rest)) = UnitHead::split(bytes) {
            units.push((head.number, entries.to_vec()));
            bytes = rest;
        }
        assert!(bytes.is_empty());
        units
    }

    #[test]
    fn units_come_in_order_around_the_end_and_room_comes_back() {
        let ring = Ring::create(None, &NAME, 4096).unwrap();
        let (mut last, mut expected) = (0, Vec::new());
        for epoch in 1..500u64 {
            for count in 1..=epoch % 7 {
                let entries: Vec<u8> = (0..epoch * 31 % 150).map(|at| (at * 7 + epoch + count) as u8).collect();
                assert!(ring.fits(entries.len()));
                let head = unit(epoch, count, &entries);
                ring.publish(head, &entries);
                expected.push((head.number, entries));
            }
            let mut out = Filled::default();
            let position = ring.units(epoch - 1, &mut out).unwrap();
            let found = split(&out);
            assert_eq!(found[..], expected[..found.len()]);
            assert!(expected[found.len()..].iter().all(|(number, _)| epoch_of(*number) == epoch));
            expected.drain(..found.len());
            ring.release(position, 1);
            assert!(position >= last && ring.has_room());
            last = position;
        }
        assert!(last > 4 * 4096 / WORD as u64);
    }

    #[test]
    fn a_ring_refuses_what_has_no_room() {
        let ring = Ring::create(None, &NAME, 4096).unwrap();
        assert!(ring.fits(2048 - HEAD_BYTES) && !ring.fits(2048 - HEAD_BYTES + 1), "half of it at most");
        let entries = [1; 1000];
        for count in 1..=4 {
            assert_eq!(ring.has_room(), count <= 3, "{count}");
            assert!(ring.fits(1000), "{count}");
            ring.publish(unit(1, count, &entries), &entries);
        }
        assert!(!ring.fits(1000) && ring.fits(4096 - 4 * 1016 - 16));
        let mut out = Filled::default();
        ring.release(ring.units(1, &mut out).unwrap(), 1);
        assert_eq!((ring.pending_bytes(), split(&out).len()), (0, 4));
    }

    #[test]
    fn a_ring_outlives_its_process_and_what_is_none_is_refused() {
        let directory = std::env::temp_dir().join(format!("almandine-ring-{}", std::process::id()));
        almandine_io::mapping::prepare_directory(&directory).unwrap();
        let ring = Ring::create(Some(&directory), &NAME, 4096).unwrap();
        ring.publish(unit(5, 1, b"entries"), b"entries");
        ring.publish(unit(6, 1, b"later"), b"later");
        ring.set_void_from(6);
        drop(ring);
        let open = || SharedMapping::open(&directory, &NAME.file()).unwrap();
        let (name, left) = Ring::left(open()).unwrap();
        let mut out = Filled::default();
        assert!(left.units(u64::MAX, &mut out).is_ok());
        assert_eq!((name, left.void_from(), split(&out).len()), (NAME, 6, 2));
        let spoilt = |at: usize, word: u64| {
            let mapping = open();
            let before = mapping.words()[at].swap(word, Ordering::Relaxed);
            let left = Ring::left(open()).map(|(_, ring)| ring.units(u64::MAX, &mut Filled::default()));
            mapping.words()[at].store(before, Ordering::Relaxed);
            left
        };
        assert_eq!(spoilt(0, 1).err(), Some(NoRing::Other));
        assert_eq!(spoilt(1, 2).err(), Some(NoRing::Format(2)));
        for (at, word) in [(8, 1), (PUBLISHED, 1 << 40), (RELEASED, 7), (7, 1 << 20)] {
            assert_eq!(spoilt(at, word).err(), Some(NoRing::Damaged), "word {at}");
        }
        assert_eq!(spoilt(BODY + 1, u64::from(u32::MAX)).unwrap(), Err(NoRing::Damaged));
        almandine_io::mapping::remove(&directory, &NAME.file()).unwrap();
        std::fs::remove_dir(&directory).unwrap();
    }
}
