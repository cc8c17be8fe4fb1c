//! Reads that do not hold up the thread that asks: those of a reactor, and of a batch.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{DEVICE_NS, OpenFile};
use crate::file::{File, Inner};
use crate::sim::choice::Subsystem;
use crate::sim::turn::{self, Turn};
use crate::sim::world;
use crate::storage::{BatchRead, ReadDone, ReadRequest, Source};

/// Begins a read of a reactor in a simulated thread; `completion` is called by an event when the read's time is over, unless the
/// process has crashed before. A blocking source is read within that event, so it must not wait.
pub fn start_read(request: ReadRequest, completion: impl FnOnce(ReadDone) + Send + 'static) {
    let Some(turn) = turn::simulation() else { return completion(perform(request)) };
    let end_ns = end_ns(&turn, &request.source);
    let asker = world::current_disk().map(|disk| (disk.process(), disk));
    turn.note("begins a read", [request.token, end_ns]);
    turn.at(end_ns, move || {
        if asker.is_none_or(|(process, disk)| process == disk.process()) {
            completion(perform(request));
        }
    });
}

/// Does all reads of a batch in virtual time, where the caller is a simulated thread: files together, other sources in turn.
pub(crate) fn read_together(reads: &mut [BatchRead]) -> bool {
    if world::current().is_none() {
        return false;
    }
    let ends = reads.iter().filter_map(|read| opened(&read.source)).map(|(file, _)| file.end_ns());
    if let Some(until_ns) = ends.max() {
        turn::block("waits for a batch of reads", None, Some(until_ns));
    }
    for read in reads {
        match opened(&read.source) {
            Some((file, offset)) => read.result = file.read_now(&mut read.buffer, offset),
            None => read.alone(),
        }
    }
    true
}

fn opened(source: &Source) -> Option<(&OpenFile, u64)> {
    match source {
        Source::File { file, offset } => match &file.0 {
            Inner::Sim(file) => Some((file, *offset)),
            Inner::System(_) => None,
        },
        Source::Blocking { .. } => None,
    }
}

fn end_ns(turn: &Turn, source: &Source) -> u64 {
    match opened(source) {
        Some((file, _)) => file.end_ns(),
        None => turn.now_ns() + DEVICE_NS.0 + turn.below(Subsystem::Disk, DEVICE_NS.1),
    }
}

fn perform(request: ReadRequest) -> ReadDone {
    let ReadRequest { token, source, mut buffer } = request;
    let read = AssertUnwindSafe(|| match &source {
        Source::File { file, offset } => match opened(&source) {
            Some((file, offset)) => file.read_now(&mut buffer, offset),
            None => File::read_exact_at(file, &mut buffer, *offset),
        },
        Source::Blocking { source, offset } => source.read_at(*offset, &mut buffer),
    });
    let result = catch_unwind(read).unwrap_or_else(|_| Err(io::Error::other("the read of the device panicked")));
    drop(source);
    ReadDone { token, buffer, result }
}
