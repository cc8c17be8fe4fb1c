//! The memory budget: what is used, what is left, and what is exceeded.

use super::Shared;
use crate::evict::{EvictionOrder, EvictionPolicy};
use crate::log::{PAGE_BYTES, PAGES_AHEAD};
use crate::memory::MemoryUse;
use crate::record::WORD;
use crate::tier::Tier;
use crate::tier::read::room::Admitted;
use almandine_io::memory;
use std::sync::atomic::Ordering;

/// The background evicts until one part in this number of the budget is unused.
const HEADROOM_SHARE: u64 = 256;

impl Shared {
    pub(crate) fn memory(&self) -> MemoryUse {
        let totals = self.counters.totals();
        let outliving = self.background.garbage.outliving();
        let words = |words: i64| words.max(0) as u64 * WORD as u64;
        MemoryUse {
            index_bytes: self.index.memory_bytes(),
            log_resident_bytes: self.log.pages.resident() * PAGE_BYTES as u64,
            log_live_bytes: words(totals.taken_words - totals.free_words),
            log_free_bytes: words(totals.free_words),
            heap_bytes: totals.heap_bytes.max(0) as u64,
            expiry_bytes: self.background.progress.wheel_bytes.load(Ordering::Relaxed),
            tier_bytes: self.tier.as_ref().map_or(0, Tier::memory_bytes),
            ghost_bytes: self.eviction.ghosts.memory_bytes(),
            external_bytes: self.budget.external_bytes.get().map_or(0, |bytes| bytes())
                + outliving.bytes().saturating_sub(outliving.object_bytes())
                + self.consumers.copying.bytes(),
            staged_bytes: self.tier.as_ref().map_or(0, |tier| tier.staging.bytes()) + outliving.object_bytes(),
            garbage_bytes: self.background.garbage.bytes(),
        }
    }

    /// Pages kept ready in front of the tail.
    pub(crate) fn pages_ahead(&self) -> u64 {
        self.tier.as_ref().map_or(PAGES_AHEAD, Tier::pages_ahead)
    }

    /// What is evicted; nothing where a device takes what does not fit.
    pub(crate) fn eviction_policy(&self) -> EvictionPolicy {
        if self.tier.is_some() { EvictionPolicy::default() } else { self.eviction.policy() }
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget.bytes.load(Ordering::Relaxed)
    }

    /// What may be in memory where there is a device, which is never without bounds.
    fn tier_budget_bytes(&self) -> u64 {
        match self.budget_bytes() {
            0 => memory::physical_bytes() / 4 * 3,
            budget => budget,
        }
    }

    /// Asks for room for a large value from the device, beside the `held` bytes of the same command.
    pub(crate) fn admit(&self, tier: &Tier, bytes: u64, held: u64) -> Admitted {
        let admitted = tier.staging.admit(bytes, held, self.tier_budget_bytes(), &self.memory());
        if matches!(admitted, Admitted::Later) {
            // Also lets what can leave do so.
            self.refresh_over_limit();
        }
        admitted
    }

    /// Bytes in use beyond the budget.
    pub(crate) fn excess_bytes(&self) -> u64 {
        self.excess_over(self.budget_bytes())
    }

    /// Bytes in use beyond what the background leaves to sessions.
    pub(crate) fn excess_bytes_ahead(&self) -> u64 {
        let budget = self.budget_bytes();
        let ahead = budget - budget / HEADROOM_SHARE;
        debug_assert!(ahead <= budget, "the background evicts before the workers have to");
        self.excess_over(ahead)
    }

    fn excess_over(&self, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let memory = self.memory();
        debug_assert!(memory.used_bytes() >= memory.garbage_bytes, "what is to be freed is in memory");
        // Nothing needs to be evicted for what goes by itself.
        (memory.used_bytes() - memory.garbage_bytes).saturating_sub(bytes)
    }

    /// Whether a value of this many bytes could be kept at all: where nothing can be evicted for it, beside what is there.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let budget = self.budget_bytes();
        budget == 0 || bytes <= budget && (self.tier.is_some() || self.can_evict() || self.excess_over(budget - bytes) == 0)
    }

    /// How much of the budget is used, in the given number of parts.
    pub(crate) fn filled(&self, parts: u64) -> u64 {
        self.memory().used_bytes().saturating_mul(parts).checked_div(self.budget_bytes()).unwrap_or(0)
    }

    /// Whether eviction is likely to be needed soon.
    pub(crate) fn is_near_limit(&self) -> bool {
        let budget = self.budget_bytes();
        debug_assert!(budget / 8 <= budget - budget / 8, "near is most of it");
        self.excess_over(budget - budget / 8) != 0
    }

    /// Whether the background should evict.
    pub(crate) fn wants_eviction_ahead(&self) -> bool {
        self.eviction_policy().order != EvictionOrder::Never
            && !self.consumers.copying.is_full()
            && self.excess_bytes_ahead() != 0
            && self.can_evict()
    }

    fn can_evict(&self) -> bool {
        let totals = self.counters.totals();
        self.eviction.is_hopeful(totals.live, totals.volatile, self.index.len())
    }

    /// Compares memory in use with the budget. It is exceeded only if nothing can be evicted either.
    pub(crate) fn refresh_over_limit(&self) {
        if let Some(tier) = &self.tier {
            let budget = self.tier_budget_bytes();
            let over = tier.refresh_budget(budget, &self.memory()) || self.log.is_used_up();
            self.budget.over_limit.store(over, Ordering::Relaxed);
            return;
        }
        let over = self.excess_bytes() != 0 && !self.can_evict() || self.log.is_used_up();
        if self.budget.over_limit.load(Ordering::Relaxed) != over {
            self.budget.over_limit.store(over, Ordering::Relaxed);
        }
    }
}
