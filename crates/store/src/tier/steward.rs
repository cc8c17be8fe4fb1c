//! The steward and the examiner: threads that work for the tier where nobody waits, and may block on the device.
//!
//! The *steward* gives space on the device back and cools entries. The *examiner* compares what sessions left open. They are two,
//! because each spends most of its time waiting for reads: one thread would let the device fill up while it examines.

use super::Tier;
use super::admission::Judged;
use super::collect::Collector;
use super::parked::Parked;
use super::stage::Fetcher;
use crate::pace::Pace;
use crate::session::Session;
use crate::store::Inner;
use almandine_io::{clock, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest sleep while there is nothing to do.
const IDLE: Duration = Duration::from_millis(100);
/// Longest sleep of the steward while the rate of collection is to be kept.
const COLLECTING: Duration = Duration::from_millis(5);
/// Rest between two groups of examined keys.
const EXAMINE_REST: Duration = Duration::from_millis(5);
/// Examining does not rest while more keys than one in so many are open.
const HURRY_SHARE: u64 = 64;
/// Buckets whose entries are cooled per step.
const COOL_BUCKETS: u64 = 4096;
/// Entries cool by one step while so many times the memory's pages leave it, in quarters.
const COOL_TURNOVER_QUARTERS: u64 = 4;

/// Gives space back, and cools entries.
pub(crate) struct Steward {
    store: Arc<Inner>,
    session: Session,
    pace: Pace,
    collector: Collector,
    fetcher: Fetcher,
    /// The next bucket to cool, and the count of evicted pages at which the next round begins.
    cooling: (u64, u64),
    judged: Judged,
}

impl Steward {
    /// `None` when the store has no device, or no room for a session.
    pub(crate) fn new(store: &Arc<Inner>) -> Option<Self> {
        store.tier.as_ref()?;
        Some(Self {
            store: Arc::clone(store),
            session: store.session()?,
            pace: Pace::new(store.options.background),
            collector: Collector::new(),
            fetcher: Fetcher::default(),
            cooling: (u64::MAX, 0),
            judged: Judged::default(),
        })
    }

    /// Runs until the store is dropped.
    pub(crate) fn run(mut self) {
        // Not being allowed to only means that it competes with the workers on equal terms.
        let _ = thread::rank_behind_workers();
        while !self.store.stop.load(Ordering::Acquire) {
            let busy = self.step(clock::unix_ms());
            if let Some(tier) = &self.store.tier
                && !busy
            {
                tier.steward_waker.wait(if self.collector.is_held_back() { COLLECTING } else { IDLE });
            }
        }
    }

    /// One round of everything. Returns whether there is more to do at once.
    pub(crate) fn step(&mut self, now_ms: i64) -> bool {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return false };
        let totals = store.counters.totals();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (copies, reads) = (count(&tier.counters.records_cached), count(&tier.counters.reads));
        tier.admission.judge(&mut self.judged, copies, totals.cache_hits.max(0) as u64, reads);
        let collected = self.collector.step(&mut self.session, tier, &mut self.fetcher, now_ms);
        let cooled = self.cool(tier);
        collected || cooled
    }

    /// Cools a few buckets' entries, when as many pages have left memory as make a round.
    fn cool(&mut self, tier: &Tier) -> bool {
        let (next, due) = self.cooling;
        let buckets = self.store.index.len();
        if next >= buckets {
            let evicted = tier.counters.pages_evicted.load(Ordering::Relaxed);
            if evicted >= due && evicted != 0 {
                let turnover = (tier.limit_pages() * COOL_TURNOVER_QUARTERS / 4).max(1);
                self.cooling = (0, evicted + turnover);
            }
            return false;
        }
        let end = (next + COOL_BUCKETS).min(buckets);
        for number in next..end {
            self.store.index.cool_bucket(number);
        }
        self.pace.breathe(false);
        self.cooling.0 = end;
        true
    }
}

/// Compares what sessions overwrote or removed without a look, and looks after expiries of cold records.
pub(crate) struct Examiner {
    store: Arc<Inner>,
    session: Session,
    fetcher: Fetcher,
    parked: Parked,
}

impl Examiner {
    /// `None` when the store has no device, or no room for a session.
    pub(crate) fn new(store: &Arc<Inner>) -> Option<Self> {
        store.tier.as_ref()?;
        let session = store.session()?;
        Some(Self { store: Arc::clone(store), session, fetcher: Fetcher::default(), parked: Parked::default() })
    }

    /// Runs until the store is dropped.
    pub(crate) fn run(mut self) {
        // As for the steward.
        let _ = thread::rank_behind_workers();
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return };
        while !store.stop.load(Ordering::Acquire) {
            if !self.step(clock::unix_ms()) {
                tier.examiner_waker.wait(IDLE);
            } else if !self.is_hurried(tier) {
                // While little is open the device belongs to the clients.
                tier.examiner_waker.wait(EXAMINE_REST);
            }
        }
    }

    /// Examines a group of keys. Returns whether there may be more.
    pub(crate) fn step(&mut self, now_ms: i64) -> bool {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return false };
        tier.judge_backlog(store.counters.totals().live.max(0) as u64);
        self.session.examine(tier, &mut self.fetcher, &mut self.parked, now_ms)
    }

    /// Whether so much is open that it makes the index longer. What the device did not answer is not asked sooner for that.
    fn is_hurried(&self, tier: &Tier) -> bool {
        tier.pending() > self.store.counters.totals().live.max(0) as u64 / HURRY_SHARE
    }
}
