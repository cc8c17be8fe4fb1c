//! Steps of the protocols in real code that mutants of the models leave out. Only the model checker's build can leave any out.

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
