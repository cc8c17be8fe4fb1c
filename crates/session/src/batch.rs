//! Running a batch: in groups while nothing is unusual, else one command after the other.

use almandine_base::Output;
use almandine_net::Next;

use crate::careful::Step;
use crate::connection::Connection;
use crate::engine::Engine;
use crate::received::Received;
use crate::reply::abort_hostile;

/// Output of one call beyond which the rest of a pipeline waits until the network has taken it.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// How far a batch came.
pub(crate) struct Executed {
    pub(crate) commands: usize,
    pub(crate) next: Next,
}

impl Engine {
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
            if !self.needs_care(connection) {
                done += self.execute_group(connection, received, out, done);
                if connection.needs_records {
                    return Executed { commands: done, next: stopped(connection) };
                }
                if connection.hostile {
                    return Executed { commands: done, next: abort_hostile(connection) };
                }
                if connection.client.closing {
                    return Executed { commands: done, next: Next::CloseAfterFlush };
                }
            } else if let Some(executed) = self.execute_received(connection, received, out, done) {
                done += executed;
                if connection.needs_records {
                    return Executed { commands: done, next: Next::Await };
                }
            } else {
                let next = match self.execute_carefully(connection, received.args(done), out) {
                    Step::Done => Next::Continue,
                    Step::Close => Next::CloseAfterFlush,
                    Step::Blocked => return Executed { commands: done + 1, next: Next::Pause },
                    Step::Paused => return Executed { commands: done, next: Next::Pause },
                    Step::NeedsRecords => {
                        connection.needs_records = true;
                        return Executed { commands: done, next: Next::Await };
                    }
                    Step::Hostile => abort_hostile(connection),
                };
                done += 1;
                if next != Next::Continue {
                    return Executed { commands: done, next };
                }
            }
            // What follows CONFIG SET follows the settings that it has made.
            if out.len() > output_max || out.has_stream() || !self.context.view.is_current(&self.context.node.config) {
                break;
            }
        }
        Executed { commands: done, next: Next::Continue }
    }
}

/// How a connection goes on whose batch has stopped: when it has what it needs from the device, or when the wait of its command is over.
#[cold]
fn stopped(connection: &mut Connection) -> Next {
    if connection.client.blocking.waiting.is_none() {
        return Next::Await;
    }
    connection.needs_records = false;
    Next::Pause
}
