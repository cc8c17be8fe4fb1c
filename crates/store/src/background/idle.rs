//! How long a thread of the store sleeps that has found nothing to do.
//!
//! It is woken when a session has something for it, and looks around some times a second for what no session tells of. While all
//! users of the store rest ([`crate::Settings::set_rests`]) and nothing expires there is none of that, so it looks rarely.

use crate::shared::Shared;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest sleep while there is nothing to do.
const IDLE: Duration = Duration::from_millis(100);
/// The same while all users rest.
const REST: Duration = Duration::from_secs(10);
/// Rounds without anything to do before a thread rests.
const ROUNDS_BEFORE_REST: u32 = 20;

/// One thread's rounds without anything to do.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    rounds: u32,
}

impl Idle {
    /// A round has found something to do.
    pub(crate) fn end(&mut self) {
        self.rounds = 0;
    }

    /// A round has found nothing; how long the thread sleeps, if it is not woken.
    pub(crate) fn sleep(&mut self, store: &Shared) -> Duration {
        self.rounds = self.rounds.saturating_add(1);
        let rests = self.rounds > ROUNDS_BEFORE_REST
            && store.background.rests.load(Ordering::SeqCst)
            && store.counters.totals().volatile == 0;
        if rests { REST } else { IDLE }
    }
}
