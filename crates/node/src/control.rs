//! How threads reach a connection that another worker owns: messages to workers, and the few flags that workers look at per batch.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use crate::clients::ClientShared;
use crate::tracking::Changed;

/// What one worker, or a background thread, asks of another worker.
#[derive(Clone, Debug)]
pub enum Message {
    /// Close these connections.
    Kill(Vec<u64>),
    /// Send these bytes, complete replies, to one connection.
    Push(u64, Bytes),
    /// Look at the pause again: continue connections that wait for its end.
    Resume,
    /// Commands that write may go on: the storage device has caught up.
    Room,
    /// Keys that a client may hold a copy of have changed.
    Invalidate {
        /// The connection that is told.
        client: u64,
        /// Whether it is told in place of another.
        redirected: bool,
        /// The keys.
        keys: Changed,
    },
    /// The connection that was to be told in place of a client is gone.
    RedirectBroken {
        /// The client.
        client: u64,
        /// The connection that is gone.
        redirect: u64,
    },
}

/// Where a worker's messages go. Installed once by the server.
pub trait Mailbox: Send + Sync {
    /// Queues `message` and wakes the worker.
    fn send(&self, message: Message);
}

/// The workers' mailboxes.
#[derive(Default)]
pub struct Workers {
    mailboxes: OnceLock<Vec<Arc<dyn Mailbox>>>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workers({})", self.mailboxes.get().map_or(0, Vec::len))
    }
}

impl Workers {
    /// Installs the mailboxes; a second call changes nothing.
    pub fn install(&self, mailboxes: Vec<Arc<dyn Mailbox>>) {
        let _ = self.mailboxes.set(mailboxes);
    }

    /// Sends to one worker; nobody hears it before the server is up.
    pub fn send(&self, worker: usize, message: Message) {
        if let Some(mailbox) = self.mailboxes.get().and_then(|mailboxes| mailboxes.get(worker)) {
            mailbox.send(message);
        }
    }

    /// Sends to every worker.
    pub fn broadcast(&self, message: &Message) {
        self.mailboxes.get().into_iter().flatten().for_each(|mailbox| mailbox.send(message.clone()));
    }

    /// Closes a connection, whichever worker owns it.
    pub fn kill(&self, client: &ClientShared) {
        client.killed.store(true, Ordering::Relaxed);
        self.send(client.worker, Message::Kill(vec![client.id]));
    }
}

/// Which commands a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseScope {
    /// Those that may write.
    Writes,
    /// All.
    All,
}

/// CLIENT PAUSE. Workers look at it once per batch: one relaxed load while nothing is paused.
#[derive(Debug, Default)]
pub struct Pause {
    /// Unix milliseconds; 0 without a pause.
    until_ms: AtomicI64,
    all: AtomicBool,
    waiting: AtomicUsize,
}

impl Pause {
    /// Counts a connection that waits for the end.
    pub fn connection_waits(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts connections that no longer wait.
    pub fn connections_go_on(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }

    /// Connections that wait for the end.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Starts a pause, or changes a running one: the stricter scope and the later end win, as in Redis.
    pub fn start(&self, scope: PauseScope, until_ms: i64, now_ms: i64) {
        let running = self.active(now_ms);
        let all = scope == PauseScope::All || running == Some(PauseScope::All);
        self.all.store(all, Ordering::Relaxed);
        let before = if running.is_some() { self.until_ms.load(Ordering::Relaxed) } else { 0 };
        self.until_ms.store(before.max(until_ms), Ordering::Release);
    }

    /// Ends it.
    pub fn stop(&self) {
        self.until_ms.store(0, Ordering::Release);
    }

    /// The scope of the running pause.
    #[inline]
    #[must_use]
    pub fn active(&self, now_ms: i64) -> Option<PauseScope> {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        if until_ms == 0 || until_ms <= now_ms {
            return None;
        }
        Some(if self.all.load(Ordering::Relaxed) { PauseScope::All } else { PauseScope::Writes })
    }

    /// Milliseconds until the end.
    #[must_use]
    pub fn remaining_ms(&self, now_ms: i64) -> i64 {
        self.active(now_ms).map_or(0, |_| self.until_ms.load(Ordering::Relaxed) - now_ms)
    }
}

/// The clients that run MONITOR. Executing commands costs one relaxed load while there are none.
#[derive(Debug, Default)]
pub struct MonitorFeed {
    active: AtomicUsize,
    /// `(client, worker)`.
    listeners: Mutex<Vec<(u64, usize)>>,
}

impl MonitorFeed {
    /// Whether anybody listens.
    #[inline]
    #[must_use]
    pub fn active(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0
    }

    /// Adds a listener once.
    pub fn add(&self, client: &ClientShared) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if !client.monitor.swap(true, Ordering::Relaxed) {
            listeners.push((client.id, client.worker));
        }
        self.active.store(listeners.len(), Ordering::Relaxed);
    }

    /// Removes a listener, if it is one.
    pub fn remove(&self, client: &ClientShared) {
        if client.monitor.swap(false, Ordering::Relaxed) {
            let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.retain(|(id, _)| *id != client.id);
            self.active.store(listeners.len(), Ordering::Relaxed);
        }
    }

    /// Sends lines to every listener.
    pub fn publish(&self, lines: &Bytes, workers: &Workers) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (client, worker) in listeners {
            workers.send(worker, Message::Push(client, lines.clone()));
        }
    }
}

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
    fn a_pause_ends_by_itself_and_keeps_the_stricter_scope() {
        let pause = Pause::default();
        assert_eq!(pause.active(1), None);
        pause.start(PauseScope::All, 100, 1);
        pause.start(PauseScope::Writes, 50, 2);
        assert_eq!((pause.active(60), pause.remaining_ms(60)), (Some(PauseScope::All), 40));
        assert_eq!(pause.active(100), None);
        pause.start(PauseScope::Writes, 200, 150);
        assert_eq!(pause.active(151), Some(PauseScope::Writes));
        pause.stop();
        assert_eq!(pause.active(151), None);
    }

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
