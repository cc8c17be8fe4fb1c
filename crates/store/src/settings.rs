//! What can be set while a store is in use: its budget, what is evicted, and what goes to the device.

use crate::evict::EvictionPolicy;
use crate::evict::heat::HeatRule;
use crate::store::Store;
use crate::tier::{CopyReads, Tier};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Store {
    /// What can be set while the store is in use.
    #[must_use]
    pub fn settings(&self) -> Settings<'_> {
        Settings { store: self }
    }
}

/// What can be set while the store is in use.
#[derive(Clone, Copy)]
pub struct Settings<'s> {
    store: &'s Store,
}

impl Settings<'_> {
    /// The memory budget in bytes; 0 for none.
    #[must_use]
    pub fn budget(self) -> u64 {
        self.store.inner.budget_bytes()
    }

    /// Sets the memory budget in bytes; 0 for none.
    pub fn set_budget(self, bytes: u64) {
        self.store.inner.budget.bytes.store(bytes, Ordering::Relaxed);
        self.store.inner.refresh_over_limit();
        self.store.inner.background.waker.wake();
    }

    /// Says whether all users of the store rest. Then its threads, which look around some times a second otherwise, rest, too, as
    /// long as there is nothing that they wait for.
    pub fn set_rests(self, rests: bool) {
        let background = &self.store.inner.background;
        if background.rests.swap(rests, Ordering::SeqCst) && !rests {
            background.waker.wake();
            self.store.inner.tier.iter().for_each(Tier::wake_all);
        }
    }

    /// Sets the call that says how much memory outside of the store counts against its budget. Once per store; called often, by
    /// any thread.
    pub fn count_external_bytes(self, bytes: impl Fn() -> u64 + Send + Sync + 'static) {
        let first = self.store.inner.budget.external_bytes.set(Box::new(bytes)).is_ok();
        debug_assert!(first, "set once");
    }

    /// Sets what becomes of records that were read from the device.
    pub fn set_copy_reads(self, mode: CopyReads) {
        if let Some(tier) = &self.store.inner.tier {
            tier.set_copy_reads(mode);
        }
    }

    /// Sets the part of the device's space that may be dead, and how many bytes a second compaction may read.
    pub fn set_compaction(self, garbage_max: f64, bytes_per_second: u64) {
        debug_assert!((0.0..=1.0).contains(&garbage_max), "a part of the device's space");
        if let Some(tier) = &self.store.inner.tier {
            tier.set_limits(garbage_max, bytes_per_second);
        }
    }

    /// Sets what is evicted when the budget is used up, and how use is turned into heat for that. With a device nothing is evicted:
    /// it takes what does not fit.
    pub fn set_eviction(self, policy: EvictionPolicy) {
        if self.store.inner.eviction.policy() != policy {
            self.store.inner.eviction.set_policy(policy);
        }
        debug_assert_eq!(self.store.inner.eviction.policy(), policy, "a policy survives its bits");
        self.set_heat_rule(if self.store.inner.tier.is_some() { HeatRule::Uses } else { policy.heat_rule() });
        self.store.inner.refresh_over_limit();
        self.store.inner.background.waker.wake();
    }

    /// What is evicted when the budget is used up, where there is no device.
    #[must_use]
    pub fn eviction(self) -> EvictionPolicy {
        self.store.inner.eviction.policy()
    }

    /// Sets the time in which frequencies go down by one step while nothing needs to be evicted; 0: they do not.
    pub fn set_frequency_decay(self, time: Duration) {
        self.store.inner.eviction.set_decay_ms(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    }

    /// Sets how use is turned into heat.
    pub fn set_heat_rule(self, rule: HeatRule) {
        debug_assert_eq!(HeatRule::from_bits(rule as u8), rule, "a rule survives its bits");
        self.store.inner.eviction.heat_rule.store(rule as u8, Ordering::Relaxed);
    }

    /// Whether the background removes expired records; it does unless told otherwise. For tests of what happens without it.
    pub fn set_reclaiming(self, reclaiming: bool) {
        self.store.inner.expiry.reclaiming.store(reclaiming, Ordering::Relaxed);
    }

    /// Says whether what has expired stays for now, so that nothing changes; readers do not see it.
    ///
    /// A caller sees what others wrote before their earlier calls: of two that disagree the later one can look why.
    pub fn hold_expiry(self, held: bool) {
        self.store.inner.expiry.held.swap(held, Ordering::AcqRel);
    }
}
