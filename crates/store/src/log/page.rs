//! The page table: which page of time is in which place of the ring, in what state, and how much of it is free.
//!
//! ```text
//! VACANT --open--> OPEN --close--> CLOSING --(epoch)--> evacuated ----------------(epoch)--> VACANT
//!                                     |----(epoch)--> FLUSHED --(below the head)--(epoch)--> VACANT
//! VACANT --open_cache--> CACHE --(below the head, entries put back)--------------(epoch)--> VACANT
//! ```
//!
//! FLUSHED pages are on the device and still readable in memory; CACHE pages hold copies of records on the device (see `tier`).
//! A place's word is `page number << 3 | state`, so one load answers "is this address still in an open page?", which is what
//! reuse of freed space asks (INV-FREE-1). Free words are counted per thread and page, written by their thread only; the
//! compactor sums them.

use crate::sync::{AtomicU64, Ordering};
use almandine_base::points::point;
use almandine_io::memory::Reservation;
use std::io;
use std::sync::atomic::AtomicU32;

const VACANT: u64 = 0;
const OPEN: u64 = 1;
const CLOSING: u64 = 2;
const CACHE: u64 = 3;
const FLUSHED: u64 = 4;
const STATE_BITS: u32 = 3;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;

/// What a page of time is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageState {
    /// Not in memory.
    Absent,
    /// Its freed space is used again.
    Open,
    /// On its way out.
    Closing,
    /// Copies of records on the device.
    Cache,
    /// On the device, and still in memory.
    Flushed,
}

/// States of all places of the ring.
pub(crate) struct PageTable {
    places: Box<[AtomicU64]>,
    mask: u64,
    resident: AtomicU64,
    free: Reservation,
    /// What had been counted as free when a page was released, so that counters never need resetting by other threads.
    settled: Box<[AtomicU32]>,
    /// Chunks taken of the page in each place.
    taken: Box<[AtomicU32]>,
    threads: usize,
}

impl PageTable {
    pub(crate) fn new(places: usize, threads: usize) -> io::Result<Self> {
        debug_assert!(places.is_power_of_two(), "a page's place is found by a mask");
        debug_assert_ne!(threads, 0, "somebody counts");
        Ok(Self {
            places: (0..places).map(|_| AtomicU64::new(VACANT)).collect(),
            mask: places as u64 - 1,
            resident: AtomicU64::new(0),
            free: Reservation::small_pages(places * threads * size_of::<AtomicU32>())?,
            settled: (0..places).map(|_| AtomicU32::new(0)).collect(),
            taken: (0..places).map(|_| AtomicU32::new(0)).collect(),
            threads,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Places that hold a page, counted one by one; for assertions.
    pub(crate) fn present(&self) -> u64 {
        self.places.iter().filter(|place| place.load(Ordering::Acquire) != VACANT).count() as u64
    }

    /// Pages that hold memory.
    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed)
    }

    fn place(&self, page: u64) -> &AtomicU64 {
        &self.places[(page & self.mask) as usize]
    }

    #[inline]
    pub(crate) fn is_open(&self, page: u64) -> bool {
        self.place(page).load(Ordering::Acquire) == page << STATE_BITS | OPEN
    }

    pub(crate) fn is_vacant(&self, page: u64) -> bool {
        self.place(page).load(Ordering::Acquire) == VACANT
    }

    /// Puts a page into its vacant place; true if it is open afterwards.
    pub(crate) fn open(&self, page: u64) -> bool {
        debug_assert_ne!(page, 0, "INV-LOG-1: the first page is never used");
        point("opens a page");
        match self.place(page).compare_exchange(VACANT, page << STATE_BITS | OPEN, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.resident.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(current) => current == page << STATE_BITS | OPEN,
        }
    }

    /// Puts a page for cached copies into its vacant place.
    pub(crate) fn open_cache(&self, page: u64) -> bool {
        let opened =
            self.place(page).compare_exchange(VACANT, page << STATE_BITS | CACHE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if opened {
            self.resident.fetch_add(1, Ordering::Relaxed);
        }
        opened
    }

    /// A closing page is on the device now.
    pub(crate) fn mark_flushed(&self, page: u64) {
        debug_assert_eq!(self.state(page), PageState::Closing, "INV-TIER-1: closed, flushed, evicted");
        point("has flushed a page");
        self.place(page).store(page << STATE_BITS | FLUSHED, Ordering::Release);
    }

    /// What a page is.
    pub(crate) fn state(&self, page: u64) -> PageState {
        let word = self.place(page).load(Ordering::Acquire);
        if word >> STATE_BITS != page {
            return PageState::Absent;
        }
        match word & STATE_MASK {
            OPEN => PageState::Open,
            CLOSING => PageState::Closing,
            CACHE => PageState::Cache,
            FLUSHED => PageState::Flushed,
            _ => PageState::Absent,
        }
    }

    /// From now on no freed space of the page is reused (once the epoch has passed).
    pub(crate) fn close(&self, page: u64) -> bool {
        point("closes a page");
        self.place(page)
            .compare_exchange(page << STATE_BITS | OPEN, page << STATE_BITS | CLOSING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Takes a page back into use that could not be evacuated.
    pub(crate) fn reopen(&self, page: u64) -> bool {
        self.place(page)
            .compare_exchange(page << STATE_BITS | CLOSING, page << STATE_BITS | OPEN, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Counts a chunk of an open page as taken.
    pub(crate) fn count_taken(&self, page: u64) {
        let before = self.taken[(page & self.mask) as usize].fetch_add(1, Ordering::Relaxed);
        debug_assert!(u64::from(before) < super::CHUNKS_PER_PAGE, "INV-LOG-2: a chunk is handed out once");
    }

    /// Chunks taken of a page that is in memory.
    pub(crate) fn taken(&self, page: u64) -> u64 {
        u64::from(self.taken[(page & self.mask) as usize].load(Ordering::Relaxed))
    }

    pub(crate) fn vacate(&self, page: u64) {
        debug_assert!(!self.is_open(page), "INV-FREE-1: memory of an open page is not given back");
        debug_assert_ne!(self.state(page), PageState::Absent, "INV-TIER-1: a page leaves once");
        debug_assert_ne!(self.resident(), 0, "a page that leaves was resident");
        self.taken[(page & self.mask) as usize].store(0, Ordering::Relaxed);
        self.settled[(page & self.mask) as usize].store(self.free_total(page), Ordering::Relaxed);
        self.place(page).store(VACANT, Ordering::Release);
        self.resident.fetch_sub(1, Ordering::Relaxed);
    }

    /// Numbers of all pages that are in memory.
    pub(crate) fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.places.iter().map(|place| place.load(Ordering::Acquire)).filter(|word| *word != VACANT).map(|word| word >> STATE_BITS)
    }

    /// Numbers of the open pages.
    pub(crate) fn open_pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.places
            .iter()
            .map(|place| place.load(Ordering::Acquire))
            .filter(|word| word & STATE_MASK == OPEN)
            .map(|word| word >> STATE_BITS)
    }

    fn counter(&self, thread: usize, page: u64) -> &AtomicU32 {
        debug_assert!(thread < self.threads, "each thread has counters of its own");
        let index = thread * self.places.len() + (page & self.mask) as usize;
        // SAFETY: the reservation holds `threads * places` zeroed counters.
        unsafe { &*self.free.base().as_ptr().cast::<AtomicU32>().add(index) }
    }

    /// Counts words of a page as freed (or reused, when negative) by a thread. Only that thread writes its counter.
    #[inline]
    pub(crate) fn count_free(&self, thread: usize, page: u64, words: i32) {
        let counter = self.counter(thread, page);
        counter.store(counter.load(Ordering::Relaxed).wrapping_add_signed(words), Ordering::Relaxed);
    }

    fn free_total(&self, page: u64) -> u32 {
        (0..self.threads).fold(0u32, |sum, thread| sum.wrapping_add(self.counter(thread, page).load(Ordering::Relaxed)))
    }

    /// Free words of a page.
    pub(crate) fn free_words(&self, page: u64) -> u64 {
        let settled = self.settled[(page & self.mask) as usize].load(Ordering::Relaxed);
        let words = self.free_total(page).wrapping_sub(settled) as i32;
        debug_assert!(
            i64::from(words).unsigned_abs() <= 2 * super::PAGE_WORDS,
            "INV-LOG-2: a page has no more free words than words, as far as racing counters tell"
        );
        words.max(0) as u64
    }
}
