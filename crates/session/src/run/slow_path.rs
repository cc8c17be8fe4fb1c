//! Running one command with every check: authentication, pause, silence, monitoring, exact timing.
//!
//! The fast loop of [`crate::run::batch`] makes none of them but whether the client's user may run a command; the batch goes
//! this way while any of them may matter. Cluster redirection belongs here too when it comes.

use almandine_base::Output;
use almandine_base::output::Mark;
use almandine_base::points::{Witness, witness};
use almandine_handler::follow::Refused;
use almandine_handler::{Client, Dispatch, Flags, ReplyMode, Transaction, tracking, transaction};
use almandine_resp::Args;

use crate::run::outcome::{BatchEnd, Pending};
use crate::run::runner::{Called, steps};
use crate::state::connection::Connection;
use crate::state::worker::Worker;
use crate::steps::admit::{Admission, admit, is_other_protocol, is_reading_script};
use crate::steps::reply;

/// Steps around a command that runs with every check.
const EACH: u8 = steps::MONITOR | steps::TRACK | steps::HOT_KEYS | steps::NOTIFY | steps::UNIT;

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
            None => self.runner.refuse_unplanned(&mut connection.client, out, args),
            // What is refused has seen nothing.
            Some(dispatch) => match self.admit_one(&connection.client, dispatch, args) {
                Admission::Paused => return BatchEnd::Paused,
                Admission::Granted => match self.run_or_queue(connection, dispatch, args, out) {
                    Ok(begin) => mark = begin,
                    Err(pending) => {
                        self.runner.seen.forget();
                        return BatchEnd::Pending(pending);
                    }
                },
                Admission::Refused(error) => self.runner.refuse(&mut connection.client, out, dispatch, &error),
                Admission::Denied(denial) => self.runner.deny(&mut connection.client, out, Refused { dispatch, args, denial }),
            },
        }
        connection.last_command = last_command;
        let writes_messages = std::mem::take(&mut connection.client.writes_messages);
        let reply_mode = &mut connection.client.reply_mode;
        if !writes_messages && matches!(reply_mode, ReplyMode::Off | ReplyMode::Skip) {
            out.truncate(mark);
        }
        if *reply_mode == ReplyMode::Skip {
            *reply_mode = ReplyMode::On;
        }
        // Silence is for replies only.
        connection.client.write_invalidations(out);
        if connection.client.closing { BatchEnd::CloseAfterReplies } else { BatchEnd::Answered }
    }

    /// Whether a command may run now; EXEC, if what it executes may.
    fn admit_one(&self, client: &Client, dispatch: &Dispatch, args: Args<'_>) -> Admission {
        if dispatch.flags.any(Flags::EXECUTES) && client.script.is_some() {
            // It has been executed.
            return Admission::Granted;
        }
        let queued = client.transaction.as_ref().filter(|queued| dispatch.flags.any(Flags::EXECUTES) && !queued.is_refused());
        let flags = queued.map_or(dispatch.flags, |queued| queued.flags().without(Flags::NO_MULTI));
        admit(&self.runner.context, client, dispatch, args, flags, self.runner.now_ms)
    }

    /// Runs a command, or has it wait for EXEC. Returns where the reply begins.
    fn run_or_queue(
        &mut self,
        connection: &mut Connection,
        dispatch: &'static Dispatch,
        args: Args<'_>,
        out: &mut Output,
    ) -> Result<Mark, Pending> {
        let queues = connection.client.transaction.is_some();
        if queues && dispatch.flags.any(Flags::EXECUTES) {
            let client = &connection.client;
            if client.script.is_some() || !client.transaction.as_ref().is_some_and(Transaction::is_refused) {
                self.runner.seen.forget();
            }
            return self.execute_queued(connection, dispatch, args, out);
        }
        if !queues || dispatch.flags.any(Flags::NOT_QUEUED) {
            return self.run_one(connection, dispatch, args, out);
        }
        tracking::before_queued(&mut connection.client, &self.runner.context);
        connection.client.write_invalidations(out);
        let mark = out.mark();
        let bytes_max = usize::try_from(self.runner.context.settings().connections.query_buffer_bytes_max).unwrap_or(usize::MAX);
        // EXEC is held back for what may write; a script that says that it does not may not.
        let mut queued = *dispatch;
        if is_reading_script(&self.runner.context, dispatch, args) {
            queued.flags = queued.flags.without(Flags::MAY_WRITE);
        }
        transaction::queue(&mut connection.client, &queued, args, bytes_max, &mut self.unit.spare_queue);
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
        let Self { runner, planner, .. } = self;
        let client = &mut connection.client;
        witness(Witness::Begins, client.shared.id);
        let planned = planner.plan_alone(&mut runner.accessor, client.db, dispatch, args);
        let called = Called { dispatch, planned: &planned, number: 0, together: false, watched_bytes: 0 };
        let ran = runner.run::<EACH>(client, out, called, || args);
        if let Ok(_) | Err(Pending::Key) = ran {
            tracking::finish(client, dispatch, &runner.context);
            connection.last_command = u32::from(dispatch.index);
        }
        if runner.seen.is_asked() {
            runner.seen.note(std::slice::from_ref(&planned), &runner.context);
        }
        ran
    }
}
