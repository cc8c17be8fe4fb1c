//! Commands whose records are on the device: the batch asks for all of them at once, the connection waits, others go on.
//!
//! Before a batch runs, all of its keys are probed and what is cold is read together. A command that still meets a cold record (its
//! key was not declared, or moved meanwhile) stops the batch before it; what it needs is read, and the batch goes on with it. A
//! command that reads has then answered nothing; one that writes has been asked under its locks, before it changed anything.

use almandine_base::Output;
use almandine_call::{CommandError, Flags, Handler, Outcome, Plan, WriteCall};
use almandine_command_spec::Access;
use almandine_io::storage::{BufferPool, ReadDone, ReadRequest};
use almandine_keyspace::{Accessor, Fetch, Need, Stage};
use almandine_net::{ConnectionId, Control, Next};
use almandine_resp::{Args, Batch};

use crate::connection::Connection;
use crate::execute::{Engine, declared_keys, entry};
use crate::service::{Executed, Sessions};

/// Records that a command may need from the device at once; one that needs more is refused.
const RECORDS_MAX: usize = 1 << 16;
/// Records that the commands of a batch ask for before the first of them runs.
const AHEAD_MAX: usize = 1 << 12;

/// Times that a batch looks again for records that have moved before it takes them for lost.
const FRUITLESS_MAX: u32 = 1000;

/// What a connection waits for.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Records that have been read for the batch.
    stage: Stage,
    /// Reads that have not ended.
    reads: usize,
    /// The batch was looked at before; it goes on with what has been read since.
    resumed: bool,
    /// Bytes of the buffers that it holds or waits for.
    buffer_bytes: usize,
}

/// One worker's reads of the device.
pub(crate) struct Reads {
    pool: BufferPool,
    requests: Vec<ReadRequest>,
    /// By token.
    in_flight: Vec<Option<(ConnectionId, Fetch)>>,
    free_tokens: Vec<u32>,
    fetches: Vec<Fetch>,
    /// Connections that wait until there is room for what they write.
    choked: Vec<ConnectionId>,
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
            choked: Vec::new(),
            buffer_bytes: 0,
        }
    }

    /// Asks for what `self.fetches` says.
    fn request(&mut self, id: ConnectionId, waiting: &mut Waiting) {
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
    fn release(&mut self, waiting: &mut Waiting, stage: &mut Stage) {
        stage.clear(&mut self.pool);
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
        if connection.waiting.reads == 0 {
            control.resume(id);
        }
    }

    /// A connection is gone. Buffers that the device still fills come back to the pool.
    pub(crate) fn forget(&mut self, id: ConnectionId, waiting: &mut Waiting) {
        let mut stage = std::mem::take(&mut waiting.stage);
        self.release(waiting, &mut stage);
        if !self.choked.is_empty() {
            self.choked.retain(|choked| *choked != id);
        }
    }

    pub(crate) fn resume_choked(&mut self, control: &mut dyn Control<Connection>) {
        self.choked.drain(..).for_each(|id| control.resume(id));
    }
}

impl Sessions {
    /// Runs the batch while records may be on the device.
    #[cold]
    pub(crate) fn execute_cold_batch(&mut self, connection: &mut Connection, input: &[u8], out: &mut Output) -> Executed {
        let (engine, batch, reads) = self.cold_parts();
        if engine.context.node.keyspace.is_stalled() && engine.writes(connection, batch, input) {
            reads.choked.push(connection.id);
            return Executed { commands: 0, next: Next::Await };
        }
        let mut stage = std::mem::take(&mut connection.waiting.stage);
        if !std::mem::take(&mut connection.waiting.resumed) {
            engine.accessor.attach(stage);
            engine.look_ahead(connection, batch, input);
            stage = engine.accessor.detach();
            if let Some(parked) = self.park(connection, &mut stage) {
                connection.waiting.stage = stage;
                return Executed { commands: 0, next: parked };
            }
        }
        self.run_cold(connection, input, out, stage, 0)
    }

    /// Goes on with a batch of which a command met a cold record although there was none yet when the batch began.
    #[cold]
    pub(crate) fn go_on_cold(&mut self, connection: &mut Connection, input: &[u8], out: &mut Output, done: usize) -> Executed {
        connection.parked = false;
        let mut stage = std::mem::take(&mut connection.waiting.stage);
        if let Some(next) = self.park(connection, &mut stage) {
            connection.waiting.stage = stage;
            return Executed { commands: done, next };
        }
        self.run_cold(connection, input, out, stage, done)
    }

    /// Runs the commands from the one numbered `done` on, until one needs what is not in the stage.
    fn run_cold(
        &mut self,
        connection: &mut Connection,
        input: &[u8],
        out: &mut Output,
        mut stage: Stage,
        mut done: usize,
    ) -> Executed {
        let mut fruitless = 0;
        loop {
            self.cold_parts().0.accessor.attach(stage);
            let executed = self.execute_batch(connection, input, out, done);
            stage = self.cold_parts().0.accessor.detach();
            done = executed.commands;
            if !std::mem::take(&mut connection.parked) {
                let (engine, _, reads) = self.cold_parts();
                engine.accessor.forget_wanted();
                reads.release(&mut connection.waiting, &mut stage);
                connection.waiting.stage = stage;
                return executed;
            }
            fruitless += 1;
            if fruitless == FRUITLESS_MAX {
                let (engine, ..) = self.cold_parts();
                engine.accessor.give_up(&mut stage);
            }
            // Nothing to read means that what was cold has moved since: it is looked up again at once.
            if let Some(next) = self.park(connection, &mut stage) {
                connection.waiting.stage = stage;
                return Executed { commands: done, next };
            }
        }
    }

    /// Asks for the records that have been noted as needed. `None` when there is nothing to wait for.
    fn park(&mut self, connection: &mut Connection, stage: &mut Stage) -> Option<Next> {
        let (engine, _, reads) = self.cold_parts();
        if engine.accessor.wanted() == 0 {
            return None;
        }
        engine.accessor.plan(stage, &mut reads.fetches);
        reads.request(connection.id, &mut connection.waiting);
        connection.waiting.resumed = connection.waiting.reads != 0;
        if connection.waiting.resumed {
            engine.context.statistics().counters.device_waits.add(1);
        }
        connection.waiting.resumed.then_some(Next::Await)
    }
}

impl Engine {
    /// Notes what the commands of the batch need from the device.
    fn look_ahead(&mut self, connection: &Connection, batch: &Batch, input: &[u8]) {
        let Self { planner, accessor, context, .. } = self;
        let db = connection.client.db;
        let mut first = 0;
        while first < batch.len() {
            // In groups, as they run: the cache lines of all buckets are on their way before the first is looked at.
            planner.plan_group(accessor, db, batch, input, first);
            for (planned, command) in planner.group().iter().zip(first..) {
                let Some(plan) = planned.plan else { continue };
                let need = match plan.run {
                    Handler::Read(_) => Need::Read,
                    Handler::Write(_) => Need::Change,
                    // It may change what the following ones mean.
                    Handler::Admin(_) | Handler::Container => return,
                };
                let args = batch.args(command, input);
                for (position, access) in entry(plan, context).shape.keys_exact(args.len(), |argument| args.at(argument)) {
                    if need == Need::Read || accessor.reads_before_write() || !is_blind(plan, access, args) {
                        let key = planned.key.at(args, position).unwrap_or_else(|| accessor.key(db, args.at(position)));
                        accessor.probe(key, need);
                    }
                }
                if accessor.wanted() >= AHEAD_MAX {
                    return;
                }
            }
            first += planner.group().len();
        }
    }

    /// Whether any command of the batch may take memory.
    fn writes(&mut self, connection: &Connection, batch: &Batch, input: &[u8]) -> bool {
        (0..batch.len()).any(|command| {
            let planned = self.planner.plan_alone(&self.accessor, connection.client.db, batch.args(command, input));
            planned.plan.is_some_and(|plan| plan.flags.any(Flags::DENY_OOM))
        })
    }
}

/// Whether a call most probably sets this key without regard to what it was. A wrong guess costs a second read, or one too many.
fn is_blind(plan: &Plan, access: Access, args: Args<'_>) -> bool {
    let expiry = || [&b"ex"[..], b"px", b"exat", b"pxat"].iter().any(|option| args.at(3).eq_ignore_ascii_case(option));
    let set = || args.len() == 3 || args.len() == 5 && expiry();
    plan.flags.any(Flags::BLIND) || access == Access::Overwrite && plan.flags.any(Flags::SELF_LOCKING) && set()
}

/// Makes sure that what is known of the declared keys, which are locked, is at hand.
#[cold]
pub(crate) fn require(plan: &Plan, call: &mut WriteCall<'_>) -> Outcome {
    let mut outcome = Ok(());
    for key in declared_keys(entry(plan, call.context), call.args) {
        let key = call.keys.key(key);
        // All of them, so that all are read together.
        outcome = outcome.and(call.keys.require(key));
    }
    outcome.map_err(CommandError::from)
}

/// What a command's outcome is worth, when it may have met records that are on the device.
#[cold]
pub(crate) fn settle(outcome: Outcome, accessor: &mut Accessor) -> Outcome {
    let met = accessor.check_met();
    if matches!(outcome, Err(CommandError::Cold | CommandError::StorageUnreadable)) || met.is_ok() {
        return outcome;
    }
    if accessor.wanted() > RECORDS_MAX {
        accessor.forget_wanted();
        return Err(CommandError::TooManyCold);
    }
    met.map_err(CommandError::from)
}
