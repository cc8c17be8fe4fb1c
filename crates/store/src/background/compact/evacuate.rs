//! Evacuation: pages with much dead space are evacuated and given back, wherever in the log they are.
//!
//! ```text
//! Rest --choose--> Closing --(all sessions know)--> Evacuating --> Releasing --(no reader left)--> Rest
//! ```
//!
//! The phases run on an epoch-protected state machine. *Closing*: freed space of the chosen pages is no longer reused, and
//! once the phase has settled no session is about to. *Evacuating*: each live record is copied elsewhere under its bucket's
//! latch and its index entry pointed to the copy; it is bounded per poll. *Releasing*: when it has settled, no optimistic
//! reader is on the pages, and their memory goes back to the system. No record is lost: a record that the walk finds live is
//! moved by the same latch-protected step that an update would use (INV-LOG-1).

use crate::background::pace::Pace;
use crate::counters::{Totals, add};
use crate::log::{PAGE_WORDS, PageState};
use crate::record::{Header, Record};
use crate::session::{Session, allocate};
use crate::shared::Shared;
use almandine_epoch::{Machine, Phase, Run, Step};
use almandine_io::clock;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pages that one round evacuates at most.
const PAGES_PER_ROUND: usize = 8;
/// Free words below which evacuation stops: four pages, which are 8 MiB.
const FREE_WORDS_MIN: i64 = 4 * PAGE_WORDS as i64;
/// A page is worth evacuating from this free part on, even if the total asks for more. What chunks lose at their ends is
/// less, so evacuating always gains something, and ends.
const PAGE_FREE_MIN: u64 = PAGE_WORDS / 10;
/// The free part of the log that evacuation leaves when next to nothing changes.
const FREE_FRACTION_AT_REST: f64 = 0.05;
/// Words per second that evacuation may copy for the sake of a smaller free part than is allowed at most (16 MiB).
const COPY_WORDS_PER_S: f64 = ((16 << 20) / 8) as f64;
/// How often the rate of dying records is looked at, and what remains of a higher rate each time.
const CHURN_EVERY_NS: u64 = 500_000_000;
const CHURN_DECAY: f64 = 0.8;

/// What evacuation is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvacuationPhase {
    Rest,
    Closing,
    Evacuating,
    Releasing,
}

impl Phase for EvacuationPhase {
    fn to_word(self) -> u64 {
        self as u64
    }

    fn from_word(word: u64) -> Self {
        debug_assert!(word <= Self::Releasing as u64, "a phase survives its word");
        match word {
            1 => Self::Closing,
            2 => Self::Evacuating,
            3 => Self::Releasing,
            _ => Self::Rest,
        }
    }
}

/// The evacuator, as the closure of an endless run of the state machine.
pub(crate) fn start(store: &Arc<Shared>) -> Option<Run<EvacuationPhase>> {
    let mut evacuator = Evacuator {
        session: Session::open(store)?,
        pace: Pace::new(store.options.background),
        churn: Churn::new(),
        fruitless_words: None,
        pages: Vec::new(),
        evacuated: 0,
    };
    let machine = Machine::new(Arc::clone(&store.epoch), EvacuationPhase::Rest);
    machine.start(EvacuationPhase::Rest, move |phase| evacuator.step(phase)).ok()
}

/// How fast records die. To keep a free part *f*, evacuation copies (1 − f) / f words for each that dies, so the slower the
/// churn, the less needs to be left free; a store at rest gives nearly everything back.
struct Churn {
    at_ns: u64,
    /// What had happened by then: records replaced, removed or using space again.
    events: i64,
    live: i64,
    words_per_s: f64,
}

impl Churn {
    fn new() -> Self {
        Self { at_ns: clock::monotonic_ns(), events: 0, live: 0, words_per_s: f64::INFINITY }
    }

    /// The free part to keep, at most `most`.
    fn free_fraction(&mut self, totals: &Totals, moved: u64, most: f64) -> f64 {
        let elapsed_ns = clock::monotonic_ns() - self.at_ns;
        if elapsed_ns >= CHURN_EVERY_NS {
            let events = totals.updates_copied + totals.expired + totals.evicted + totals.revivified - moved as i64;
            let records = (events - self.events).abs() + (totals.live - self.live).abs();
            let words = (totals.taken_words - totals.free_words).max(0) as f64 / totals.live.max(1) as f64;
            let rate = records as f64 * words / (elapsed_ns as f64 / 1e9);
            let before = if self.words_per_s.is_finite() { self.words_per_s * CHURN_DECAY } else { rate };
            *self = Self { at_ns: self.at_ns + elapsed_ns, events, live: totals.live, words_per_s: rate.max(before) };
        }
        if self.words_per_s.is_finite() {
            (self.words_per_s / (self.words_per_s + COPY_WORDS_PER_S)).max(FREE_FRACTION_AT_REST).min(most)
        } else {
            most
        }
    }
}

struct Evacuator {
    session: Session,
    pace: Pace,
    churn: Churn,
    /// How much was free when no page was worth evacuating.
    fruitless_words: Option<i64>,
    pages: Vec<u64>,
    /// How many of `pages` this round has been through.
    evacuated: usize,
}

impl Evacuator {
    fn step(&mut self, phase: EvacuationPhase) -> Step<EvacuationPhase> {
        match phase {
            EvacuationPhase::Rest => {
                self.choose();
                let store = &self.session.store;
                debug_assert_eq!(self.evacuated, 0, "INV-LOG-1: a round begins with its first page");
                self.pages.retain(|&page| store.log.pages.close(page));
                store.budget.stall.evacuation_chose(!self.pages.is_empty());
                if self.pages.is_empty() { Step::Wait } else { Step::Next(EvacuationPhase::Closing) }
            }
            EvacuationPhase::Closing => {
                // A session that had just taken a chunk when the page was chosen is known by now.
                let store = &self.session.store;
                self.pages.retain(|&page| !is_active(store, page) || !store.log.pages.reopen(page));
                Step::Next(EvacuationPhase::Evacuating)
            }
            EvacuationPhase::Evacuating => {
                // One page per poll, so that expiry and growth are not held up.
                if let Some(&page) = self.pages.get(self.evacuated) {
                    self.evacuate(page);
                    self.evacuated += 1;
                    return Step::Wait;
                }
                debug_assert_eq!(self.evacuated, self.pages.len(), "INV-LOG-1: every page is emptied before any is released");
                self.evacuated = 0;
                Step::Next(EvacuationPhase::Releasing)
            }
            EvacuationPhase::Releasing => {
                for page in self.pages.drain(..) {
                    release(&self.session, page);
                }
                Step::Next(EvacuationPhase::Rest)
            }
        }
    }

    /// Chooses the pages with the most free space, if there is too much of it; and those that the tail would run into.
    fn choose(&mut self) {
        let store = &self.session.store;
        if store.tier.is_some() {
            // With a device pages leave memory in their order, and the flusher empties those with little left.
            return;
        }
        let totals = store.counters.totals();
        let most = store.options.free_fraction_max;
        // Without a background thread there is no rest: the caller decides how often there is a step.
        let fraction = match store.options.background {
            true => self.churn.free_fraction(&totals, store.background.progress.records_moved.load(Ordering::Relaxed), most),
            false => most,
        };
        let limit = (totals.taken_words as f64 * fraction) as i64;
        let tail = store.log.tail_page();
        let oldest = tail.saturating_sub(store.log.pages.len() as u64 / 2);
        let changed = self.fruitless_words.is_none_or(|words| (totals.free_words - words).abs() >= FREE_WORDS_MIN / 8);
        let too_much = totals.free_words > limit.max(FREE_WORDS_MIN) && changed;
        if !too_much && store.log.pages.resident() < store.log.pages.len() as u64 / 2 && oldest == 0 {
            return;
        }
        let mut candidates: Vec<(u64, u64)> = store
            .log
            .pages
            .open_pages()
            .filter(|&page| page < tail && !is_active(store, page))
            .map(|page| (if page < oldest { u64::MAX } else { store.log.pages.free_words(page) }, page))
            .filter(|&(free, _)| free == u64::MAX || too_much && free >= PAGE_FREE_MIN)
            .collect();
        candidates.sort_unstable_by(|left, right| right.cmp(left));
        let mut surplus = totals.free_words - limit.min(totals.free_words);
        for (free, page) in candidates.into_iter().take(PAGES_PER_ROUND) {
            if free != u64::MAX && surplus <= 0 {
                break;
            }
            surplus -= free.min(PAGE_WORDS) as i64;
            self.pages.push(page);
        }
        if too_much {
            self.fruitless_words = self.pages.is_empty().then_some(totals.free_words);
        }
    }

    fn evacuate(&mut self, page: u64) {
        let store = Arc::clone(&self.session.store);
        debug_assert_eq!(
            store.log.pages.state(page),
            PageState::Closing,
            "INV-FREE-1: nothing new comes into a page that is emptied"
        );
        let now_ms = self.session.now_ms();
        self.session.enter(now_ms);
        let mut live = Vec::new();
        // SAFETY: the page is closing, so it is released only by this evacuator; the epoch is held.
        unsafe { store.log.walk_page(page, |address, _, _| live.push(address)) };
        self.session.leave();
        for group in live.chunks(64) {
            self.pace.yield_to_workers(store.is_near_ceiling());
            self.session.enter(now_ms);
            for &address in group {
                move_record(&mut self.session, &store, address);
            }
            self.session.leave();
        }
        store.background.progress.pages_evacuated.fetch_add(1, Ordering::Relaxed);
    }
}

/// Moves the record at `address` if the index still points there. The page that it is in stays in memory meanwhile, and the
/// epoch is held.
pub(crate) fn move_record(session: &mut Session, store: &Shared, address: u64) {
    // SAFETY: by the caller's promise the page stays in memory.
    let record = unsafe { store.log.record(address) };
    let header = record.header();
    if header.has(Header::DEAD) {
        return;
    }
    let hash = store.hash_of(record, header);
    let latch = store.index.lock_exclusive(hash);
    let number = latch.number();
    let found = store.index.find_latched(number, hash, |candidate| (candidate == address).then_some(()));
    if let Some((position, ())) = found {
        // Read again under the latch: the record may have been changed in place.
        let header = record.header();
        let local = &mut session.local;
        // Room to grow stays behind: what is moved has not grown for a while.
        if let Ok((target, got)) = allocate::allocate(store, local, Record::packed_units(header, false)) {
            // SAFETY: freshly allocated space of at least what the record needs.
            let copy = unsafe { store.log.record(target) };
            Record::copy_whole(record, header, copy, got);
            position.point_to(store.index.tag(number, hash), target);
            debug_assert_eq!(position.entry().address(), target, "INV-LOG-1: reachable before the original dies");
            allocate::retire(store, local, address, record, header);
            store.background.progress.records_moved.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn is_active(store: &Shared, page: u64) -> bool {
    store.threads.active_pages.iter().any(|active| active.load(Ordering::Acquire) == page)
}

fn release(session: &Session, page: u64) {
    let store = &session.store;
    let mut left = 0;
    // SAFETY: the page is closing and released only below; sessions change nothing in it but mark records dead.
    unsafe { store.log.walk_page(page, |_, _, _| left += 1) };
    if left != 0 {
        // The log was too full to move everything: the page stays, and is tried again later.
        store.log.pages.reopen(page);
        return;
    }
    debug_assert!(page < store.log.tail_page(), "INV-FREE-1: the tail has left a page that is given back");
    debug_assert!(!is_active(store, page), "INV-FREE-1: nobody writes to a page that is given back");
    let free = store.log.pages.free_words(page);
    let counters = store.thread(&session.local);
    add(&counters.taken_words, -(free as i64));
    add(&counters.free_words, -(free as i64));
    store.log.release_page(page);
}
