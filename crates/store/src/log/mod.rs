//! The hybrid log: records in pages, pages in one reserved ring of address space.
//!
//! A logical address counts words from the start of time and only grows; it is 48 bits wide, 2 PiB of writes. The address
//! modulo the ring's size is the place in memory, so following an address is one addition. The tail is one atomic counter of
//! chunks: a session takes a chunk by fetch-and-add and fills it alone, so sessions meet at the tail once per chunk, not once
//! per record. Chunks never cross a page; a page is made resident in the background before the tail reaches it.
//!
//! Regions: `head <= read_only` (INV-TIER-1). Addresses below `read_only` are not updated in place but copied to the tail;
//! addresses below `head` are on the device only. Without a device `head` rests at zero, and so does `read_only` unless a
//! mutable fraction is configured; pages are then freed one by one, wherever they are, once they were evacuated (see
//! `background/evacuate.rs`): the log is a ring with holes, and a page that would be overtaken by the tail is evacuated first.
//! With a device pages leave memory in their order (see `tier`).

#[cfg(all(test, loom))]
mod model;
pub(crate) mod page;

use crate::record::{Header, Record, UNITS_MAX, WORD};
use crate::shared::written::{self, SharedLine};
use crate::sync::{AtomicU64, Ordering};
use almandine_base::points::point;
use almandine_io::memory::{HUGE_PAGE_BYTES, Reservation};
use crossbeam_utils::CachePadded;
pub(crate) use page::PageState;
use page::PageTable;
use std::io;

/// Bytes of a page: the unit of residency, evacuation and release, one huge page.
pub(crate) const PAGE_BYTES: usize = HUGE_PAGE_BYTES;
/// Words of a page.
pub(crate) const PAGE_WORDS: u64 = (PAGE_BYTES / WORD) as u64;
/// Bytes of a chunk: what a session takes from the tail at once. The end that a large record does not fit into is lost until
/// its page is evacuated, so a chunk is many times the largest record. In a build for simulations, whose pages are small, a page
/// is one chunk.
pub(crate) const CHUNK_BYTES: usize = if HAS_SMALL_PAGES { PAGE_BYTES } else { 256 * 1024 };
const HAS_SMALL_PAGES: bool = PAGE_BYTES < 256 * 1024;
pub(crate) const CHUNK_WORDS: u64 = (CHUNK_BYTES / WORD) as u64;
const CHUNKS_PER_PAGE: u64 = PAGE_WORDS / CHUNK_WORDS;
/// Words of a cache line.
const LINE_WORDS: u64 = 8;
/// Lines of a record that are asked for ahead, at most.
const LINES_AHEAD: u64 = 4;
/// Pages that are kept ready in front of the tail.
pub(crate) const PAGES_AHEAD: u64 = 3;

/// No page from this one on is used: an address has 48 bits, and something is left for pages that are opened ahead of the tail.
const PAGES_END: u64 = (1 << 48) / PAGE_WORDS - 1024;
/// The page number that says "no open chunk".
pub(crate) const NO_PAGE: u64 = u64::MAX;

/// Places that are tried for a page of cached copies.
const CACHE_PAGE_TRIES: u64 = 64;

const _: () = assert!(if HAS_SMALL_PAGES { 4 } else { 16 } * UNITS_MAX as u64 <= CHUNK_WORDS);

/// The log.
pub(crate) struct Log {
    memory: Reservation,
    ring_mask: u64,
    pub(crate) pages: PageTable,
    /// Next chunk to hand out, counted from the start of time.
    tail: CachePadded<AtomicU64>,
    /// Addresses below are read-only.
    read_only: CachePadded<AtomicU64>,
    /// Addresses below are not in memory. Read once per batch, see `Session::enter`.
    head: CachePadded<AtomicU64>,
    /// Next chunk for cached copies, counted as the tail's; the end of its page when a new one is needed.
    cache_tail: CachePadded<AtomicU64>,
    /// A page that is open and resident for the cached copies to come; 0: none. Set by the background, taken by a session.
    cache_ahead: AtomicU64,
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
        debug_assert!(ring_bytes.is_power_of_two(), "an address is a position by a mask");
        let tail = CachePadded::new(AtomicU64::new(CHUNKS_PER_PAGE));
        let zero = || CachePadded::new(AtomicU64::new(0));
        Ok(Self {
            memory,
            ring_mask: ring_bytes / WORD as u64 - 1,
            pages,
            tail,
            read_only: zero(),
            head: zero(),
            cache_tail: zero(),
            cache_ahead: AtomicU64::new(0),
        })
    }

    /// The record at an address.
    ///
    /// # Safety
    /// The address was published by the index or belongs to space that the caller owns, and the epoch is held since before it
    /// was read, so that its page is not released meanwhile.
    #[inline]
    pub(crate) unsafe fn record(&self, address: u64) -> Record {
        debug_assert!(address >= PAGE_WORDS, "INV-LOG-1: the first page is never used, so that no record is at address 0");
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

    /// As [`Log::prefetch`], for a record of some lines that will be read as a whole.
    #[inline]
    pub(crate) fn prefetch_lines(&self, address: u64) {
        let pointer = self.pointer(address);
        (0..3).for_each(|line| crate::index::prefetch(pointer.wrapping_add(line * LINE_WORDS as usize * WORD)));
    }

    /// Whether a record is so long that [`Log::prefetch`] may have left a line of it.
    #[inline]
    pub(crate) fn has_further_lines(header: Header) -> bool {
        header.units() > LINE_WORDS as usize
    }

    /// Asks the cache for the lines of a record that [`Log::prefetch`] has left, as far as they are few: of many the processor
    /// finds the later ones by itself.
    #[inline]
    pub(crate) fn prefetch_further(&self, address: u64, header: Header) {
        let end = address % LINE_WORDS + header.units() as u64;
        let pointer = self.pointer(address);
        for line in 1..end.div_ceil(LINE_WORDS).min(LINES_AHEAD) {
            crate::index::prefetch(pointer.wrapping_add(line as usize * LINE_WORDS as usize * WORD));
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

    /// Addresses below are read-only.
    #[inline]
    pub(crate) fn read_only(&self) -> u64 {
        self.read_only.load(Ordering::Acquire)
    }

    /// Addresses below are not in memory.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// Moves the head forward. The pages below are released once the epoch has passed.
    pub(crate) fn shift_head(&self, address: u64) {
        debug_assert!(address <= self.read_only(), "INV-TIER-1: head <= read_only");
        self.head.fetch_max(address, Ordering::AcqRel);
        point("moved the head");
    }

    /// Lets the tail leave `page`, so that no chunk of it is handed out any more.
    pub(crate) fn leave_page(&self, page: u64) {
        self.tail.fetch_max((page + 1) * CHUNKS_PER_PAGE, Ordering::AcqRel);
    }

    /// Begins behind all that an earlier store has written: only the device has what is below.
    pub(crate) fn begin_at(&self, page: u64) {
        debug_assert!(page != 0 && self.pages.resident() == 0, "INV-LOG-1: the first page is never used, and nothing is there yet");
        self.leave_page(page - 1);
        self.shift_read_only(page * PAGE_WORDS);
        self.shift_head(page * PAGE_WORDS);
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

    /// Whether all addresses have been used: then nothing can be written any more, until a restart.
    pub(crate) fn is_used_up(&self) -> bool {
        self.tail_page() >= PAGES_END
    }

    /// Takes the next chunk: its first address. `None` when the ring is full of live pages, or the addresses are used up.
    pub(crate) fn take_chunk(&self) -> Option<Chunk> {
        if self.is_used_up() {
            return None;
        }
        for _ in 0..=self.pages.len() as u64 * CHUNKS_PER_PAGE {
            written::write(SharedLine::Tail);
            let chunk = self.tail.fetch_add(1, Ordering::AcqRel);
            point("takes a chunk");
            let page = chunk / CHUNKS_PER_PAGE;
            if self.pages.is_open(page) || self.pages.open(page) {
                self.pages.count_taken(page);
                let start = chunk * CHUNK_WORDS;
                return Some(Chunk { next: start, end: start + CHUNK_WORDS, uncounted: 0 });
            }
            // The ring place still holds an older page: skip the new page's remaining chunks.
            let skip_to = (page + 1) * CHUNKS_PER_PAGE;
            self.tail.fetch_max(skip_to, Ordering::AcqRel);
        }
        None
    }

    /// Takes the next chunk for cached copies. `None` when the page in use is full and no place for another is vacant.
    pub(crate) fn take_cache_chunk(&self) -> Option<Chunk> {
        loop {
            let chunk = self.cache_tail.load(Ordering::Acquire);
            // The page in use may have been closed since: it leaves memory, or has left it, so nothing may come into it any more.
            let usable = |chunk: u64| chunk * CHUNK_WORDS >= self.read_only();
            let next = if !chunk.is_multiple_of(CHUNKS_PER_PAGE) && usable(chunk) {
                chunk
            } else {
                let page = match self.take_cache_page_ahead(chunk) {
                    Some(page) => page,
                    None => self.cache_places(chunk).find(|&page| self.pages.open_cache(page))?,
                };
                page * CHUNKS_PER_PAGE
            };
            // A page that another session opened at the same time is left as it is: the flusher finds it empty when it gets there.
            let taken = self.cache_tail.compare_exchange(chunk, next + 1, Ordering::AcqRel, Ordering::Acquire).is_ok();
            if taken && usable(next) {
                let start = next * CHUNK_WORDS;
                debug_assert_eq!(
                    Self::page_of(start),
                    Self::page_of(start + CHUNK_WORDS - 1),
                    "INV-LOG-2: a chunk lies within its page"
                );
                return Some(Chunk { next: start, end: start + CHUNK_WORDS, uncounted: 0 });
            }
        }
    }

    /// Where the next page for cached copies may be. Behind all pages that the tail is about to use, so that it meets this one
    /// only when it is long in use.
    fn cache_places(&self, chunk: u64) -> std::ops::Range<u64> {
        let page = (self.tail_page() + PAGES_AHEAD + 1).max(chunk / CHUNKS_PER_PAGE + 1);
        page..(page + CACHE_PAGE_TRIES).min(PAGES_END)
    }

    /// Takes the page that is ready for cached copies, unless the tail or the flusher has come to it, or copies to one behind it.
    fn take_cache_page_ahead(&self, chunk: u64) -> Option<u64> {
        let page = self.cache_ahead.load(Ordering::Acquire);
        if page == 0 || self.cache_ahead.compare_exchange(page, 0, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return None;
        }
        // What is not taken is met by the flusher in its order, empty.
        let first = self.tail_page().max(chunk.saturating_sub(1) / CHUNKS_PER_PAGE) + 1;
        (page >= first && page * PAGE_WORDS >= self.read_only()).then_some(page)
    }

    /// A vacant page for the cached copies to come, when the one in use is half full and none is ready.
    pub(crate) fn vacant_cache_page(&self) -> Option<u64> {
        let chunk = self.cache_tail.load(Ordering::Acquire);
        #[allow(clippy::modulo_one, clippy::absurd_extreme_comparisons, reason = "a small page is one chunk")]
        let wanted = chunk % CHUNKS_PER_PAGE >= CHUNKS_PER_PAGE / 2 && self.cache_ahead.load(Ordering::Acquire) == 0;
        self.cache_places(chunk).find(|&page| wanted && self.pages.is_vacant(page))
    }

    /// Opens such a page, inside the epoch and when its memory is resident. Background only.
    pub(crate) fn open_cache_ahead(&self, page: u64) {
        debug_assert_eq!(self.cache_ahead.load(Ordering::Acquire), 0, "one page at a time is ready for cached copies");
        // The flusher may have passed it: then it would never leave (INV-TIER-1).
        if page > self.tail_page() && page * PAGE_WORDS >= self.read_only() && self.pages.open_cache(page) {
            self.cache_ahead.store(page, Ordering::Release);
        }
    }

    /// The last page opened for cached copies.
    pub(crate) fn cache_page(&self) -> u64 {
        self.cache_tail.load(Ordering::Acquire).saturating_sub(1) / CHUNKS_PER_PAGE
    }

    /// The first of the tail's page and the `ahead` pages in front of it that is not open and could be.
    pub(crate) fn vacant_ahead(&self, ahead: u64) -> Option<u64> {
        let tail_page = self.tail_page();
        debug_assert!(tail_page != 0, "INV-LOG-1: the first page is never used");
        debug_assert!(ahead < self.pages.len() as u64 / 2, "pages ahead of the tail have places of their own");
        (tail_page..=tail_page + ahead).find(|&page| self.pages.is_vacant(page))
    }

    /// Makes a page's memory resident, which may take milliseconds. Its contents stay as they are, also while it is in use.
    pub(crate) fn prefault_page(&self, page: u64) {
        self.memory.prefault(self.page_offset(page), PAGE_BYTES);
    }

    /// Gives memory back that was made resident for a page after that page had left memory: no other thread would. Background
    /// only, right behind [`Log::prefault_page`], so that its place in the ring cannot be another page's by now.
    pub(crate) fn forget_prefault(&self, page: u64) {
        debug_assert!(page <= self.tail_page() + self.pages.len() as u64 / 2, "INV-LOG-2: a page of this round of the ring");
        if page < Self::page_of(self.head()) && self.pages.is_vacant(page) {
            self.memory.release(self.page_offset(page), PAGE_BYTES);
        }
    }

    /// Gives an evacuated page's memory back. The caller has waited for the epoch after the page was closed.
    pub(crate) fn release_page(&self, page: u64) {
        debug_assert!(
            matches!(self.pages.state(page), PageState::Closing | PageState::Flushed | PageState::Cache),
            "INV-FREE-1: memory of an open page is not given back"
        );
        self.memory.release(self.page_offset(page), PAGE_BYTES);
        self.pages.vacate(page);
    }

    fn page_offset(&self, page: u64) -> usize {
        let offset = (((page * PAGE_WORDS) & self.ring_mask) as usize) * WORD;
        debug_assert!(offset + PAGE_BYTES <= self.memory.bytes(), "INV-LOG-2: a page lies in the ring in one piece");
        offset
    }

    /// A page's memory as words.
    ///
    /// # Safety
    /// The page is in memory and not released while the slice lives.
    pub(crate) unsafe fn page_words(&self, page: u64) -> &[std::sync::atomic::AtomicU64] {
        let start = self.pointer(page * PAGE_WORDS).cast();
        // SAFETY: a page lies inside the reservation as one piece; all access to log memory that may change is atomic.
        unsafe { std::slice::from_raw_parts(start, PAGE_WORDS as usize) }
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
                // A chunk that no session took or filled: its rest is zeroes.
                at = (at / CHUNK_WORDS + 1) * CHUNK_WORDS;
                continue;
            }
            debug_assert!(at + header.units() as u64 <= PAGE_WORDS, "INV-LOG-2: a record ends within its page");
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
    /// Words behind `end` that are its own, too, and do not count as taken yet.
    pub(crate) uncounted: u64,
}

impl Chunk {
    /// Takes `units` words.
    #[inline]
    pub(crate) fn take(&mut self, units: usize) -> Option<u64> {
        debug_assert!(self.next <= self.end, "INV-LOG-2: a chunk is used from front to back");
        let address = self.next;
        if address + units as u64 > self.end {
            return None;
        }
        self.next += units as u64;
        Some(address)
    }

    /// Words left.
    pub(crate) fn rest(&self) -> u64 {
        debug_assert!(self.next <= self.end, "INV-LOG-2: a chunk is used from front to back");
        self.end - self.next
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_page_for_cached_copies_is_ready_before_it_is_needed() {
        let log = Log::new(1 << 25, 1).expect("address space");
        assert_eq!(log.vacant_cache_page(), None, "nobody keeps copies");
        let first = Log::page_of(log.take_cache_chunk().expect("room").next);
        assert_eq!(log.vacant_cache_page(), None);
        (1..CHUNKS_PER_PAGE / 2).for_each(|_| assert!(log.take_cache_chunk().is_some()));
        let ready = log.vacant_cache_page().expect("half of the page is used");
        assert!(ready > first);
        log.prefault_page(ready);
        log.open_cache_ahead(ready);
        assert_eq!((log.vacant_cache_page(), log.pages.state(ready)), (None, PageState::Cache));
        let rest: Vec<u64> =
            (0..CHUNKS_PER_PAGE).filter_map(|_| log.take_cache_chunk()).map(|chunk| Log::page_of(chunk.next)).collect();
        let half = CHUNKS_PER_PAGE as usize / 2;
        assert_eq!(rest, [vec![first; half], vec![ready; half]].concat());
        // One that the tail has come to is left to the flusher.
        let late = log.vacant_cache_page().expect("half of the page is used");
        log.open_cache_ahead(late);
        log.leave_page(late);
        let next = (0..=half).filter_map(|_| log.take_cache_chunk()).map(|chunk| Log::page_of(chunk.next)).max();
        assert!(next.is_some_and(|page| page > late));
    }

    #[test]
    fn no_chunk_is_handed_out_beyond_the_last_address() {
        let log = Log::new(1 << 25, 1).expect("address space");
        log.leave_page(PAGES_END - 2);
        let chunks: Vec<Chunk> = std::iter::from_fn(|| log.take_chunk()).take(100).collect();
        assert_eq!(chunks.len() as u64, CHUNKS_PER_PAGE, "those of the last page");
        assert!(chunks.iter().all(|chunk| chunk.end < 1 << 48));
        assert!(log.is_used_up() && log.take_chunk().is_none() && log.take_cache_chunk().is_none());
    }
}
