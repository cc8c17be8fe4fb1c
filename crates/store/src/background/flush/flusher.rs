//! The flusher: the thread that flushes and evicts pages. Writers may have to wait for it, so it does nothing else.

use crate::background::flush::{self, FlushPhase};
use crate::background::idle::Idle;
use crate::shared::Shared;
use almandine_epoch::Run;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Sleep while a phase settles.
const SETTLING: Duration = Duration::from_micros(200);
/// Sleep after the device refused a write.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// Lets pages leave memory.
pub(crate) struct Flusher {
    store: Arc<Shared>,
    flush: Run<FlushPhase>,
}

impl Flusher {
    /// `None` when the store has no device, or no room for a session.
    pub(crate) fn new(store: &Arc<Shared>) -> Option<Self> {
        store.tier.as_ref()?;
        Some(Self { store: Arc::clone(store), flush: flush::start(store)? })
    }

    /// Runs until the store is dropped.
    pub(crate) fn run(mut self) {
        let mut idle = Idle::default();
        while !self.store.background.stop.load(Ordering::Acquire) {
            if self.step() {
                idle.end();
            } else if let Some(tier) = &self.store.tier {
                let failing = tier.failing.load(Ordering::Relaxed);
                let settling = self.flush.phase() != FlushPhase::Rest;
                tier.wakers.flusher.wait(match (failing, settling) {
                    (true, _) => AFTER_FAILURE,
                    (false, true) => SETTLING,
                    (false, false) => idle.sleep(&self.store),
                });
            }
        }
    }

    /// One step of flushing. Returns whether there is more to do at once.
    pub(crate) fn step(&mut self) -> bool {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return false };
        let progress = |phase| (phase, tier.counters.pages_flushed.load(Ordering::Relaxed), store.log.pages.resident());
        let before = progress(self.flush.phase());
        let _ = self.flush.poll();
        // A device that fails is not asked again at once.
        let busy = before != progress(self.flush.phase()) && !tier.failing.load(Ordering::Relaxed);
        if store.epoch.pending() != 0 {
            store.epoch.drain();
        }
        store.refresh_over_limit();
        tier.notify_if_stall_ended(store.log.pages.resident());
        busy
    }
}
