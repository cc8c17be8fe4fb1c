//! A worker while a script has run for long, alone: its batches do not begin. Clients hear that the server is busy, but for the few
//! commands that are allowed then and touch no data, above all SCRIPT KILL. What cannot be refused waits for the end of the script.

use std::sync::Arc;
use std::time::Duration;

use almandine_base::{Output, sometimes};
use almandine_handler::{Client, Dispatch, Flags, ReplyMode, ScriptTurn, errors, transaction};
use almandine_keyspace::{ReadyKey, Waiter};
use almandine_resp::Args;
use almandine_script::ProgramKind;

use crate::observe::monitor;
use crate::run::outcome::{BatchEnd, Executed};
use crate::run::runner::{Called, steps};
use crate::service::receive::WorkerService;
use crate::state::connection::Connection;
use crate::state::received::Received;
use crate::state::worker::Worker;
use crate::steps::admit::is_other_protocol;
use crate::steps::plan::Planned;

/// How often a worker that waits for one that is alone looks whether that is a script that runs for long.
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// What a worker does when it may touch data again.
pub(crate) enum HeldUp {
    /// The end of a wait.
    Leaves(Arc<Waiter>),
    /// The end of a connection that watched keys.
    Watched(Box<Client>),
    /// Serving the waiters of a key that the store has removed.
    Lost(ReadyKey),
}

impl Worker {
    /// Begins a batch, when no other worker is alone any more. `now_ms` is its time, unless it has to wait. False while a script
    /// has run for long.
    #[inline]
    pub(crate) fn enter(&mut self, now_ms: i64) -> bool {
        let runner = &mut self.runner;
        if runner.suspended.is_some() {
            return false;
        }
        runner.now_ms = now_ms;
        runner.accessor.unit().try_begin_batch(now_ms) || self.enter_later()
    }

    #[cold]
    fn enter_later(&mut self) -> bool {
        let runner = &mut self.runner;
        while !runner.context.instance.scripts.running.is_busy() {
            runner.accessor.unit().await_others(LOOK);
            if runner.accessor.unit().try_begin_batch(runner.now_ms) {
                sometimes!("a batch begins later than it was to");
                runner.pass_time();
                return true;
            }
        }
        false
    }

    /// Whether a script has run for long, so that no batch begins.
    pub(crate) fn is_held(&self) -> bool {
        self.runner.suspended.is_some() || self.runner.context.instance.scripts.running.is_busy()
    }

    /// Answers a command while a script has run for long. It waits if that is not possible.
    fn answer_busy(&mut self, client: &mut Client, args: Args<'_>, out: &mut Output) -> BatchEnd {
        if client.in_script || matches!(client.script.as_deref(), Some(ScriptTurn::Ended(_))) {
            sometimes!("a script has run whose client would hear that the server is busy");
            return BatchEnd::Paused;
        }
        let Some(dispatch) = self.planner.resolve(args) else {
            if is_other_protocol(args) {
                return BatchEnd::OtherProtocol;
            }
            if client.watching.is_some() {
                return BatchEnd::Paused;
            }
            self.runner.refuse_unplanned(client, out, args);
            return BatchEnd::Answered;
        };
        if !client.access.is_admitted() && !dispatch.flags.any(Flags::NO_AUTH) {
            self.runner.refuse(client, out, dispatch, &errors::acl::AUTHENTICATION_REQUIRED);
        } else if is_about_keys(client, dispatch) {
            return BatchEnd::Paused;
        } else if !self.is_allowed(client, dispatch, args) {
            let error = match self.runner.context.instance.scripts.running.holder() {
                // It has ended just now.
                None => return BatchEnd::Paused,
                Some(ProgramKind::Script) => &errors::script::BUSY_SCRIPT,
                Some(ProgramKind::Function) => &errors::script::BUSY_FUNCTION,
            };
            // One that has not begun, or begins anew, does not begin any more.
            self.runner.forget_script(client);
            self.runner.refuse(client, out, dispatch, error);
        } else {
            let planned = Planned { dispatch: Some(dispatch), ..Planned::default() };
            let called = Called { dispatch, planned: &planned, number: 0, together: false, watched_bytes: usize::MAX };
            // None of them can be pending.
            let _ = self.runner.run::<{ steps::MONITOR }>(client, out, called, || args);
        }
        if client.closing { BatchEnd::CloseAfterReplies } else { BatchEnd::Answered }
    }

    fn is_allowed(&self, client: &Client, dispatch: &Dispatch, args: Args<'_>) -> bool {
        let is_queued = client.transaction.is_some() && !dispatch.flags.any(Flags::NOT_QUEUED);
        // The data is not saved in the middle of a unit of work.
        let saves = dispatch.flags.any(Flags::NO_MULTI) && !args.iter().skip(1).any(|word| word.eq_ignore_ascii_case(b"nosave"));
        dispatch.flags.any(Flags::ALLOW_BUSY) && !is_queued && !saves
    }
}

/// Whether a command that is allowed would touch keys: those that the client watches, or will.
fn is_about_keys(client: &Client, dispatch: &Dispatch) -> bool {
    let ends_watch = dispatch.flags.any(Flags::ALLOW_BUSY.with(Flags::EXECUTES));
    dispatch.flags.any(Flags::ALLOW_BUSY) && dispatch.flags.any(Flags::MANY_KEYS) || client.watching.is_some() && ends_watch
}

impl WorkerService {
    /// Answers a batch while a script has run for long.
    #[cold]
    pub(crate) fn run_busy(&mut self, connection: &mut Connection, input: &[u8], out: &mut Output) -> Executed {
        let Self { worker, batch, .. } = self;
        let received = Received { batch, input };
        let mut executed = Executed { commands: 0, end: BatchEnd::Answered };
        while executed.commands < received.len() && executed.end == BatchEnd::Answered {
            let mark = out.mark();
            executed.end = worker.answer_busy(&mut connection.client, received.args(executed.commands), out);
            executed.commands += usize::from(executed.end != BatchEnd::Paused);
            match connection.client.reply_mode {
                ReplyMode::Off => out.truncate(mark),
                ReplyMode::Skip => {
                    out.truncate(mark);
                    connection.client.reply_mode = ReplyMode::On;
                }
                ReplyMode::On | ReplyMode::SkipNext => {}
            }
        }
        let runner = &mut worker.runner;
        monitor::publish(&mut runner.monitor_lines, &runner.context.instance);
        executed
    }

    /// A connection that watches keys is gone.
    pub(crate) fn end_watching(&mut self, client: &mut Client) {
        let now_ms = self.worker.runner.now_ms;
        if self.worker.enter(now_ms) {
            let accessor = &mut self.worker.runner.accessor;
            transaction::end(client, accessor);
            accessor.end_batch();
            return;
        }
        let mut gone = Client::new(Arc::clone(&client.shared), client.access.clone());
        gone.watching = client.watching.take();
        self.held.push(HeldUp::Watched(Box::new(gone)));
    }

    /// Does what had to wait for the end of a script.
    #[inline]
    pub(crate) fn end_held(&mut self) {
        if !self.held.is_empty() && !self.worker.is_held() {
            self.do_held();
        }
    }

    #[cold]
    fn do_held(&mut self) {
        for held in std::mem::take(&mut self.held) {
            match held {
                HeldUp::Leaves(waiter) => self.leave_queues(&waiter),
                HeldUp::Watched(mut client) => self.end_watching(&mut client),
                HeldUp::Lost(key) => self.serve_lost(key),
            }
        }
    }
}
