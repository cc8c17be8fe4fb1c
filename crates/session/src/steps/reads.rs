//! One worker's reads of the device: which are on their way, for which connection, and where their bytes go.

use std::collections::VecDeque;

use almandine_io::clock;
use almandine_io::storage::{BufferPool, ReadDone, ReadRequest};
use almandine_keyspace::{Accessor, Begin, Fetch, Stage};
use almandine_net::{ConnectionId, Control};

use crate::state::connection::{Connection, Waiting};

/// Records that are asked for at once for one connection. More are read one such group after the other.
pub(crate) const TOGETHER_MAX: usize = 1 << 11;
/// Work that pieces may make for one turn of the worker, and how many are on their way at least and at most.
const TURN_NS: u64 = 1_500_000;
const PIECES_MIN: u64 = 2;
const PIECES_MAX: u64 = 16;

/// The workers' pools together keep this part of `maxmemory`: one in 16.
const POOLS_SHARE: u64 = 16;

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
    /// Reads of large values that wait for room.
    held: VecDeque<(ConnectionId, Fetch)>,
    /// Pieces that wait until fewer are on their way.
    queued: VecDeque<(ConnectionId, Fetch)>,
    pieces: Pieces,
}

/// Pieces of large values on their way. They are few, because each takes some work when it has come, and all may come at the
/// same time.
struct Pieces {
    in_flight: usize,
    /// What taking one has cost of late, in nanoseconds.
    cost_ns: u64,
}

impl Pieces {
    fn are_enough(&self) -> bool {
        let few = (TURN_NS / self.cost_ns.max(1)).clamp(PIECES_MIN, PIECES_MAX);
        self.in_flight as u64 >= few
    }

    fn took(&mut self, ns: u64) {
        self.cost_ns = (self.cost_ns * 7 + ns) / 8;
    }
}

impl Reads {
    /// Reads of one of `workers` workers, within a budget in bytes; 0 is none.
    pub(crate) fn new(budget: u64, workers: usize) -> Self {
        debug_assert_ne!(workers, 0, "this one is a worker");
        let kept = if budget == 0 { usize::MAX } else { usize::try_from(budget / POOLS_SHARE).unwrap_or(usize::MAX) / workers };
        Self {
            pool: BufferPool::within(kept),
            requests: Vec::new(),
            in_flight: Vec::new(),
            free_tokens: Vec::new(),
            fetches: Vec::new(),
            stalled: Vec::new(),
            buffer_bytes: 0,
            held: VecDeque::new(),
            queued: VecDeque::new(),
            pieces: Pieces { in_flight: 0, cost_ns: TURN_NS / 4 },
        }
    }

    /// Whether a read is on its way, or waits for room, for others or for the writers of pages.
    pub(crate) fn is_any_under_way(&self) -> bool {
        self.free_tokens.len() < self.in_flight.len()
            || !(self.held.is_empty() && self.queued.is_empty() && self.stalled.is_empty())
    }

    /// Asks for what `self.fetches` says.
    pub(crate) fn request(&mut self, id: ConnectionId, accessor: &Accessor, waiting: &mut Waiting, stage: &mut Stage) {
        let mut fetches = std::mem::take(&mut self.fetches);
        for mut fetch in fetches.drain(..) {
            let needs = fetch.needs();
            // A connection that holds nothing waits behind those that came before.
            let is_behind = needs != 0 && waiting.room_bytes == 0 && !self.held.is_empty();
            match if is_behind { Begin::Later } else { accessor.cold().admit(stage, &mut fetch, waiting.room_bytes) } {
                Begin::Never => continue,
                Begin::Later => self.held.push_back((id, fetch)),
                Begin::Now => {
                    waiting.room_bytes += needs;
                    self.begin(id, waiting, fetch);
                }
            }
            waiting.reads += 1;
        }
        self.fetches = fetches;
    }

    /// Asks for a read, or lets it wait until fewer pieces are on their way.
    fn begin(&mut self, id: ConnectionId, waiting: &mut Waiting, fetch: Fetch) {
        if fetch.is_piece() && self.pieces.are_enough() {
            self.queued.push_back((id, fetch));
        } else {
            self.submit(id, waiting, fetch);
        }
    }

    fn submit(&mut self, id: ConnectionId, waiting: &mut Waiting, fetch: Fetch) {
        self.pieces.in_flight += usize::from(fetch.is_piece());
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

    /// Asks for pieces that have waited for others.
    fn submit_queued(&mut self, control: &mut dyn Control<Connection>) {
        while !self.pieces.are_enough()
            && let Some((id, fetch)) = self.queued.pop_front()
        {
            if let Some((connection, _)) = control.connection(id) {
                self.submit(id, &mut connection.waiting, fetch);
            }
        }
    }

    /// Asks again for room for the values that wait for some.
    pub(crate) fn admit_held(&mut self, accessor: &Accessor, control: &mut dyn Control<Connection>) {
        let mut is_full = false;
        for _ in 0..self.held.len() {
            let Some((id, mut fetch)) = self.held.pop_front() else { return };
            let Some((connection, _)) = control.connection(id) else { continue };
            let Waiting { stage, room_bytes, .. } = &mut connection.waiting;
            let needs = fetch.needs();
            // A connection that holds something may begin in any case: others may wait for that.
            let may_begin = !is_full || *room_bytes != 0;
            match if may_begin { accessor.cold().admit(stage, &mut fetch, *room_bytes) } else { Begin::Later } {
                Begin::Now => {
                    *room_bytes += needs;
                    self.begin(id, &mut connection.waiting, fetch);
                }
                Begin::Later => {
                    is_full = true;
                    self.held.push_back((id, fetch));
                }
                Begin::Never => {
                    connection.waiting.reads -= 1;
                    if connection.waiting.reads == 0 {
                        control.resume(id);
                    }
                }
            }
        }
    }

    /// Asks for the next of the records that a batch needs, if there are any that it was not asked for: as many as keep the
    /// device busy.
    pub(crate) fn request_next(&mut self, id: ConnectionId, accessor: &Accessor, waiting: &mut Waiting, stage: &mut Stage) {
        while waiting.reads == 0 && !waiting.needed.is_empty() {
            // The blocks of those before give way to their records.
            stage.condense();
            stage.give_spare(&mut self.pool);
            self.buffer_bytes = self.buffer_bytes - waiting.buffer_bytes + stage.bytes();
            waiting.buffer_bytes = stage.bytes();
            let mut next = waiting.needed.split_off(waiting.needed.len().saturating_sub(TOGETHER_MAX));
            accessor.cold().plan(&mut next, stage, &mut self.fetches);
            self.request(id, accessor, waiting, stage);
        }
    }

    /// The connection that waits for a read, and what it asked for.
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
        waiting.room_bytes = 0;
        self.buffer_bytes -= std::mem::take(&mut waiting.buffer_bytes);
    }

    pub(crate) fn take(&mut self, requests: &mut Vec<ReadRequest>) {
        requests.append(&mut self.requests);
    }

    /// Has the memory that finished reads concern on its way before the first is looked at: the device wrote past the caches.
    pub(crate) fn prefetch(&self, done: &[ReadDone], accessor: &Accessor) {
        for done in done {
            if let Some((_, fetch)) = usize::try_from(done.token).ok().and_then(|token| self.in_flight.get(token)?.as_ref()) {
                accessor.cold().prefetch_fetched(fetch);
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
        self.pieces.in_flight -= usize::from(fetch.is_piece());
        let Some((connection, _)) = control.connection(id) else {
            self.pool.give(buffer);
            self.submit_queued(control);
            return;
        };
        if let Err(error) = &result {
            tracing::warn!("Reading from the storage device failed: {error}");
        }
        let waiting = &mut connection.waiting;
        let mut stage = std::mem::take(&mut waiting.stage);
        let (bytes, held_before, is_piece) = (fetch.bytes, stage.bytes(), fetch.is_piece());
        let begin_ns = if is_piece { clock::monotonic_ns() } else { 0 };
        accessor.cold().accept(&mut stage, fetch, buffer, result, &mut self.fetches);
        if is_piece {
            self.pieces.took(clock::monotonic_ns() - begin_ns);
        }
        stage.give_spare(&mut self.pool);
        self.buffer_bytes = self.buffer_bytes + stage.bytes() - bytes - held_before;
        waiting.buffer_bytes = waiting.buffer_bytes + stage.bytes() - bytes - held_before;
        waiting.reads -= 1;
        self.request(id, accessor, waiting, &mut stage);
        if waiting.reads == 0 && !waiting.needed.is_empty() {
            self.request_next(id, accessor, waiting, &mut stage);
        }
        waiting.stage = stage;
        if waiting.reads == 0 {
            control.resume(id);
        }
        self.submit_queued(control);
    }

    /// A connection is gone. Buffers that the device still fills come back to the pool.
    pub(crate) fn forget(&mut self, id: ConnectionId, waiting: &mut Waiting) {
        let mut stage = std::mem::take(&mut waiting.stage);
        self.release(waiting, &mut stage);
        self.held.retain(|(held, _)| *held != id);
        self.queued.retain(|(queued, _)| *queued != id);
        if !self.stalled.is_empty() {
            self.stalled.retain(|stalled| *stalled != id);
        }
    }

    pub(crate) fn resume_stalled(&mut self, accessor: &Accessor, control: &mut dyn Control<Connection>) {
        self.admit_held(accessor, control);
        self.stalled.drain(..).for_each(|id| control.resume(id));
    }
}
