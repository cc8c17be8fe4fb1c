//! Allocations of space that fail on purpose, in builds with debug assertions: for a record, or a bucket of the index's overflow
//! area.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
thread_local! {
    static ALLOCATIONS_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Whether an allocation of the calling thread fails on purpose.
#[inline(always)]
pub(crate) fn allocation_fails() -> bool {
    #[cfg(debug_assertions)]
    return ALLOCATIONS_LEFT.replace(ALLOCATIONS_LEFT.get().map(|left| left.saturating_sub(1))) == Some(0);
    #[cfg(not(debug_assertions))]
    return false;
}

/// Lets the calling thread allocate space this number of times and no more; `None`: as often as it wants. Returns how many
/// allocations were left.
#[cfg(debug_assertions)]
pub fn limit_allocations(count: Option<u64>) -> Option<u64> {
    ALLOCATIONS_LEFT.replace(count)
}
