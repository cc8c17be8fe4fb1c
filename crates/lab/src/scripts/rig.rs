//! Connections that send batches in a closed loop, all on one thread.

use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::cost::{Cost, Meter};
use crate::servers::Subject;
use crate::wire::{Poller, RECEIVE_BYTES, Wire};
use almandine_bench::reply::{Counter, Tally};

/// Batches that a connection sends in turn.
const BATCHES: usize = 16;
/// A server that says nothing for so long will not.
const PATIENCE: Duration = Duration::from_secs(30);

struct Connection {
    wire: Wire,
    counter: Counter,
    awaited: u64,
    /// The next of its batches.
    next: usize,
}

/// The connections to a server.
pub(super) struct Rig<'s> {
    subject: &'s Subject,
    poller: Poller,
    connections: Vec<Connection>,
    /// Prepared batches, shared by all connections.
    batches: Vec<Vec<u8>>,
    pipeline: usize,
    spin: bool,
    buffer: Vec<u8>,
    events: Vec<epoll::Event>,
    tally: Tally,
}

impl<'s> Rig<'s> {
    /// Connects; `shape` is the number of connections and that of requests per batch.
    pub(super) fn new(subject: &'s Subject, requests: &[Vec<u8>], shape: (usize, usize), spin: bool) -> Result<Self, String> {
        let (connections, pipeline) = shape;
        let poller = Poller::new()?;
        let connect = |number: usize| {
            let wire = Wire::new(subject.target.connect()?, &poller, number as u64)?;
            Ok(Connection { wire, counter: Counter::default(), awaited: 0, next: number })
        };
        let connections = (0..connections).map(connect).collect::<Result<Vec<_>, String>>()?;
        // A stride that is prime to most numbers of keys, so that keys come in no order.
        let mut at = 0;
        let mut batch = || {
            let mut bytes = Vec::new();
            for _ in 0..pipeline {
                at = (at + 7_919) % requests.len();
                bytes.extend_from_slice(&requests[at]);
            }
            bytes
        };
        let batches = (0..BATCHES * connections.len()).map(|_| batch()).collect();
        let (buffer, events) = (vec![0; RECEIVE_BYTES], Vec::with_capacity(1024));
        Ok(Self { subject, poller, connections, batches, pipeline, spin, buffer, events, tally: Tally::default() })
    }

    /// Sends for a while, and then for the time that is measured.
    pub(super) fn measure(&mut self, [warm_up, time]: [Duration; 2]) -> Result<Cost, String> {
        self.send_for(warm_up)?;
        let meter = Meter::start(self.subject)?;
        let replies = self.send_for(time)?;
        meter.stop(replies)
    }

    /// Sends for this time, waits for all replies, and says how many there were.
    fn send_for(&mut self, time: Duration) -> Result<u64, String> {
        let (begin, before) = (Instant::now(), self.tally.replies);
        for number in 0..self.connections.len() {
            self.send(number)?;
        }
        let (mut busy, mut heard) = (self.connections.len(), begin);
        while busy > 0 {
            self.poller.wait(&mut self.events, if self.spin { Duration::ZERO } else { Duration::from_millis(50) })?;
            if !self.events.is_empty() {
                heard = Instant::now();
            } else if heard.elapsed() > PATIENCE {
                return Err(format!("the server has not answered within {} s", PATIENCE.as_secs()));
            }
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                let number = event.data.u64() as usize;
                if !self.receive(number)? {
                    continue;
                }
                if begin.elapsed() < time {
                    self.send(number)?;
                } else {
                    busy -= 1;
                }
            }
            self.events = events;
        }
        Ok(self.tally.replies - before)
    }

    fn send(&mut self, number: usize) -> Result<(), String> {
        let connection = &mut self.connections[number];
        let batch = &self.batches[connection.next % self.batches.len()];
        connection.next += 1;
        connection.awaited = self.pipeline as u64;
        connection.wire.send(&self.poller, batch)
    }

    /// Takes what has come; whether the batch is answered.
    fn receive(&mut self, number: usize) -> Result<bool, String> {
        let connection = &mut self.connections[number];
        connection.wire.flush(&self.poller)?;
        let received = connection.wire.receive(&mut self.buffer)?;
        let replies = connection.counter.consume(&self.buffer[..received], &mut self.tally)?;
        if let Some(error) = &self.tally.first_error {
            return Err(format!("a call was answered with {error:?}"));
        }
        if replies > connection.awaited {
            return Err("there are more replies than calls".into());
        }
        connection.awaited -= replies;
        Ok(connection.awaited == 0 && replies > 0)
    }
}
