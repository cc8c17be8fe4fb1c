//! The wish to end the process.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use almandine_io::sync::{Condvar, Mutex, MutexGuard};
use almandine_io::thread::Waker;

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

impl ShutdownRequest {
    /// What a signal asks for, by the options of `shutdown-on-sigint` or `shutdown-on-sigterm`.
    #[must_use]
    pub fn of_signal(options: u32) -> Self {
        let [save, nosave, now, force] = [0, 1, 2, 3].map(|bit| options >> bit & 1 != 0);
        Self { save: if nosave { Some(false) } else { save.then_some(true) }, now, force }
    }
}

const RUNNING: u8 = 0;
const ACCEPTED: u8 = 1;

/// The wish to end the process: told by SHUTDOWN or a signal, granted or refused by the thread that saves the data before, awaited
/// by the main thread.
#[derive(Default)]
pub struct Shutdown {
    state: AtomicU8,
    asked: Mutex<Asked>,
    changed: Condvar,
    /// Of the thread that grants or refuses.
    waker: OnceLock<Arc<Waker>>,
    stop_listening: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Asked {
    request: Option<ShutdownRequest>,
    /// How often a request was refused.
    refusals: u64,
    /// DEBUG PAUSE-CRON: signals are not followed.
    held: bool,
    /// A signal that is not followed yet.
    signal: Option<ShutdownRequest>,
}

impl Shutdown {
    /// The thread that grants or refuses is woken by this. Once, before there are clients.
    pub fn install_waker(&self, waker: Arc<Waker>) {
        let _ = self.waker.set(waker);
    }

    /// No socket listens any more when this returns. Once, before there are clients.
    pub fn install_stop_listening(&self, stop: impl Fn() + Send + Sync + 'static) {
        let _ = self.stop_listening.set(Box::new(stop));
    }

    /// Has the thread look that grants or refuses.
    fn tell(&self) {
        self.changed.notify_all();
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Ends the server, whatever is not saved. A request that was told before stands.
    pub fn end(&self, request: ShutdownRequest) {
        self.asked().request.get_or_insert(request);
        self.accept();
    }

    /// Asks for the end, and waits for whether it comes: not where the data is to be saved before and cannot be. No socket listens
    /// any more when it does. The first request wins. Not in an epoch.
    #[must_use]
    pub fn ask(&self, request: ShutdownRequest) -> bool {
        let mut asked = self.asked();
        asked.request.get_or_insert(request);
        let refusals = asked.refusals;
        self.tell();
        while !self.requested() {
            if asked.refusals != refusals {
                return false;
            }
            asked = self.changed.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// A signal asks for the end, with what the configuration says of it. While signals are held it can be withdrawn.
    pub fn signal(&self, request: ShutdownRequest) {
        let mut asked = self.asked();
        asked.signal = Some(request);
        self.follow_signal(&mut asked);
    }

    /// What is asked for and neither granted nor refused.
    #[must_use]
    pub fn pending(&self) -> Option<ShutdownRequest> {
        self.asked().request.filter(|_| !self.requested())
    }

    /// Grants what is asked for: the server ends, and a client that sees its connection close for it finds that none can be made.
    pub fn accept(&self) {
        if let Some(stop_listening) = self.stop_listening.get() {
            stop_listening();
        }
        let _asked = self.asked();
        self.state.store(ACCEPTED, Ordering::Release);
        self.changed.notify_all();
    }

    /// Refuses what is asked for: the server goes on.
    pub fn refuse(&self) {
        let mut asked = self.asked();
        asked.request = None;
        asked.refusals += 1;
        self.changed.notify_all();
    }

    /// Has signals wait, or follows those that have waited.
    pub fn hold_signals(&self, held: bool) {
        let mut asked = self.asked();
        asked.held = held;
        self.follow_signal(&mut asked);
    }

    /// Withdraws a signal that is not followed yet. False when there is none.
    #[must_use]
    pub fn abort(&self) -> bool {
        let mut asked = self.asked();
        asked.request.is_none() && asked.signal.take().is_some()
    }

    fn follow_signal(&self, asked: &mut Asked) {
        if !asked.held
            && let Some(request) = asked.signal.take()
        {
            asked.request.get_or_insert(request);
            self.tell();
        }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        lock(&self.asked)
    }

    /// Whether the process is ending.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.state.load(Ordering::Acquire) != RUNNING
    }

    /// Waits until the end is granted.
    #[must_use]
    pub fn wait(&self) -> ShutdownRequest {
        let mut asked = self.asked();
        loop {
            if self.requested() {
                return asked.request.unwrap_or_default();
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
        assert!(!shutdown.requested() && shutdown.pending().is_none());
        shutdown.end(ShutdownRequest { save: Some(false), ..Default::default() });
        shutdown.end(ShutdownRequest::default());
        assert!(shutdown.requested() && shutdown.pending().is_none());
        assert_eq!(shutdown.wait().save, Some(false));
    }

    #[test]
    fn what_is_asked_for_is_granted_or_refused() {
        let shutdown = std::sync::Arc::new(Shutdown::default());
        for granted in [false, true] {
            let other = std::sync::Arc::clone(&shutdown);
            let client = std::thread::spawn(move || other.ask(ShutdownRequest { now: true, ..Default::default() }));
            while shutdown.pending().is_none() {
                std::thread::yield_now();
            }
            if granted {
                shutdown.accept();
            } else {
                shutdown.refuse();
            }
            assert_eq!(client.join().unwrap(), granted);
            assert_eq!((shutdown.requested(), shutdown.pending()), (granted, None));
        }
    }

    #[test]
    fn a_signal_that_is_held_can_be_withdrawn_and_is_followed_otherwise() {
        let shutdown = Shutdown::default();
        let request = ShutdownRequest { force: true, ..Default::default() };
        assert!(!shutdown.abort(), "there is nothing to withdraw");
        shutdown.hold_signals(true);
        shutdown.signal(request);
        assert!(shutdown.pending().is_none() && shutdown.abort() && !shutdown.abort());
        shutdown.hold_signals(false);
        assert!(shutdown.pending().is_none(), "it was withdrawn");
        shutdown.hold_signals(true);
        shutdown.signal(request);
        shutdown.hold_signals(false);
        assert_eq!(shutdown.pending(), Some(request));
        assert!(!shutdown.abort(), "the end has begun");
    }
}
