//! One nonblocking connection: what it is sending, what it awaits, and the reply counter.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::generate::pool::{Batch, Pool};
use crate::reply::{Counter, Tally};

/// Requests that were sent together and share a start time.
#[derive(Debug, Clone, Copy)]
struct Flight {
    /// When the requests were sent, or were due.
    start_ns: u64,
    replies_left: u64,
}

/// A connection under load.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    counter: Counter,
    flights: VecDeque<Flight>,
    /// Rest of the batch that the socket did not take at once.
    unsent: (usize, usize),
    /// Replies since [`Connection::begin`].
    answered: u64,
    /// Whether the poller is asked for writability.
    pub(super) polls_write: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, counter: Counter) -> Self {
        Self { socket, counter, flights: VecDeque::new(), unsent: (0, 0), answered: 0, polls_write: false }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Counts replies from here on.
    pub(super) fn begin(&mut self) {
        self.answered = 0;
    }

    /// Replies since [`Connection::begin`].
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// Batches that are not fully answered.
    pub(super) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Whether the whole of the last batch has been handed to the kernel.
    pub(super) fn can_send(&self) -> bool {
        self.unsent.0 == self.unsent.1
    }

    /// Start times of what has not been answered, with the number of replies missing.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = (u64, u64)> {
        self.flights.iter().map(|flight| (flight.start_ns, flight.replies_left))
    }

    /// Starts a batch of `commands`. Requires [`Connection::can_send`].
    pub(super) fn send(&mut self, pool: &Pool, batch: Batch, commands: u64, start_ns: u64) -> Result<(), String> {
        debug_assert!(self.can_send());
        self.counter.expect(pool.operations(batch));
        self.flights.push_back(Flight { start_ns, replies_left: commands });
        self.unsent = (batch.start, batch.end);
        self.flush(pool)
    }

    /// Sends as much as the socket takes.
    pub(super) fn flush(&mut self, pool: &Pool) -> Result<(), String> {
        while !self.can_send() {
            let rest = pool.bytes(self.unsent.0, self.unsent.1);
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => self.unsent.0 += sent,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("sending failed: {error}; did the server exit or reach maxclients?")),
            }
        }
        Ok(())
    }

    /// Receives once and reports, per flight, the start time and the number of replies that arrived for it.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        tally: &mut Tally,
        mut answered: impl FnMut(u64, u64),
    ) -> Result<u64, String> {
        let received = loop {
            match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, received)) => break received,
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("receiving failed: {error}; did the server exit?")),
            }
        };
        if received == 0 {
            let said = tally.first_error.as_deref().map(|e| format!("; it said {e:?}")).unwrap_or_default();
            return Err(format!("the server closed the connection{said}"));
        }
        let replies = self.counter.consume(&buffer[..received], tally)?;
        self.answered += replies;
        let mut left = replies;
        while left > 0 {
            let Some(flight) = self.flights.front_mut() else {
                return Err("the server sent more replies than it got commands".into());
            };
            let part = left.min(flight.replies_left);
            answered(flight.start_ns, part);
            flight.replies_left -= part;
            left -= part;
            if flight.replies_left == 0 {
                self.flights.pop_front();
            }
        }
        Ok(replies)
    }
}
