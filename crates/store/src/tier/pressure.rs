//! Pressure: heap objects against the budget.
//!
//! The log's share of the budget is what is left beside everything else, and pages leave when there are more of them. A value
//! beyond the log is a few words there and much on the heap: so few pages may hold so much that the log's share is at its
//! least, and no number of pages says that one should leave. Then bytes do, and pages that hold much are not filled up.

use crate::log::PAGE_BYTES;
use crate::memory::MemoryUse;

/// Fewest pages of log memory that the tier works with.
pub(super) const LIMIT_PAGES_MIN: u64 = 6;
/// And their bytes.
pub(super) const LOG_BYTES_MIN: u64 = LIMIT_PAGES_MIN * PAGE_BYTES as u64;
/// One part in this number of the budget lies between two steps of pressure.
const STEP_SHARE: u64 = 16;
/// That part is as large as this at least between evicting a page and stalling writers, even if a small budget is exceeded so.
const STALL_STEP_MIN: u64 = 8 << 20;
/// Less than this on the heap does not press.
pub(super) const HEAP_MIN: u64 = 1 << 20;
/// Bounds of what one page may hold on the heap. Small ones waste the page.
const HEAVY_PAGE: (u64, u64) = (4 << 20, 64 << 20);

/// How far heap objects press against the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    None,
    /// The oldest page is closed and written, to be ready.
    Close,
    /// The oldest page leaves, even if it is not full.
    Evict,
    /// Writers wait.
    Stall,
}

impl Pressure {
    pub(super) fn of(budget_bytes: u64, memory: &MemoryUse) -> Self {
        let step = budget_bytes / STEP_SHARE;
        // Garbage goes by itself.
        let needed = memory.beside_log_bytes() - memory.garbage_bytes + LOG_BYTES_MIN;
        // Without much on the heap nothing would be won, nor where the rest alone is too much: then writes are refused.
        debug_assert!(needed >= memory.heap_bytes, "what is on the heap is beside the log");
        let in_vain = memory.heap_bytes < HEAP_MIN.max(step / 4) || needed - memory.heap_bytes > budget_bytes;
        let limit = budget_bytes + Self::margin(budget_bytes);
        if memory.garbage_bytes > step && needed + memory.garbage_bytes > limit {
            // What is written now would come before that is freed.
            Self::Stall
        } else if needed + 2 * step <= budget_bytes || in_vain {
            Self::None
        } else if needed + step <= budget_bytes {
            Self::Close
        } else if needed <= limit {
            Self::Evict
        } else {
            Self::Stall
        }
    }

    /// Bytes by which a small budget may be exceeded.
    pub(super) fn margin(budget_bytes: u64) -> u64 {
        STALL_STEP_MIN.saturating_sub(budget_bytes / STEP_SHARE)
    }

    /// As [`Pressure::of`], while a connection waits for room for `demand` bytes: what is on the heap leaves for them.
    pub(super) fn with_demand(budget_bytes: u64, memory: &MemoryUse, demand: u64) -> Self {
        let needed = memory.beside_log_bytes() - memory.garbage_bytes + LOG_BYTES_MIN + demand;
        let lacks = demand != 0 && needed > budget_bytes + Self::margin(budget_bytes);
        debug_assert!(needed >= demand, "what is asked for is needed, too");
        let least = if lacks && memory.heap_bytes >= HEAP_MIN { Self::Evict } else { Self::None };
        Self::of(budget_bytes, memory).max(least)
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        debug_assert!(bits <= Self::Stall as u8, "a pressure survives its bits");
        match bits {
            0 => Self::None,
            1 => Self::Close,
            2 => Self::Evict,
            _ => Self::Stall,
        }
    }

    /// Bytes of heap objects from which on a page is not filled any further.
    pub(super) fn heavy_page_bytes(budget_bytes: u64) -> u64 {
        (budget_bytes / STEP_SHARE).clamp(HEAVY_PAGE.0, HEAVY_PAGE.1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pressure_rises_with_the_heap_alone() {
        let budget = 256 << 20;
        let of = |heap_mib: u64, index_mib: u64| {
            let memory = MemoryUse { heap_bytes: heap_mib << 20, index_bytes: index_mib << 20, ..MemoryUse::default() };
            Pressure::of(budget, &memory)
        };
        assert_eq!(of(0, 20), Pressure::None);
        assert_eq!(of(190, 20), Pressure::None);
        assert_eq!(of(200, 20), Pressure::Close);
        assert_eq!(of(215, 20), Pressure::Evict);
        assert_eq!(of(230, 20), Pressure::Stall);
        assert_eq!(of(2, 300), Pressure::None, "what is not on the heap does not leave");
        assert_eq!(of(50, 300), Pressure::None, "all of the heap would not be enough");
        assert_eq!(Pressure::of(1, &MemoryUse::default()), Pressure::None, "nothing is used");
        let with_demand = |heap_mib: u64, demand_mib: u64| {
            let memory = MemoryUse { heap_bytes: heap_mib << 20, ..MemoryUse::default() };
            Pressure::with_demand(budget, &memory, demand_mib << 20)
        };
        assert_eq!(with_demand(100, 0), Pressure::None);
        assert_eq!(with_demand(100, 140), Pressure::None, "there is room for it");
        assert_eq!(with_demand(100, 150), Pressure::Evict);
        assert_eq!(with_demand(0, 300), Pressure::None, "nothing can leave for it");
        for pressure in [Pressure::None, Pressure::Close, Pressure::Evict, Pressure::Stall] {
            assert_eq!(Pressure::from_bits(pressure as u8), pressure);
        }
        assert_eq!(Pressure::heavy_page_bytes(budget), 16 << 20);
        assert_eq!(Pressure::heavy_page_bytes(16 << 20), 4 << 20);
    }
}
