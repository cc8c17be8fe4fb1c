//! The resolver: the thread that compares what sessions left open; it may block on the device. It is not the compactor, because each
//! spends most of its time waiting for reads: one thread would let the device fill up while it examines.

use super::resolve::resolve;
use super::retry::RetryQueue;
use crate::session::Session;
use crate::shared::Inner;
use crate::tier::Tier;
use crate::tier::stage::Fetcher;
use almandine_io::{clock, thread};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest sleep while there is nothing to do.
const IDLE: Duration = Duration::from_millis(100);
/// Rest between two groups of resolved keys.
const RESOLVE_REST: Duration = Duration::from_millis(5);
/// Resolving does not rest while more keys than one in so many are open.
const HURRY_SHARE: u64 = 64;

/// Compares what sessions overwrote or removed without a look, and looks after expiries of cold records.
pub(crate) struct Resolver {
    store: Arc<Inner>,
    session: Session,
    fetcher: Fetcher,
    retries: RetryQueue,
}

impl Resolver {
    /// `None` when the store has no device, or no room for a session.
    pub(crate) fn new(store: &Arc<Inner>) -> Option<Self> {
        store.tier.as_ref()?;
        let session = Session::open(store)?;
        Some(Self { store: Arc::clone(store), session, fetcher: Fetcher::default(), retries: RetryQueue::default() })
    }

    /// Runs until the store is dropped.
    pub(crate) fn run(mut self) {
        // As for the compactor.
        let _ = thread::rank_behind_workers();
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return };
        while !store.background.stop.load(Ordering::Acquire) {
            if !self.step(clock::unix_ms()) {
                tier.wakers.resolver.wait(IDLE);
            } else if !self.is_hurried(tier) {
                // While little is open the device belongs to the clients.
                tier.wakers.resolver.wait(RESOLVE_REST);
            }
        }
    }

    /// Resolves a group of keys. Returns whether there may be more.
    pub(crate) fn step(&mut self, now_ms: i64) -> bool {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return false };
        tier.judge_backlog(store.counters.totals().live.max(0) as u64);
        resolve(&mut self.session, tier, &mut self.fetcher, &mut self.retries, now_ms)
    }

    /// Whether so much is open that it makes the index longer. What the device did not answer is not asked sooner for that.
    fn is_hurried(&self, tier: &Tier) -> bool {
        tier.pending() > self.store.counters.totals().live.max(0) as u64 / HURRY_SHARE
    }
}
