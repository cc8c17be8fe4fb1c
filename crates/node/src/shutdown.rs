//! The wish to end the process.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// How the process is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownRequest {
    /// SHUTDOWN NOSAVE / SAVE; `None` leaves it to the configuration.
    pub save: Option<bool>,
    /// SHUTDOWN NOW: do not wait for lagging replicas.
    pub now: bool,
    /// SHUTDOWN FORCE: ignore errors while saving.
    pub force: bool,
}

const RUNNING: u8 = 0;
const REQUESTED: u8 = 1;

/// The wish to end the process: set by SHUTDOWN or a signal, awaited by the main thread.
#[derive(Debug, Default)]
pub struct Shutdown {
    state: AtomicU8,
    request: Mutex<Option<ShutdownRequest>>,
    changed: Condvar,
}

impl Shutdown {
    /// Asks for the end. The first request wins.
    pub fn request(&self, request: ShutdownRequest) {
        let mut slot = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(request);
        self.state.store(REQUESTED, Ordering::Release);
        self.changed.notify_all();
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.state.load(Ordering::Acquire) != RUNNING
    }

    /// Waits for the request.
    #[must_use]
    pub fn wait(&self) -> ShutdownRequest {
        let mut slot = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(request) = *slot {
                return request;
            }
            slot = self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_shutdown_request_wins() {
        let shutdown = Shutdown::default();
        assert!(!shutdown.requested());
        shutdown.request(ShutdownRequest { save: Some(false), ..Default::default() });
        shutdown.request(ShutdownRequest::default());
        assert!(shutdown.requested());
        assert_eq!(shutdown.wait().save, Some(false));
    }
}
