//! Running one command with every check: authentication, pause, silence, monitoring, exact timing.
//!
//! The fast loop of [`crate::execute`] makes none of them; the batch goes this way while any of them may matter. Access control and cluster
//! redirection belong here too when they come.

use almandine_base::Output;
use almandine_base::output::Mark;
use almandine_call::{CommandError, Flags, Plan, PlannedKey, ReplyMode, tracking};
use almandine_node::PauseScope;
use almandine_resp::Args;

use crate::connection::Connection;
use crate::execute::{Engine, answer, begin_alone, end_alone, is_other_protocol, refusal, reject, reply_error};
use crate::monitor;

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It was answered.
    Done,
    /// It waits for the end of a pause and was not executed.
    Paused,
    /// It waits for the device and was not executed.
    Parked,
    /// It was answered, and the connection is to be closed.
    Close,
    /// The peer is no Redis client: close without an answer.
    Hostile,
}

/// Whether a command may run now.
enum Admission {
    Granted,
    Paused,
    Refused(CommandError),
}

impl Engine {
    /// Whether commands of the connection must be run one by one.
    #[inline]
    pub(crate) fn needs_care(&self, connection: &Connection) -> bool {
        let node = &self.context.node;
        connection.client.needs_care() || self.timing.exact || node.monitors.active() || node.pause.active(self.now_ms).is_some()
    }

    /// Runs one command.
    pub(crate) fn execute_carefully(&mut self, connection: &mut Connection, args: Args<'_>, out: &mut Output) -> Step {
        if connection.client.reply_mode == ReplyMode::SkipNext {
            connection.client.reply_mode = ReplyMode::Skip;
        }
        let mut mark = out.mark();
        let planned = self.planner.plan_alone(&self.accessor, connection.client.db, args);
        match planned.plan {
            None if is_other_protocol(args) => return Step::Hostile,
            None => reply_error(&self.context, &connection.client, out, &refusal(&self.context, args)),
            Some(plan) => match self.admit(connection, plan) {
                Admission::Paused => return Step::Paused,
                Admission::Granted => match self.run_alone(connection, plan, planned.key, args, out) {
                    Some(begin) => mark = begin,
                    None => return Step::Parked,
                },
                Admission::Refused(error) => {
                    let error = reject(&self.context, plan, error);
                    reply_error(&self.context, &connection.client, out, &error);
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

    fn admit(&self, connection: &Connection, plan: &Plan) -> Admission {
        let node = &self.context.node;
        if !connection.client.authenticated && !plan.flags.any(Flags::NO_AUTH) {
            return Admission::Refused(CommandError::AuthenticationRequired);
        }
        if plan.flags.any(Flags::DENY_OOM) && node.keyspace.over_limit() {
            return Admission::Refused(CommandError::OutOfMemory);
        }
        match node.pause.active(self.now_ms) {
            Some(PauseScope::All) => Admission::Paused,
            Some(PauseScope::Writes) if plan.flags.any(Flags::MAY_WRITE) => Admission::Paused,
            _ => Admission::Granted,
        }
    }

    /// Returns where the reply begins; nothing when the command waits for the device.
    fn run_alone(
        &mut self,
        connection: &mut Connection,
        plan: &Plan,
        key: PlannedKey,
        args: Args<'_>,
        out: &mut Output,
    ) -> Option<Mark> {
        let Self { accessor, context, timing, aftermath, now_ms, monitor_lines, .. } = self;
        if context.node.monitors.active() && !plan.flags.any(Flags::SKIP_MONITOR) {
            monitor::write_line(monitor_lines, &connection.client, args);
        }
        let start_ns = begin_alone(connection, context, timing, plan, *now_ms);
        let tracked = tracking::before_read(&mut connection.client, plan, args, context, out);
        let (mark, start, before) = (out.mark(), out.bytes.len(), out.len());
        if !answer(plan, key, args, &mut connection.client, accessor, context, out, *now_ms) {
            out.truncate(mark);
            return None;
        }
        end_alone(connection, context, timing, plan, args, start_ns);
        if let Some(tracked) = tracked {
            tracking::after_read(tracked, &connection.client, plan, args, context);
        }
        tracking::finish(&mut connection.client, plan, context);
        aftermath.of(connection, plan, args, context, out, start, out.len() - before);
        connection.last_command = u32::from(plan.index);
        Some(mark)
    }
}
