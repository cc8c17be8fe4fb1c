//! The client registry: how other threads find a connection. Its mutex is taken at connect, at close and by commands that walk over
//! all clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{Mutex, MutexGuard};

use super::memory::ClientMemory;
use super::shared::{ClientOrigin, ClientShared};

/// All connections by id.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<ClientShared>>>,
    connected: AtomicUsize,
    /// What they hold of memory.
    pub memory: ClientMemory,
}

impl Clients {
    /// No clients yet, of `workers` workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { memory: ClientMemory::new(workers), ..Self::default() }
    }

    /// Registers a new connection.
    pub fn connect(&self, origin: ClientOrigin) -> Arc<ClientShared> {
        let client = Arc::new(ClientShared::new(origin));
        let mut by_id = self.lock();
        by_id.insert(client.id, Arc::clone(&client));
        self.connected.store(by_id.len(), Relaxed);
        client
    }

    /// Forgets a closed connection.
    pub fn disconnect(&self, id: u64) {
        let mut by_id = self.lock();
        by_id.remove(&id);
        self.connected.store(by_id.len(), Relaxed);
    }

    /// Connections now.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.connected.load(Relaxed)
    }

    /// One connection.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<Arc<ClientShared>> {
        self.lock().get(&id).cloned()
    }

    /// All connections in the order of their ids.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ClientShared>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientShared>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
