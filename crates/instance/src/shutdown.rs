//! The wish to end the process.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU8, Ordering};

use almandine_io::sync::{Condvar, Mutex, MutexGuard};

use crate::lock::lock;

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
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    request: Option<ShutdownRequest>,
    /// DEBUG PAUSE-CRON: signals are not followed.
    held: bool,
    /// A signal that is not followed yet.
    signal: bool,
}

impl Shutdown {
    /// Asks for the end. The first request wins.
    pub fn request(&self, request: ShutdownRequest) {
        self.end(&mut self.asked(), request);
    }

    /// A signal asks for the end. While signals are held it can be withdrawn.
    pub fn signal(&self) {
        let mut asked = self.asked();
        asked.signal = true;
        if !asked.held {
            self.end(&mut asked, ShutdownRequest::default());
        }
    }

    /// Has signals wait, or follows those that have waited.
    pub fn hold_signals(&self, held: bool) {
        let mut asked = self.asked();
        asked.held = held;
        if asked.signal && !held {
            self.end(&mut asked, ShutdownRequest::default());
        }
    }

    /// Withdraws a signal that is not followed yet. False when there is none.
    #[must_use]
    pub fn abort(&self) -> bool {
        let mut asked = self.asked();
        asked.request.is_none() && std::mem::take(&mut asked.signal)
    }

    fn end(&self, asked: &mut Asked, request: ShutdownRequest) {
        asked.request.get_or_insert(request);
        self.state.store(REQUESTED, Ordering::Release);
        self.changed.notify_all();
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        lock(&self.asked)
    }

    /// Whether the process is to end.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.state.load(Ordering::Acquire) != RUNNING
    }

    /// Waits for the request.
    #[must_use]
    pub fn wait(&self) -> ShutdownRequest {
        let mut asked = self.asked();
        loop {
            if let Some(request) = asked.request {
                return request;
            }
            asked = self.changed.wait(asked).unwrap_or_else(PoisonError::into_inner);
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

    #[test]
    fn a_signal_that_is_held_can_be_withdrawn_and_is_followed_otherwise() {
        let shutdown = Shutdown::default();
        assert!(!shutdown.abort(), "there is nothing to withdraw");
        shutdown.hold_signals(true);
        shutdown.signal();
        assert!(!shutdown.requested() && shutdown.abort() && !shutdown.abort());
        shutdown.hold_signals(false);
        assert!(!shutdown.requested(), "it was withdrawn");
        shutdown.hold_signals(true);
        shutdown.signal();
        shutdown.hold_signals(false);
        assert_eq!(shutdown.wait(), ShutdownRequest::default());
        assert!(!shutdown.abort(), "the end has begun");
    }
}
