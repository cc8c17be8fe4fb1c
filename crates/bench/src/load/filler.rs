//! New keys at a steady pace beside an open load, from the same thread.
//!
//! A second thread would compete for the core of the first and show up in its latencies; this one only adds a connection
//! and, when a batch is due, one send. Its replies are counted, its latencies are not recorded.

use std::io::ErrorKind;
use std::sync::Arc;

use rustix::net::{RecvFlags, SendFlags};

use crate::control::Target;
use crate::generate::random::Random;
use crate::generate::table::DataType;
use crate::generate::template::Template;
use crate::link::{Buffers, Link};
use crate::reply::{Counter, Tally};
use crate::workload::Workload;

/// Commands that may be unanswered before the filler waits for the server.
const OUTSTANDING_MAX: u64 = 4096;

/// What is added while the load is measured.
#[derive(Debug, Clone)]
pub struct Filling {
    /// Keys and values; its key count must cover the range.
    pub workload: Arc<Workload>,
    /// First key number and one past the last.
    pub range: (u64, u64),
    /// Keys per second.
    pub rate: f64,
    /// Keys per batch: small, so that they do not queue ahead of what is measured.
    pub batch: u64,
}

/// A filling in progress.
#[derive(Debug)]
pub(super) struct Filler {
    filling: Filling,
    template: Template,
    link: Link,
    counter: Counter,
    random: Random,
    request: Vec<u8>,
    sent: usize,
    next: u64,
    next_ns: u64,
    outstanding: u64,
    tally: Tally,
}

impl Filler {
    pub(super) fn new(filling: Filling, target: &Target) -> Result<Self, String> {
        let fill = DataType::String.fill().ok_or("strings cannot be filled")?;
        Ok(Self {
            template: Template::parse(fill)?,
            link: target.link()?,
            counter: Counter::default(),
            random: Random::new(0x6669_6c6c, 0),
            request: Vec::new(),
            sent: 0,
            next: filling.range.0,
            next_ns: u64::MAX,
            outstanding: 0,
            tally: Tally::default(),
            filling,
        })
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn start(&mut self, now_ns: u64) {
        self.next_ns = now_ns;
    }

    /// When the next batch is due.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Keys that were confirmed.
    pub(super) fn added(&self) -> u64 {
        self.tally.replies - self.tally.errors
    }

    /// Sends the batch that is due, if the server keeps up.
    pub(super) fn send_due(&mut self, now_ns: u64) -> Result<(), String> {
        if now_ns < self.next_ns {
            return Ok(());
        }
        if self.sent < self.request.len() || !self.link.is_flushed() || self.outstanding > OUTSTANDING_MAX {
            // Try again a little later rather than on every turn of the loop.
            self.next_ns = now_ns + 100_000;
            return self.flush();
        }
        let to = (self.next + self.filling.batch).min(self.filling.range.1);
        if self.next == to {
            self.next_ns = u64::MAX;
            return Ok(());
        }
        self.request.clear();
        self.sent = 0;
        let mut scope = self.filling.workload.scope(DataType::String, 0, 1);
        for number in self.next..to {
            self.outstanding += self.template.encode_fill(&mut scope, &mut self.random, number, &mut self.request);
        }
        self.next_ns += ((to - self.next) as f64 * 1e9 / self.filling.rate) as u64;
        self.next = to;
        self.flush()
    }

    pub(super) fn receive(&mut self, buffers: &mut Buffers) -> Result<(), String> {
        match self.link.receive(buffers, RecvFlags::DONTWAIT) {
            Ok(None) => return Err("the server closed the connection that adds keys".into()),
            Ok(Some(received)) => self.outstanding -= self.counter.consume(received, &mut self.tally)?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(format!("receiving failed: {error}; did the server exit?")),
        }
        match (self.tally.errors, &self.tally.first_error) {
            (1.., Some(error)) => Err(format!("adding keys failed: the server answered {error:?}")),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), String> {
        match self.link.send(&self.request[self.sent..], SendFlags::DONTWAIT) {
            Ok(sent) => self.sent += sent,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(format!("sending failed: {error}; did the server exit?")),
        }
        Ok(())
    }
}
