//! The hybrid log: records in pages, pages in one reserved ring of address space.
//!
//! A logical address counts words from the start of time and only grows; it is 48 bits wide, 2 PiB of writes. The address
//! modulo the ring's size is the place in memory, so following an address is one addition. The tail is one atomic counter of
//! chunks: a session takes a chunk by fetch-and-add and fills it alone, so sessions meet at the tail once per 64 KiB, not once
//! per record. Chunks never cross a page; a page is made resident in the background before the tail reaches it.
//!
//! Regions: addresses below `read_only` are not updated in place but copied to the tail. Without a storage tier the boundary
//! rests at zero unless a mutable fraction is configured. Pages are freed one by one, wherever they are, once they were
//! evacuated (see `compact`): the log is a ring with holes, and a page that would be overtaken by the tail is evacuated first.

#[cfg(all(test, loom))]
mod model;
pub(crate) mod page;

use crate::record::{Header, Record, UNITS_MAX, WORD};
use crate::sync::{AtomicU64, Ordering};
use almandine_io::memory::{HUGE_PAGE_BYTES, Reservation};
use crossbeam_utils::CachePadded;
use page::PageTable;
use std::io;

/// Bytes of a page: the unit of residency, evacuation and release, one huge page.
pub(crate) const PAGE_BYTES: usize = HUGE_PAGE_BYTES;
/// Words of a page.
pub(crate) const PAGE_WORDS: u64 = (PAGE_BYTES / WORD) as u64;
/// Bytes of a chunk: what a session takes from the tail at once.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;
const CHUNK_WORDS: u64 = (CHUNK_BYTES / WORD) as u64;
const CHUNKS_PER_PAGE: u64 = PAGE_WORDS / CHUNK_WORDS;
/// Words of a cache line.
const LINE_WORDS: u64 = 8;
/// Pages that are kept ready in front of the tail.
pub(crate) const PAGES_AHEAD: u64 = 3;

const _: () = assert!(UNITS_MAX as u64 <= CHUNK_WORDS);

/// The log.
pub(crate) struct Log {
    memory: Reservation,
    ring_mask: u64,
    pub(crate) pages: PageTable,
    /// Next chunk to hand out, counted from the start of time.
    tail: CachePadded<AtomicU64>,
    /// Addresses below are read-only.
    read_only: CachePadded<AtomicU64>,
}

impl Log {
    /// A log whose live pages span at most `ring_bytes` (rounded up to a power of two).
    ///
    /// # Errors
    /// When the address space cannot be reserved.
    pub(crate) fn new(ring_bytes: u64, threads: usize) -> io::Result<Self> {
        let ring_bytes = ring_bytes.next_power_of_two().max(16 * PAGE_BYTES as u64);
        let memory = Reservation::new(usize::try_from(ring_bytes).map_err(io::Error::other)?)?;
        let ring_bytes = memory.bytes() as u64;
        let pages = PageTable::new((ring_bytes / PAGE_BYTES as u64) as usize, threads)?;
        // Page 0 is never used, so that address 0 can mean "none".
        let tail = CachePadded::new(AtomicU64::new(CHUNKS_PER_PAGE));
        Ok(Self { memory, ring_mask: ring_bytes / WORD as u64 - 1, pages, tail, read_only: CachePadded::new(AtomicU64::new(0)) })
    }

    /// The record at an address.
    ///
    /// # Safety
    /// The address was published by the index or belongs to space that the caller owns, and the epoch is held since before it
    /// was read, so that its page is not released meanwhile.
    #[inline]
    pub(crate) unsafe fn record(&self, address: u64) -> Record {
        // SAFETY: the masked offset lies inside the reservation, whose memory is always mapped.
        unsafe { Record::new(self.pointer(address).cast()) }
    }

    #[inline]
    fn pointer(&self, address: u64) -> *const u8 {
        self.memory.base().as_ptr().wrapping_add(((address & self.ring_mask) as usize) * WORD)
    }

    /// Asks the cache for the record's first line, and the next one when little of the record is in the first.
    #[inline]
    pub(crate) fn prefetch(&self, address: u64) {
        let pointer = self.pointer(address);
        crate::index::prefetch(pointer);
        if address % LINE_WORDS > LINE_WORDS / 2 {
            crate::index::prefetch(pointer.wrapping_add(LINE_WORDS as usize * WORD));
        }
    }

    /// Whether a record may be updated in place.
    #[inline]
    pub(crate) fn is_mutable(&self, address: u64) -> bool {
        address >= self.read_only.load(Ordering::Relaxed)
    }

    /// Moves the read-only boundary forward.
    pub(crate) fn shift_read_only(&self, address: u64) {
        self.read_only.fetch_max(address, Ordering::AcqRel);
    }

    /// The address behind the last chunk handed out.
    pub(crate) fn tail_address(&self) -> u64 {
        self.tail.load(Ordering::Acquire) * CHUNK_WORDS
    }

    /// The number of the page that the tail is in.
    pub(crate) fn tail_page(&self) -> u64 {
        self.tail.load(Ordering::Acquire) / CHUNKS_PER_PAGE
    }

    /// The number of the page that holds an address.
    #[inline]
    pub(crate) fn page_of(address: u64) -> u64 {
        address / PAGE_WORDS
    }

    /// Takes the next chunk: its first address. `None` when the ring is full of live pages.
    pub(crate) fn take_chunk(&self) -> Option<Chunk> {
        for _ in 0..=self.pages.len() as u64 * CHUNKS_PER_PAGE {
            let chunk = self.tail.fetch_add(1, Ordering::AcqRel);
            let page = chunk / CHUNKS_PER_PAGE;
            if self.pages.is_open(page) || self.pages.open(page) {
                let start = chunk * CHUNK_WORDS;
                return Some(Chunk { next: start, end: start + CHUNK_WORDS });
            }
            // The ring place still holds an older page: skip the new page's remaining chunks.
            let skip_to = (page + 1) * CHUNKS_PER_PAGE;
            self.tail.fetch_max(skip_to, Ordering::AcqRel);
        }
        None
    }

    /// Makes the pages in front of the tail resident and open. Background only.
    pub(crate) fn prepare_ahead(&self) {
        let tail_page = self.tail_page();
        for page in tail_page..=tail_page + PAGES_AHEAD {
            if self.pages.is_vacant(page) {
                self.memory.prefault(self.page_offset(page), PAGE_BYTES);
                self.pages.open(page);
            }
        }
    }

    /// Gives an evacuated page's memory back. The caller has waited for the epoch after the page was closed.
    pub(crate) fn release_page(&self, page: u64) {
        self.memory.release(self.page_offset(page), PAGE_BYTES);
        self.pages.vacate(page);
    }

    fn page_offset(&self, page: u64) -> usize {
        (((page * PAGE_WORDS) & self.ring_mask) as usize) * WORD
    }

    /// Calls `visit` for each live record of a page that has no open chunk.
    ///
    /// # Safety
    /// The epoch is held and the page is not released meanwhile.
    pub(crate) unsafe fn walk_page(&self, page: u64, mut visit: impl FnMut(u64, Record, Header)) {
        let start = page * PAGE_WORDS;
        let mut at = 0;
        while at < PAGE_WORDS {
            // SAFETY: inside the page, by the caller's promise.
            let record = unsafe { self.record(start + at) };
            let header = record.header();
            if header.units() == 0 {
                // A chunk that nobody took or filled: its rest is zeroes.
                at = (at / CHUNK_WORDS + 1) * CHUNK_WORDS;
                continue;
            }
            if !header.has(Header::DEAD) {
                visit(start + at, record, header);
            }
            at += header.units() as u64;
        }
        debug_assert!(at == PAGE_WORDS, "INV-LOG-2: records tile their page");
    }
}

/// A session's part of the tail: free words `next..end`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Chunk {
    pub(crate) next: u64,
    pub(crate) end: u64,
}

impl Chunk {
    /// Takes `units` words.
    #[inline]
    pub(crate) fn take(&mut self, units: usize) -> Option<u64> {
        let address = self.next;
        if address + units as u64 > self.end {
            return None;
        }
        self.next += units as u64;
        Some(address)
    }

    /// Words left.
    pub(crate) fn rest(&self) -> u64 {
        self.end - self.next
    }
}
