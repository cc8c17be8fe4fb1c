//! The tier's threads. The *keeper* runs the cascade: whoever writes may have to wait for it, so it does nothing else. The *steward*
//! gives space on the device back, examines what sessions left open, and cools entries. Both may block on the device.

use super::admission::Judged;
use super::cascade::{self, CascadePhase};
use super::collect::Collector;
use super::stage::Fetcher;
use crate::pace::Pace;
use crate::session::Session;
use crate::store::Inner;
use almandine_epoch::Run;
use almandine_io::{clock, thread};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest sleep while there is nothing to do.
const IDLE: Duration = Duration::from_millis(100);
/// Sleep while a phase settles.
const SETTLING: Duration = Duration::from_micros(200);
/// Sleep after the device refused a write.
const AFTER_FAILURE: Duration = Duration::from_millis(20);
/// Rest between two groups of examined keys.
const EXAMINE_REST_NS: u64 = 5_000_000;
/// Examining does not rest while more keys than one in so many are open.
const HURRY_SHARE: u64 = 64;
/// Groups that are examined one after the other then, before other work gets its turn.
const GROUPS_IN_HURRY: usize = 16;
/// Buckets whose entries are cooled per step.
const COOL_BUCKETS: u64 = 4096;
/// Entries cool by one step while so many times the memory's pages leave it, in quarters.
const COOL_TURNOVER_QUARTERS: u64 = 4;

/// Lets pages leave memory.
pub(crate) struct Keeper {
    store: Arc<Inner>,
    cascade: Run<CascadePhase>,
}

impl Keeper {
    /// `None` when the store has no device, or no room for a session.
    pub(crate) fn new(store: &Arc<Inner>) -> Option<Self> {
        store.tier.as_ref()?;
        Some(Self { store: Arc::clone(store), cascade: cascade::start(store)? })
    }

    /// Runs until the store is dropped.
    pub(crate) fn run(mut self) {
        while !self.store.stop.load(Ordering::Acquire) {
            let busy = self.step();
            if let Some(tier) = &self.store.tier
                && !busy
            {
                let failing = tier.failing.load(Ordering::Relaxed);
                let settling = self.cascade.phase() != CascadePhase::Rest;
                tier.waker.wait(match (failing, settling) {
                    (true, _) => AFTER_FAILURE,
                    (false, true) => SETTLING,
                    (false, false) => IDLE,
                });
            }
        }
    }

    /// One step of the cascade. Returns whether there is more to do at once.
    pub(crate) fn step(&mut self) -> bool {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return false };
        let progress = |phase| (phase, tier.counters.pages_flushed.load(Ordering::Relaxed), store.log.pages.resident());
        let before = progress(self.cascade.phase());
        let _ = self.cascade.poll();
        // A device that fails is not asked again at once.
        let busy = before != progress(self.cascade.phase()) && !tier.failing.load(Ordering::Relaxed);
        if store.epoch.pending() != 0 {
            store.epoch.drain();
        }
        store.refresh_over_limit();
        tier.notify_if_roomy(store.log.pages.resident());
        busy
    }
}

/// Works for the tier where nobody waits.
pub(crate) struct Steward {
    store: Arc<Inner>,
    session: Session,
    pace: Pace,
    collector: Collector,
    fetcher: Fetcher,
    /// The next bucket to cool, and the count of evicted pages at which the next round begins.
    cooling: (u64, u64),
    judged: Judged,
    /// Before this time, by the monotonic clock, nothing is examined.
    examine_at_ns: u64,
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
            examine_at_ns: 0,
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
                tier.steward_waker.wait(IDLE);
            }
        }
    }

    /// One round of everything. Returns whether there is more to do at once.
    pub(crate) fn step(&mut self, now_ms: i64) -> bool {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return false };
        let totals = store.counters.totals();
        let mut busy = false;
        // While little is open the device belongs to the clients; a backlog makes the index longer, so then it hurries.
        let live = totals.live.max(0) as u64;
        tier.judge_backlog(live);
        let hurry = tier.unresolved() > live / HURRY_SHARE;
        if hurry || clock::monotonic_ns() >= self.examine_at_ns {
            for _ in 0..if hurry { GROUPS_IN_HURRY } else { 1 } {
                busy = self.session.examine(tier, &mut self.fetcher, now_ms);
                if !busy {
                    break;
                }
            }
            self.examine_at_ns = clock::monotonic_ns() + EXAMINE_REST_NS;
        }
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (copies, reads) = (count(&tier.counters.records_cached), count(&tier.counters.reads));
        tier.admission.judge(&mut self.judged, copies, totals.cache_hits.max(0) as u64, reads);
        busy |= self.collector.step(&mut self.session, tier, &mut self.fetcher, now_ms);
        busy |= self.cool();
        if !busy && store.options.background && tier.has_questions() {
            tier.steward_waker.wait(Duration::from_nanos(EXAMINE_REST_NS));
            busy = true;
        }
        busy
    }

    /// Cools a few buckets' entries, when as many pages have left memory as make a round.
    fn cool(&mut self) -> bool {
        let Some(tier) = &self.store.tier else { return false };
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
