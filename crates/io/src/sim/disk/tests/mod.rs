//! Tests of disks: each fault, what crashes leave, and the same run from the same seed.

mod crashes;
mod faults;
mod model;
mod system;

use std::sync::Arc;

use super::*;
use crate::file::{self, File};
use crate::files;
use crate::sim::choice::Choices;
use crate::sim::turn::Schedule;
use crate::sim::world::{self, World};
use crate::storage::Buffer;

const HOUR_NS: u64 = 3_600_000_000_000;

/// A world of one node.
struct One {
    world: Arc<World>,
    node: NodeId,
    disk: Arc<Disk>,
}

impl One {
    fn enter<T>(seed: u64, body: impl FnOnce(&Self) -> T) -> T {
        World::enter(Choices::from_seed(seed), Schedule::default(), |world| {
            let node = world.node();
            body(&Self { world: Arc::clone(world), node, disk: world.disk(node) })
        })
    }

    /// Runs a thread of a process to its end; none when the node crashed before.
    fn run<T: Send + 'static>(&self, body: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let thread = self.world.spawn(self.node, "main", body);
        self.world.run(HOUR_NS).unwrap_or_else(|error| panic!("{error}\n{}", self.world.turn().trace_words()));
        thread.join()
    }

    fn crash(&self, kind: CrashKind) {
        self.world.crash(self.node, kind);
    }

    fn happened(&self, what: &str) -> u64 {
        self.disk.happened().get(what).copied().unwrap_or(0)
    }
}

fn buffer(bytes: usize, byte: u8) -> Buffer {
    let mut buffer = Buffer::new(bytes);
    buffer.fill(byte);
    buffer
}

fn open(path: &str, direct: bool) -> File {
    file::open(path.as_ref(), direct).unwrap()
}
