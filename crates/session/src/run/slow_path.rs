//! Running one command with every check: authentication, pause, silence, monitoring, exact timing.
//!
//! The fast loop of [`crate::run::execute`] makes none of them but whether the client's user may run a command; the batch goes
//! this way while any of them may matter. Cluster redirection belongs here too when it comes.

use almandine_base::Output;
use almandine_base::output::Mark;
use almandine_handler::follow::Refused;
use almandine_handler::{Client, CommandError, Dispatch, Flags, ReplyMode, errors, follow, redact, tracking, transaction};
use almandine_resp::Args;

use crate::blocking::serve_waiters::{self, Server};
use crate::observe::hot_keys;
use crate::observe::monitor;
use crate::run::execute::answer;
use crate::run::execution::Execution;
use crate::run::outcome::{BatchEnd, Pending};
use crate::state::connection::Connection;
use crate::state::worker::Worker;
use crate::steps::admit::{Admission, admit, count_refusal, is_other_protocol, refusal_of};
use crate::steps::reply;

impl Worker {
    /// Runs one command.
    pub(crate) fn execute_slowly(&mut self, connection: &mut Connection, args: Args<'_>, out: &mut Output) -> BatchEnd {
        if connection.client.reply_mode == ReplyMode::SkipNext {
            connection.client.reply_mode = ReplyMode::Skip;
        }
        // A command that did not come this way may have left it.
        connection.client.writes_messages = false;
        let mut mark = out.mark();
        let resolved = self.planner.resolve(args);
        let last_command = resolved.map_or(u32::MAX, |dispatch| u32::from(dispatch.index));
        match resolved {
            None if is_other_protocol(args) => return BatchEnd::OtherProtocol,
            None => {
                if self.context.table.lookup(args.at(0)).is_some_and(|dispatch| dispatch.flags.any(Flags::EXECUTES)) {
                    transaction::end(&mut connection.client, &mut self.accessor);
                } else {
                    transaction::refuse(&mut connection.client);
                }
                reply::error(
                    &self.context,
                    &connection.client,
                    out,
                    &refusal_of(&connection.client, &self.context, args, self.now_ms),
                );
            }
            Some(dispatch) => match self.admit_one(&connection.client, dispatch, args) {
                Admission::Paused => return BatchEnd::Paused,
                Admission::Granted => match self.run_or_queue(connection, dispatch, args, out) {
                    Ok(begin) => mark = begin,
                    Err(pending) => return BatchEnd::Pending(pending),
                },
                Admission::Refused(error) => self.refuse(&mut connection.client, dispatch, &error, out),
                Admission::Denied(denial) => {
                    let error = follow::deny(&self.context, &connection.client, Refused { dispatch, args, denial }, self.now_ms);
                    self.refuse(&mut connection.client, dispatch, &error, out);
                }
            },
        }
        connection.last_command = last_command;
        let writes_messages = std::mem::take(&mut connection.client.writes_messages);
        match connection.client.reply_mode {
            ReplyMode::On | ReplyMode::SkipNext => {}
            ReplyMode::Off if writes_messages => {}
            ReplyMode::Skip if writes_messages => connection.client.reply_mode = ReplyMode::On,
            ReplyMode::Off => out.truncate(mark),
            ReplyMode::Skip => {
                out.truncate(mark);
                connection.client.reply_mode = ReplyMode::On;
            }
        }
        // Silence is for replies only.
        connection.client.write_invalidations(out);
        if connection.client.closing { BatchEnd::CloseAfterReplies } else { BatchEnd::Answered }
    }

    /// Whether a command may run now; EXEC, if what it executes may.
    fn admit_one(&self, client: &Client, dispatch: &Dispatch, args: Args<'_>) -> Admission {
        let queued = client.transaction.as_ref().filter(|queued| dispatch.flags.any(Flags::EXECUTES) && !queued.is_refused());
        let flags = queued.map_or(dispatch.flags, |queued| queued.flags().without(Flags::NO_MULTI));
        admit(&self.context, client, dispatch, args, flags, self.now_ms)
    }

    /// Answers a command that may not run. A transaction ends with its EXEC, and will not be executed without one of its commands.
    fn refuse(&mut self, client: &mut Client, dispatch: &Dispatch, error: &CommandError, out: &mut Output) {
        count_refusal(&self.context, dispatch, error);
        if dispatch.flags.any(Flags::EXECUTES) {
            transaction::end(client, &mut self.accessor);
            reply::error(&self.context, client, out, &errors::transaction::aborted(error));
        } else {
            transaction::refuse(client);
            reply::error(&self.context, client, out, error);
        }
    }

    /// Runs a command, or has it wait for EXEC. Returns where the reply begins.
    fn run_or_queue(
        &mut self,
        connection: &mut Connection,
        dispatch: &'static Dispatch,
        args: Args<'_>,
        out: &mut Output,
    ) -> Result<Mark, Pending> {
        if connection.client.transaction.is_none() {
            return self.run_one(connection, dispatch, args, out);
        }
        if dispatch.flags.any(Flags::EXECUTES) {
            return self.execute_queued(connection, dispatch, args, out);
        }
        if dispatch.flags.any(Flags::NOT_QUEUED) {
            return self.run_one(connection, dispatch, args, out);
        }
        tracking::before_queued(&mut connection.client, &self.context);
        connection.client.write_invalidations(out);
        let mark = out.mark();
        let bytes_max = usize::try_from(self.context.settings().connections.query_buffer_bytes_max).unwrap_or(usize::MAX);
        transaction::queue(&mut connection.client, dispatch, args, bytes_max, &mut self.unit.spare_queue);
        reply::queued(out, 1);
        Ok(mark)
    }

    /// Returns where the reply begins.
    fn run_one(
        &mut self,
        connection: &mut Connection,
        dispatch: &'static Dispatch,
        args: Args<'_>,
        out: &mut Output,
    ) -> Result<Mark, Pending> {
        let Self { accessor, context, planner, timing, after_command, serving, now_ms, monitor_lines, .. } = self;
        let planned = planner.plan_alone(accessor, connection.client.db, dispatch, args);
        let client = &mut connection.client;
        let lines_before = monitor_lines.len();
        if context.instance.monitors.active() && !dispatch.flags.any(Flags::SKIP_MONITOR) {
            let spec = &context.table.row(dispatch.index).command.spec;
            monitor::write_line(monitor_lines, client, redact::shown(spec, args));
        }
        let start_ns = timing.begin_alone(context, client, dispatch, *now_ms);
        let tracked = tracking::before_read(client, dispatch, args, context);
        client.write_invalidations(out);
        let (mark, before) = (out.mark(), out.len());
        let mut execution = Execution { client, accessor, context, out, now_ms: *now_ms };
        if let Err(pending) = answer(&mut execution, dispatch, &planned, args) {
            timing.suspend(execution.client, start_ns, pending);
            execution.out.truncate(mark);
            if pending == Pending::Key {
                tracking::finish(execution.client, dispatch, context);
                connection.last_command = u32::from(dispatch.index);
            } else {
                // It runs again, and is shown then.
                monitor_lines.truncate(lines_before);
            }
            return Err(pending);
        }
        let elapsed_ns = timing.end_alone(context, execution.client, dispatch, args, start_ns);
        if let Some(tracked) = tracked {
            tracking::after_read(tracked, execution.client, dispatch, args, context);
        }
        tracking::finish(execution.client, dispatch, context);
        let written = execution.out.len() - before;
        hot_keys::record(context, dispatch, args, elapsed_ns, written);
        after_command.of(&mut execution, dispatch, args, written);
        after_command.tell_changes(execution.client, execution.accessor, context);
        if accessor.serving().has_ready() {
            serve_waiters::serve(&mut Server { accessor, context, timing, after_command, memory: serving, now_ms: *now_ms });
            accessor.unit().end();
        }
        Ok(mark)
    }
}
