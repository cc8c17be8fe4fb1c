//! Salvage: what becomes of a page on the device that cannot be read whole.
//!
//! Devices recover, so such a page is tried again, with rests that double. A page whose blocks can be read and do not have
//! their checksums, a few times over, is given up: its blocks are read one by one, and the index is swept for entries that
//! point into it. Records in good blocks are moved like those of any compacted page, entries of the others are dropped, and the
//! page is retired. Otherwise it would keep its place in the table of pages for ever, and the page that needs that place could
//! never be written.
//!
//! An error of the device is no damage, however often it comes: nothing is dropped because of it. The page waits until the
//! device gives it, and what needs its place waits too.
//!
//! The sweep goes through the index in the order of reversed hashes, like a scan (INV-SCAN-1): what it has passed stays passed
//! while buckets split and merge.

use crate::background::compact::{Imaged, Outcome, compact_group, extents_of, groups, move_to_tail};
use crate::background::pace::Pace;
use crate::index::entry::Entry;
use crate::log::{CHUNK_WORDS, Log, PAGE_BYTES, PAGE_WORDS, PageState};
use crate::record::{Header, Record, WORD};
use crate::session::Session;
use crate::session::found::Found;
use crate::session::remove::{self, drop_lost};
use crate::session::scan::range_len;
use crate::shared::Shared;
use crate::tier::Tier;
use crate::tier::extent::Extent;
use crate::tier::pages::BLOCKS;
use crate::tier::read::stage::Fetcher;
use crate::tier::statistics::bump;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Failed attempts after which a page is given up.
const ATTEMPTS_MAX: u32 = 8;
/// Rest after the first failed attempt. It doubles with each one.
const REST_MS: i64 = 1_000;
/// Buckets swept per epoch and per step.
const GROUP_BUCKETS: usize = 32;
const BUCKETS_PER_STEP: usize = 4096;

/// Pages that could not be read whole, and how often that was tried.
#[derive(Default)]
pub(in crate::background) struct Damaged {
    attempts: HashMap<u64, Attempts>,
}

struct Attempts {
    failed: u32,
    /// How many of them gave bytes without their checksum.
    damaged: u32,
    /// When the page may be tried again.
    due_ms: i64,
}

impl Damaged {
    /// Another attempt has found damage.
    pub(in crate::background) fn note(&mut self, page: u64, now_ms: i64) {
        self.rest(page, now_ms);
        if let Some(attempts) = self.attempts.get_mut(&page) {
            attempts.damaged = attempts.damaged.saturating_add(1);
            debug_assert!(attempts.damaged <= attempts.failed, "damage is one way to fail");
        }
    }

    /// Another attempt has failed.
    pub(in crate::background) fn rest(&mut self, page: u64, now_ms: i64) {
        let attempts = self.attempts.entry(page).or_insert(Attempts { failed: 0, damaged: 0, due_ms: 0 });
        attempts.due_ms = now_ms.saturating_add(REST_MS << attempts.failed.min(ATTEMPTS_MAX));
        attempts.failed = attempts.failed.saturating_add(1);
        debug_assert!(attempts.due_ms >= now_ms, "the next attempt is later");
    }

    /// Whether the page is not to be tried yet. A clock that was set back by much does not put it off.
    pub(in crate::background) fn is_resting(&self, page: u64, now_ms: i64) -> bool {
        let resting =
            |attempts: &Attempts| (now_ms..=now_ms.saturating_add(REST_MS << ATTEMPTS_MAX)).contains(&(attempts.due_ms - 1));
        self.attempts.get(&page).is_some_and(resting)
    }

    /// Whether the page was found damaged often enough.
    pub(in crate::background) fn is_hopeless(&self, page: u64) -> bool {
        self.attempts.get(&page).is_some_and(|attempts| attempts.damaged >= ATTEMPTS_MAX)
    }

    /// The page is no longer on the device.
    pub(in crate::background) fn forget(&mut self, page: u64) {
        self.attempts.remove(&page);
    }
}

/// How far a salvage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::background) enum Progress {
    Sweeping,
    /// Nothing points into the page any more.
    Emptied,
    /// The device did not give some records: to be tried again.
    Unreadable,
    /// Some records had no room at the tail: to be tried again.
    Stuck,
}

/// The salvage of one page, whose image is the compaction's buffer.
pub(crate) struct Salvage {
    pub(crate) page: u64,
    good_blocks: Vec<bool>,
    /// Where the sweep is, in the space of reversed hashes.
    position: u64,
    /// Records with extents that cannot be read are given up in a second sweep.
    second: bool,
    outcome: Outcome,
    /// Extents of the records that could be read.
    extents: Vec<Extent>,
    entries: Vec<Entry>,
    /// Addresses of records to be moved.
    found: Vec<u64>,
}

impl Salvage {
    /// Reads a page, and looks which of its blocks are good. `None` when the device does not give one of them: it may be good.
    pub(crate) fn begin(store: &Shared, tier: &Tier, page: u64, image: &mut Buffer) -> Option<Self> {
        let info = tier.pages.info(page)?;
        debug_assert_eq!(image.len(), BLOCKS * BLOCK_BYTES, "INV-TIER-3: every block of the page is looked at");
        let mut good_blocks = vec![false; BLOCKS];
        for (at, block) in image.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            if store.background.stop.load(Ordering::Acquire) {
                return None;
            }
            bump(&tier.counters.background_reads, 1);
            bump(&tier.counters.read_bytes, BLOCK_BYTES as u64);
            let read = tier.storage.pages.read(page * PAGE_BYTES as u64 + (at * BLOCK_BYTES) as u64, block);
            if read.is_err() {
                bump(&tier.counters.read_errors, 1);
                return None;
            }
            good_blocks[at] = info.is_intact(at, block);
        }
        // What becomes of bad blocks does not matter.
        if !tier.decrypt(tier.pages.nonce(page)?, image) {
            return None;
        }
        Some(Self::new(page, good_blocks))
    }

    fn new(page: u64, good_blocks: Vec<bool>) -> Self {
        debug_assert_eq!(good_blocks.len(), BLOCKS, "INV-TIER-3: every block of the page was looked at");
        Self {
            page,
            good_blocks,
            position: 0,
            second: false,
            outcome: Outcome::Done,
            extents: Vec::new(),
            entries: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Goes on with the sweep.
    pub(in crate::background) fn step(
        &mut self,
        session: &mut Session,
        tier: &Tier,
        image: &mut Buffer,
        fetcher: &mut Fetcher,
        pace: &mut Pace,
    ) -> Progress {
        for _ in 0..BUCKETS_PER_STEP / GROUP_BUCKETS {
            pace.yield_to_workers(false);
            let ended = self.sweep_group(session, tier, image);
            let addresses = std::mem::take(&mut self.found);
            let found: Vec<Imaged> = addresses.into_iter().filter_map(|address| self.readable(image, address)).collect();
            self.extents.extend(found.iter().flat_map(extents_of));
            for group in groups(&found) {
                let now_ms = session.now_ms();
                self.outcome = self.outcome.max(compact_group(session, tier, fetcher, group, now_ms));
            }
            if ended {
                return match self.outcome {
                    Outcome::Done => Progress::Emptied,
                    Outcome::Damaged if !self.second => {
                        // What is left has extents that cannot be read.
                        (self.second, self.outcome) = (true, Outcome::Done);
                        Progress::Sweeping
                    }
                    Outcome::Unreadable => Progress::Unreadable,
                    Outcome::Damaged | Outcome::Stuck => Progress::Stuck,
                };
            }
        }
        Progress::Sweeping
    }

    /// Sweeps some buckets inside one epoch. Returns whether it has come to the end.
    fn sweep_group(&mut self, session: &mut Session, tier: &Tier, image: &mut Buffer) -> bool {
        let store = Arc::clone(&session.store);
        debug_assert!(self.found.is_empty(), "INV-TIER-2: what one group found was dealt with");
        session.enter(session.now_ms());
        let mut ended = false;
        for _ in 0..GROUP_BUCKETS {
            let latch = store.index.lock_exclusive(self.position.reverse_bits());
            let number = latch.number();
            let range = range_len(number, store.index.len());
            let mut entries = std::mem::take(&mut self.entries);
            entries.clear();
            store.index.collect(number, &mut entries);
            for entry in &entries {
                self.settle(session, tier, image, number, entry.address());
            }
            self.entries = entries;
            store.end_unit(&mut session.local);
            drop(latch);
            self.position = (self.position & !(range - 1)).wrapping_add(range);
            if self.position == 0 {
                ended = true;
                break;
            }
        }
        session.leave();
        ended
    }

    /// What becomes of an entry of a latched bucket.
    fn settle(&mut self, session: &mut Session, tier: &Tier, image: &mut Buffer, number: u64, address: u64) {
        let store = Arc::clone(&session.store);
        debug_assert!(store.index.bucket(number).is_latched_exclusively(), "INV-LATCH-1: who drops entries holds the latch");
        let page = Log::page_of(address);
        if address >= session.local.head {
            if store.log.pages.state(page) == PageState::Cache {
                self.settle_copy(session, &store, tier, number, address);
            }
            return;
        }
        if page != self.page {
            return;
        }
        match self.readable(image, address) {
            Some(imaged) if !(self.second && imaged.is_heavy()) => self.found.push(address),
            readable => {
                if let Some(position) = store.index.find_any(number, |candidate| candidate == address) {
                    let known = readable.map(|imaged| remove::Damaged::Refers(imaged.record, imaged.header));
                    drop_lost(&store, &mut session.local, number, position, known.unwrap_or(remove::Damaged::Unknown));
                }
            }
        }
    }

    /// A cached copy of one of the page's records becomes an original.
    fn settle_copy(&mut self, session: &mut Session, store: &Shared, tier: &Tier, number: u64, address: u64) {
        // SAFETY: read from a latched bucket inside the epoch.
        let record = unsafe { store.log.record(address) };
        let header = record.header();
        if !header.has(Header::CACHED) || Log::page_of(record.original(header)) != self.page {
            return;
        }
        let original = record.original(header);
        debug_assert!(original < session.local.head, "INV-TIER-2: the original of a copy is on the device");
        let Some(position) = store.index.find_any(number, |candidate| candidate == address) else { return };
        let copy = Found { number, hash: store.hash_of(record, header), position, record, header };
        if !move_to_tail(session, store, tier, &copy, original) {
            self.outcome = Outcome::Stuck;
        }
    }

    /// The extents that the page's records refer to, as far as that can be read.
    pub(crate) fn extents(&mut self, image: &mut Buffer) -> Vec<Extent> {
        let mut extents = std::mem::take(&mut self.extents);
        for chunk in (0..PAGE_WORDS).step_by(CHUNK_WORDS as usize) {
            let mut at = chunk;
            // Behind a bad block the beginning of a record is unknown.
            while at < chunk + CHUNK_WORDS
                && let Some(imaged) = self.imaged(image, self.page * PAGE_WORDS + at)
            {
                if !imaged.header.has(Header::DEAD) {
                    extents.extend(extents_of(&imaged));
                }
                at += imaged.header.units() as u64;
            }
        }
        extents.sort_unstable_by_key(|extent| extent.offset());
        extents.dedup();
        extents
    }

    /// The live record at `address`, if all of its blocks are good.
    pub(crate) fn readable(&self, image: &mut Buffer, address: u64) -> Option<Imaged> {
        self.imaged(image, address).filter(|imaged| !imaged.header.has(Header::DEAD))
    }

    /// What is at `address`, if all of its blocks are good.
    fn imaged(&self, image: &mut Buffer, address: u64) -> Option<Imaged> {
        debug_assert_eq!(Log::page_of(address), self.page, "INV-TIER-3: an image is asked for what is on it");
        let offset = (address % PAGE_WORDS) as usize * WORD;
        let good = |from: usize, to: usize| {
            self.good_blocks.get(from / BLOCK_BYTES..to.div_ceil(BLOCK_BYTES)).is_some_and(|blocks| blocks.iter().all(|good| *good))
        };
        if !good(offset, offset + WORD) {
            return None;
        }
        // SAFETY: inside the buffer, which is aligned to more than a word and lives as long as the salvage.
        let record = unsafe { Record::new(image.as_mut_ptr().add(offset).cast::<AtomicU64>()) };
        let header = record.header();
        let whole = header.units() != 0 && good(offset, offset + header.units() * WORD);
        whole.then_some(Imaged { address, record, header })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_page_is_tried_ever_more_seldom_and_then_given_up() {
        let mut damaged = Damaged::default();
        assert!(!damaged.is_resting(7, 0) && !damaged.is_hopeless(7));
        let mut now_ms = 1_000_000;
        for attempt in 0..ATTEMPTS_MAX {
            assert!(!damaged.is_hopeless(7), "{attempt}");
            damaged.note(7, now_ms);
            let rest_ms = REST_MS << attempt;
            assert!(damaged.is_resting(7, now_ms) && damaged.is_resting(7, now_ms + rest_ms - 1), "{attempt}");
            assert!(!damaged.is_resting(7, now_ms + rest_ms), "{attempt}");
            now_ms += rest_ms;
        }
        assert!(damaged.is_hopeless(7) && !damaged.is_hopeless(8));
        (0..10 * ATTEMPTS_MAX).for_each(|_| damaged.rest(8, now_ms));
        assert!(damaged.is_resting(8, now_ms) && !damaged.is_hopeless(8), "a device that does not answer is no damage");
        assert!(!damaged.is_resting(7, now_ms - 10_000_000), "the clock was set back");
        damaged.forget(7);
        assert!(!damaged.is_hopeless(7));
    }
}
