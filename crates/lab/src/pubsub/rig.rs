//! The subscribers and publishers of one server, all on one thread.
//!
//! Each publisher sends a batch, waits for its replies, and sends the next, unless too much is on its way to the subscribers:
//! what a server buffers for clients that do not keep up is another question. Every reply must be the number of subscribers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::stream::{CHANNEL, Stream};
use crate::cost::{Cost, Meter};
use crate::mark::{MARK_BYTES, mark};
use crate::pipe;
use crate::servers::Subject;
use crate::wire::{Poller, RECEIVE_BYTES, Wire};

/// Where the publishers' numbers among the poller's events begin.
const PUBLISHERS: u64 = 1 << 32;
/// Bytes on their way to one subscriber, and to all of them.
const UNDER_WAY_BYTES: (usize, usize) = (1 << 20, 64 << 20);
/// A server that says nothing for so long will not.
const PATIENCE: Duration = Duration::from_secs(30);

/// A load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Publishing {
    /// Connections that publish.
    pub(super) publishers: usize,
    /// Messages per batch.
    pub(super) pipeline: usize,
    /// Bytes per message.
    pub(super) payload: usize,
    /// Never sleep.
    pub(super) spin: bool,
}

/// One connection that receives.
struct Subscriber {
    wire: Wire,
    /// Bytes received.
    at: u64,
}

/// One connection that publishes.
struct Publisher {
    wire: Wire,
    /// The number of its next message.
    number: u64,
    /// A batch, into which numbers are written.
    batch: Vec<u8>,
    /// Bytes of replies that are due.
    awaited: usize,
    /// Bytes of the reply that has begun.
    partial: usize,
}

/// The subscribers, ready to receive.
pub(super) struct Rig<'s> {
    subject: &'s Subject,
    poller: Poller,
    subscribers: Vec<Subscriber>,
    buffer: Vec<u8>,
    events: Vec<epoll::Event>,
}

/// What belongs to one run.
struct Run {
    load: Publishing,
    publishers: Vec<Publisher>,
    /// Those that may send and do not, because too much is under way.
    resting: VecDeque<usize>,
    stream: Stream,
    /// As many replies as a batch has.
    replies: Vec<u8>,
    reply: usize,
    published: u64,
    received: u64,
    /// Messages that may be on their way to each subscriber.
    window: u64,
}

impl<'s> Rig<'s> {
    /// Connects and subscribes this many clients.
    pub(super) fn new(subject: &'s Subject, subscribers: usize) -> Result<Self, String> {
        let poller = Poller::new()?;
        let subscribe = |number: usize| {
            let mut control = subject.target.control()?;
            control.ask(&["SUBSCRIBE", CHANNEL])?;
            Ok(Subscriber { wire: Wire::new(control.into_link().into_socket()?, &poller, number as u64)?, at: 0 })
        };
        let subscribers = (0..subscribers).map(subscribe).collect::<Result<Vec<_>, String>>()?;
        Ok(Self { subject, poller, subscribers, buffer: vec![0; RECEIVE_BYTES], events: Vec::with_capacity(1024) })
    }

    /// Publishes until every message has arrived, first for a warm-up.
    pub(super) fn measure(&mut self, load: Publishing, warm_up: Duration, time: Duration) -> Result<Cost, String> {
        let mut run = self.begin(load)?;
        self.publish(&mut run, warm_up)?;
        let meter = Meter::start(self.subject)?;
        let published = self.publish(&mut run, time)?;
        meter.stop(published)
    }

    fn begin(&mut self, load: Publishing) -> Result<Run, String> {
        self.subscribers.iter_mut().for_each(|subscriber| subscriber.at = 0);
        let publish = |number: usize| {
            let socket = self.subject.target.connect()?;
            let mut batch = Vec::new();
            let text = vec![b'x'; load.payload];
            (0..load.pipeline).for_each(|_| pipe::command(&[b"PUBLISH", CHANNEL.as_bytes(), &text], &mut batch));
            let wire = Wire::new(socket, &self.poller, PUBLISHERS + number as u64)?;
            Ok(Publisher { wire, number: 0, batch, awaited: 0, partial: 0 })
        };
        let stream = Stream::new(load.publishers, load.payload);
        let reply = format!(":{}\r\n", self.subscribers.len());
        let (each, all) = UNDER_WAY_BYTES;
        let window = (each.min(all / self.subscribers.len().max(1)) / stream.message_bytes()).max(load.pipeline);
        Ok(Run {
            load,
            publishers: (0..load.publishers).map(publish).collect::<Result<_, String>>()?,
            resting: (0..load.publishers).collect(),
            stream,
            replies: reply.repeat(load.pipeline + 1).into_bytes(),
            reply: reply.len(),
            published: 0,
            received: 0,
            window: window as u64,
        })
    }

    /// Publishes for this time, waits until all has arrived, and says how much that was.
    fn publish(&mut self, run: &mut Run, time: Duration) -> Result<u64, String> {
        let (begin, before) = (Instant::now(), run.published);
        let mut heard = begin;
        loop {
            let goes_on = begin.elapsed() < time;
            while goes_on && run.has_room(self.subscribers.len()) {
                let Some(next) = run.resting.pop_front() else { break };
                run.send(next, &self.poller)?;
            }
            if !goes_on && run.is_quiet(self.subscribers.len()) {
                return Ok(run.published - before);
            }
            let limit = if run.load.spin { Duration::ZERO } else { Duration::from_millis(50) };
            self.poller.wait(&mut self.events, limit)?;
            if !self.events.is_empty() {
                heard = Instant::now();
            } else if heard.elapsed() > PATIENCE {
                return Err(run.missing(self.subscribers.len()));
            }
            self.handle_events(run)?;
        }
    }

    fn handle_events(&mut self, run: &mut Run) -> Result<(), String> {
        for event in self.events.drain(..) {
            let number = event.data.u64();
            if let Some(publisher) = number.checked_sub(PUBLISHERS) {
                run.receive_replies(publisher as usize, &self.poller, &mut self.buffer)?;
                continue;
            }
            let subscriber = &mut self.subscribers[number as usize];
            let received = subscriber.wire.receive(&mut self.buffer)?;
            run.stream.take(subscriber.at, &self.buffer[..received])?;
            subscriber.at += received as u64;
            run.received += received as u64;
        }
        if run.stream.is_long() {
            run.stream.drop_before(self.subscribers.iter().map(|subscriber| subscriber.at).min().unwrap_or(0));
        }
        Ok(())
    }
}

impl Run {
    /// Bytes that are on their way.
    fn under_way(&self, subscribers: usize) -> u64 {
        self.published * subscribers as u64 * self.stream.message_bytes() as u64 - self.received
    }

    /// Whether one more batch may go out.
    fn has_room(&self, subscribers: usize) -> bool {
        let window = self.window * subscribers as u64 * self.stream.message_bytes() as u64;
        let batch = self.load.pipeline as u64 * subscribers as u64 * self.stream.message_bytes() as u64;
        let under_way = self.under_way(subscribers);
        under_way == 0 || under_way + batch <= window
    }

    fn is_quiet(&self, subscribers: usize) -> bool {
        self.under_way(subscribers) == 0 && self.publishers.iter().all(|publisher| publisher.awaited == 0)
    }

    fn missing(&self, subscribers: usize) -> String {
        let replies: usize = self.publishers.iter().map(|publisher| publisher.awaited).sum();
        let messages = self.under_way(subscribers) / self.stream.message_bytes() as u64;
        format!("{messages} messages and {} replies did not come within {} s", replies / self.reply, PATIENCE.as_secs())
    }

    fn send(&mut self, number: usize, poller: &Poller) -> Result<(), String> {
        let publisher = &mut self.publishers[number];
        let request = publisher.batch.len() / self.load.pipeline;
        // The text and a line end are the last of a request.
        let at = request - 2 - self.load.payload;
        for request in publisher.batch.chunks_exact_mut(request) {
            request[at..at + MARK_BYTES].copy_from_slice(&mark(number, publisher.number));
            publisher.number += 1;
        }
        publisher.awaited += self.load.pipeline * self.reply;
        self.published += self.load.pipeline as u64;
        publisher.wire.send(poller, &publisher.batch)
    }

    fn receive_replies(&mut self, number: usize, poller: &Poller, buffer: &mut [u8]) -> Result<(), String> {
        let publisher = &mut self.publishers[number];
        publisher.wire.flush(poller)?;
        let received = publisher.wire.receive(buffer)?;
        let received = &buffer[..received];
        if received.is_empty() {
            return Ok(());
        }
        let expected = self.replies.get(publisher.partial..publisher.partial + received.len());
        if received.len() > publisher.awaited || expected != Some(received) {
            let said = String::from_utf8_lossy(&received[..received.len().min(80)]);
            let reply = String::from_utf8_lossy(&self.replies[..self.reply - 2]);
            return Err(format!("PUBLISH was answered with {said:?}, expected was {reply:?}"));
        }
        publisher.partial = (publisher.partial + received.len()) % self.reply;
        publisher.awaited -= received.len();
        if publisher.awaited == 0 {
            self.resting.push_back(number);
        }
        Ok(())
    }
}
