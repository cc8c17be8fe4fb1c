//! Flushing: pages from mutable to read-only to flushed to evicted, as a state machine over epochs.
//!
//! ```text
//! Rest --close--> Closing --(no writer is left)--> flush, choose pages to evict --> Evicting --(no reader is left)--> Rest
//! ```
//!
//! Pages are closed and leave memory in the order of their numbers, so that one address, the head, says what is in memory. A
//! page with little left alive is emptied into the tail instead of being written. A page of cached copies is not written
//! either: its entries are pointed back to the originals.

pub(crate) mod empty;
pub(crate) mod flusher;
pub(crate) mod image;

use super::pace::Pace;
use crate::background::flush::empty::{empty_of_copies, empty_page};
use crate::counters::add;
use crate::log::{CHUNK_WORDS, Log, PAGE_BYTES, PAGE_WORDS, PageState};
use crate::session::Session;
use crate::shared::Shared;
use crate::tier::Tier;
use crate::tier::ciphers::PageNonce;
use crate::tier::page_image;
use crate::tier::pages::DevicePages;
use crate::tier::pressure::Pressure;
use crate::tier::statistics::bump;
use crate::tier::write::ExtentWriter;
use almandine_base::{sometimes, step};
use almandine_epoch::{Machine, Phase, Run, Step};
use almandine_io::clock;
use almandine_io::storage::Buffer;
use almandine_oplog::encryption::StoragePart;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pages that one round closes or evicts at most.
const PAGES_PER_ROUND: usize = 8;
/// A page is emptied rather than written when so much of it is dead, in hundredths.
const EMPTY_DEAD_PERCENT: u64 = 60;
/// Largest share of the pages in memory that stays mutable: the rest is clean, and can leave at once.
const MUTABLE_FRACTION_MAX: f64 = 0.85;

/// What the flusher is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushPhase {
    Rest,
    Closing,
    Evicting,
}

impl Phase for FlushPhase {
    fn to_word(self) -> u64 {
        self as u64
    }

    fn from_word(word: u64) -> Self {
        debug_assert!(word <= Self::Evicting as u64, "a phase survives its word");
        match word {
            1 => Self::Closing,
            2 => Self::Evicting,
            _ => Self::Rest,
        }
    }
}

/// The flusher, as the closure of an endless run of the state machine.
pub(super) fn start(store: &Arc<Shared>) -> Option<Run<FlushPhase>> {
    let mut flush = Flush {
        session: Session::open(store)?,
        pace: Pace::new(store.options.background),
        image: Buffer::new(PAGE_BYTES),
        encrypted: None,
        extents: ExtentWriter::new(),
        next: Log::page_of(store.log.head()).max(1),
        closing: VecDeque::new(),
        clean: VecDeque::new(),
        evicting: Vec::new(),
        heap_mark: (0, 0),
    };
    let machine = Machine::new(Arc::clone(&store.epoch), FlushPhase::Rest);
    machine.start(FlushPhase::Rest, move |phase| flush.step(phase)).ok()
}

struct Flush {
    session: Session,
    pace: Pace,
    image: Buffer,
    /// The image as it is written, where that is encrypted.
    encrypted: Option<Buffer>,
    extents: ExtentWriter,
    /// The next page to close.
    next: u64,
    /// Closed, and not yet flushed.
    closing: VecDeque<u64>,
    /// Closed, and can leave at once.
    clean: VecDeque<u64>,
    /// Below the head.
    evicting: Vec<u64>,
    /// The tail's page, and how much was on the heap when it began.
    heap_mark: (u64, i64),
}

impl Flush {
    fn step(&mut self, phase: FlushPhase) -> Step<FlushPhase> {
        let store = Arc::clone(&self.session.store);
        let Some(tier) = &store.tier else { return Step::Wait };
        match phase {
            FlushPhase::Rest => {
                tier.emptying.reached(self.first());
                self.close_heavy_page(&store, tier);
                self.close(&store, tier);
                let work = !self.closing.is_empty() || self.may_evict(&store, tier);
                if work { Step::Next(FlushPhase::Closing) } else { Step::Wait }
            }
            FlushPhase::Closing => {
                // One page per poll. What may leave leaves before the next one is written: writers may be waiting for the room.
                if self.evicting.len() < PAGES_PER_ROUND
                    && self.may_evict(&store, tier)
                    && let Some(page) = self.clean.pop_front()
                {
                    debug_assert!(self.evicting.last().is_none_or(|last| *last < page), "INV-TIER-1: pages leave in their order");
                    empty_of_copies(&mut self.session, page, &mut self.pace);
                    self.evicting.push(page);
                    return Step::Wait;
                }
                debug_assert!(self.evicting.is_sorted(), "INV-TIER-1: pages leave in the order of their numbers");
                debug_assert!(self.closing.iter().is_sorted(), "INV-TIER-1: pages are closed in the order of their numbers");
                if let Some(&last) = self.evicting.last() {
                    store.log.shift_head((last + 1) * PAGE_WORDS);
                    return Step::Next(FlushPhase::Evicting);
                }
                let Some(&page) = self.closing.front() else {
                    tier.failing.store(false, Ordering::Relaxed);
                    return Step::Next(FlushPhase::Rest);
                };
                if self.settle(&store, tier, page) {
                    self.closing.pop_front();
                    self.clean.push_back(page);
                    return Step::Wait;
                }
                tier.failing.store(true, Ordering::Relaxed);
                Step::Next(FlushPhase::Rest)
            }
            FlushPhase::Evicting => {
                for page in std::mem::take(&mut self.evicting) {
                    self.release(&store, tier, page);
                }
                Step::Next(FlushPhase::Rest)
            }
        }
    }

    /// Pages in memory beyond what the budget allows, with room for the next one that is opened ahead of the tail.
    fn surplus(&self, store: &Shared, tier: &Tier) -> u64 {
        store.log.pages.resident().saturating_sub(tier.limit_pages().saturating_sub(1))
    }

    /// Whether the next clean page is to leave.
    fn may_evict(&self, store: &Shared, tier: &Tier) -> bool {
        let pressed = self.evicting.is_empty() && tier.pressure() >= Pressure::Evict;
        let surplus = || pressed || self.surplus(store, tier) > self.evicting.len() as u64;
        self.clean.front().is_some_and(|&page| tier.emptying.includes(page) || surplus())
    }

    /// The first page that has not left, while none is being evicted.
    fn first(&self) -> u64 {
        self.clean.front().or(self.closing.front()).copied().unwrap_or(self.next)
    }

    /// A page whose records hold much on the heap is not filled up, so that not all of that has to leave at once.
    fn close_heavy_page(&mut self, store: &Shared, tier: &Tier) {
        let (tail, heap_bytes) = (store.log.tail_page(), store.counters.totals().heap_bytes);
        if self.heap_mark.0 != tail {
            self.heap_mark = (tail, heap_bytes);
        } else if u64::try_from(heap_bytes - self.heap_mark.1).is_ok_and(|held| held > tier.heavy_page_bytes()) {
            store.log.leave_page(tail);
        }
    }

    fn close(&mut self, store: &Shared, tier: &Tier) {
        let fraction = store.options.mutable_fraction.clamp(0.1, MUTABLE_FRACTION_MAX);
        let mutable = ((tier.limit_pages() as f64 * fraction) as u64).saturating_sub(tier.pages_ahead()).max(2);
        let last = store.log.tail_page().max(store.log.cache_page());
        let closed = (self.clean.len() + self.closing.len()) as u64;
        let mut unclosed = store.log.pages.resident().saturating_sub(closed);
        // Under pressure one page is kept ready to leave: the oldest, and while memory is exceeded whether it is full or not.
        let pressed = |page| match tier.pressure() {
            Pressure::None => false,
            Pressure::Close => page < store.log.tail_page(),
            Pressure::Evict | Pressure::Stall => true,
        };
        let mut ready = !self.clean.is_empty() || !self.closing.is_empty();
        let mut due = |page, unclosed| {
            unclosed > mutable || tier.emptying.includes(page) || !std::mem::replace(&mut ready, true) && pressed(page)
        };
        while due(self.next, unclosed) && self.closing.len() < PAGES_PER_ROUND && self.next <= last {
            let page = self.next;
            self.next += 1;
            debug_assert!(self.closing.back().is_none_or(|last| *last < page), "INV-TIER-1: pages are closed in their order");
            // Whatever the page is: the tail must not come to it once the flusher has passed it.
            if page >= store.log.tail_page() {
                store.log.leave_page(page);
            }
            // A session may have a chunk of a page that is not open yet. The first to open it decides whether it is used.
            if store.log.pages.state(page) == PageState::Absent {
                store.log.pages.open(page);
            }
            match store.log.pages.state(page) {
                PageState::Open => {
                    store.log.pages.close(page);
                }
                PageState::Cache => {}
                _ => continue,
            }
            store.log.shift_read_only((page + 1) * PAGE_WORDS);
            debug_assert!(store.log.read_only() <= store.log.tail_address(), "INV-TIER-1: new records are mutable");
            self.closing.push_back(page);
            unclosed = unclosed.saturating_sub(1);
        }
    }

    /// Makes a closed page ready to leave. False when the device does not take it.
    fn settle(&mut self, store: &Shared, tier: &Tier, page: u64) -> bool {
        if store.log.pages.state(page) == PageState::Cache {
            return true;
        }
        let sparse = store.log.pages.free_words(page) * 100 > PAGE_WORDS * EMPTY_DEAD_PERCENT;
        // What is moved to the tail does not leave.
        if sparse
            && tier.pressure() < Pressure::Evict
            && !tier.emptying.includes(page)
            && empty_page(&mut self.session, page, &mut self.pace)
        {
            store.log.pages.mark_flushed(page);
            return true;
        }
        self.flush(store, tier, page)
    }

    /// Asks the device to take a page, unless it has refused one and nothing has changed.
    fn flush(&mut self, store: &Shared, tier: &Tier, page: u64) -> bool {
        debug_assert_eq!(store.log.pages.state(page), PageState::Closing, "INV-TIER-1: closed, flushed, evicted");
        // Where the table of pages has no place, compaction makes one.
        if tier.space.refusal.holds() || !tier.pages.begin(page) {
            return false;
        }
        let seen = tier.space.refusal.seen();
        let is_taken = self.write(store, tier, page);
        if is_taken {
            tier.space.refusal.end()
        } else {
            tier.space.refusal.refuse(seen, clock::monotonic_ns())
        }
        is_taken
    }

    fn write(&mut self, store: &Shared, tier: &Tier, page: u64) -> bool {
        // Each attempt has a nonce of its own: an image that was made again is another one.
        let made = tier.storage.ciphers.draw().and_then(|nonce| {
            self.extents.encrypt_with(nonce);
            let made = image::make(&mut self.session, tier, page, &mut self.image, &mut self.extents);
            made.map(|contents| (nonce, contents)).inspect_err(|_| tier.storage.ciphers.forget_page(nonce))
        });
        let written = made.and_then(|(nonce, contents)| {
            if contents.records != 0 {
                bump(&tier.counters.writes, 1);
                bump(&tier.counters.written_bytes, PAGE_BYTES as u64);
                let image = encrypted(tier, nonce, &self.image, &mut self.encrypted);
                let written = image.and_then(|image| tier.storage.pages.write(page * PAGE_BYTES as u64, image));
                let written = step!(HeedWrite, written, else Ok(()));
                if let Err(error) = written {
                    // The next attempt makes a new image, with extents of its own.
                    tier.free_extents(page_image::extents(&mut self.image, page));
                    tier.storage.ciphers.forget_page(nonce);
                    return Err(error);
                }
            }
            Ok((nonce, contents))
        });
        match written {
            Ok((nonce, contents)) if contents.records == 0 => {
                tier.storage.ciphers.forget_page(nonce);
                tier.pages.cancel(page);
            }
            Ok((nonce, contents)) => {
                let image = self.encrypted.as_ref().filter(|_| !nonce.is_plain()).unwrap_or(&self.image);
                tier.pages.publish(page, contents, (nonce, image));
                bump(&tier.counters.pages_flushed, 1);
                tier.wakers.compactor.wake();
            }
            Err(_) => {
                sometimes!("a page is not written");
                tier.pages.cancel(page);
                bump(&tier.counters.write_errors, 1);
                return false;
            }
        }
        store.log.pages.mark_flushed(page);
        true
    }

    fn release(&mut self, store: &Shared, tier: &Tier, page: u64) {
        debug_assert!(page < Log::page_of(store.log.head()), "INV-TIER-1: only pages below the head leave");
        debug_assert!(DevicePages::first_address(page) < store.log.read_only(), "INV-TIER-1: head <= read_only");
        self.heap_mark.1 -= image::drop_heavy(&mut self.session, page);
        let counters = store.thread(&self.session.local);
        add(&counters.taken_words, -((store.log.pages.taken(page) * CHUNK_WORDS) as i64));
        add(&counters.free_words, -(store.log.pages.free_words(page) as i64));
        store.log.release_page(page);
        tier.pages.evicted(page);
        sometimes!("a page leaves memory");
        bump(&tier.counters.pages_evicted, 1);
    }
}

/// An image as it is to be written: itself, or encrypted in a buffer of its own.
fn encrypted<'b>(tier: &Tier, nonce: PageNonce, image: &'b Buffer, buffer: &'b mut Option<Buffer>) -> io::Result<&'b Buffer> {
    debug_assert_eq!(image.len(), PAGE_BYTES, "INV-TIER-3: an image is one of a whole page");
    if nonce.is_plain() {
        *buffer = None;
        return Ok(image);
    }
    let encrypted = buffer.get_or_insert_with(|| Buffer::new(PAGE_BYTES));
    encrypted.copy_from_slice(image);
    step!(EncryptPages, tier.storage.ciphers.apply(nonce, StoragePart::Page, 0, encrypted)?);
    Ok(encrypted)
}
