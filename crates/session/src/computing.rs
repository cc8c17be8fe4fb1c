//! Computations of commands, in slices between the rounds of the worker; see [`almandine_call::computation`].

use almandine_io::clock;
use almandine_net::{Control, Next};

use crate::batch::Executed;
use crate::connection::Connection;
use crate::engine::Engine;

/// What all computations of a worker together may take between two of its rounds: as much as a large command would.
const SLICE_NS: u64 = 100_000;

impl Engine {
    /// The connection waits until what its command computes is there; `done` commands of the batch have run.
    #[cold]
    pub(crate) fn await_computation(&mut self, connection: &Connection, done: usize) -> Executed {
        self.computing.push_back(connection.id);
        Executed { commands: done, next: Next::Await }
    }

    /// Lets the connection whose turn it is compute for a slice.
    #[cold]
    pub(crate) fn compute(&mut self, control: &mut dyn Control<Connection>) {
        while let Some(id) = self.computing.pop_front() {
            let Some((connection, _)) = control.connection(id) else { continue };
            let start_ns = clock::monotonic_ns();
            let ended = connection.client.computing.work(|| clock::monotonic_ns() < start_ns + SLICE_NS);
            connection.client.computing.spend(clock::monotonic_ns().saturating_sub(start_ns));
            if ended {
                control.resume(id);
            } else {
                self.computing.push_back(id);
            }
            return;
        }
    }
}
