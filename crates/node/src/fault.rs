//! Steps that the proofs of users, events, publish/subscribe, tracking and claims leave out, to show that they would notice. Only a build with debug assertions can leave
//! any out: there `ALMANDINE_FAULT` names one. Those of transactions and of hand-over are the session's.

#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// A step, by what happens without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// While events are told, commands of one verb release their latch before theirs are.
    EventsUnlatched,
    /// Of the keys of a command only the first is checked against the rights of its user.
    FirstKeyAlone,
    /// Clients keep the rights that they had when they authenticated.
    RightsKept,
    /// Who listens to what its user may not listen to any more is left alone.
    ListenersKept,
    /// A message is posted when others may publish to its channel.
    PublishedUnordered,
    /// What a tracking client reads is remembered when it was read, not before.
    TrackedLate,
    /// Nobody serves those who wait for a key that the store has removed.
    LostUntold,
    /// The worker of one that waits does not hear that there may be something for it sooner than it knows.
    SoonerUntold,
}

/// The step that this process leaves out.
#[cfg(debug_assertions)]
#[must_use]
pub fn made() -> Option<Fault> {
    static MADE: OnceLock<Option<Fault>> = OnceLock::new();
    *MADE.get_or_init(|| {
        Some(match std::env::var("ALMANDINE_FAULT").ok()?.as_str() {
            "events-unlatched" => Fault::EventsUnlatched,
            "first-key-alone" => Fault::FirstKeyAlone,
            "rights-kept" => Fault::RightsKept,
            "listeners-kept" => Fault::ListenersKept,
            "published-unordered" => Fault::PublishedUnordered,
            "tracked-late" => Fault::TrackedLate,
            "lost-untold" => Fault::LostUntold,
            "sooner-untold" => Fault::SoonerUntold,
            _ => return None,
        })
    })
}

/// The step that this process leaves out: none.
#[cfg(not(debug_assertions))]
#[inline(always)]
#[must_use]
pub fn made() -> Option<Fault> {
    None
}
