//! What memory knows of the pages on the device: checksums of their blocks, and how much of them is dead.
//!
//! Tables, rings by page number: heads of 32 bytes, which every cold look-up needs and which stay in the caches; checksums,
//! two KiB per page, a thousandth of it; and a word that says how the page was encrypted, whose memory is not touched where none
//! is. A page is published before its image is made, so that records which die meanwhile are
//! counted, and is *on the device* when its image is.

use crate::log::{Log, PAGE_BYTES, PAGE_WORDS};
use crate::record::WORD;
use crate::tier::ciphers::PageNonce;
use almandine_base::step;
use almandine_io::memory::Reservation;
use almandine_io::storage::BLOCK_BYTES;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Blocks of a page.
pub(crate) const BLOCKS: usize = PAGE_BYTES / BLOCK_BYTES;

const WRITING: u64 = 1;
const STORED: u64 = 2;
/// Given up for ever: no thread writes to its entries any more.
const RETIRED: u64 = 3;

/// One part in this number of the table is kept free of the oldest pages.
const MARGIN_SHARE: u64 = 64;
/// In a head's namespace: all records of the page had an expiry. Not with [`PageInfo::MIXED`].
const ALL_EXPIRE: u32 = 1 << 31;
/// In a head's namespace: some records of the page had an expiry, or elements with one. Not with [`PageInfo::MIXED`].
const SOME_EXPIRE: u32 = 1 << 30;

/// Granularity at which memory of the tables goes back.
const SMALL_PAGE: usize = 4096;

/// Whether a head's word says that it has a page.
fn is_taken(word: u64) -> bool {
    matches!(word & 3, WRITING | STORED)
}

/// What a page on the device holds.
#[repr(C)]
struct PageHead {
    /// Page number and state.
    word: AtomicU64,
    dead_words: AtomicU32,
    /// Words of the records that were live when the page was written, extents included.
    live_words: AtomicU32,
    records: AtomicU32,
    /// Words of its largest record.
    largest: AtomicU32,
    /// The namespace of all its records, with [`ALL_EXPIRE`], or [`PageInfo::MIXED`].
    namespace: AtomicU32,
    /// Blocks that its records have on the value device.
    extent_blocks: AtomicU32,
}

type PageSums = [AtomicU32; BLOCKS];

/// What is known of a page on the device.
#[derive(Clone, Copy)]
pub(crate) struct PageInfo<'p> {
    head: &'p PageHead,
    sums: &'p PageSums,
}

/// What is known of a page on the device, as a base of the operation log keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRow {
    /// Its number.
    pub page: u64,
    /// Words known to be dead.
    pub dead_words: u32,
    /// Words of the records that were live when the page was written.
    pub live_words: u32,
    /// How many these are.
    pub records: u32,
    /// Words of the largest.
    pub largest: u32,
    /// Their namespace, with what is known of their expiry.
    pub namespace: u32,
    /// Blocks that they have on the value device.
    pub extent_blocks: u32,
    /// How it is encrypted.
    pub nonce: PageNonce,
    /// Checksums of its blocks.
    pub sums: Vec<u32>,
}

impl PageRow {
    /// Checksums of a page.
    pub const SUMS: usize = BLOCKS;
}

/// What an image turned out to hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Contents {
    pub(crate) live_words: u32,
    pub(crate) records: u32,
    pub(crate) largest: u32,
    pub(crate) namespace: u32,
    pub(crate) extent_blocks: u32,
    /// Records with an expiry.
    pub(crate) volatile: u32,
    /// Elements of some expire.
    pub(crate) has_due_elements: bool,
}

impl PageInfo<'_> {
    /// The page has records of several namespaces.
    pub(crate) const MIXED: u32 = u32::MAX;

    pub(crate) fn namespace(self) -> u32 {
        match self.head.namespace.load(Ordering::Relaxed) {
            Self::MIXED => Self::MIXED,
            namespace => namespace & !(ALL_EXPIRE | SOME_EXPIRE),
        }
    }

    /// Whether something of it may expire.
    pub(crate) fn may_expire(self) -> bool {
        // Those of several namespaces, too.
        self.head.namespace.load(Ordering::Relaxed) & SOME_EXPIRE != 0
    }

    /// Whether all of its records had an expiry when it was written; false for a page of several namespaces.
    pub(crate) fn all_expire(self) -> bool {
        let namespace = self.head.namespace.load(Ordering::Relaxed);
        namespace != Self::MIXED && namespace & ALL_EXPIRE != 0
    }

    /// Bytes that a read of one record should ask for.
    pub(crate) fn record_bytes(self) -> usize {
        let largest = self.head.largest.load(Ordering::Relaxed);
        let mean = self.mean_words();
        // Where sizes differ much, twice the mean: a record that is longer costs a second read.
        largest.min(2 * mean).max(2) as usize * WORD
    }

    /// Mean words of its records.
    fn mean_words(self) -> u32 {
        self.head.live_words.load(Ordering::Relaxed) / self.head.records.load(Ordering::Relaxed).max(1)
    }

    /// Words that the page takes on the devices.
    pub(crate) fn capacity_words(self) -> u64 {
        PAGE_WORDS + self.extent_blocks() * (BLOCK_BYTES / WORD) as u64
    }

    /// Blocks that its records have on the value device, or that they weigh if that is more.
    pub(crate) fn extent_blocks(self) -> u64 {
        u64::from(self.head.extent_blocks.load(Ordering::Relaxed))
    }

    /// Words known to be dead, of those that the page takes.
    pub(crate) fn dead_words(self) -> u64 {
        let live = self.head.live_words.load(Ordering::Relaxed);
        let dead = self.head.dead_words.load(Ordering::Relaxed).min(live);
        debug_assert!(u64::from(live) <= self.capacity_words(), "INV-LOG-2: what lives on a page fits it");
        self.capacity_words().saturating_sub(u64::from(live - dead))
    }

    /// Whether the block number `block` of the page has these bytes.
    pub(crate) fn is_intact(self, block: usize, bytes: &[u8]) -> bool {
        debug_assert_eq!(bytes.len(), BLOCK_BYTES, "INV-TIER-3: a checksum is one of a whole block");
        let is_intact = self.sums.get(block).is_some_and(|sum| sum.load(Ordering::Relaxed) == checksum(bytes));
        step!(CompareSums, is_intact, else true)
    }
}

/// A checksum of a block.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    const SECRETS: RapidSecrets = RapidSecrets::seed(0xA1A4_D14E);
    let hash = rapidhash_v3_inline::<true, false, false>(bytes, &SECRETS);
    (hash ^ hash >> 32) as u32
}

/// The table of all pages on the device.
pub(crate) struct DevicePages {
    heads: Reservation,
    sums: Reservation,
    nonces: Reservation,
    mask: u64,
    stored: AtomicU64,
    capacity_words: AtomicU64,
    live_words: AtomicU64,
    /// No page before this one is on the device, or ever will be again. It only grows.
    first: AtomicU64,
}

impl DevicePages {
    pub(crate) fn new(pages_max: u64) -> io::Result<Self> {
        let pages = pages_max.next_power_of_two() as usize;
        debug_assert!(pages.is_power_of_two() && pages as u64 >= pages_max, "a page's place is found by a mask");
        let heads = Reservation::small_pages(pages * size_of::<PageHead>())?;
        let sums = Reservation::small_pages(pages * size_of::<PageSums>())?;
        let nonces = Reservation::small_pages(pages * size_of::<AtomicU64>())?;
        let (mask, zero) = (pages as u64 - 1, || AtomicU64::new(0));
        let (stored, capacity_words, live_words, first) = (zero(), zero(), zero(), zero());
        Ok(Self { heads, sums, nonces, mask, stored, capacity_words, live_words, first })
    }

    fn head(&self, page: u64) -> &PageHead {
        // SAFETY: the masked number is below the number of entries that were reserved; zeroes are a valid entry, and all of
        // its fields are atomic.
        unsafe { &*self.heads.base().as_ptr().cast::<PageHead>().add((page & self.mask) as usize) }
    }

    fn row(&self, page: u64) -> PageInfo<'_> {
        // SAFETY: as above.
        let sums = unsafe { &*self.sums.base().as_ptr().cast::<PageSums>().add((page & self.mask) as usize) };
        PageInfo { head: self.head(page), sums }
    }

    fn nonce_word(&self, page: u64) -> &AtomicU64 {
        // SAFETY: as of a head.
        unsafe { &*self.nonces.base().as_ptr().cast::<AtomicU64>().add((page & self.mask) as usize) }
    }

    /// How a page on the device is encrypted; none when it is given up.
    pub(crate) fn nonce(&self, page: u64) -> Option<PageNonce> {
        let nonce = PageNonce::from_word(self.nonce_word(page).load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        // Else it may be another page's by now.
        self.is_stored(page).then_some(nonce)
    }

    fn set_nonce(&self, page: u64, nonce: PageNonce) {
        debug_assert!(!self.is_stored(page), "INV-ENCRYPTION-3: a page is encrypted once");
        // A page of memory that has none need not be touched.
        if self.nonce_word(page).load(Ordering::Relaxed) != nonce.to_word() {
            self.nonce_word(page).store(nonce.to_word(), Ordering::Relaxed);
        }
    }

    /// What is known of a page that is on the device or being written.
    pub(crate) fn info(&self, page: u64) -> Option<PageInfo<'_>> {
        let row = self.row(page);
        let word = row.head.word.load(Ordering::Acquire);
        (word >> 2 == page && is_taken(word)).then_some(row)
    }

    /// Asks the cache for a block's checksum.
    pub(crate) fn prefetch_sum(&self, page: u64, block: usize) {
        if let Some(sum) = self.row(page).sums.get(block) {
            crate::index::prefetch(std::ptr::from_ref(sum).cast());
        }
    }

    /// Whether a page can be read from the device.
    pub(crate) fn is_stored(&self, page: u64) -> bool {
        self.head(page).word.load(Ordering::Acquire) == page << 2 | STORED
    }

    /// Begins to write a page. `false` while another one has its entry.
    pub(crate) fn begin(&self, page: u64) -> bool {
        let head = self.head(page);
        let word = head.word.load(Ordering::Acquire);
        debug_assert!(word >> 2 <= page, "INV-TIER-1: pages are written in their order, so a place never goes to an older page");
        if is_taken(word) && word >> 2 != page {
            return false;
        }
        head.dead_words.store(0, Ordering::Relaxed);
        head.live_words.store(0, Ordering::Relaxed);
        head.word.store(page << 2 | WRITING, Ordering::Release);
        debug_assert!(!self.is_stored(page), "INV-TIER-1: a page is being written, then stored");
        true
    }

    /// A page's image is on the device, as it is here.
    pub(crate) fn publish(&self, page: u64, contents: Contents, (nonce, image): (PageNonce, &[u8])) {
        let row = self.row(page);
        let head = row.head;
        debug_assert_eq!(head.word.load(Ordering::Relaxed), page << 2 | WRITING, "INV-TIER-1: what is stored was being written");
        debug_assert_eq!(image.len(), PAGE_BYTES, "INV-TIER-3: every block of the page has a checksum");
        debug_assert!(contents.records == 0 || contents.largest != 0, "INV-LOG-2: a record has words");
        for (sum, block) in row.sums.iter().zip(image.chunks_exact(BLOCK_BYTES)) {
            sum.store(checksum(block), Ordering::Relaxed);
        }
        self.set_nonce(page, nonce);
        head.live_words.store(contents.live_words, Ordering::Relaxed);
        head.records.store(contents.records, Ordering::Relaxed);
        head.largest.store(contents.largest, Ordering::Relaxed);
        let all_expire = contents.volatile == contents.records && contents.namespace != PageInfo::MIXED;
        let some_expire = contents.volatile != 0 || contents.has_due_elements;
        let flag = |flag: u32, is: bool| if is { flag } else { 0 };
        head.namespace.store(contents.namespace | flag(ALL_EXPIRE, all_expire) | flag(SOME_EXPIRE, some_expire), Ordering::Relaxed);
        head.extent_blocks.store(contents.extent_blocks, Ordering::Relaxed);
        head.word.store(page << 2 | STORED, Ordering::Release);
        self.stored.fetch_add(1, Ordering::Relaxed);
        self.capacity_words.fetch_add(row.capacity_words(), Ordering::Relaxed);
        let dead = head.dead_words.load(Ordering::Relaxed).min(contents.live_words);
        self.live_words.fetch_add(u64::from(contents.live_words - dead), Ordering::Relaxed);
    }

    /// What is known of a stored page; none once it is given up.
    pub(crate) fn row_of(&self, page: u64) -> Option<PageRow> {
        if !self.is_stored(page) {
            return None;
        }
        let PageInfo { head, sums } = self.row(page);
        let read = |word: &AtomicU32| word.load(Ordering::Relaxed);
        let row = PageRow {
            page,
            dead_words: read(&head.dead_words),
            live_words: read(&head.live_words),
            records: read(&head.records),
            largest: read(&head.largest),
            namespace: read(&head.namespace),
            extent_blocks: read(&head.extent_blocks),
            nonce: PageNonce::from_word(self.nonce_word(page).load(Ordering::Relaxed)),
            sums: sums.iter().map(read).collect(),
        };
        fence(Ordering::Acquire);
        // Else it may be another page's by now.
        self.is_stored(page).then_some(row)
    }

    /// Takes a page into the table that an earlier store has written; false: there is no room for it, or it is no page.
    pub(crate) fn adopt(&self, row: &PageRow) -> bool {
        debug_assert!(row.largest as u64 <= PAGE_WORDS, "INV-LOG-2: a record lies within its page");
        let taken = self.row(row.page);
        if is_taken(taken.head.word.load(Ordering::Relaxed)) || row.sums.len() != BLOCKS {
            return false;
        }
        let write = |word: &AtomicU32, value: u32| word.store(value, Ordering::Relaxed);
        let head = taken.head;
        write(&head.dead_words, row.dead_words);
        write(&head.live_words, row.live_words);
        write(&head.records, row.records);
        write(&head.largest, row.largest);
        write(&head.namespace, row.namespace);
        write(&head.extent_blocks, row.extent_blocks);
        taken.sums.iter().zip(&row.sums).for_each(|(sum, value)| write(sum, *value));
        self.set_nonce(row.page, row.nonce);
        head.word.store(row.page << 2 | STORED, Ordering::Release);
        self.stored.fetch_add(1, Ordering::Relaxed);
        self.capacity_words.fetch_add(taken.capacity_words(), Ordering::Relaxed);
        self.live_words.fetch_add(u64::from(row.live_words.saturating_sub(row.dead_words)), Ordering::Relaxed);
        true
    }

    /// Counts words of an adopted page as dead, in place of what its row said.
    pub(crate) fn set_dead(&self, page: u64, words: u32) {
        let Some(info) = self.info(page) else { return };
        let live = info.head.live_words.load(Ordering::Relaxed);
        debug_assert!(self.is_stored(page), "INV-RETAIN-1: what is adopted is on the device");
        let before = info.head.dead_words.swap(words.min(live), Ordering::Relaxed).min(live);
        self.live_words.fetch_add(u64::from(before), Ordering::Relaxed);
        self.live_words.fetch_sub(u64::from(words.min(live)), Ordering::Relaxed);
    }

    /// The page will not be written after all.
    pub(crate) fn cancel(&self, page: u64) {
        debug_assert!(!self.is_stored(page), "INV-TIER-1: only what is being written can be given up");
        self.head(page).word.store(page << 2, Ordering::Release);
    }

    /// Words that a record takes on the devices, given the lengths of its heap objects.
    pub(crate) fn weight(units: usize, heap_lengths: [Option<usize>; 2]) -> u32 {
        let extents: usize = heap_lengths.into_iter().flatten().map(super::extent::blocks_for).sum();
        debug_assert!(units != 0, "INV-LOG-2: a record has words");
        (units + extents * (BLOCK_BYTES / WORD)) as u32
    }

    /// A page is given up: nothing points to it any more. What readers got of it before counts, what they get from now on does not.
    pub(super) fn retire(&self, page: u64) {
        debug_assert!(self.is_stored(page), "INV-TIER-3: what is given up was stored");
        debug_assert_ne!(self.len(), 0, "INV-TIER-3: stored pages are counted");
        let row = self.row(page);
        let dead = row.head.dead_words.load(Ordering::Relaxed);
        let live = row.head.live_words.load(Ordering::Relaxed);
        debug_assert!(
            self.capacity_words.load(Ordering::Relaxed) >= row.capacity_words(),
            "INV-TIER-3: what a page takes is part of what all take"
        );
        row.head.word.store(page << 2 | RETIRED, Ordering::Release);
        self.stored.fetch_sub(1, Ordering::Relaxed);
        self.capacity_words.fetch_sub(row.capacity_words(), Ordering::Relaxed);
        self.live_words.fetch_sub(u64::from(live.saturating_sub(dead)), Ordering::Relaxed);
        self.release_around(page);
    }

    /// A page has left memory. If it is not on the device, it never will be.
    pub(crate) fn evicted(&self, page: u64) {
        let head = self.head(page);
        if !is_taken(head.word.load(Ordering::Acquire)) {
            head.word.store(page << 2 | RETIRED, Ordering::Release);
            self.release_around(page);
        }
    }

    /// Gives the memory around a retired page's entries back, as far as all pages that share it are retired. Page numbers only
    /// grow, so else the tables would.
    fn release_around(&self, page: u64) {
        for (table, entry) in [(&self.sums, size_of::<PageSums>()), (&self.heads, size_of::<PageHead>())] {
            let sharing = (SMALL_PAGE / entry) as u64;
            debug_assert!(sharing.is_power_of_two(), "entries do not straddle pages of memory");
            let first = page / sharing * sharing;
            if (first..first + sharing).all(|page| self.head(page).word.load(Ordering::Acquire) == page << 2 | RETIRED) {
                table.release((first & self.mask) as usize * entry, SMALL_PAGE);
            }
        }
    }

    /// Counts words of a record as dead, if its page is on the device or on its way.
    pub(crate) fn count_dead(&self, address: u64, words: u32) {
        debug_assert_ne!(address, 0, "INV-LOG-1: no record is at address 0");
        let Some(info) = self.info(Log::page_of(address)) else { return };
        let before = info.head.dead_words.fetch_add(words, Ordering::Relaxed);
        let live = info.head.live_words.load(Ordering::Relaxed);
        // Both sums saturate alike: what is counted beyond the page's live words changes neither.
        let counted = live.saturating_sub(before).min(words);
        self.live_words.fetch_sub(u64::from(counted).min(self.live_words.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// As [`DevicePages::count_dead`] for a record of unknown size.
    pub(crate) fn count_dead_typical(&self, address: u64) {
        if let Some(info) = self.info(Log::page_of(address)) {
            self.count_dead(address, info.mean_words());
        }
    }

    /// The first address of a page.
    pub(crate) const fn first_address(page: u64) -> u64 {
        page * PAGE_WORDS
    }

    /// Pages on the device.
    pub(crate) fn len(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Words on the devices, and those of them not known to be dead.
    pub(crate) fn words(&self) -> (u64, u64) {
        let capacity = self.capacity_words.load(Ordering::Relaxed);
        (capacity, self.live_words.load(Ordering::Relaxed).min(capacity))
    }

    /// Bytes of records on the device not known to be dead.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_words.load(Ordering::Relaxed) * WORD as u64
    }

    /// Bytes of this table.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.len() * (size_of::<PageHead>() + size_of::<PageSums>() + size_of::<AtomicU64>()) as u64
    }

    /// Numbers of the pages on the device, up to `end`. No page below `head` is still to be written: those are left out for good
    /// once they have gone. Any thread may call this while pages are written.
    pub(crate) fn stored_pages(&self, head: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        debug_assert!(head <= end, "INV-TIER-1: what is on the device only is part of what is on the device");
        let mut first = self.first.load(Ordering::Relaxed);
        while first < head && !self.is_stored(first) {
            first += 1;
        }
        self.first.fetch_max(first, Ordering::Relaxed);
        (first..end).filter(|&page| self.is_stored(page))
    }

    /// Whether the page's place in the table is needed by the time the tail is at page `tail`.
    pub(crate) fn is_needed_by(&self, page: u64, tail: u64) -> bool {
        page + self.mask < tail
    }

    /// Pages ahead of the tail whose places in the table are made free in good time.
    pub(crate) fn margin(&self) -> u64 {
        (self.mask + 1) / MARGIN_SHARE
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn dead_words_are_counted_once_the_page_is_published() {
        let pages = DevicePages::new(8).unwrap();
        let image = vec![7u8; PAGE_BYTES];
        pages.count_dead(3 * PAGE_WORDS, 100);
        assert!(pages.begin(3) && !pages.is_stored(3));
        pages.count_dead(3 * PAGE_WORDS, 10);
        let contents =
            Contents { live_words: 1000, records: 10, largest: 150, namespace: 1, extent_blocks: 0, ..Contents::default() };
        pages.publish(3, contents, (PageNonce::PLAIN, &image));
        assert!(!pages.begin(11), "the entry is taken");
        assert!(pages.is_needed_by(3, 11) && !pages.is_needed_by(3, 10) && !pages.is_needed_by(4, 11));
        pages.count_dead(3 * PAGE_WORDS + 5, 100);
        pages.count_dead_typical(3 * PAGE_WORDS + 500);
        let info = pages.info(3).unwrap();
        assert_eq!(info.dead_words(), 210 + PAGE_WORDS - 1000);
        assert_eq!(info.record_bytes(), 150 * WORD);
        assert!(info.is_intact(0, &image[..BLOCK_BYTES]));
        let mut torn = image[..BLOCK_BYTES].to_vec();
        torn[4000] ^= 1;
        assert!(!info.is_intact(0, &torn), "INV-TIER-3");
        assert_eq!(pages.stored_pages(100, 100).collect::<Vec<_>>(), [3]);
        pages.retire(3);
        assert_eq!((pages.len(), pages.live_bytes()), (0, 0));
        assert!(pages.begin(11));
    }

    #[test]
    fn entries_of_retired_pages_give_their_memory_back() {
        let pages = DevicePages::new(1 << 12).unwrap();
        let image = vec![7u8; PAGE_BYTES];
        let contents = Contents { live_words: 10, records: 1, largest: 10, namespace: 1, extent_blocks: 0, ..Contents::default() };
        let store = |page| {
            assert!(pages.begin(page));
            pages.publish(page, contents, (PageNonce::PLAIN, &image));
        };
        (0..300).for_each(store);
        let sum = |page: u64| pages.row(page).sums[0].load(Ordering::Relaxed);
        pages.retire(6);
        assert!(sum(6) != 0 && pages.info(7).unwrap().is_intact(0, &image[..BLOCK_BYTES]), "it shares memory with the other");
        pages.retire(7);
        assert_eq!((sum(6), sum(7)), (0, 0));
        (0..128).filter(|page| !(6..8).contains(page)).for_each(|page| pages.retire(page));
        // A page of copies was never begun.
        (300..302).for_each(|page| pages.evicted(page));
        pages.evicted(200);
        assert!((0..128).all(|page| pages.head(page).word.load(Ordering::Relaxed) == 0 && pages.info(page).is_none()));
        assert!((128..300).all(|page| pages.is_stored(page)));
        assert_eq!(pages.stored_pages(302, 1000).count(), 172);
        // What was begun and given up is begun again.
        assert!(pages.begin(302));
        pages.cancel(302);
        store(302);
        assert!(pages.is_stored(302));
    }

    #[test]
    fn a_page_that_is_written_while_pages_are_listed_is_listed_when_it_is_stored() {
        let pages = DevicePages::new(64).unwrap();
        let image = vec![7u8; PAGE_BYTES];
        let contents = Contents { live_words: 10, records: 1, largest: 10, namespace: 1, extent_blocks: 0, ..Contents::default() };
        // Pages 0 and 1 are closed, and the head is at the first of them.
        assert!(pages.begin(0) && pages.begin(1));
        assert_eq!(pages.stored_pages(0, 2).count(), 0);
        pages.publish(1, contents, (PageNonce::PLAIN, &image));
        assert_eq!(pages.stored_pages(0, 2).collect::<Vec<_>>(), [1]);
        // The other one was written twice, because the device failed once.
        pages.publish(0, contents, (PageNonce::PLAIN, &image));
        assert_eq!(pages.stored_pages(0, 2).collect::<Vec<_>>(), [0, 1], "no page is forgotten before the head has passed it");
        pages.retire(0);
        assert_eq!(pages.stored_pages(2, 2).collect::<Vec<_>>(), [1]);
        assert_eq!(pages.first.load(Ordering::Relaxed), 1);
    }
}
