//! Computations of commands, in slices between the rounds of the worker; see [`almandine_handler::computation`].

use std::sync::atomic::Ordering::Relaxed;

use almandine_handler::Context;
use almandine_handler::computation::Computing;
use almandine_io::clock;
use almandine_net::Control;

use crate::run::outcome::{BatchEnd, Executed};
use crate::state::connection::Connection;
use crate::state::worker::Worker;

/// What all computations of a worker together may take between two of its rounds: as much as a large command would.
const SLICE_NS: u64 = 100_000;

impl Worker {
    /// The connection waits until what its command computes is there; `done` commands of the batch have run.
    #[cold]
    pub(crate) fn await_computation(&mut self, connection: &Connection, done: usize) -> Executed {
        self.computing.push_back(connection.id);
        Executed { commands: done, end: BatchEnd::Awaits }
    }

    /// Lets the connection whose turn it is compute for a slice.
    #[cold]
    pub(crate) fn compute(&mut self, control: &mut dyn Control<Connection>) {
        while let Some(id) = self.computing.pop_front() {
            let Some((connection, _)) = control.connection(id) else { continue };
            let start_ns = clock::monotonic_ns();
            let computing = &mut connection.client.computing;
            let mut ended = computing.work(|| clock::monotonic_ns() < start_ns + SLICE_NS);
            computing.spend(clock::monotonic_ns().saturating_sub(start_ns));
            if count(&self.runner.context, computing) > 0 {
                // What it has gathered counts, and so may be what there is no room for.
                let keyspace = &self.runner.context.instance.keyspace;
                keyspace.refresh_over_limit();
                if !ended && keyspace.over_limit() {
                    computing.refuse();
                    ended = true;
                }
            }
            if ended {
                control.resume(id);
            } else {
                self.computing.push_back(id);
            }
            return;
        }
    }
}

/// Has what a command computes count against the budget, which it no longer does once a command has taken it. By how much that
/// has changed.
pub(crate) fn count(context: &Context, computing: &mut Computing) -> isize {
    let bytes = computing.recount();
    if bytes != 0 {
        // Only this worker writes it.
        let counter = &context.statistics().computed_bytes;
        counter.store(counter.load(Relaxed).wrapping_add_signed(bytes as i64), Relaxed);
    }
    bytes
}
