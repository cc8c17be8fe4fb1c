//! The keeper: the thread that works for the tier. It may block on the device; nobody waits for it but those who write faster
//! than the device does.

use super::cascade::{self, CascadePhase};
use super::collect::Collector;
use crate::pace::Pace;
use crate::session::Session;
use crate::store::Inner;
use almandine_epoch::Run;
use almandine_io::storage::BufferPool;
use almandine_io::{clock, thread};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest sleep while there is nothing to do.
const IDLE: Duration = Duration::from_millis(100);
/// Sleep while a phase settles.
const SETTLING: Duration = Duration::from_micros(200);
/// Buckets whose entries are cooled per step.
const COOL_BUCKETS: u64 = 4096;
/// Entries cool by one step while so many times the memory's pages leave it, in quarters.
const COOL_TURNOVER_QUARTERS: u64 = 4;

/// The keeper's state.
pub(crate) struct Keeper {
    store: Arc<Inner>,
    session: Session,
    pace: Pace,
    cascade: Run<CascadePhase>,
    collector: Collector,
    pool: BufferPool,
    /// The next bucket to cool, and the count of evicted pages at which the next round begins.
    cooling: (u64, u64),
}

impl Keeper {
    /// `None` when the store has no device, or no room for the keeper's sessions.
    pub(crate) fn new(store: &Arc<Inner>) -> Option<Self> {
        store.tier.as_ref()?;
        Some(Self {
            store: Arc::clone(store),
            session: store.session()?,
            pace: Pace::new(store.options.background),
            cascade: cascade::start(store)?,
            collector: Collector::new(),
            pool: BufferPool::default(),
            cooling: (u64::MAX, 0),
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
                tier.waker.wait(if self.cascade.phase() == CascadePhase::Rest { IDLE } else { SETTLING });
            }
        }
    }

    /// One round of everything. Returns whether there is more to do at once.
    pub(crate) fn step(&mut self, now_ms: i64) -> bool {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return false };
        let before = (self.cascade.phase(), tier.counters.pages_flushed.load(Ordering::Relaxed));
        let _ = self.cascade.poll();
        let mut busy = before != (self.cascade.phase(), tier.counters.pages_flushed.load(Ordering::Relaxed));
        // The log comes first: whoever writes may be waiting for it.
        if !busy {
            busy |= self.session.examine(tier, &mut self.pool, now_ms);
            busy |= self.collector.step(&mut self.session, tier, &mut self.pool, now_ms);
            self.cool();
        }
        if store.epoch.pending() != 0 {
            store.epoch.drain();
        }
        tier.notify_if_roomy(store.log.pages.resident());
        busy
    }

    /// Cools a few buckets' entries, when as many pages have left memory as make a round.
    fn cool(&mut self) {
        let Some(tier) = &self.store.tier else { return };
        let (next, due) = self.cooling;
        let buckets = self.store.index.len();
        if next >= buckets {
            let evicted = tier.counters.pages_evicted.load(Ordering::Relaxed);
            if evicted >= due && evicted != 0 {
                let turnover = (tier.limit_pages() * COOL_TURNOVER_QUARTERS / 4).max(1);
                self.cooling = (0, evicted + turnover);
            }
            return;
        }
        let end = (next + COOL_BUCKETS).min(buckets);
        for number in next..end {
            self.store.index.cool_bucket(number);
        }
        self.pace.breathe(false);
        self.cooling.0 = end;
    }
}
