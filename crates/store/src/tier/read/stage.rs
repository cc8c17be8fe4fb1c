//! Staging: records of cold keys, read from the device into buffers of their own, for one batch of one connection.
//!
//! The session asks which records its batch needs ([`crate::Cold::probe`]), plans their reads ([`crate::Cold::plan`]),
//! has them read by a worker's ring or a thread of the pool, hands the buffers over ([`crate::Session::accept`]), and runs the
//! batch with the stage attached. A record on the device never changes, so a staged one is exact for as long as the index
//! points to its address.

use crate::log::{Log, PAGE_BYTES, PAGE_WORDS};
use crate::record::heap::{HeapKey, SharedValue};
use crate::record::{Header, Kind, Record, WORD};
use crate::shared::garbage::Garbage;
use crate::tier::Tier;
use crate::tier::extent::Extent;
use crate::tier::read::arriving::{Arriving, Landed};
use crate::tier::read::blocks::Blocks;
use crate::tier::read::room::Room;
use crate::tier::statistics::bump;
use almandine_base::sometimes;
use almandine_io::storage::{BLOCK_BYTES, BatchRead, BatchReader, Buffer, BufferPool, Source};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Most bytes that one read of several records may span.
const MERGED_BYTES_MAX: usize = 128 * 1024;

/// Words of a piece of memory that condensed records are copied to.
const CONDENSED_WORDS: usize = 32 * 1024;

/// Reads that a blocking thread has in flight together.
const FETCHES_TOGETHER: usize = 64;

/// Addresses are spread well enough by one multiplication.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// Whether a read may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At once.
    Now,
    /// When there is room for the value that it is the beginning of.
    Later,
    /// Not while the batch has what it has: the record was left out.
    Never,
}

/// A read that a batch needs. `what` it means is the store's; the asker reads `bytes` from `source`.
pub struct Fetch {
    what: What,
    why: Why,
    /// Bytes of memory that the value takes whose first piece this is, if it is large.
    needs: u64,
    room: Option<Room>,
    /// Where to read.
    pub source: Source,
    /// How much, a multiple of the block size.
    pub bytes: usize,
}

impl Fetch {
    /// Whether it reads a piece of a field, which takes some work when it has come.
    #[must_use]
    pub fn is_piece(&self) -> bool {
        matches!(self.what, What::Piece { .. })
    }

    /// Bytes of memory that must be admitted before it may begin; 0: none.
    #[must_use]
    pub fn needs(&self) -> u64 {
        if self.room.is_some() { 0 } else { self.needs }
    }

    /// It was admitted.
    pub(crate) fn take_room(&mut self, room: Room) {
        debug_assert!(self.room.is_none() && self.needs != 0, "a value is admitted once, if it is large");
        self.room = Some(room);
    }

    /// The record that it is for.
    pub(crate) fn address(&self) -> u64 {
        match self.what {
            What::Records { address, .. } | What::Piece { address, .. } => address,
        }
    }
}

enum What {
    Records { page: u64, start: usize, address: u64, others: Vec<u64> },
    Piece { address: u64, field: Field, number: usize },
}

/// Why something is read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Why {
    /// For the store itself, not for a client.
    pub(crate) background: bool,
    /// Because the first read did not have the checksum: a second one tells a passing fault from damage.
    again: bool,
}

impl Why {
    /// For the store itself.
    pub(crate) const BACKGROUND: Self = Self { background: true, again: false };
    /// For a client.
    pub(crate) const CLIENT: Self = Self { background: false, again: false };
}

/// Bytes of a page, from `start` to `end`, that are read for the records at `address` and at `others`.
struct Span {
    page: u64,
    start: usize,
    end: usize,
    address: u64,
    others: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Key = 0,
    Value = 1,
}

/// A value of a staged record. A large one is freed in the background.
struct Owned {
    /// None: it is being let go.
    value: Option<SharedValue>,
    garbage: Arc<Garbage>,
    /// Given back after the value.
    room: Option<Room>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.garbage.discard(value);
        }
    }
}

/// A record in a buffer.
struct Staged {
    record: Record,
    header: Header,
    /// Fields on the value device that have not arrived: key and value.
    arriving: [Option<Box<Arriving>>; 2],
    key_handle: u64,
    value: Option<Owned>,
}

impl Staged {
    fn is_whole(&self) -> bool {
        self.arriving.iter().all(Option::is_none)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.key_handle != 0 {
            // SAFETY: boxed by this module for this staged record alone; views of it end with the batch.
            unsafe { HeapKey::free(self.key_handle) };
        }
    }
}

/// What a stage has at an address.
pub(crate) enum Lookup {
    Ready(Record, Header),
    /// The device could not give it; another time it may.
    Failed,
    /// The device gave, twice, what does not have its checksum: the record is lost.
    Damaged,
    Absent,
}

/// Records read from the device for one batch.
#[derive(Default)]
pub struct Stage {
    records: HashMap<u64, Staged, BuildHasherDefault<AddressHasher>>,
    buffers: Vec<Buffer>,
    /// Addresses of records that cannot be read, and whether they are damaged.
    unreadable: HashMap<u64, bool, BuildHasherDefault<AddressHasher>>,
    bytes: usize,
    /// A record was left out, because there is no room for it: beside the others, or at all.
    refused: Option<bool>,
    /// A record was given up, because there is no room for it at all.
    lacks_room: bool,
    /// Records are copied out of the buffers that they were read into.
    condenses: bool,
    /// Where they are copied to. None of these grows, so records stay where they are.
    condensed: Vec<Vec<u64>>,
    /// Buffers that are not needed any more.
    spare: Vec<Buffer>,
}

// SAFETY: the raw pointers of the staged records point into the stage's own buffers and boxes, which move with it.
unsafe impl Send for Stage {}

impl Stage {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.unreadable.is_empty()
    }

    /// Bytes of its buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Empties it, giving the buffers to a pool.
    pub fn clear(&mut self, pool: &mut BufferPool) {
        self.records.clear();
        self.unreadable.clear();
        self.buffers.drain(..).chain(self.spare.drain(..)).for_each(|buffer| pool.give(buffer));
        self.condensed = Vec::new();
        (self.bytes, self.condenses, self.refused, self.lacks_room) = (0, false, None, false);
    }

    /// Keeps records instead of the blocks that they were read with from now on, for commands that need very many.
    pub fn condense(&mut self) {
        self.condenses = true;
    }

    /// Gives the buffers that are not needed any more to a pool.
    pub fn give_spare(&mut self, pool: &mut BufferPool) {
        self.spare.drain(..).for_each(|buffer| pool.give(buffer));
    }

    /// Copies a record out of its buffer.
    fn copy_out(&mut self, address: u64) {
        let Some(staged) = self.records.get_mut(&address) else { return };
        let units = staged.header.units();
        debug_assert!(units != 0 && units <= CONDENSED_WORDS, "INV-TIER-3: what is staged is a record");
        if self.condensed.last().is_none_or(|words| words.capacity() - words.len() < units) {
            self.condensed.push(Vec::with_capacity(CONDENSED_WORDS));
            self.bytes += CONDENSED_WORDS * WORD;
        }
        let Some(words) = self.condensed.last_mut() else { return };
        let start = words.len();
        debug_assert!(words.capacity() - start >= units, "INV-TIER-3: records stay where they are");
        staged.record.append_words(units, words);
        // SAFETY: inside what was just written; the vector does not grow beyond its capacity, so it stays there while the stage
        // lives.
        staged.record = unsafe { Record::new(words.as_mut_ptr().add(start).cast::<AtomicU64>()) };
    }

    #[inline]
    pub(crate) fn get(&self, address: u64) -> Lookup {
        match self.records.get(&address) {
            Some(staged) if staged.is_whole() => Lookup::Ready(staged.record, staged.header),
            Some(_) => Lookup::Absent,
            None => match self.unreadable.get(&address) {
                Some(true) => Lookup::Damaged,
                Some(false) => Lookup::Failed,
                None => Lookup::Absent,
            },
        }
    }

    /// Addresses of all records that are ready.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.records.iter().filter(|(_, staged)| staged.is_whole()).map(|(&address, _)| address)
    }

    /// Notes that the device could not give a record.
    pub(crate) fn fail(&mut self, address: u64) {
        sometimes!("the device does not give a record");
        self.set_unreadable(address, false);
    }

    /// Puts a field in its place of which all pieces have come.
    fn fill(&mut self, address: u64, field: Field, garbage: &Arc<Garbage>) {
        let Some(staged) = self.records.get_mut(&address) else { return };
        let Some(arrived) = staged.arriving[field as usize].take() else { return };
        match field {
            Field::Key => {
                debug_assert_eq!(staged.key_handle, 0, "a staged record frees one key");
                let bytes = arrived.take_bytes();
                staged.key_handle = HeapKey::into_handle(&bytes);
                staged.record.set_key_handle(staged.key_handle);
                self.bytes += bytes.len();
            }
            Field::Value => {
                let Some((value, mut room)) = arrived.take_value() else { return };
                match &mut room {
                    None => self.bytes += value.memory_bytes(),
                    Some(room) => {
                        value.count_until_held(garbage.outliving());
                        room.settle();
                    }
                }
                staged.record.set_value_handle(staged.header, Arc::as_ptr(&value) as usize as u64);
                debug_assert!(staged.value.is_none(), "a staged record has one value");
                staged.value = Some(Owned { value: Some(value), garbage: Arc::clone(garbage), room });
            }
        }
    }

    /// Gives a field the room that it was admitted with.
    fn give_room(&mut self, address: u64, field: Field, room: Option<Room>) {
        let arriving = self.records.get_mut(&address).and_then(|staged| staged.arriving[field as usize].as_mut());
        if let (Some(arriving), Some(room)) = (arriving, room) {
            arriving.room = Some(room);
        }
    }

    /// Forgets a record whose large value has no room beside what is staged.
    pub(crate) fn refuse(&mut self, address: u64, alone: bool) {
        debug_assert_ne!(address, 0, "INV-LOG-1: no record is at address 0");
        self.records.remove(&address);
        self.refused = Some(alone || self.refused == Some(true));
    }

    /// Forgets a record that no look-up will need any more: no entry leads to it.
    pub(crate) fn forget(&mut self, address: u64) {
        debug_assert!(self.records.get(&address).is_some_and(Staged::is_whole), "INV-TIER-3: what is used is there");
        self.records.remove(&address);
    }

    /// Forgets the records with large values of which `is_stale` says that no look-up will need them any more.
    pub(crate) fn forget_large(&mut self, is_stale: impl Fn(u64, Record, Header) -> bool) {
        let is_large = |staged: &Staged| staged.value.as_ref().is_some_and(|value| value.room.is_some()) && staged.is_whole();
        self.records.retain(|&address, staged| !is_large(staged) || !is_stale(address, staged.record, staged.header));
    }

    /// Bytes that the large values in it were admitted with.
    #[must_use]
    pub fn admitted_bytes(&self) -> u64 {
        let here = |staged: &Staged| staged.value.as_ref().and_then(|value| value.room.as_ref()).map_or(0, Room::asked);
        let coming = |staged: &Staged| {
            let arriving = staged.arriving.iter().flatten();
            arriving.filter_map(|arriving| arriving.room.as_ref()).map(Room::asked).sum::<u64>()
        };
        self.records.values().map(|staged| here(staged) + coming(staged)).sum()
    }

    /// Whether a record was left out since the last call, because there is no room for it beside the others; and if so, whether
    /// there would be none for it alone either.
    pub fn take_refused(&mut self) -> Option<bool> {
        std::mem::take(&mut self.refused)
    }

    /// Says that the records at these addresses cannot be had: a command that needs one gets an error.
    pub fn give_up(&mut self, wanted: &mut Vec<u64>) {
        debug_assert!(!wanted.contains(&0), "INV-LOG-1: no record is at address 0");
        wanted.drain(..).for_each(|address| self.fail(address));
    }

    /// Notes that records were given up because there is no room for them.
    pub fn note_lack_of_room(&mut self) {
        self.lacks_room = true;
    }

    /// Whether a record was given up because there is no room for it.
    pub(crate) fn lacks_room(&self) -> bool {
        self.lacks_room
    }

    fn set_unreadable(&mut self, address: u64, damaged: bool) {
        debug_assert!(address != 0, "an address of a record");
        self.records.remove(&address);
        self.unreadable.insert(address, damaged);
    }
}

/// Bytes that a value of this extent takes in memory, about: what lies dense there has some slack.
fn memory_for(extent: Extent) -> u64 {
    (extent.bytes() + extent.bytes() / 4) as u64
}

fn offset_in_page(address: u64) -> usize {
    debug_assert_ne!(address, 0, "INV-LOG-1: no record is at address 0");
    (address % PAGE_WORDS) as usize * WORD
}

impl Tier {
    /// Bytes of the records at these addresses, as their pages say.
    pub(crate) fn estimate(&self, addresses: &[u64]) -> u64 {
        let bytes = |address: &u64| self.pages.info(Log::page_of(*address)).map_or(0, |info| info.record_bytes() as u64);
        addresses.iter().map(bytes).sum()
    }

    /// Turns the addresses of cold records (which it sorts and takes) into reads, near ones together.
    pub(crate) fn plan(&self, addresses: &mut Vec<u64>, why: Why, stage: &mut Stage, fetches: &mut Vec<Fetch>) {
        addresses.sort_unstable();
        addresses.dedup();
        let mut open: Option<Span> = None;
        for address in addresses.drain(..) {
            let page = Log::page_of(address);
            // A page that is gone has been compacted: a second look at the index finds the record elsewhere.
            let Some(info) = self.pages.info(page) else { continue };
            let offset = offset_in_page(address);
            let start = offset / BLOCK_BYTES * BLOCK_BYTES;
            let end = (offset + info.record_bytes()).next_multiple_of(BLOCK_BYTES).min(PAGE_BYTES);
            debug_assert!(start <= offset && offset < end, "INV-TIER-3: what is read holds the record's beginning");
            debug_assert!(
                start.is_multiple_of(BLOCK_BYTES) && end.is_multiple_of(BLOCK_BYTES),
                "INV-TIER-3: whole blocks are read"
            );
            match &mut open {
                Some(open) if open.page == page && start <= open.end && end - open.start <= MERGED_BYTES_MAX => {
                    open.end = end.max(open.end);
                    open.others.push(address);
                }
                _ => {
                    if let Some(full) = open.replace(Span { page, start, end, address, others: Vec::new() }) {
                        self.fetch_records(full, why, stage, fetches);
                    }
                }
            }
        }
        if let Some(last) = open {
            self.fetch_records(last, why, stage, fetches);
        }
    }

    fn count_read(&self, bytes: usize, why: Why) {
        debug_assert!(bytes != 0 && bytes.is_multiple_of(BLOCK_BYTES), "INV-TIER-3: what is read can be checked, block by block");
        bump(if why.background { &self.counters.background_reads } else { &self.counters.reads }, 1);
        bump(&self.counters.read_bytes, bytes as u64);
    }

    fn fetch_records(&self, span: Span, why: Why, stage: &mut Stage, fetches: &mut Vec<Fetch>) {
        let Span { page, start, end, address, others } = span;
        debug_assert!(start < end && end <= PAGE_BYTES, "INV-TIER-3: a read stays within its page");
        let bytes = end - start;
        self.count_read(bytes, why);
        match self.storage.pages.source(page * PAGE_BYTES as u64 + start as u64, bytes) {
            Ok(source) => {
                let what = What::Records { page, start, address, others };
                fetches.push(Fetch { what, why, needs: 0, room: None, source, bytes });
            }
            Err(_) if !self.pages.is_stored(page) => {}
            Err(_) => {
                bump(&self.counters.read_errors, 1);
                others.into_iter().chain([address]).for_each(|address| stage.fail(address));
            }
        }
    }

    /// Asks the cache for the checksum of a read's first block.
    pub(crate) fn prefetch_fetched(&self, fetch: &Fetch) {
        if let What::Records { page, start, .. } = &fetch.what {
            self.pages.prefetch_sum(*page, start / BLOCK_BYTES);
        }
    }

    /// Takes a finished read into the stage; `fetches` gets those that it shows to be needed too.
    pub(crate) fn accept(
        &self,
        stage: &mut Stage,
        mut fetch: Fetch,
        buffer: Buffer,
        result: io::Result<()>,
        fetches: &mut Vec<Fetch>,
    ) {
        let why = fetch.why;
        match fetch.what {
            What::Records { page, start, address, others } => {
                let good = result.is_ok();
                if !self.pages.is_stored(page) {
                    return;
                }
                if !good {
                    bump(&self.counters.read_errors, 1);
                }
                let Some(nonce) = self.pages.nonce(page) else { return };
                let mut blocks = Blocks::new(page, start, nonce, buffer);
                for address in [address].into_iter().chain(others) {
                    if good {
                        self.stage_record(stage, &mut blocks, (address, why), fetches);
                    } else {
                        stage.fail(address);
                    }
                    if stage.condenses {
                        stage.copy_out(address);
                    }
                }
                let buffer = blocks.buffer;
                if stage.condenses {
                    stage.spare.push(buffer);
                } else {
                    stage.bytes += buffer.len();
                    stage.buffers.push(buffer);
                }
            }
            What::Piece { address, field, number } => {
                // An extent is given up after its record's page: what it holds from then on is no damage.
                if !self.pages.is_stored(Log::page_of(address)) {
                    stage.records.remove(&address);
                } else if result.is_err() {
                    bump(&self.counters.read_errors, 1);
                    stage.fail(address);
                } else {
                    stage.give_room(address, field, fetch.room.take());
                    self.accept_piece(stage, (address, field, number), buffer, why, fetches);
                }
            }
        }
    }

    /// Takes a piece of a field, and asks for those that follow.
    fn accept_piece(
        &self,
        stage: &mut Stage,
        (address, field, number): (u64, Field, usize),
        piece: Buffer,
        why: Why,
        fetches: &mut Vec<Fetch>,
    ) {
        let arriving = stage.records.get_mut(&address).and_then(|staged| staged.arriving[field as usize].as_mut());
        let Some(arriving) = arriving else { return };
        debug_assert!(number < arriving.extent.pieces(), "INV-TIER-3: an extent is as long as its word says");
        let early_before = arriving.early_bytes();
        let landed = arriving.land((number, piece), why.again, &self.storage.ciphers);
        stage.bytes = stage.bytes + arriving.early_bytes() - early_before;
        match landed {
            Landed::Well => {
                self.ask_for_pieces(stage, address, field, Why { again: false, ..why }, fetches);
            }
            Landed::Whole => stage.fill(address, field, &self.garbage),
            Landed::Doubtful(number) => {
                bump(&self.counters.corrupt_blocks, 1);
                self.fetch_piece(stage, (address, field, number), Why { again: true, ..why }, fetches);
            }
            Landed::Damaged => {
                bump(&self.counters.corrupt_blocks, 1);
                stage.set_unreadable(address, true);
            }
        }
    }

    /// A block does not have its checksum: the record is read once more. In a page that was given up meanwhile that is no damage.
    fn reject(&self, stage: &mut Stage, page: u64, address: u64, why: Why, fetches: &mut Vec<Fetch>) {
        let Some(info) = self.pages.info(page) else { return };
        bump(&self.counters.corrupt_blocks, 1);
        if why.again {
            sometimes!("a record of the device is damaged");
            stage.set_unreadable(address, true);
            return;
        }
        let offset = offset_in_page(address);
        let start = offset / BLOCK_BYTES * BLOCK_BYTES;
        let end = (offset + info.record_bytes()).next_multiple_of(BLOCK_BYTES).min(PAGE_BYTES);
        let span = Span { page, start, end, address, others: Vec::new() };
        self.fetch_records(span, Why { again: true, ..why }, stage, fetches);
    }

    /// Asks for the pieces of a field whose time has come. False when the device refuses at once.
    fn ask_for_pieces(&self, stage: &mut Stage, address: u64, field: Field, why: Why, fetches: &mut Vec<Fetch>) -> bool {
        debug_assert!(!why.again, "INV-TIER-3: a piece is asked for anew, and read again only for want of its checksum");
        let next = |stage: &mut Stage| stage.records.get_mut(&address)?.arriving[field as usize].as_mut()?.ask();
        while let Some(number) = next(stage) {
            if !self.fetch_piece(stage, (address, field, number), why, fetches) {
                return false;
            }
        }
        true
    }

    /// Asks for a piece of a field. False when the device refuses at once.
    fn fetch_piece(
        &self,
        stage: &mut Stage,
        (address, field, number): (u64, Field, usize),
        why: Why,
        fetches: &mut Vec<Fetch>,
    ) -> bool {
        let arriving = stage.records.get(&address).and_then(|staged| staged.arriving[field as usize].as_ref());
        let Some(arriving) = arriving else { return false };
        let (offset, bytes) = arriving.extent.piece(number);
        let is_large = number == 0 && arriving.room.is_none() && arriving.extent.pieces() > 1;
        let needs = if is_large { memory_for(arriving.extent) } else { 0 };
        self.count_read(bytes, why);
        match self.storage.values.source(offset, bytes) {
            Ok(source) => {
                fetches.push(Fetch { what: What::Piece { address, field, number }, why, needs, room: None, source, bytes });
                return true;
            }
            Err(_) if !self.pages.is_stored(Log::page_of(address)) => {
                stage.records.remove(&address);
            }
            Err(_) => {
                bump(&self.counters.read_errors, 1);
                stage.fail(address);
            }
        }
        false
    }

    fn stage_record(&self, stage: &mut Stage, blocks: &mut Blocks, (address, why): (u64, Why), fetches: &mut Vec<Fetch>) {
        let (page, start, nonce) = (blocks.page, blocks.start, blocks.nonce);
        let Some(info) = self.pages.info(page) else { return };
        let offset = offset_in_page(address) - start;
        if !blocks.is_intact(info, offset, offset + WORD) {
            self.reject(stage, page, address, why, fetches);
            return;
        }
        let Some(header) = blocks.header(&self.storage.ciphers, offset) else { return stage.fail(address) };
        let end = offset + header.units() * WORD;
        if header.units() == 0 || header.has(Header::DEAD) || start + end > PAGE_BYTES {
            self.reject(stage, page, address, why, fetches);
            return;
        }
        if end > blocks.buffer.len() {
            // Longer than expected: read again, as much as it takes.
            let to = (start + end).next_multiple_of(BLOCK_BYTES);
            let from = start + offset / BLOCK_BYTES * BLOCK_BYTES;
            let longer = Span { page, start: from, end: to, address, others: Vec::new() };
            self.fetch_records(longer, why, stage, fetches);
            return;
        }
        if !blocks.is_intact(info, offset + WORD, end) {
            self.reject(stage, page, address, why, fetches);
            return;
        }
        if !blocks.decrypt(&self.storage.ciphers, offset, end) {
            return stage.fail(address);
        }
        // SAFETY: `offset` is inside the buffer, which the stage keeps for as long as the record is in it.
        let record = unsafe { Record::new(blocks.buffer.as_mut_ptr().add(offset).cast::<AtomicU64>()) };
        let mut staged = Staged { record, header, arriving: [None, None], key_handle: 0, value: None };
        if header.has(Header::HEAP_KEY) {
            let extent = Extent::from_word(record.key_handle());
            staged.arriving[0] = Some(Box::new(Arriving::bytes((extent, nonce), &self.garbage)));
        }
        if header.has(Header::HEAP_VALUE) {
            let extent = Extent::from_word(record.value_handle(header));
            let arriving = match header.kind() {
                Kind::String => Some(Arriving::bytes((extent, nonce), &self.garbage)),
                kind => Arriving::object((extent, nonce), (self.types.as_deref(), kind), &self.garbage),
            };
            let Some(arriving) = arriving else { return stage.set_unreadable(address, true) };
            staged.arriving[1] = Some(Box::new(arriving));
        }
        debug_assert!(!staged.header.has(Header::DEAD), "INV-TIER-3: what is staged is a record");
        stage.records.insert(address, staged);
        let why = Why { again: false, ..why };
        let _ = self.ask_for_pieces(stage, address, Field::Key, why, fetches)
            && self.ask_for_pieces(stage, address, Field::Value, why, fetches);
    }

    /// Stages records on a thread that may block.
    pub(crate) fn stage_blocking(&self, stage: &mut Stage, addresses: &mut Vec<u64>, why: Why, fetcher: &mut Fetcher) {
        let mut fetches = Vec::new();
        self.plan(addresses, why, stage, &mut fetches);
        while !fetches.is_empty() {
            let group = fetches.split_off(fetches.len().saturating_sub(FETCHES_TOGETHER));
            let mut reads: Vec<BatchRead> =
                group.iter().map(|fetch| BatchRead::new(fetch.source.clone(), fetcher.pool.take(fetch.bytes))).collect();
            fetcher.reader.read(&mut reads);
            for (fetch, read) in group.into_iter().zip(reads) {
                self.accept(stage, fetch, read.buffer, read.result, &mut fetches);
            }
        }
    }
}

/// What a thread that may block reads records with.
#[derive(Default)]
pub struct Fetcher {
    reader: BatchReader,
    pool: BufferPool,
}

impl Fetcher {
    /// Empties a stage, keeping its buffers for later.
    pub fn reclaim(&mut self, stage: &mut Stage) {
        stage.clear(&mut self.pool);
    }
}
