//! The compactor: the thread that gives space on the device back, removes what expires there, sweeps emptied namespaces from
//! it, cools entries, and reads ahead behind a start. No thread waits for it; it may block on the device.

use crate::background::ahead;
use crate::background::compact::Compaction;
use crate::background::compact::mixed::MixedPages;
use crate::background::expire::expire_cold;
use crate::background::idle::Idle;
use crate::background::pace::Pace;
use crate::session::Session;
use crate::shared::Shared;
use crate::tier::Tier;
use crate::tier::read::admission::Judged;
use crate::tier::read::stage::Fetcher;
use almandine_io::{clock, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest sleep of the compactor while the rate of compaction is to be kept.
const COMPACTING: Duration = Duration::from_millis(5);
/// Buckets whose entries are cooled per step.
const COOL_BUCKETS: u64 = 4096;
/// Entries cool by one step while this many quarters of the memory's pages leave it.
const COOL_TURNOVER_QUARTERS: u64 = 4;

/// Gives space back, removes what expires on the device, and cools entries.
pub(crate) struct Compactor {
    store: Arc<Shared>,
    session: Session,
    pace: Pace,
    compaction: Compaction,
    fetcher: Fetcher,
    mixed: MixedPages,
    /// The next bucket to cool, and the count of evicted pages at which the next round begins.
    cooling: (u64, u64),
    judged: Judged,
}

impl Compactor {
    /// `None` when the store has no device, or no room for a session.
    pub(crate) fn new(store: &Arc<Shared>) -> Option<Self> {
        store.tier.as_ref()?;
        Some(Self {
            store: Arc::clone(store),
            session: Session::open(store)?,
            pace: Pace::new(store.options.background),
            compaction: Compaction::new(),
            fetcher: Fetcher::default(),
            mixed: MixedPages::default(),
            cooling: (u64::MAX, 0),
            judged: Judged::default(),
        })
    }

    /// Runs until the store is dropped.
    pub(crate) fn run(mut self) {
        // Not being allowed to only means that it competes with the workers on equal terms.
        let _ = thread::rank_behind_workers(thread::Rank::Background);
        let mut idle = Idle::default();
        while !self.store.background.stop.load(Ordering::Acquire) {
            if self.step(clock::unix_ms()) {
                idle.end();
            } else if let Some(tier) = &self.store.tier {
                let held_back = self.compaction.is_held_back() || self.mixed.is_held_back() || tier.space.ahead.is_held_back();
                tier.wakers.compactor.wait(if held_back { COMPACTING } else { idle.sleep(&self.store) });
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
        let adopting = tier.space.adopting.load(Ordering::Acquire);
        let compacted = !adopting && self.compaction.step(&mut self.session, tier, &mut self.fetcher, &mut self.pace, now_ms);
        let held = store.expiry.held.load(Ordering::Relaxed);
        let expired = !held && expire_cold(&mut self.session, tier, &mut self.fetcher, now_ms);
        let cooled = self.cool(tier);
        let swept = self.mixed.step(&mut self.session, tier, &mut self.fetcher, &mut self.pace);
        let read_ahead = ahead::step(&mut self.session, tier, &mut self.fetcher, &mut self.pace);
        compacted || expired || cooled || swept || read_ahead
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
        debug_assert!(next < end, "a lap goes on");
        for number in next..end {
            self.store.index.cool_bucket(number);
        }
        self.pace.yield_to_workers(false);
        self.cooling.0 = end;
        true
    }
}
