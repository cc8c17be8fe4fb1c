//! Steps of transactions, and of serving those who wait, that the black-box proofs leave out, to show that they would notice. Only a build with debug
//! assertions can leave any out: there `ALMANDINE_FAULT` names one.

#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// A step, by what happens without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// EXEC asks whether a watched key has changed before it has its latches.
    WatchBeforeLatch,
    /// A transaction of known keys latches none of them.
    NoPlan,
    /// One that may touch any key keeps nobody out.
    NotAlone,
    /// Some of those who wait hear of nothing.
    WakeDropped,
    /// The latches of a ready key are released before those who wait for it are served.
    ReleasedBeforeServing,
    /// Who waits is served whether or not the wait has ended meanwhile.
    NoClaim,
    /// Who came last is served first.
    LastFirst,
    /// The destinations of those who wait are not at hand when they are served.
    DestinationsUnsecured,
    /// A transaction holds shared what it only reads, although who waits may change it.
    ReadKeysShared,
    /// Serving who moves elements takes some time. No step is left out; it makes others notice.
    SlowHandOver,
}

/// The step that this process leaves out.
#[cfg(debug_assertions)]
pub(crate) fn made() -> Option<Fault> {
    static MADE: OnceLock<Option<Fault>> = OnceLock::new();
    *MADE.get_or_init(|| {
        let fault = match std::env::var("ALMANDINE_FAULT").ok()?.as_str() {
            "watch-before-latch" => Fault::WatchBeforeLatch,
            "no-plan" => Fault::NoPlan,
            "not-alone" => Fault::NotAlone,
            "wake-dropped" => Fault::WakeDropped,
            "released-before-serving" => Fault::ReleasedBeforeServing,
            "no-claim" => Fault::NoClaim,
            "last-first" => Fault::LastFirst,
            "destinations-unsecured" => Fault::DestinationsUnsecured,
            "read-keys-shared" => Fault::ReadKeysShared,
            // `giver-goes-on` is the store's.
            "slow-hand-over" | "giver-goes-on" => Fault::SlowHandOver,
            _ => return None,
        };
        tracing::warn!("A step is left out on purpose: {fault:?}");
        Some(fault)
    })
}

/// The step that this process leaves out: none.
#[cfg(not(debug_assertions))]
pub(crate) fn made() -> Option<Fault> {
    None
}
