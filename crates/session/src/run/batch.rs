//! Running a batch: in groups while nothing is unusual, else one command after the other.

use almandine_base::Output;
use almandine_base::points::{Witness, witness};
use almandine_handler::Flags;

use crate::run::outcome::{BatchEnd, Executed, Pending};
use crate::run::runner::{Called, steps};
use crate::state::connection::Connection;
use crate::state::received::Received;
use crate::state::worker::Worker;
use crate::steps::admit::{is_other_protocol, out_of_memory};

/// Output of one call beyond which the rest of a pipeline waits until the network has taken it.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// Steps around the commands of a group. It runs while [`Worker::needs_care`] is false: without MONITOR, HOTKEYS and a client that
/// tracks. Changes are notified behind the batch.
const GROUPED: u8 = steps::FOLLOWS | steps::UNIT;

impl Worker {
    /// Runs the commands of the batch from the one numbered `first` on. A function of its own, so that its loop has the registers.
    #[inline(never)]
    pub(crate) fn execute_batch(
        &mut self,
        connection: &mut Connection,
        received: Received<'_>,
        out: &mut Output,
        first: usize,
    ) -> Executed {
        let output_max = out.len() + OUTPUT_BYTES_MAX;
        let mut done = first;
        while done < received.len() {
            let Executed { commands, end } = if self.needs_care(connection) {
                self.execute_next(connection, received, out, done)
            } else {
                self.execute_group(connection, received, out, done)
            };
            done += commands;
            if end != BatchEnd::Answered {
                return Executed { commands: done, end };
            }
            let context = &self.runner.context;
            // What follows CONFIG SET follows the settings that it has made.
            if out.len() > output_max || out.has_stream() || !context.view.is_current(&context.instance.config) {
                break;
            }
        }
        Executed { commands: done, end: BatchEnd::Answered }
    }

    /// Runs the next command with every check, or the whole transaction that it begins to queue.
    fn execute_next(&mut self, connection: &mut Connection, received: Received<'_>, out: &mut Output, next: usize) -> Executed {
        match self.execute_received(connection, received, out, next) {
            Some(executed) => {
                self.runner.seen.forget();
                executed
            }
            None => Executed::one(self.execute_slowly(connection, received.args(next), out)),
        }
    }

    /// Plans and runs a group that begins with command `first` of the batch.
    ///
    /// The server spends its life in this loop: make a check in `slow_path`, not here.
    #[inline]
    fn execute_group(&mut self, connection: &mut Connection, received: Received<'_>, out: &mut Output, first: usize) -> Executed {
        let Self { runner, planner, .. } = self;
        let client = &mut connection.client;
        witness(Witness::Begins, client.shared.id);
        planner.plan_group(&mut runner.accessor, client, received, first);
        let refused = if runner.context.instance.keyspace.over_limit() { Flags::DENY_OOM } else { Flags::default() };
        let watched_bytes = runner.after_command.watch(received.input.len());
        let group = planner.group();
        let mut ran = group.len();
        for (offset, planned) in group.iter().enumerate() {
            let number = first + offset;
            let Some(dispatch) = planned.dispatch else {
                let args = received.args(number);
                if is_other_protocol(args) {
                    runner.seen.forget();
                    return Executed { commands: offset + 1, end: BatchEnd::OtherProtocol };
                }
                runner.refuse_unplanned(client, out, args);
                continue;
            };
            if dispatch.flags.any(refused) {
                runner.refuse(client, out, dispatch, &out_of_memory(&runner.context.instance));
                continue;
            }
            let together = dispatch.flags.any(Flags::FAST);
            let called = Called { dispatch, planned, number, together, watched_bytes };
            if let Err(pending) = runner.run::<GROUPED>(client, out, called, || received.args(number)) {
                if pending == Pending::Key {
                    connection.last_command = u32::from(dispatch.index);
                }
                runner.seen.forget();
                let Executed { commands, end } = Executed::one(BatchEnd::Pending(pending));
                return Executed { commands: offset + commands, end };
            }
            if !together && out.has_stream() {
                // The commands behind it wait for its end.
                ran = offset + 1;
                break;
            }
        }
        if runner.seen.is_asked() {
            runner.seen.note(&group[..ran], &runner.context);
        }
        if let Some(last) = group[..ran].last() {
            connection.last_command = last.dispatch.map_or(u32::MAX, |dispatch| u32::from(dispatch.index));
        }
        let end = if connection.client.closing { BatchEnd::CloseAfterReplies } else { BatchEnd::Answered };
        Executed { commands: ran, end }
    }
}
