//! Where a session that serves those who wait is given what others have made ready; see [`crate::hand_over`].

use almandine_store::{Latches, ReadyKey};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What somebody gives to the server: keys that are ready, and the latches of their buckets.
pub(crate) struct Given {
    pub(crate) latches: Latches,
    pub(crate) keys: Vec<ReadyKey>,
}

/// Whether there is a server, and what it was given.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) is_served: bool,
    pub(crate) given: Vec<Given>,
}

/// Where units of work meet that have to latch out of order.
#[derive(Default)]
pub(crate) struct HandOvers {
    desk: Mutex<Desk>,
    /// Whether the server was given something.
    pub(crate) has_given: AtomicBool,
}

impl HandOvers {
    /// The desk, for this session alone.
    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server was given. The flag changes with it, under the mutex.
    pub(crate) fn take(&self, desk: &mut Desk) -> Vec<Given> {
        self.has_given.store(false, Ordering::Relaxed);
        std::mem::take(&mut desk.given)
    }
}
