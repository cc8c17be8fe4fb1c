//! Steps of the protocols in real code that mutants leave out: those of the models in the model checker's build, those of
//! effects in builds with debug assertions, where `ALMANDINE_FAULT` names one. And allocations that fail on purpose, in builds
//! with debug assertions, too.

/// A step, by what happens without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A session loads the head before it enters the epoch.
    HeadBeforeEnter,
    /// A key is looked up before its bucket is latched, and not again.
    LookBeforeLatch,
    /// A key is set although entries that may be its own could not be compared with it.
    InsertBlindly,
    /// Effects get their place in the order behind the latch.
    EffectOutsideLatch,
    /// A change of the expiry has no effect.
    EffectNotNoted,
    /// Each effect is a unit of work.
    GroupEndsEarly,
    /// Several sessions latch out of order at the same time.
    SeveralServers,
    /// A session that holds latches waits for the next one, even while the server waits out of order.
    WaitsInOrder,
    /// The server ends without a look at what it was given.
    DeskLeft,
    /// A session that has given its ready keys to the server does not wait for it.
    GiverGoesOn,
}

/// Whether this step is left out.
#[cfg(not(any(all(test, loom), debug_assertions)))]
#[inline(always)]
pub(crate) const fn is_made(_fault: Fault) -> bool {
    false
}

/// Whether this step is left out, in this process.
#[cfg(all(not(all(test, loom)), debug_assertions))]
pub(crate) fn is_made(fault: Fault) -> bool {
    static NAMED: std::sync::OnceLock<Option<Fault>> = std::sync::OnceLock::new();
    let named = NAMED.get_or_init(|| match std::env::var("ALMANDINE_FAULT").ok()?.as_str() {
        "effect-outside-latch" => Some(Fault::EffectOutsideLatch),
        "effect-not-noted" => Some(Fault::EffectNotNoted),
        "group-ends-early" => Some(Fault::GroupEndsEarly),
        "giver-goes-on" => Some(Fault::GiverGoesOn),
        _ => None,
    });
    *named == Some(fault)
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

/// Lets this thread allocate space this number of times and no more: for a record, or a bucket of the index's overflow area.
/// `None`: as often as it wants. Returns how many allocations were left. Only in builds with debug assertions.
#[cfg(debug_assertions)]
pub fn limit_allocations(count: Option<u64>) -> Option<u64> {
    ALLOCATIONS_LEFT.with(|left| left.replace(count))
}
