//! Staging: records of cold keys, read from the device into buffers of their own, for one batch of one connection.
//!
//! The session asks which records its batch needs ([`crate::Session::probe`]), plans their reads ([`crate::Session::plan`]), has
//! them read by whoever reads without blocking, hands the buffers over ([`crate::Session::accept`]), and runs the batch with the
//! stage attached. A record on the device never changes, so a staged one is exact for as long as the index points to its address.

use super::Tier;
use super::extent::{self, Extent};
use super::statistics::bump;
use crate::heap::{HeapKey, HeapString, SharedString};
use crate::log::{Log, PAGE_BYTES, PAGE_WORDS};
use crate::record::{Header, Record, WORD};
use almandine_io::storage::{BLOCK_BYTES, BatchRead, BatchReader, Buffer, BufferPool, Source};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Most bytes that one read of several records may span.
const MERGED_BYTES_MAX: usize = 128 * 1024;

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

/// A read that a batch needs. `what` it means is the store's; the asker reads `bytes` from `source`.
pub struct Fetch {
    what: What,
    /// For the store itself, not for a client.
    background: bool,
    /// Where to read.
    pub source: Source,
    /// How much, a multiple of the block size.
    pub bytes: usize,
}

enum What {
    Records { page: u64, start: usize, address: u64, others: Vec<u64> },
    Field { address: u64, field: Field },
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
    Key,
    Value,
}

/// A record in a buffer.
struct Staged {
    record: Record,
    header: Header,
    /// Fields on the value device that have not arrived.
    missing: u8,
    key_handle: u64,
    value: Option<SharedString>,
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
    /// The device could not give it.
    Failed,
    Absent,
}

/// Records read from the device for one batch.
#[derive(Default)]
pub struct Stage {
    records: HashMap<u64, Staged, BuildHasherDefault<AddressHasher>>,
    buffers: Vec<Buffer>,
    failed: Vec<u64>,
    bytes: usize,
}

// SAFETY: the raw pointers of the staged records point into the stage's own buffers and boxes, which move with it.
unsafe impl Send for Stage {}

impl Stage {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.failed.is_empty()
    }

    /// Bytes of its buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Empties it, giving the buffers to a pool.
    pub fn clear(&mut self, pool: &mut BufferPool) {
        self.records.clear();
        self.failed.clear();
        self.buffers.drain(..).for_each(|buffer| pool.give(buffer));
        self.bytes = 0;
    }

    #[inline]
    pub(crate) fn get(&self, address: u64) -> Lookup {
        match self.records.get(&address) {
            Some(staged) if staged.missing == 0 => Lookup::Ready(staged.record, staged.header),
            Some(_) => Lookup::Absent,
            None if self.failed.contains(&address) => Lookup::Failed,
            None => Lookup::Absent,
        }
    }

    /// Addresses of all records that are ready.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.records.iter().filter(|(_, staged)| staged.missing == 0).map(|(&address, _)| address)
    }

    pub(crate) fn fail(&mut self, address: u64) {
        self.records.remove(&address);
        if !self.failed.contains(&address) {
            self.failed.push(address);
        }
    }
}

fn offset_in_page(address: u64) -> usize {
    (address % PAGE_WORDS) as usize * WORD
}

impl Tier {
    /// Turns the addresses of cold records (which it sorts and takes) into reads, near ones together.
    pub(crate) fn plan(&self, addresses: &mut Vec<u64>, background: bool, stage: &mut Stage, fetches: &mut Vec<Fetch>) {
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
            match &mut open {
                Some(open) if open.page == page && start <= open.end && end - open.start <= MERGED_BYTES_MAX => {
                    open.end = end.max(open.end);
                    open.others.push(address);
                }
                _ => {
                    if let Some(full) = open.replace(Span { page, start, end, address, others: Vec::new() }) {
                        self.fetch_records(full, background, stage, fetches);
                    }
                }
            }
        }
        if let Some(last) = open {
            self.fetch_records(last, background, stage, fetches);
        }
    }

    fn count_read(&self, bytes: usize, background: bool) {
        bump(if background { &self.counters.background_reads } else { &self.counters.reads }, 1);
        bump(&self.counters.read_bytes, bytes as u64);
    }

    fn fetch_records(&self, span: Span, background: bool, stage: &mut Stage, fetches: &mut Vec<Fetch>) {
        let Span { page, start, end, address, others } = span;
        let bytes = end - start;
        self.count_read(bytes, background);
        match self.storage.pages.source(page * PAGE_BYTES as u64 + start as u64, bytes) {
            Ok(source) => fetches.push(Fetch { what: What::Records { page, start, address, others }, background, source, bytes }),
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
    pub(crate) fn accept(&self, stage: &mut Stage, fetch: Fetch, buffer: Buffer, result: io::Result<()>, fetches: &mut Vec<Fetch>) {
        let background = fetch.background;
        match fetch.what {
            What::Records { page, start, address, others } => {
                let good = result.is_ok();
                if !self.pages.is_stored(page) {
                    return;
                }
                if !good {
                    bump(&self.counters.read_errors, 1);
                }
                let mut buffer = buffer;
                let base = buffer.as_mut_ptr();
                for address in [address].into_iter().chain(others) {
                    if good {
                        self.stage_record(stage, (page, start, background), address, (base, &buffer), fetches);
                    } else {
                        stage.fail(address);
                    }
                }
                stage.bytes += buffer.len();
                stage.buffers.push(buffer);
            }
            What::Field { address, field } => {
                let bytes = result.is_ok().then(|| extent::contents(&buffer)).flatten();
                // An extent is given up after its record's page: what it holds from then on is no damage.
                if !self.pages.is_stored(Log::page_of(address)) {
                    stage.records.remove(&address);
                    return;
                }
                let Some(bytes) = bytes else {
                    bump(if result.is_ok() { &self.counters.corrupt_blocks } else { &self.counters.read_errors }, 1);
                    stage.fail(address);
                    return;
                };
                let Some(staged) = stage.records.get_mut(&address) else { return };
                match field {
                    Field::Key => {
                        staged.key_handle = HeapKey::into_handle(bytes);
                        staged.record.set_key_handle(staged.key_handle);
                    }
                    Field::Value => {
                        let value = Arc::new(HeapString::new(bytes.to_vec()));
                        staged.record.set_value_handle(staged.header, Arc::as_ptr(&value) as usize as u64);
                        staged.value = Some(value);
                    }
                }
                staged.missing -= 1;
                stage.bytes += bytes.len();
            }
        }
    }

    /// A block does not have its checksum. In a page that was given up meanwhile that is no damage.
    fn reject(&self, stage: &mut Stage, page: u64, address: u64) {
        if self.pages.is_stored(page) {
            bump(&self.counters.corrupt_blocks, 1);
            stage.fail(address);
        }
    }

    fn stage_record(
        &self,
        stage: &mut Stage,
        (page, start, background): (u64, usize, bool),
        address: u64,
        (base, buffer): (*mut u8, &Buffer),
        fetches: &mut Vec<Fetch>,
    ) {
        let Some(info) = self.pages.info(page) else { return };
        let intact = |from: usize, to: usize| {
            (from / BLOCK_BYTES..to.div_ceil(BLOCK_BYTES)).all(|block| {
                let bytes = &buffer[block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES];
                debug_assert!(bytes.len() == BLOCK_BYTES, "INV-TIER-3: whole blocks are compared");
                info.is_intact(start / BLOCK_BYTES + block, bytes)
            })
        };
        let offset = offset_in_page(address) - start;
        if !intact(offset, offset + WORD) {
            self.reject(stage, page, address);
            return;
        }
        // SAFETY: `offset` is inside the buffer, which the stage keeps for as long as the record is in it.
        let record = unsafe { Record::new(base.add(offset).cast::<AtomicU64>()) };
        let header = record.header();
        let end = offset + header.units() * WORD;
        if header.units() == 0 || header.has(Header::DEAD) || start + end > PAGE_BYTES {
            self.reject(stage, page, address);
            return;
        }
        if end > buffer.len() {
            // Longer than expected: read again, as much as it takes.
            let to = (start + end).next_multiple_of(BLOCK_BYTES);
            let from = start + offset / BLOCK_BYTES * BLOCK_BYTES;
            let longer = Span { page, start: from, end: to, address, others: Vec::new() };
            self.fetch_records(longer, background, stage, fetches);
            return;
        }
        if !intact(offset + WORD, end) {
            self.reject(stage, page, address);
            return;
        }
        let mut staged = Staged { record, header, missing: 0, key_handle: 0, value: None };
        for (flag, field, word) in [
            (Header::HEAP_KEY, Field::Key, header.has(Header::HEAP_KEY).then(|| record.key_handle())),
            (Header::HEAP_VALUE, Field::Value, header.has(Header::HEAP_VALUE).then(|| record.value_handle(header))),
        ] {
            let Some(word) = word else { continue };
            debug_assert!(header.has(flag));
            let extent = Extent::from_word(word);
            self.count_read(extent.bytes(), background);
            match self.storage.values.source(extent.offset(), extent.bytes()) {
                Ok(source) => {
                    staged.missing += 1;
                    fetches.push(Fetch { what: What::Field { address, field }, background, source, bytes: extent.bytes() });
                }
                Err(_) if !self.pages.is_stored(page) => return,
                Err(_) => {
                    bump(&self.counters.read_errors, 1);
                    stage.fail(address);
                    return;
                }
            }
        }
        stage.records.insert(address, staged);
    }

    /// Stages records on a thread that may block.
    pub(crate) fn stage_blocking(&self, stage: &mut Stage, addresses: &mut Vec<u64>, background: bool, fetcher: &mut Fetcher) {
        let mut fetches = Vec::new();
        self.plan(addresses, background, stage, &mut fetches);
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
