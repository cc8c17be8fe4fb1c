//! Running a batch: in groups while nothing is unusual, else one command after the other.

use almandine_base::Output;

use crate::run::outcome::{BatchEnd, Executed};
use crate::state::connection::Connection;
use crate::state::received::Received;
use crate::state::worker::Worker;

/// Output of one call beyond which the rest of a pipeline waits until the network has taken it.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

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
            // What follows CONFIG SET follows the settings that it has made.
            if out.len() > output_max || out.has_stream() || !self.context.view.is_current(&self.context.instance.config) {
                break;
            }
        }
        Executed { commands: done, end: BatchEnd::Answered }
    }

    /// Runs the next command with every check, or the whole transaction that it begins to queue.
    fn execute_next(&mut self, connection: &mut Connection, received: Received<'_>, out: &mut Output, next: usize) -> Executed {
        let executed = self.execute_received(connection, received, out, next);
        executed.unwrap_or_else(|| Executed::one(self.execute_slowly(connection, received.args(next), out)))
    }
}
