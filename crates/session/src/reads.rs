//! One worker's reads of the device: which are on their way, for which connection, and where their bytes go.

use almandine_io::storage::{BufferPool, ReadDone, ReadRequest};
use almandine_keyspace::{Accessor, Fetch, Stage};
use almandine_net::{ConnectionId, Control};

use crate::connection::{Connection, Waiting};

/// Records that are asked for at once for one connection. More are read one such group after the other.
pub(crate) const TOGETHER_MAX: usize = 1 << 11;

/// One worker's reads of the device.
pub(crate) struct Reads {
    pool: BufferPool,
    requests: Vec<ReadRequest>,
    /// By token.
    in_flight: Vec<Option<(ConnectionId, Fetch)>>,
    free_tokens: Vec<u32>,
    pub(crate) fetches: Vec<Fetch>,
    /// Connections that wait until the device has caught up with the writers.
    pub(crate) stalled: Vec<ConnectionId>,
    buffer_bytes: usize,
}

impl Reads {
    pub(crate) fn new() -> Self {
        Self {
            pool: BufferPool::with_arenas(),
            requests: Vec::new(),
            in_flight: Vec::new(),
            free_tokens: Vec::new(),
            fetches: Vec::new(),
            stalled: Vec::new(),
            buffer_bytes: 0,
        }
    }

    /// Asks for what `self.fetches` says.
    pub(crate) fn request(&mut self, id: ConnectionId, waiting: &mut Waiting) {
        for fetch in self.fetches.drain(..) {
            waiting.reads += 1;
            waiting.buffer_bytes += fetch.bytes;
            self.buffer_bytes += fetch.bytes;
            let buffer = self.pool.take(fetch.bytes);
            let source = fetch.source.clone();
            let flight = Some((id, fetch));
            let token = match self.free_tokens.pop() {
                Some(token) => {
                    self.in_flight[token as usize] = flight;
                    token
                }
                None => {
                    self.in_flight.push(flight);
                    u32::try_from(self.in_flight.len() - 1).unwrap_or(u32::MAX)
                }
            };
            self.requests.push(ReadRequest { token: token.into(), source, buffer });
        }
    }

    /// Asks for the next of the records that a batch needs, if there are any that it was not asked for: as many as keep the device busy.
    pub(crate) fn request_next(&mut self, id: ConnectionId, accessor: &Accessor, waiting: &mut Waiting, stage: &mut Stage) {
        while waiting.reads == 0 && !waiting.needed.is_empty() {
            // The blocks of those before give way to their records.
            stage.condense();
            stage.give_spare(&mut self.pool);
            self.buffer_bytes = self.buffer_bytes - waiting.buffer_bytes + stage.bytes();
            waiting.buffer_bytes = stage.bytes();
            let mut next = waiting.needed.split_off(waiting.needed.len().saturating_sub(TOGETHER_MAX));
            accessor.plan_some(&mut next, stage, &mut self.fetches);
            self.request(id, waiting);
        }
    }

    /// Who waits for a read, and what for.
    fn landed(&mut self, token: u64) -> Option<(ConnectionId, Fetch)> {
        let number = u32::try_from(token).ok()?;
        let flight = self.in_flight.get_mut(number as usize)?.take()?;
        self.free_tokens.push(number);
        Some(flight)
    }

    /// Bytes of buffers that connections hold or wait for, and of those kept for the next ones.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffer_bytes + self.pool.kept_bytes()
    }

    /// A batch is done with what was read for it.
    pub(crate) fn release(&mut self, waiting: &mut Waiting, stage: &mut Stage) {
        stage.clear(&mut self.pool);
        waiting.needed = Vec::new();
        self.buffer_bytes -= std::mem::take(&mut waiting.buffer_bytes);
    }

    pub(crate) fn take(&mut self, requests: &mut Vec<ReadRequest>) {
        requests.append(&mut self.requests);
    }

    /// Has the memory that finished reads concern on its way before the first is looked at: the device wrote past the caches.
    pub(crate) fn prefetch(&self, done: &[ReadDone], accessor: &Accessor) {
        for done in done {
            if let Some((_, fetch)) = usize::try_from(done.token).ok().and_then(|token| self.in_flight.get(token)?.as_ref()) {
                accessor.prefetch_fetched(fetch);
                done.buffer.prefetch();
            }
        }
    }

    /// A read has ended: its records are staged, and if it was the connection's last, the batch goes on.
    pub(crate) fn done(&mut self, done: ReadDone, accessor: &Accessor, control: &mut dyn Control<Connection>) {
        let ReadDone { token, buffer, result } = done;
        let Some((id, fetch)) = self.landed(token) else {
            debug_assert!(false, "a read that nobody asked for");
            return;
        };
        let Some((connection, _)) = control.connection(id) else {
            self.pool.give(buffer);
            return;
        };
        if let Err(error) = &result {
            tracing::warn!("Reading from the storage device failed: {error}");
        }
        accessor.accept(&mut connection.waiting.stage, fetch, buffer, result, &mut self.fetches);
        connection.waiting.reads -= 1;
        self.request(id, &mut connection.waiting);
        if connection.waiting.reads == 0 && !connection.waiting.needed.is_empty() {
            let mut stage = std::mem::take(&mut connection.waiting.stage);
            self.request_next(id, accessor, &mut connection.waiting, &mut stage);
            connection.waiting.stage = stage;
        }
        if connection.waiting.reads == 0 {
            control.resume(id);
        }
    }

    /// A connection is gone. Buffers that the device still fills come back to the pool.
    pub(crate) fn forget(&mut self, id: ConnectionId, waiting: &mut Waiting) {
        let mut stage = std::mem::take(&mut waiting.stage);
        self.release(waiting, &mut stage);
        if !self.stalled.is_empty() {
            self.stalled.retain(|stalled| *stalled != id);
        }
    }

    pub(crate) fn resume_stalled(&mut self, control: &mut dyn Control<Connection>) {
        self.stalled.drain(..).for_each(|id| control.resume(id));
    }
}
