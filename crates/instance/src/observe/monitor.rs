//! MONITOR: the clients that see all commands.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use almandine_io::sync::Mutex;
use bytes::Bytes;

use crate::client::ClientShared;
use crate::messages::{Message, Workers};

/// The clients that run MONITOR. Executing commands costs one relaxed load while there are none.
#[derive(Debug, Default)]
pub struct MonitorFeed {
    active: AtomicUsize,
    /// `(client, worker)`.
    listeners: Mutex<Vec<(u64, usize)>>,
}

impl MonitorFeed {
    /// Whether there is a listener.
    #[inline]
    #[must_use]
    pub fn active(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0
    }

    /// Adds a listener once.
    pub fn add(&self, client: &ClientShared) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if !client.modes.monitor.swap(true, Ordering::Relaxed) {
            listeners.push((client.id, client.worker));
        }
        self.active.store(listeners.len(), Ordering::Relaxed);
    }

    /// Removes a listener, if it is one.
    pub fn remove(&self, client: &ClientShared) {
        if client.modes.monitor.swap(false, Ordering::Relaxed) {
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
