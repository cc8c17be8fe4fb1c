//! The reads of files that are under way on a ring, and those that wait for a place.
//!
//! A read under way has its buffer and its file here. The kernel writes into that buffer until the read's completion has been taken
//! from the ring; only then does either leave this table. Nothing else names them meanwhile, so the buffer may not
//! be looked at, moved elsewhere or freed, and the file's descriptor stays open.
//!
//! What is not read at once and whole (the end of a file, an interrupted read) is left to the threads: it is rare, and they
//! know how to go on.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};

use crate::storage::{Buffer, ReadDone, ReadRequest, Source};

/// Reads under way at once. Fewer leave a fast device idle; more do not make it faster, but fill its queue, and what finds that full
/// costs the kernel a hand-over to a thread (example `device_reads`).
pub(super) const IN_FLIGHT_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Reads {
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// As asked for, in order; they are bounded by whoever asks.
    waiting: VecDeque<Flight>,
}

struct Flight {
    token: u64,
    file: Arc<File>,
    offset: u64,
    buffer: Buffer,
}

/// How a read came back.
pub(super) enum Landed {
    Done(ReadDone),
    /// To be done by a thread.
    Leave(ReadRequest),
}

impl Reads {
    /// Takes a request for a file.
    pub(super) fn wait(&mut self, token: u64, file: Arc<File>, offset: u64, buffer: Buffer) {
        self.waiting.push_back(Flight { token, file, offset, buffer });
    }

    /// How many can be submitted now.
    pub(super) fn ready(&self) -> usize {
        self.waiting.len().min(IN_FLIGHT_MAX - self.in_flight())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// The submission of the next read and its number, if there is one and a place for it. From now on it is under way.
    pub(super) fn depart(&mut self) -> Option<(u32, squeue::Entry)> {
        if self.ready() == 0 {
            return None;
        }
        let mut flight = self.waiting.pop_front()?;
        let len = u32::try_from(flight.buffer.len()).unwrap_or(u32::MAX);
        let fd = Fd(flight.file.as_raw_fd());
        let submission = opcode::Read::new(fd, flight.buffer.as_mut_ptr(), len).offset(flight.offset).build();
        let number = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            // At most `IN_FLIGHT_MAX`.
            self.flights.len() as u32 - 1
        });
        self.flights[number as usize] = Some(flight);
        Some((number, submission))
    }

    /// The completion of a read was taken from the ring.
    pub(super) fn land(&mut self, number: u32, result: i32) -> Option<Landed> {
        let Flight { token, file, offset, buffer } = self.flights.get_mut(number as usize)?.take()?;
        self.free.push(number);
        let result = match result {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            1.. if result.unsigned_abs() as usize == buffer.len() => Ok(()),
            1.. => return Some(Landed::Leave(ReadRequest { token, source: Source::File { file, offset }, buffer })),
            _ if matches!(-result, libc::EAGAIN | libc::EINTR | libc::EOPNOTSUPP) => {
                return Some(Landed::Leave(ReadRequest { token, source: Source::File { file, offset }, buffer }));
            }
            error => Err(io::Error::from_raw_os_error(-error)),
        };
        Some(Landed::Done(ReadDone { token, buffer, result }))
    }

    /// Forgets what is not under way yet.
    pub(super) fn give_up(&mut self) {
        self.waiting.clear();
    }

    /// The numbers of the reads under way.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.flights).filter(|(_, flight)| flight.is_some()).map(|(number, _)| number)
    }

    /// Leaves the memory of what is still under way to the kernel for ever.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.flights));
        self.free.clear();
    }
}
