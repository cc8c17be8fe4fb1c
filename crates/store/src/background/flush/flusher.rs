//! The flusher: the thread that flushes and evicts pages. Writers may have to wait for it, so it does nothing else.

use crate::background::flush::{self, FlushPhase};
use crate::background::idle::Idle;
use crate::shared::Shared;
use almandine_epoch::Run;
use almandine_io::clock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Sleep while a phase settles.
const SETTLING: Duration = Duration::from_micros(200);
/// Sleep after the device refused a write, unless there is room before.
const AFTER_REFUSAL: Duration = Duration::from_millis(20);

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
            if self.turn() {
                idle.end();
            } else if let Some(tier) = &self.store.tier {
                let settling = self.flush.phase() != FlushPhase::Rest;
                tier.wakers.flusher.wait(match (settling, tier.failing.load(Ordering::Relaxed)) {
                    (true, _) => SETTLING,
                    (false, true) => AFTER_REFUSAL,
                    (false, false) => idle.sleep(&self.store),
                });
            }
        }
    }

    /// One step of flushing for a caller that is the background, and asks a device again as often as it calls.
    pub(crate) fn step(&mut self) {
        self.store.tier.iter().for_each(|tier| tier.space.refusal.end());
        let _ = self.turn();
    }

    /// One step of flushing. Returns whether there is more to do at once.
    fn turn(&mut self) -> bool {
        let store = Arc::clone(&self.store);
        let Some(tier) = &store.tier else { return false };
        tier.space.refusal.end_if_old(clock::monotonic_ns());
        let progress = || (tier.counters.pages_flushed.load(Ordering::Relaxed), store.log.pages.resident());
        let before = (self.flush.phase(), progress());
        let _ = self.flush.poll();
        // While the device takes nothing, phases follow one another for what leaves memory without it.
        let busy = before.1 != progress() || before.0 != self.flush.phase() && !tier.failing.load(Ordering::Relaxed);
        if store.epoch.pending() != 0 {
            store.epoch.drain();
        }
        store.refresh_over_limit();
        tier.notify_if_stall_ended(store.log.pages.resident());
        busy
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Options, Put, Storage, Store};
    use almandine_device::{Device, FaultPlan, FaultyDevice, MemoryDevice};

    const NOW_MS: i64 = 1_000_000;

    /// Short memory wakes the flusher, and space that is given back has it ask.
    #[test]
    fn a_device_that_refuses_is_asked_for_room_and_not_for_each_wake() {
        let faulty = Arc::new(FaultyDevice::new(Arc::new(MemoryDevice::new()), 1, FaultPlan::default()));
        let storage = Storage {
            pages: Arc::clone(&faulty) as Arc<dyn Device>,
            values: Arc::new(MemoryDevice::new()),
            ciphers: Arc::default(),
        };
        let options = Options { memory_bytes_max: 1 << 30, storage: Some(storage), background: false, ..Options::default() };
        let store = Store::open(options).expect("a store");
        store.settings().set_budget(16 << 20);
        let (namespace, mut session) = (store.allocate_namespace().expect("a namespace"), store.session().expect("a session"));
        let mut flusher = Flusher::new(&store.inner).expect("a device");
        let tier = store.inner.tier.as_ref().expect("a device");
        faulty.set_plan(FaultPlan { torn_writes: 1_000_000, ..FaultPlan::default() });
        for number in 0..20_000 {
            session.enter(NOW_MS);
            let key = format!("key:{number}");
            let _ = session.upsert(session.key(namespace, key.as_bytes()), &[b'.'; 900], Put::default());
            session.leave();
        }
        let asked = || tier.counters.writes.load(Ordering::Relaxed);
        let began_ns = clock::monotonic_ns();
        (0..2_000).for_each(|_| _ = flusher.turn());
        let (refused, took_ns) = (asked(), clock::monotonic_ns() - began_ns);
        let by_time = took_ns / AFTER_REFUSAL.as_nanos() as u64;
        assert!((1..=1 + by_time).contains(&refused), "it is asked {refused} times in {took_ns} ns");
        for _ in 0..10 {
            tier.note_room();
            (0..100).for_each(|_| _ = flusher.turn());
        }
        let by_time = (clock::monotonic_ns() - began_ns) / AFTER_REFUSAL.as_nanos() as u64;
        assert!((refused + 10..=11 + by_time).contains(&asked()), "{} of {refused} for room", asked() - refused);
        faulty.set_plan(FaultPlan::default());
        tier.note_room();
        (0..200).for_each(|_| _ = flusher.turn());
        assert!(tier.counters.pages_flushed.load(Ordering::Relaxed) >= 2, "what was refused is written, one page behind the other");
        assert!(!tier.failing.load(Ordering::Relaxed));
    }
}
