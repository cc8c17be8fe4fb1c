//! Running a batch of which records may be on the device: all are asked for at once, the connection waits, others go on.
//!
//! A command that still meets a cold record (its key was not declared, or moved meanwhile) stops the batch before it; what it
//! needs is read, and the batch goes on with it.

use almandine_base::Output;
use almandine_keyspace::Stage;

use crate::run::outcome::{BatchEnd, Executed, Pending};
use crate::run::runner::Runner;
use crate::state::connection::Connection;
use crate::state::received::Received;
use crate::state::worker::Worker;

/// Times that a batch looks again for records that have moved before it takes them for lost.
const FRUITLESS_MAX: u32 = 1000;
/// Times that a command gets all of the room before what it needs is taken for too much.
const ROOM_MADE_MAX: u32 = 64;

impl Worker {
    /// Whether commands that write should wait: because the device, or compaction in memory, is slower than they are, or because
    /// the operation log may have no room for what they do. While that takes nothing they do not: they are refused.
    #[inline]
    pub(crate) fn is_stalled(&mut self) -> bool {
        let Runner { context, accessor, .. } = &mut self.runner;
        context.instance.keyspace.is_stalled() || accessor.changes().lacks_log_room() && !context.instance.persistence.is_unlogged()
    }

    /// Runs the batch while records may be on the device.
    #[cold]
    pub(crate) fn execute_cold_batch(&mut self, connection: &mut Connection, received: Received<'_>, out: &mut Output) -> Executed {
        if self.is_stalled() && self.writes(received) {
            self.reads.stalled.push(connection.id);
            return Executed { commands: 0, end: BatchEnd::Awaits };
        }
        let mut stage = std::mem::take(&mut connection.waiting.stage);
        if !std::mem::take(&mut connection.waiting.resumed) {
            self.runner.accessor.attach(stage);
            self.look_ahead(connection, received, 0);
            stage = self.runner.accessor.detach();
            if self.request_records(connection, &mut stage) {
                connection.waiting.stage = stage;
                return Executed { commands: 0, end: BatchEnd::Awaits };
            }
        }
        self.run_cold(connection, received, out, stage, 0)
    }

    /// Asks for what the commands behind the one numbered `done`, which waits for the device, need of it.
    fn look_further(&mut self, connection: &Connection, received: Received<'_>, done: usize, stage: &mut Stage) {
        self.runner.accessor.attach(std::mem::take(stage));
        self.look_ahead(connection, received, done + 1);
        *stage = self.runner.accessor.detach();
    }

    /// Goes on with a batch in which a command is pending: it computes, or it met a cold record although there was none when the
    /// batch began.
    #[cold]
    pub(crate) fn go_on_cold(
        &mut self,
        connection: &mut Connection,
        received: Received<'_>,
        out: &mut Output,
        executed: Executed,
    ) -> Executed {
        let done = executed.commands;
        if executed.end == BatchEnd::Pending(Pending::Computation) {
            return self.await_computation(connection, done);
        }
        let mut stage = std::mem::take(&mut connection.waiting.stage);
        if self.request_records(connection, &mut stage) {
            connection.waiting.stage = stage;
            return Executed { commands: done, end: BatchEnd::Awaits };
        }
        self.run_cold(connection, received, out, stage, done)
    }

    /// There is no room for what the next command needs beside what is staged, which the commands before it needed, or others
    /// behind it: it gets all of the room. What it had may have moved meanwhile, so that it asked for the same once more; but
    /// not for ever.
    fn make_room(&mut self, connection: &mut Connection, stage: &mut Stage, alone: bool) {
        connection.waiting.made_room += 1;
        let is_too_much = alone && connection.waiting.made_room > 1;
        if is_too_much || connection.waiting.made_room > ROOM_MADE_MAX {
            stage.give_up(&mut self.runner.accessor.cold().take_wanted());
            stage.note_lack_of_room();
        } else {
            self.reads.release(&mut connection.waiting, stage);
        }
    }

    /// Runs the commands from the one numbered `done` on, until one needs what is not in the stage.
    fn run_cold(
        &mut self,
        connection: &mut Connection,
        received: Received<'_>,
        out: &mut Output,
        mut stage: Stage,
        mut done: usize,
    ) -> Executed {
        let mut fruitless = 0;
        loop {
            self.runner.accessor.attach(stage);
            let executed = self.execute_batch(connection, received, out, done);
            stage = self.runner.accessor.detach();
            if executed.commands != done {
                connection.waiting.made_room = 0;
            }
            done = executed.commands;
            if executed.end != BatchEnd::Pending(Pending::Records) {
                self.runner.accessor.cold().forget_wanted();
                self.reads.release(&mut connection.waiting, &mut stage);
                connection.waiting.stage = stage;
                return match executed.end {
                    BatchEnd::Pending(Pending::Computation) => self.await_computation(connection, done),
                    BatchEnd::Pending(Pending::Script) => self.await_script(connection, done),
                    BatchEnd::Pending(Pending::Held) => self.await_carried(connection, done),
                    _ => executed,
                };
            }
            if connection.waiting.room_bytes != 0 {
                // What has changed since it was read, or could not be read any more, has no claim to room beside what took its
                // place.
                self.runner.accessor.cold().forget_stale(&mut stage);
                connection.waiting.room_bytes = stage.admitted_bytes();
            }
            if let Some(alone) = stage.take_refused() {
                self.make_room(connection, &mut stage, alone);
            }
            if connection.waiting.made_room == 0 {
                // What stopped the batch stands in the way of others that wait behind it: they are read together with it.
                self.look_further(connection, received, done, &mut stage);
            }
            fruitless += 1;
            debug_assert!(fruitless < 2 * FRUITLESS_MAX, "what was given up is an error");
            if fruitless == FRUITLESS_MAX {
                stage.give_up(&mut self.runner.accessor.cold().take_wanted());
            }
            // Nothing to read means that what was cold has moved since: it is looked up again at once.
            if self.request_records(connection, &mut stage) {
                connection.waiting.stage = stage;
                return Executed { commands: done, end: BatchEnd::Awaits };
            }
        }
    }
}
