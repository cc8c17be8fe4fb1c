//! The ends of waits: a client is served, its time is up, CLIENT UNBLOCK ends its wait, or its connection is gone.
//!
//! The worker that ends a wait has claimed the waiter (INV-BLOCK-3), and tells the worker of its connection once.

use std::collections::BTreeSet;
use std::sync::Arc;

use almandine_base::Output;
use almandine_base::points::{Witness, witness};
use almandine_base::{step, steps};
use almandine_handler::blocking::{Unanswered, Waiting};
use almandine_handler::{CommandError, ReplyMode};
use almandine_instance::statistics::CommandCounters;
use almandine_instance::{LogSeal, Unblock, UnblockAnswer};
use almandine_io::{clock, thread};
use almandine_keyspace::{EndOfWait, Waiter};
use almandine_net::{ConnectionId, Control};
use almandine_resp::Reply;

use crate::blocking::begin_wait::Request;
use crate::service::busy::HeldUp;
use crate::service::receive::WorkerService;
use crate::state::connection::Connection;
use crate::steps::reply;

/// When the commands that wait give up, in monotonic milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(BTreeSet<(u64, ConnectionId)>);

impl Deadlines {
    /// The first of them.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Another time for a connection than it has.
    pub(crate) fn move_to(&mut self, time_ms: &mut Option<u64>, new_ms: Option<u64>, id: ConnectionId) {
        if let Some(old_ms) = std::mem::replace(time_ms, new_ms) {
            self.0.remove(&(old_ms, id));
        }
        if let Some(new_ms) = new_ms {
            self.0.insert((new_ms, id));
        }
    }

    /// Takes a connection whose time has come.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<ConnectionId> {
        let &(time_ms, id) = self.0.first()?;
        (time_ms <= now_ms).then(|| self.0.pop_first()).map(|_| id)
    }
}

impl WorkerService {
    /// A connection waits from now on.
    #[cold]
    pub(crate) fn begin_to_wait(&mut self, connection: &mut Connection) {
        let Some(waiting) = &connection.client.blocking.waiting else { return };
        let blocked = &self.worker.runner.context.statistics().blocked;
        blocked.0.add(1);
        if let Some(timeout_ms) = waiting.timeout_ms {
            // The millisecond that has begun does not count.
            let deadline_ms = (clock::monotonic_ns() / 1_000_000 + 1).saturating_add(timeout_ms);
            self.deadlines.move_to(&mut connection.deadline_ms, Some(deadline_ms), connection.id);
            blocked.1.add(1);
        }
        if let Some(log) = waiting.log {
            self.unconfirmed.insert((log.seal.epoch, connection.id));
        }
        self.await_time(connection);
    }

    /// A connection waits no more. What it has waited for.
    fn end_waiting(&mut self, connection: &mut Connection) -> Option<Box<Waiting>> {
        let waiting = connection.client.blocking.waiting.take()?;
        witness(Witness::Left, connection.client.shared.id);
        let blocked = &self.worker.runner.context.statistics().blocked;
        blocked.0.subtract(1);
        if let Some(deadline_ms) = connection.deadline_ms.take() {
            self.deadlines.0.remove(&(deadline_ms, connection.id));
            blocked.1.subtract(1);
        }
        self.looks.move_to(&mut connection.again_ms, None, connection.id);
        if let Some(log) = waiting.log {
            self.unconfirmed.remove(&(log.seal.epoch, connection.id));
        }
        connection.client.shared.blocked.set(None);
        Some(waiting)
    }

    /// A worker has ended the wait of a client.
    #[cold]
    pub(crate) fn unblock(&mut self, unblock: Unblock, control: &mut dyn Control<Connection>) {
        let Some((connection, out)) = control.connection(unblock.client) else { return };
        let Some(waiting) = self.end_waiting(connection) else {
            debug_assert!(false, "INV-BLOCK-3: a wait ends once");
            return;
        };
        self.leave_queues(&waiting.waiter);
        if let Some(command) = self.counters_of(&waiting)
            && matches!(unblock.answer, UnblockAnswer::Error)
        {
            command.failed.add(1);
        }
        self.answer(connection, &waiting, &unblock.answer, out);
        let context = &self.worker.runner.context;
        let log = &context.instance.persistence.log;
        if matches!(unblock.answer, UnblockAnswer::Served(..)) && log.is_on() && step!(CloseUnlogged, log.breaks().1, else false) {
            // The log is given up: it was served before writes were refused, and it is not known whether the log has that.
            control.kill(unblock.client, false);
            return;
        }
        if log.is_on() && self.parked.wait(unblock.client, context, None, self.heard.breaks) {
            control.hold(unblock.client);
        }
        control.resume(unblock.client);
    }

    /// The counters of the command that has waited.
    fn counters_of(&self, waiting: &Waiting) -> Option<&CommandCounters> {
        let request = waiting.waiter.request().downcast_ref::<Request>()?;
        Some(self.worker.runner.context.statistics().command(usize::from(request.index)))
    }

    /// Answers a client that has waited.
    fn answer(&self, connection: &mut Connection, waiting: &Waiting, answer: &UnblockAnswer, out: &mut Output) {
        let (before, client) = (out.len(), &mut connection.client);
        if let Some(command) = self.counters_of(waiting)
            && !matches!(answer, UnblockAnswer::Served(..))
        {
            // The worker that served it has counted it already.
            command.record(1, 0, false);
            if matches!(answer, UnblockAnswer::Done(Err(_))) {
                command.failed.add(1);
            }
        }
        if client.reply_mode == ReplyMode::On {
            match answer {
                UnblockAnswer::Served(bytes, _) => out.bytes.extend_from_slice(bytes),
                UnblockAnswer::TimedOut => waiting.unanswered.write(&mut Reply::new(out, client.version)),
                UnblockAnswer::Error => reply::error(&self.worker.runner.context, client, out, &CommandError::Unblocked),
                UnblockAnswer::Done(Ok(())) => Reply::new(out, client.version).ok(),
                UnblockAnswer::Done(Err(why)) => {
                    reply::error(&self.worker.runner.context, client, out, &CommandError::new(format!("ERR {why}")));
                }
            }
        } else if client.reply_mode == ReplyMode::Skip {
            client.reply_mode = ReplyMode::On;
        }
        if let UnblockAnswer::Served(_, messages) = answer {
            out.bytes.extend_from_slice(messages);
        }
        let written = (out.len() - before) as u64;
        self.worker.runner.context.statistics().counters.net_output_bytes.add(written);
        client.shared.activity.record_waited(written);
    }

    /// Ends the waits whose time is up.
    pub(crate) fn end_due(&mut self, now_ms: u64, control: &mut dyn Control<Connection>) {
        while let Some(id) = self.deadlines.take_due(now_ms) {
            // Perhaps it goes on waiting.
            if self.give_up(id, &UnblockAnswer::TimedOut, control) == EndOfWait::Serving
                && let Some((connection, _)) = control.connection(id)
            {
                self.deadlines.move_to(&mut connection.deadline_ms, Some(now_ms + 1), id);
            }
        }
    }

    /// Ends the wait of a client that is served by none, unless a worker serves it or has served it: then the message is on its
    /// way.
    fn give_up(&mut self, id: ConnectionId, answer: &UnblockAnswer, control: &mut dyn Control<Connection>) -> EndOfWait {
        let Some((connection, out)) = control.connection(id) else { return EndOfWait::Before };
        witness(Witness::Leaves, connection.client.shared.id);
        let end = connection.client.blocking.waiting.as_ref().map_or(EndOfWait::Before, |waiting| waiting.waiter.end());
        if end == EndOfWait::Now
            && let Some(waiting) = self.end_waiting(connection)
        {
            self.leave_queues(&waiting.waiter);
            self.answer(connection, &waiting, answer, out);
            control.resume(id);
        }
        end
    }

    /// More of the operation log is durable: some wait for that.
    pub(crate) fn confirm(&mut self, control: &mut dyn Control<Connection>) {
        let instance = Arc::clone(&self.worker.runner.context.instance);
        let log = &instance.persistence.log;
        let durable = |epoch| LogSeal { epoch, durable: true };
        while self.unconfirmed.first().is_some_and(|(epoch, _)| log.has_reached(durable(*epoch))) {
            steps::take(1);
            let Some((_, id)) = self.unconfirmed.pop_first() else { break };
            let Some((connection, _)) = control.connection(id) else { continue };
            let Some(waiting) = &mut connection.client.blocking.waiting else { continue };
            let Some(log) = waiting.log.take() else { continue };
            waiting.unanswered = log.reached;
            if log.ends {
                self.give_up(id, &UnblockAnswer::TimedOut, control);
            }
        }
        if let Some((epoch, _)) = self.unconfirmed.first() {
            log.ask(durable(*epoch), false);
        }
    }

    /// The log is broken and given up: clients that wait for nothing but its being durable are told that it is not.
    pub(crate) fn deny_commits(&mut self, control: &mut dyn Control<Connection>) {
        let waiting: Vec<ConnectionId> = self.unconfirmed.iter().map(|(_, id)| *id).collect();
        for id in waiting {
            let waiting = control.connection(id).and_then(|(connection, _)| connection.client.blocking.waiting.as_ref());
            if waiting.is_some_and(|waiting| waiting.unanswered == Unanswered::Uncommitted) {
                self.give_up(id, &UnblockAnswer::TimedOut, control);
            }
        }
    }

    /// The backup that a client was to see sealed has ended. Meanwhile the client may be gone, or wait for something else.
    pub(crate) fn tell_sealed(&mut self, id: ConnectionId, control: &mut dyn Control<Connection>) {
        let Some(sealed) = self.worker.runner.context.instance.persistence.backups.take_answer(id) else { return };
        let waiting = control.connection(id).and_then(|(connection, _)| connection.client.blocking.waiting.as_ref());
        if waiting.is_some_and(|waiting| waiting.unanswered == Unanswered::Unsealed) {
            self.give_up(id, &UnblockAnswer::Done(sealed), control);
        }
    }

    /// A connection is gone: if it waits, no worker serves it any more.
    pub(crate) fn forget_waiting(&mut self, connection: &mut Connection) {
        let client = connection.client.shared.id;
        witness(Witness::Leaves, client);
        let Some(waiting) = self.end_waiting(connection) else { return };
        let mut end = waiting.waiter.end();
        while end == EndOfWait::Serving {
            thread::yield_now();
            end = waiting.waiter.end();
        }
        witness(Witness::Left, client);
        if let Some(command) = self.counters_of(&waiting)
            && end == EndOfWait::Now
        {
            command.record(1, 0, false);
        }
        self.leave_queues(&waiting.waiter);
    }

    pub(crate) fn leave_queues(&mut self, waiter: &Arc<Waiter>) {
        if waiter.has_left() {
            // The worker that served it has seen to that.
            return;
        }
        let now_ms = self.worker.runner.now_ms;
        if !self.worker.enter(now_ms) {
            self.held.push(HeldUp::Leaves(Arc::clone(waiter)));
            return;
        }
        let accessor = &mut self.worker.runner.accessor;
        accessor.waiters().leave(waiter);
        accessor.end_batch();
    }
}
