//! Running one command with every check: authentication, pause, silence, monitoring, exact timing.
//!
//! The fast loop of [`crate::execute`] makes none of them; the batch goes this way while any of them may matter. Access control and cluster
//! redirection belong here too when they come.

use almandine_base::Output;
use almandine_base::output::Mark;
use almandine_call::{Dispatch, Flags, ReplyMode, redact, tracking};
use almandine_resp::Args;

use crate::admit::{Admission, admit, count_refusal, is_other_protocol, refusal};
use crate::connection::Connection;
use crate::engine::Engine;
use crate::execute::answer;
use crate::execution::Execution;
use crate::plan::Planned;
use crate::{monitor, reply};

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It was answered.
    Done,
    /// It waits for the end of a pause and was not executed.
    Paused,
    /// It waits for the device and was not executed.
    NeedsRecords,
    /// It was answered, and the connection is to be closed.
    Close,
    /// The peer is no Redis client: close without an answer.
    Hostile,
}

impl Engine {
    /// Runs one command.
    pub(crate) fn execute_carefully(&mut self, connection: &mut Connection, args: Args<'_>, out: &mut Output) -> Step {
        if connection.client.reply_mode == ReplyMode::SkipNext {
            connection.client.reply_mode = ReplyMode::Skip;
        }
        let mut mark = out.mark();
        let planned = self.planner.plan_alone(&mut self.accessor, connection.client.db, args);
        match planned.dispatch {
            None if is_other_protocol(args) => return Step::Hostile,
            None => reply::error(&self.context, &connection.client, out, &refusal(&self.context, args)),
            Some(dispatch) => match admit(&self.context, &connection.client, dispatch, self.now_ms) {
                Admission::Paused => return Step::Paused,
                Admission::Granted => match self.run_alone(connection, dispatch, &planned, args, out) {
                    Some(begin) => mark = begin,
                    None => return Step::NeedsRecords,
                },
                Admission::Refused(error) => {
                    let error = count_refusal(&self.context, dispatch, error);
                    reply::error(&self.context, &connection.client, out, &error);
                }
            },
        }
        match connection.client.reply_mode {
            ReplyMode::On | ReplyMode::SkipNext => {}
            ReplyMode::Off => out.truncate(mark),
            ReplyMode::Skip => {
                out.truncate(mark);
                connection.client.reply_mode = ReplyMode::On;
            }
        }
        // Silence is for replies only.
        connection.client.write_invalidations(out);
        if connection.client.closing { Step::Close } else { Step::Done }
    }

    /// Returns where the reply begins; nothing when the command waits for the device.
    fn run_alone(
        &mut self,
        connection: &mut Connection,
        dispatch: &Dispatch,
        planned: &Planned,
        args: Args<'_>,
        out: &mut Output,
    ) -> Option<Mark> {
        let Self { accessor, context, timing, aftermath, now_ms, monitor_lines, .. } = self;
        let client = &mut connection.client;
        let lines_before = monitor_lines.len();
        if context.node.monitors.active() && !dispatch.flags.any(Flags::SKIP_MONITOR) {
            let spec = &context.table.row(dispatch.index).command.spec;
            monitor::write_line(monitor_lines, client, redact::shown(spec, args));
        }
        let start_ns = timing.begin_alone(context, client, dispatch, *now_ms);
        let tracked = tracking::before_read(client, dispatch, args, context, out);
        let (mark, start, before) = (out.mark(), out.bytes.len(), out.len());
        let mut execution = Execution { client, accessor, context, out, now_ms: *now_ms };
        if !answer(&mut execution, dispatch, planned, args) {
            // It runs again, and is shown then.
            monitor_lines.truncate(lines_before);
            execution.out.truncate(mark);
            return None;
        }
        timing.end_alone(context, execution.client, dispatch, args, start_ns);
        if let Some(tracked) = tracked {
            tracking::after_read(tracked, execution.client, dispatch, args, context);
        }
        tracking::finish(execution.client, dispatch, context);
        let written = execution.out.len() - before;
        aftermath.of(&mut execution, dispatch, args, start, written);
        connection.last_command = u32::from(dispatch.index);
        Some(mark)
    }
}
