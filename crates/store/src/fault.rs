//! Steps of the protocols in real code that mutants of the models leave out, which only the model checker's build can do; and allocations
//! that fail on purpose, which they do in builds with debug assertions.

/// A step, by what happens without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A session loads the head before it enters the epoch.
    HeadBeforeEnter,
    /// A key is looked up before its bucket is latched, and not again.
    LookBeforeLatch,
    /// A key is set although entries that may be its own could not be compared with it.
    InsertBlindly,
}

/// Whether this step is left out.
#[cfg(not(all(test, loom)))]
#[inline(always)]
pub(crate) const fn is_made(_fault: Fault) -> bool {
    false
}

/// Whether this step is left out, in the checker's thread that runs this.
#[cfg(all(test, loom))]
pub(crate) fn is_made(fault: Fault) -> bool {
    MADE.with(|made| made.get() == Some(fault))
}

#[cfg(all(test, loom))]
thread_local! {
    static MADE: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Leaves a step out of everything that this thread's models run.
#[cfg(all(test, loom))]
pub(crate) fn make(fault: Option<Fault>) {
    MADE.with(|made| made.set(fault));
}

/// Whether an allocation of space fails on purpose.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) const fn allocation_fails() -> bool {
    false
}

/// Whether an allocation of space fails on purpose, in the thread that runs this.
#[cfg(debug_assertions)]
pub(crate) fn allocation_fails() -> bool {
    ALLOCATIONS_LEFT.with(|left| {
        let fails = left.get() == Some(0);
        left.set(left.get().map(|left| left.saturating_sub(1)));
        fails
    })
}

#[cfg(debug_assertions)]
thread_local! {
    static ALLOCATIONS_LEFT: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Lets this thread allocate space so many times and no more: for a record, or a bucket of the index's overflow area. `None`: as often as it
/// wants. Returns how many allocations were left. Only in builds with debug assertions.
#[cfg(debug_assertions)]
pub fn limit_allocations(count: Option<u64>) -> Option<u64> {
    ALLOCATIONS_LEFT.with(|left| left.replace(count))
}
