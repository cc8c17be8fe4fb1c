//! Steps 0 and 8: connections come, send, and go. A received chunk is parsed, its batch run, and what became of it accounted for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_base::limits::BATCH_COMMANDS_MAX;
use almandine_base::points::{Witness, witness};
use almandine_base::{Output, step};
use almandine_handler::{Access, Client, Kept, Table, pubsub, tracking};
use almandine_instance::{Awake, ClientOrigin, Instance, Message};
use almandine_io::clock;
use almandine_io::socket::Address;
use almandine_io::storage::{ReadDone, ReadRequest};
use almandine_keyspace::Accessor;
use almandine_net::{Buffers, ConnectionId, Control, Held, Next, OutputClass, Peer, Progress, Service};
use almandine_resp::{Batch, Parser, ProtocolVersion, Reply};

use crate::blocking::end_wait::Deadlines;
use crate::observe::counted;
use crate::observe::monitor;
use crate::observe::running;
use crate::run::outcome::{BatchEnd, Executed, Pending};
use crate::run::runner::Runner;
use crate::service::breaks::Heard;
use crate::service::busy::HeldUp;
use crate::service::deferred::{Arrival, Deferred};
use crate::service::parked::Parked;
use crate::service::paused::Paused;
use crate::service::protected;
use crate::service::publish::{self, Burst};
use crate::service::sizes::Sizes;
use crate::state::connection::Connection;
use crate::state::received::Received;
use crate::state::worker::Worker;
use crate::steps::reply;

/// All connections of one worker.
pub struct WorkerService {
    pub(crate) worker: Worker,
    pub(crate) batch: Batch,
    /// How far the wall clock is ahead of the monotonic one. Taken with each tick, so that a batch asks only one clock.
    pub(crate) unix_ahead_ns: i64,
    pub(crate) bulk_bytes_max: usize,
    paused: Paused,
    /// What the connections hold of memory.
    sizes: Sizes,
    /// Messages on their way to subscribers.
    burst: Burst,
    /// What waits for the end of a script that runs alone.
    pub(crate) held: Vec<HeldUp>,
    /// When commands that wait give up.
    pub(crate) deadlines: Deadlines,
    /// When there may be something for some of them though no key changes.
    pub(crate) looks: Deadlines,
    /// Connections that wait for the operation log.
    pub(crate) parked: Parked,
    pub(crate) deferred: Deferred,
    /// Breaks of the log that this worker has heard of.
    pub(crate) heard: Heard,
    /// Connections whose command waits until an epoch of the log is durable, behind that.
    pub(crate) unconfirmed: BTreeSet<(u64, ConnectionId)>,
    /// Says whether the worker rests.
    awake: Awake,
}

impl WorkerService {
    /// The service of worker `worker`, with its own way to the data.
    #[must_use]
    pub fn new(instance: Arc<Instance>, table: &'static Table, accessor: Accessor, worker: usize) -> Self {
        let heard = Heard::join(&instance.workers.breaks, worker);
        let mut sessions = Self {
            awake: Awake::new(&instance.workers.rest),
            worker: Worker::new(instance, table, accessor, worker),
            batch: Batch::new(),
            unix_ahead_ns: clock::unix_ahead_ns(),
            bulk_bytes_max: usize::MAX,
            paused: Paused::default(),
            sizes: Sizes::default(),
            burst: Burst::default(),
            held: Vec::new(),
            deadlines: Deadlines::default(),
            looks: Deadlines::default(),
            parked: Parked::default(),
            deferred: Deferred::default(),
            heard,
            unconfirmed: BTreeSet::new(),
        };
        sessions.reconfigure();
        sessions
    }

    /// Looks for a change of the configuration.
    #[inline]
    pub(crate) fn follow_configuration(&mut self) {
        if self.worker.follow_configuration() {
            self.reconfigure();
        }
    }

    #[cold]
    fn reconfigure(&mut self) {
        let settings = self.worker.runner.context.settings();
        self.bulk_bytes_max = usize::try_from(settings.connections.bulk_bytes_max).unwrap_or(usize::MAX);
        self.sizes.configure(settings);
    }

    /// Enters the epoch, runs the batch, and accounts for it.
    #[inline]
    fn run_batch(&mut self, connection: &mut Connection, input: &[u8], out: &mut Output) -> Executed {
        // What it sees may be as old as its time.
        witness(Witness::Begins, connection.client.shared.id);
        let start_ns = clock::monotonic_ns();
        // CLIENT LIST shows a client the bytes of the commands that are being executed, its own.
        connection.client.shared.activity.query_bytes.store(input.len(), Relaxed);
        self.follow_configuration();
        connection.client.follow_users(&self.worker.runner.context.instance.acl);
        if connection.client.closing {
            return Executed { commands: 0, end: BatchEnd::Close };
        }
        let now_ms = (self.unix_ahead_ns + start_ns.cast_signed()) / 1_000_000;
        if !self.worker.enter(now_ms) {
            return self.run_busy(connection, input, out);
        }
        let runner = &mut self.worker.runner;
        runner.accessor.set_quiet(connection.client.no_touch);
        runner.timing.begin(start_ns);
        runner.rotation.batch_ns = start_ns;
        runner.seen.begin(runner.context.instance.persistence.log.is_on());
        step!(PassLongUnits, { runner.accessor.unit().long_units().pass(true); }, else {});
        let Self { worker, batch, .. } = self;
        let received = Received { batch, input };
        let executed = if worker.runner.accessor.cold().is_possible() || worker.is_stalled() {
            worker.execute_cold_batch(connection, received, out)
        } else {
            let executed = worker.execute_batch(connection, received, out, 0);
            match executed.end {
                BatchEnd::Pending(Pending::Records | Pending::Computation) => {
                    worker.runner.seen.forget();
                    worker.go_on_cold(connection, received, out, executed)
                }
                BatchEnd::Pending(Pending::Script) => worker.await_script(connection, executed.commands),
                BatchEnd::Pending(Pending::Held) => worker.await_carried(connection, executed.commands),
                _ => executed,
            }
        };
        worker.runner.accessor.unit().long_units().pass(false);
        // The command that takes the result is the first one, and runs again when its records are there.
        if executed.commands > 0 || executed.end != BatchEnd::Awaits {
            connection.client.computing.end_batch();
        }
        let runner = &mut worker.runner;
        if runner.suspended.is_some() {
            // The batch ends with the script.
            return executed;
        }
        if connection.client.computing.is_counted() {
            crate::steps::computing::count(&runner.context, &mut connection.client.computing);
        }
        if !std::mem::take(&mut runner.carrying.is_outside) {
            runner.notify_changes(&mut connection.client);
            runner.accessor.end_batch();
        }
        running::end();
        let Runner { context, timing, after_command, monitor_lines, .. } = runner;
        after_command.finish_batch(&mut connection.client, context, out);
        if timing.has_segment()
            && let Some(segment) = timing.end(clock::monotonic_ns(), context.statistics())
        {
            timing.note_segment(context, &connection.client, received, &segment);
        }
        monitor::publish(monitor_lines, &context.instance);
        executed
    }

    /// How a connection goes on whose batch has ended.
    #[inline]
    fn next_of(&mut self, connection: &mut Connection, end: BatchEnd) -> Next {
        match end {
            BatchEnd::Answered => Next::Continue,
            BatchEnd::Awaits | BatchEnd::Pending(Pending::Records | Pending::Computation | Pending::Script | Pending::Held) => {
                Next::Await
            }
            BatchEnd::Pending(Pending::Key) => {
                self.begin_to_wait(connection);
                Next::Pause
            }
            BatchEnd::Paused => {
                if self.paused.enter(&mut connection.paused_at, connection.id) {
                    self.worker.runner.context.instance.pause.connection_waits();
                }
                Next::Pause
            }
            BatchEnd::CloseAfterReplies => match &connection.client.transaction {
                Some(transaction) if transaction.is_too_large() => Next::CloseOverInput,
                _ => Next::CloseAfterFlush,
            },
            BatchEnd::Close => Next::Close,
            BatchEnd::OtherProtocol => reply::abort_other_protocol(connection),
        }
    }

    fn account(&self, connection: &Connection, executed: usize, consumed: usize, left: usize, written: usize) {
        let counters = &self.worker.runner.context.statistics().counters;
        counters.commands_processed.add(executed as u64);
        counters.net_input_bytes.add(consumed as u64);
        counters.net_output_bytes.add(written as u64);
        counters.reads_processed.add(1);
        counters.writes_processed.add(u64::from(written > 0));
        let activity = &connection.client.shared.activity;
        // What waits has not been answered; it counts with its answer.
        let answered = (executed as u64).saturating_sub(connection.client.blocking.waiting.is_some().into());
        activity.record(self.worker.runner.now_ms, answered, connection.last_command, consumed as u64, written as u64);
        activity.query_bytes.store(left, Relaxed);
    }

    /// The bytes of the first `commands` commands of `input`. They are parsed again, because only a stop in the middle of a
    /// batch, which is rare, needs to know.
    #[cold]
    fn length_of(&mut self, connection: &mut Connection, input: &[u8], commands: usize) -> usize {
        connection.rewind();
        if commands == 0 {
            return 0;
        }
        self.batch.clear();
        let limits = connection.limits(self.bulk_bytes_max);
        Parser::new().parse(input, &limits, &mut self.batch, commands).map_or(0, |parsed| parsed.consumed)
    }

    /// When the pause ends for which connections of this worker wait, in monotonic milliseconds.
    fn pause_end_ms(&self) -> Option<u64> {
        if self.paused.is_empty() {
            return None;
        }
        let end_ms = self.worker.runner.context.instance.pause.end_ms()?;
        // Rounded up, so that it is over then.
        u64::try_from(end_ms - self.unix_ahead_ns / 1_000_000 + 1).ok()
    }

    fn resume_if_over(&mut self, control: &mut dyn Control<Connection>) {
        if !self.paused.is_empty() && self.worker.runner.context.instance.pause.active(clock::unix_ms()).is_none() {
            self.resume_paused(control);
        }
    }

    fn resume_paused(&mut self, control: &mut dyn Control<Connection>) {
        let paused = self.paused.take();
        self.worker.runner.context.instance.pause.connections_go_on(paused.len());
        paused.into_iter().for_each(|id| control.resume(id));
    }
}

impl WorkerService {
    /// Does what a message asks for.
    fn deliver(&mut self, message: Message, control: &mut dyn Control<Connection>) {
        match message {
            Message::Kill(ids) => ids.into_iter().for_each(|id| {
                control.kill(id, false);
            }),
            Message::Push(id, bytes) => {
                if let Some((_, out)) = control.connection(id) {
                    out.bytes.extend_from_slice(&bytes);
                }
            }
            Message::Invalidate { client, origin, keys, .. } => match (control.connection(client), origin) {
                (Some((connection, out)), _) => connection.client.write_invalidation(&keys, origin.is_some(), out),
                (None, Some(origin)) => self.worker.runner.context.instance.tracking.redirect_broken(origin, client),
                (None, None) => {}
            },
            Message::CheckSubscriptions(id) => {
                let forbidden = control.connection(id).is_some_and(|(connection, _)| {
                    connection.client.follow_users(&self.worker.runner.context.instance.acl);
                    connection.client.closing || connection.client.listens_to_forbidden()
                });
                if step!(CutListenersOff, forbidden, else false) {
                    control.kill(id, false);
                }
            }
            Message::Publish(publication) => self.burst.deliver(publication, &self.worker.runner.context, control),
            Message::Unheard(publication) => publish::close_listeners(&publication, &self.worker.runner.context, control),
            Message::RedirectBroken { client, redirect } => {
                if let Some((connection, out)) = control.connection(client) {
                    connection.client.write_broken_redirect(redirect, out);
                }
            }
            Message::EvictClients => {
                // What follows is up to [`WorkerService::has_work`], by the limit as it is now.
                self.worker.runner.context.instance.clients.memory.hear(self.worker.runner.context.worker);
                self.follow_configuration();
            }
            Message::Unblock(unblock) => self.unblock(*unblock, control),
            Message::Lost(key) => self.serve_lost(key),
            Message::LookAgain(id) => self.look_sooner(id, control),
            Message::LogAdvanced => {
                self.parked.go_on(&self.worker.runner.context, control);
                self.deliver_deferred(control);
                if !self.unconfirmed.is_empty() {
                    self.confirm(control);
                }
            }
            Message::LogBroken => self.hear_of_break(control),
            Message::BackupEnded(id) => self.tell_sealed(id, control),
            Message::ScriptsEnded => self.take_carried(control),
            Message::Resume => self.resume_paused(control),
            Message::StallEnd => {
                let Worker { reads, runner: Runner { accessor, .. }, .. } = &mut self.worker;
                reads.resume_stalled(accessor, control);
            }
        }
    }

    /// Delivers the messages that have waited for the log and need not any more.
    fn deliver_deferred(&mut self, control: &mut dyn Control<Connection>) {
        while let Some(message) = self.deferred.next(&self.worker.runner.context.instance.persistence.log, self.heard.breaks) {
            self.deliver(message, control);
        }
        self.burst.flush(&self.worker.runner.context, control);
    }

    /// Closes the connections that a message was for which they do not get: they know by that that they have missed something.
    #[cold]
    pub(crate) fn close_those_told(&mut self, message: &Message, control: &mut dyn Control<Connection>) {
        match message {
            Message::Publish(publication) => publish::close_listeners(publication, &self.worker.runner.context, control),
            Message::Invalidate { client, .. } => {
                control.kill(*client, false);
            }
            _ => debug_assert!(false, "other messages do not wait"),
        }
    }
}

impl Service for WorkerService {
    type Connection = Connection;
    type Message = Message;

    fn open(&mut self, id: ConnectionId, peer: &Peer, out: &mut Output) -> Option<Connection> {
        self.follow_configuration();
        let context = &self.worker.runner.context;
        let access = Access::of_default(&context.instance.acl);
        if protected::refuses(context.settings(), access.user(), peer) {
            context.statistics().counters.connections_rejected.add(1);
            Reply::new(out, ProtocolVersion::Resp2).error(protected::DENIED);
            return None;
        }
        context.statistics().counters.connections_received.add(1);
        let shared = context.instance.clients.connect(ClientOrigin {
            id,
            worker: peer.worker,
            address: peer.remote.to_string(),
            local_address: peer.local.to_string(),
            unix_socket: matches!(peer.remote, Address::Unix(_)),
            descriptor: peer.descriptor,
            created_ms: clock::unix_ms(),
        });
        tracing::debug!("Accepted {} as client {}", shared.address, shared.id);
        let mut client = Client::new(shared, access);
        if !peer.names.is_empty() {
            client.follow_certificate(context, &peer.names, clock::unix_ms());
        }
        Some(Connection::new(id, client))
    }

    #[inline]
    fn receive(&mut self, connection: &mut Connection, input: &[u8], out: &mut Output) -> Progress {
        self.batch.clear();
        // A pipeline may authenticate in its first command, which changes what the parser accepts of the second.
        let commands_max = if connection.client.access.is_admitted() { BATCH_COMMANDS_MAX } else { 1 };
        let limits = connection.limits(self.bulk_bytes_max);
        let parsed = connection.parser.parse(input, &limits, &mut self.batch, commands_max);
        let written_before = out.len();
        let commands = self.batch.len();
        let mut executed = Executed { commands: 0, end: BatchEnd::Answered };
        if commands > 0 {
            executed = self.run_batch(connection, input, out);
            if out.has_stream() {
                counted::count(out, &self.worker.runner.context, &connection.client);
            }
        }
        let mut next = self.next_of(connection, executed.end);
        let (mut consumed, mut needed) = (input.len(), 0);
        if executed.commands < commands && next != Next::CloseAfterFlush && next != Next::Close {
            consumed = self.length_of(connection, input, executed.commands);
        } else {
            match parsed {
                Ok(parsed) => (consumed, needed) = (parsed.consumed, parsed.needed),
                Err(error) if next == Next::Continue => next = reply::violation(connection, &error, out),
                Err(_) => {}
            }
        }
        if commands > 0 {
            self.account(connection, executed.commands, consumed, input.len() - consumed, out.len() - written_before);
        }
        let put_out = out.len() > written_before || out.has_stream();
        let Runner { context, seen, .. } = &self.worker.runner;
        let seen = seen.number();
        let holds = put_out
            && context.instance.persistence.log.is_on()
            && self.parked.wait(connection.id, context, seen, self.heard.breaks);
        Progress { consumed, needed, next, holds }
    }

    fn close(&mut self, mut connection: Connection) {
        tracing::debug!("Closed the connection of client {} at {}", connection.client.shared.id, connection.client.shared.address);
        self.sizes.forget(&mut connection, &self.worker.runner.context);
        self.forget_waiting(&mut connection);
        if let Some(watching) = self.worker.keep_script(&mut connection) {
            let mut gone = Client::new(Arc::clone(&connection.client.shared), connection.client.access.clone());
            gone.watching = Some(Box::new(watching));
            self.end_watching(&mut gone);
        }
        if connection.client.watching.is_some() {
            self.end_watching(&mut connection.client);
        }
        pubsub::unsubscribe_all(&mut connection.client, &self.worker.runner.context);
        connection.client.computing.forget();
        crate::steps::computing::count(&self.worker.runner.context, &mut connection.client.computing);
        let instance = &self.worker.runner.context.instance;
        tracking::stop(&mut connection.client, instance);
        instance.monitors.remove(&connection.client.shared);
        instance.clients.disconnect(connection.id);
        if self.paused.leave(connection.paused_at) {
            instance.pause.connections_go_on(1);
        }
        self.worker.reads.forget(connection.id, &mut connection.waiting);
    }

    fn message(&mut self, message: Message, control: &mut dyn Control<Connection>) {
        if !matches!(message, Message::Publish(_)) {
            self.burst.flush(&self.worker.runner.context, control);
        }
        match self.deferred.take(message, &self.worker.runner.context, self.heard.breaks) {
            Arrival::Goes(message) => self.deliver(message, control),
            Arrival::Dropped(message) => self.close_those_told(&message, control),
            Arrival::Waits => {}
        }
    }

    fn messages_end(&mut self, control: &mut dyn Control<Connection>) {
        self.burst.flush(&self.worker.runner.context, control);
    }

    fn take_reads(&mut self, requests: &mut Vec<ReadRequest>) {
        self.worker.reads.take(requests);
    }

    fn reads_done(&mut self, done: &mut Vec<ReadDone>, control: &mut dyn Control<Connection>) {
        let Worker { reads, runner: Runner { accessor, .. }, .. } = &mut self.worker;
        reads.prefetch(done, accessor);
        done.drain(..).for_each(|done| reads.done(done, accessor, control));
    }

    fn deadline_ms(&self) -> Option<u64> {
        if self.worker.is_held() {
            // What is due then is looked at with the next tick.
            return None;
        }
        self.deadlines.first().into_iter().chain(self.looks.first()).chain(self.pause_end_ms()).min()
    }

    fn time_is_up(&mut self, now_ms: u64, control: &mut dyn Control<Connection>) {
        if !self.worker.is_held() {
            self.end_due(now_ms, control);
            self.look_again(now_ms, control);
        }
        self.resume_if_over(control);
    }

    fn has_work(&self) -> bool {
        !self.worker.computing.is_empty()
            || self.worker.runner.suspended.is_some()
            || self.worker.has_turn()
            || self.sizes.is_due(&self.worker.runner.context)
    }

    #[inline]
    fn is_pressed(&self) -> bool {
        self.sizes.is_due(&self.worker.runner.context)
    }

    fn work(&mut self, control: &mut dyn Control<Connection>) {
        if self.sizes.is_due(&self.worker.runner.context) {
            self.sizes.evict(&self.worker.runner.context, control);
        } else if self.worker.runner.suspended.is_some() {
            self.worker.go_on_with_script(control);
            self.count_breaks();
        } else {
            self.worker.compute(control);
            if self.worker.has_turn() {
                self.worker.rotate(control);
            }
        }
    }

    #[inline]
    fn held(&self, connection: &Connection) -> Held {
        let Kept { bytes, protected } = connection.client.kept;
        Held { bytes, protected }
    }

    fn note_buffers(&mut self, connection: &mut Connection, buffers: Buffers) {
        self.sizes.note(connection, buffers, &self.worker.runner.context);
        if let Some(bytes) = self.sizes.take_growth()
            && self.worker.runner.context.instance.keyspace.figures().budget_bytes() > 0
        {
            let now_ms = self.worker.runner.now_ms;
            if self.worker.enter(now_ms) {
                let accessor = &mut self.worker.runner.accessor;
                accessor.count_growth(bytes);
                accessor.end_batch();
            }
        }
    }

    fn tick(&mut self, _now_ms: u64, control: &mut dyn Control<Connection>) {
        self.unix_ahead_ns = clock::unix_ahead_ns();
        self.worker.runner.context.statistics().device_buffer_bytes.store(self.worker.reads.memory_bytes() as u64, Relaxed);
        self.worker.runner.context.instance.keyspace.forget_waiting();
        self.resume_if_over(control);
        self.end_held();
        self.tell_busy(control);
        if self.heard.breaks < self.worker.runner.context.instance.workers.breaks.announced() {
            // It began while others were told.
            self.hear_of_break(control);
        }
    }

    fn may_rest(&self) -> bool {
        let instance = &self.worker.runner.context.instance;
        // What is parked is looked at again when the log or others have moved on, which need not be by a message to this worker.
        let waits =
            [self.paused.is_empty(), self.held.is_empty(), self.unconfirmed.is_empty(), !self.worker.reads.is_any_under_way()];
        waits == [true; 4]
            && !self.has_work()
            && self.worker.runner.carrying.is_idle()
            && !instance.persistence.is_loading()
            && instance.pause.active(clock::unix_ms()).is_none()
    }

    fn set_rests(&mut self, rests: bool) {
        self.awake.set_rests(rests);
    }

    #[inline]
    fn idle(&mut self) {
        self.worker.runner.rotation.spent_ns = 0;
        self.sizes.tell_others(&self.worker.runner.context);
        self.parked.round_ends(&self.worker.runner.context);
    }

    fn output_class(&self, connection: &Connection) -> OutputClass {
        let client = &connection.client;
        if !client.access.is_admitted() {
            OutputClass::Unauthenticated
        } else if client.shared.subscriptions.any.load(Relaxed) {
            OutputClass::Subscriber
        } else {
            // MONITOR too, as in Redis.
            OutputClass::Normal
        }
    }

    /// Those that wait for what others do.
    fn may_idle(&self, connection: &Connection) -> bool {
        let shared = &connection.client.shared;
        shared.modes.monitor.load(Relaxed) || shared.subscriptions.any.load(Relaxed)
    }
}
