//! Steps that the black-box proofs leave out, to show that they would notice: of users, events, publish/subscribe, tracking,
//! transactions and of serving those who wait. Only a build with debug assertions can leave any out: there `ALMANDINE_FAULT` names
//! one.

/// Declares the steps, each by what happens without it, and by its name in the environment.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $name:literal $(| $other:literal)*,)+) => {
        /// A step, by what happens without it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $fault,)+
        }

        #[cfg(debug_assertions)]
        fn named(name: &str) -> Option<Fault> {
            Some(match name {
                $($name $(| $other)* => Fault::$fault,)+
                _ => return None,
            })
        }
    };
}

faults! {
    /// EXEC asks whether a watched key has changed before it has its latches.
    WatchBeforeLatch = "watch-before-latch",
    /// A transaction of known keys latches none of them.
    NoPlan = "no-plan",
    /// One that may touch any key keeps nobody out.
    NotAlone = "not-alone",
    /// Some of those who wait hear of nothing.
    WakeDropped = "wake-dropped",
    /// The latches of a ready key are released before those who wait for it are served.
    ReleasedBeforeServing = "released-before-serving",
    /// Who waits is served whether or not the wait has ended meanwhile.
    NoClaim = "no-claim",
    /// Who came last is served first.
    LastFirst = "last-first",
    /// A transaction holds shared what it only reads, although who waits may change it.
    ReadKeysShared = "read-keys-shared",
    /// Serving who moves elements takes some time. No step is left out; it makes others notice, as the store's `giver-goes-on`.
    SlowHandOver = "slow-hand-over" | "giver-goes-on",
}

/// The step that this process leaves out.
#[cfg(debug_assertions)]
#[must_use]
pub fn made() -> Option<Fault> {
    static MADE: std::sync::OnceLock<Option<Fault>> = std::sync::OnceLock::new();
    *MADE.get_or_init(|| named(&std::env::var("ALMANDINE_FAULT").ok()?))
}

/// The step that this process leaves out: none.
#[cfg(not(debug_assertions))]
#[inline(always)]
#[must_use]
pub fn made() -> Option<Fault> {
    None
}
