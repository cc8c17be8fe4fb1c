//! Steps of transactions that the black-box proof leaves out, to show that it would notice. Only a build with debug assertions can leave any
//! out: there `ALMANDINE_FAULT` names one.

/// A step, by what happens without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// EXEC asks whether a watched key has changed before it has its latches.
    WatchBeforeLatch,
    /// A transaction of known keys latches none of them.
    NoPlan,
    /// One that may touch any key keeps nobody out.
    NotAlone,
}

/// The step that this process leaves out.
#[cfg(debug_assertions)]
pub(crate) fn made() -> Option<Fault> {
    let name = std::env::var("ALMANDINE_FAULT").ok()?;
    let fault = match name.as_str() {
        "watch-before-latch" => Fault::WatchBeforeLatch,
        "no-plan" => Fault::NoPlan,
        "not-alone" => Fault::NotAlone,
        _ => return None,
    };
    tracing::warn!("A step of transactions is left out on purpose: {fault:?}");
    Some(fault)
}

/// The step that this process leaves out: none.
#[cfg(not(debug_assertions))]
pub(crate) fn made() -> Option<Fault> {
    None
}
