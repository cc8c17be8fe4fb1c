//! One nonblocking connection: what it is sending, what it awaits, and the reply counter.

use std::collections::VecDeque;
use std::io::ErrorKind;

use rustix::net::{RecvFlags, SendFlags};

use crate::generate::pool::{Batch, Pool};
use crate::link::{Buffers, Link};
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
    link: Link,
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
    pub(super) fn new(link: Link, counter: Counter) -> Self {
        Self { link, counter, flights: VecDeque::new(), unsent: (0, 0), answered: 0, polls_write: false }
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
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
        self.unsent.0 == self.unsent.1 && self.link.is_flushed()
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
            match self.link.send(rest, SendFlags::DONTWAIT) {
                Ok(sent) => self.unsent.0 += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("sending failed: {error}; did the server exit or reach maxclients?")),
            }
        }
        Ok(())
    }

    /// Receives once and reports, per flight, the start time and the number of replies that arrived for it.
    pub(super) fn receive(
        &mut self,
        buffers: &mut Buffers,
        tally: &mut Tally,
        mut answered: impl FnMut(u64, u64),
    ) -> Result<u64, String> {
        let received = loop {
            match self.link.receive(buffers, RecvFlags::DONTWAIT) {
                Ok(received) => break received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("receiving failed: {error}; did the server exit?")),
            }
        };
        let Some(received) = received else {
            let said = tally.first_error.as_deref().map(|e| format!("; it said {e:?}")).unwrap_or_default();
            return Err(format!("the server closed the connection{said}"));
        };
        let replies = self.counter.consume(received, tally)?;
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
