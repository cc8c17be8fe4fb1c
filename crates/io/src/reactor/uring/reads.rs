//! The reads of files that are under way on a ring, and those that wait for a place.
//!
//! A read under way has its buffer and its file here. The kernel writes into that buffer until the read's completion has been taken
//! from the ring; only then does either leave this table. Nothing else names them meanwhile, so the buffer may not
//! be looked at, moved elsewhere or freed, and the file's descriptor stays open.
//!
//! What is not read at once and whole (the end of a file, an interrupted read) is left to the threads: it is rare, and they
//! know how to go on.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{Submitter, opcode, squeue};

use crate::file::File;
use crate::storage::arena;
use crate::storage::{Buffer, ReadDone, ReadRequest, Source};

/// Reads under way at once. Fewer leave a fast device idle; more do not make it faster, but fill its queue, and the kernel
/// hands a read that finds the queue full to a thread (example `device_reads`).
pub(super) const IN_FLIGHT_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Reads {
    arenas: Arenas,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<u32>,
    /// In the order of the requests; the service bounds their number.
    waiting: VecDeque<InFlight>,
}

struct InFlight {
    token: u64,
    file: Arc<File>,
    offset: u64,
    buffer: Buffer,
}

/// How a read came back.
pub(super) enum Completed {
    Done(ReadDone),
    /// To be done by a thread.
    Leave(ReadRequest),
}

/// The arenas that a ring knows, each registered when a buffer of it is first read into.
#[derive(Default)]
struct Arenas {
    /// Made with the first.
    table: Option<Vec<Registration>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Registration {
    Unasked,
    Registered,
    /// The kernel has no such table, or may not pin so much: then the buffers are memory like any other.
    Refused,
}

impl Arenas {
    /// Whether the ring knows an arena.
    fn have(&mut self, arena: u16, submitter: &Submitter<'_>) -> bool {
        let table = self.table.get_or_insert_with(|| {
            let made = submitter.register_buffers_sparse(arena::ARENAS_MAX as u32).is_ok();
            vec![if made { Registration::Unasked } else { Registration::Refused }; arena::ARENAS_MAX]
        });
        let Some(registration) = table.get_mut(usize::from(arena)) else { return false };
        if *registration == Registration::Unasked {
            *registration = Registration::Refused;
            if let Some(base) = arena::base(arena) {
                let memory = libc::iovec { iov_base: base.as_ptr().cast(), iov_len: arena::ARENA_BYTES };
                // SAFETY: an arena is never freed.
                if unsafe { submitter.register_buffers_update(u32::from(arena), &[memory], None) }.is_ok() {
                    *registration = Registration::Registered;
                }
            }
        }
        *registration == Registration::Registered
    }
}

impl Reads {
    /// Takes a request for a file.
    pub(super) fn wait(&mut self, token: u64, file: Arc<File>, offset: u64, buffer: Buffer) {
        self.waiting.push_back(InFlight { token, file, offset, buffer });
    }

    /// How many can be submitted now.
    pub(super) fn ready(&self) -> usize {
        self.waiting.len().min(IN_FLIGHT_MAX - self.in_flight())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len() - self.free.len()
    }

    /// The submission of the next read and its number, if there is one and a place for it. From now on it is under way.
    pub(super) fn next_submission(&mut self, submitter: &Submitter<'_>) -> Option<(u32, squeue::Entry)> {
        if self.ready() == 0 {
            return None;
        }
        let mut read = self.waiting.pop_front()?;
        let len = u32::try_from(read.buffer.len()).unwrap_or(u32::MAX);
        let fd = Fd(read.file.descriptor());
        let base = read.buffer.as_mut_ptr();
        let submission = match read.buffer.arena().filter(|&arena| self.arenas.have(arena, submitter)) {
            Some(arena) => opcode::ReadFixed::new(fd, base, len, arena).offset(read.offset).build(),
            None => opcode::Read::new(fd, base, len).offset(read.offset).build(),
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            // At most `IN_FLIGHT_MAX`.
            self.in_flight.len() as u32 - 1
        });
        self.in_flight[number as usize] = Some(read);
        Some((number, submission))
    }

    /// The completion of a read was taken from the ring.
    pub(super) fn complete(&mut self, number: u32, result: i32) -> Option<Completed> {
        let InFlight { token, file, offset, buffer } = self.in_flight.get_mut(number as usize)?.take()?;
        self.free.push(number);
        let result = match result {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            1.. if result.unsigned_abs() as usize == buffer.len() => Ok(()),
            1.. => return Some(Completed::Leave(ReadRequest { token, source: Source::File { file, offset }, buffer })),
            _ if matches!(-result, libc::EAGAIN | libc::EINTR | libc::EOPNOTSUPP) => {
                return Some(Completed::Leave(ReadRequest { token, source: Source::File { file, offset }, buffer }));
            }
            error => Err(io::Error::from_raw_os_error(-error)),
        };
        Some(Completed::Done(ReadDone { token, buffer, result }))
    }

    /// Forgets what is not under way yet.
    pub(super) fn give_up(&mut self) {
        self.waiting.clear();
    }

    /// The numbers of the reads under way.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.in_flight).filter(|(_, read)| read.is_some()).map(|(number, _)| number)
    }

    /// Leaves the memory of what is still under way to the kernel for ever.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.in_flight));
        self.free.clear();
    }
}
