//! Connections that wait, each for a key of its own, and others that push: all on one thread.
//!
//! Keys are pushed to in the order in which their connections began to wait, and most of them are always waiting, so that a push
//! meets one that has been waiting for long. Each connection must be sent exactly what was pushed to its key, and then waits
//! again.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::operation::{Match, Operation};
use crate::cost::{Cost, Meter};
use crate::mark::{MARK_BYTES, mark};
use crate::pipe;
use crate::servers::Subject;
use crate::wire::{Poller, RECEIVE_BYTES, Wire};
use almandine_bench::reply::{Counter, Tally};

/// Where the pushers' numbers among the poller's events begin.
const PUSHERS: u64 = 1 << 32;
/// A server that says nothing for so long will not.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long clients may take until all of them wait.
const SETTLE: Duration = Duration::from_secs(120);

/// A connection that waits for its key.
struct Waiter {
    wire: Wire,
    key: String,
    wait: Vec<u8>,
    push: Vec<u8>,
    /// Elements pushed to its key, and elements that it got.
    pushed: u64,
    served: u64,
    /// A reply that has begun.
    partial: Vec<u8>,
}

/// A connection that pushes.
struct Pusher {
    wire: Wire,
    counter: Counter,
    awaited: u64,
}

/// The waiting connections of a server.
pub(super) struct Rig<'s> {
    subject: &'s Subject,
    operation: Operation,
    poller: Poller,
    waiters: Vec<Waiter>,
    /// Those that wait and have not been pushed to, the longest waiting first.
    waiting: VecDeque<usize>,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    events: Vec<epoll::Event>,
}

/// What belongs to one run.
struct Run {
    pipeline: usize,
    pushers: Vec<Pusher>,
    /// Those that may push.
    resting: VecDeque<usize>,
    batch: Vec<u8>,
    tally: Tally,
    handed_over: u64,
}

impl<'s> Rig<'s> {
    /// Connects this many clients and has them wait; beside them wait `others`.
    pub(super) fn new(subject: &'s Subject, operation: Operation, waiters: usize, others: usize) -> Result<Self, String> {
        let poller = Poller::new()?;
        let mut control = subject.target.control()?;
        let mut wait = |number: usize| {
            let key = format!("queue:{number:08}");
            if let Some(prepare) = operation.prepare(&key) {
                control.ask(&prepare)?;
            }
            let (wait, push) = (operation.wait(&key), operation.push(&key));
            let mut wire = Wire::new(subject.target.connect()?, &poller, number as u64)?;
            wire.send(&poller, &wait)?;
            Ok(Waiter { wire, key, wait, push, pushed: 0, served: 0, partial: Vec::new() })
        };
        let all = (0..waiters).map(&mut wait).collect::<Result<Vec<_>, String>>()?;
        wait_until_blocked(subject, waiters + others)?;
        Ok(Self {
            subject,
            operation,
            poller,
            waiters: all,
            waiting: (0..waiters).collect(),
            buffer: vec![0; RECEIVE_BYTES],
            scratch: Vec::new(),
            events: Vec::with_capacity(1024),
        })
    }

    /// Has `pushers` connections push batches until all elements have been handed over, first for a warm-up.
    pub(super) fn measure(&mut self, pushers: usize, pipeline: usize, spin: bool, phases: [Duration; 2]) -> Result<Cost, String> {
        let pusher = |number: usize| {
            let wire = Wire::new(self.subject.target.connect()?, &self.poller, PUSHERS + number as u64)?;
            Ok(Pusher { wire, counter: Counter::default(), awaited: 0 })
        };
        let mut run = Run {
            pipeline,
            pushers: (0..pushers).map(pusher).collect::<Result<_, String>>()?,
            resting: (0..pushers).collect(),
            batch: Vec::new(),
            tally: Tally::default(),
            handed_over: 0,
        };
        let [warm_up, time] = phases;
        self.push(&mut run, warm_up, spin)?;
        let meter = Meter::start(self.subject)?;
        let handed_over = self.push(&mut run, time, spin)?;
        meter.stop(handed_over)
    }

    /// Pushes for this time, waits until everybody waits again, and says how many elements were handed over.
    fn push(&mut self, run: &mut Run, time: Duration, spin: bool) -> Result<u64, String> {
        let (begin, before) = (Instant::now(), run.handed_over);
        let mut heard = begin;
        loop {
            let goes_on = begin.elapsed() < time;
            while goes_on && self.waiting.len() >= run.pipeline {
                let Some(pusher) = run.resting.pop_front() else { break };
                self.send_batch(run, pusher)?;
            }
            if !goes_on && self.waiting.len() == self.waiters.len() && run.resting.len() == run.pushers.len() {
                return Ok(run.handed_over - before);
            }
            self.poller.wait(&mut self.events, if spin { Duration::ZERO } else { Duration::from_millis(50) })?;
            if !self.events.is_empty() {
                heard = Instant::now();
            } else if heard.elapsed() > PATIENCE {
                let missing = self.waiters.len() - self.waiting.len();
                return Err(format!("{missing} elements were not handed over within {} s", PATIENCE.as_secs()));
            }
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                match event.data.u64().checked_sub(PUSHERS) {
                    Some(pusher) => run.receive(pusher as usize, &self.poller, &mut self.buffer)?,
                    None => self.receive(run, event.data.u64() as usize)?,
                }
            }
            self.events = events;
        }
    }

    fn send_batch(&mut self, run: &mut Run, pusher: usize) -> Result<(), String> {
        run.batch.clear();
        for number in self.waiting.drain(..run.pipeline) {
            let waiter = &mut self.waiters[number];
            run.batch.extend_from_slice(&waiter.push);
            let end = run.batch.len() - 2;
            run.batch[end - MARK_BYTES..end].copy_from_slice(&mark(0, waiter.pushed));
            waiter.pushed += 1;
        }
        let pusher = &mut run.pushers[pusher];
        pusher.awaited += run.pipeline as u64;
        pusher.wire.send(&self.poller, &run.batch)
    }

    /// Takes what a waiting connection was sent, and has it wait again.
    fn receive(&mut self, run: &mut Run, number: usize) -> Result<(), String> {
        let waiter = &mut self.waiters[number];
        waiter.wire.flush(&self.poller)?;
        let received = waiter.wire.receive(&mut self.buffer)?;
        let mut received = &self.buffer[..received];
        if received.is_empty() {
            return Ok(());
        }
        if !waiter.partial.is_empty() {
            waiter.partial.extend_from_slice(received);
            received = &waiter.partial;
        }
        let is_due = waiter.served < waiter.pushed;
        match self.operation.check(&waiter.key, &mark(0, waiter.served), received, &mut self.scratch) {
            Match::Whole if is_due => {}
            Match::Begun => {
                if waiter.partial.is_empty() {
                    waiter.partial = received.to_vec();
                }
                return Ok(());
            }
            _ => {
                let said = String::from_utf8_lossy(&received[..received.len().min(200)]);
                let due = String::from_utf8_lossy(&self.scratch);
                return Err(format!("{} of {} was answered with {said:?}, due was {due:?}", self.operation.name(), waiter.key));
            }
        }
        waiter.partial.clear();
        waiter.served += 1;
        run.handed_over += 1;
        self.waiting.push_back(number);
        waiter.wire.send(&self.poller, &waiter.wait)
    }
}

impl Run {
    fn receive(&mut self, number: usize, poller: &Poller, buffer: &mut [u8]) -> Result<(), String> {
        let pusher = &mut self.pushers[number];
        pusher.wire.flush(poller)?;
        let received = pusher.wire.receive(buffer)?;
        let replies = pusher.counter.consume(&buffer[..received], &mut self.tally)?;
        if let Some(error) = &self.tally.first_error {
            return Err(format!("a push was answered with {error:?}"));
        }
        if replies > pusher.awaited {
            return Err("there are more replies than pushes".into());
        }
        pusher.awaited -= replies;
        if pusher.awaited == 0 && replies > 0 {
            self.resting.push_back(number);
        }
        Ok(())
    }
}

/// Connections that wait for lists which never come.
pub(super) struct Idle {
    sockets: Vec<OwnedFd>,
}

impl Idle {
    /// Has `keys` keys waited for by at most `connections` connections.
    pub(super) fn new(subject: &Subject, keys: usize, connections: usize) -> Result<Self, String> {
        let connections = connections.min(keys);
        let share = |number: usize| keys / connections + usize::from(number < keys % connections);
        let mut first = 0;
        let mut sockets = Vec::with_capacity(connections);
        for number in 0..connections {
            let socket = subject.target.connect()?;
            let names: Vec<String> = (first..first + share(number)).map(|key| format!("idle:{key:09}")).collect();
            first += names.len();
            let mut words: Vec<&[u8]> = vec![b"BLPOP"];
            words.extend(names.iter().map(String::as_bytes));
            words.push(b"0");
            let mut request = Vec::new();
            pipe::command(&words, &mut request);
            let mut rest = request.as_slice();
            while !rest.is_empty() {
                let sent = rustix::net::send(&socket, rest, rustix::net::SendFlags::NOSIGNAL);
                rest = &rest[sent.map_err(|e| format!("sending failed: {e}; did the server exit?"))?..];
            }
            sockets.push(socket);
        }
        wait_until_blocked(subject, connections)?;
        Ok(Self { sockets })
    }

    /// How many connections there are.
    pub(super) fn connections(&self) -> usize {
        self.sockets.len()
    }
}

/// Waits until this many clients wait, where the server tells.
pub(super) fn wait_until_blocked(subject: &Subject, clients: usize) -> Result<(), String> {
    let (begin, mut control) = (Instant::now(), subject.target.control()?);
    loop {
        let blocked = control.info("blocked_clients")?.and_then(|number| number.trim().parse::<usize>().ok());
        match blocked {
            Some(blocked) if blocked != clients && begin.elapsed() > SETTLE => {
                return Err(format!("{blocked} clients wait where {clients} should"));
            }
            Some(blocked) if blocked != clients => thread::sleep(Duration::from_millis(10)),
            _ => return Ok(()),
        }
    }
}
