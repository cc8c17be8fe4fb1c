//! A read-through cache in front of nothing: GET, and on a miss SET of the same key.
//!
//! One connection, batches of GETs; what one batch missed is stored at the head of the next, before its GETs.

use std::thread;
use std::time::{Duration, Instant};

use super::trace::{Request, Trace};
use crate::info::Info;
use crate::pipe::{Answer, Pipe, command};
use almandine_bench::control::{Control, Target};
use almandine_bench::generate::key::KeyFormat;

/// GETs per batch.
const BATCH: usize = 64;
/// How long keys with a time to live have: longer than any run, so that only the policy removes them.
const LIFE_SECONDS: &[u8] = b"86400";

/// What happened.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Count {
    /// Requests that could hit: scans are not among them.
    pub(super) requests: u64,
    /// Those that did.
    pub(super) hits: u64,
    /// Requests of scans.
    pub(super) scanned: u64,
    /// Values the server would not take.
    pub(super) refused: u64,
}

impl Count {
    /// Hits per request.
    pub(super) fn ratio(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }
}

/// Keys and memory seen during a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Holding {
    /// DBSIZE each time.
    pub(super) keys: Vec<u64>,
    /// The greatest used_memory.
    pub(super) used_most: u64,
    /// Keys evicted in all.
    pub(super) evicted: Option<u64>,
}

impl Holding {
    /// Mean number of keys.
    pub(super) fn mean(&self) -> u64 {
        self.keys.iter().sum::<u64>() / self.keys.len().max(1) as u64
    }
}

/// The client.
pub(super) struct Cache<'v> {
    pipe: Pipe,
    control: Control,
    format: KeyFormat,
    value: &'v [u8],
    /// Whether values are stored with a time to live, for the volatile policies.
    expires: bool,
    missed: Vec<u64>,
    request: Vec<u8>,
    /// Requests per second; 0 for no limit.
    rate: u64,
}

impl<'v> Cache<'v> {
    pub(super) fn connect(target: &Target, format: KeyFormat, value: &'v [u8], expires: bool) -> Result<Self, String> {
        let (pipe, control) = (Pipe::connect(target)?, target.control()?);
        Ok(Self { pipe, control, format, value, expires, missed: Vec::new(), request: Vec::new(), rate: 0 })
    }

    /// Serves no more than this many requests per second; 0 for no limit.
    pub(super) fn limit_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    /// Stores keys `0..count` and returns how many of all keys are there.
    pub(super) fn fill(&mut self, count: u64) -> Result<u64, String> {
        for from in (0..count).step_by(BATCH) {
            self.missed.extend(from..(from + BATCH as u64).min(count));
            self.exchange(&[], &mut Count::default())?;
        }
        Ok(self.control.integer(&["DBSIZE"])?.max(0) as u64)
    }

    /// Serves `requests` requests of a stream. Looks at the server about `looks` times.
    pub(super) fn serve(&mut self, trace: &mut Trace, requests: u64, looks: u64) -> Result<(Count, Holding), String> {
        let (mut count, mut holding) = (Count::default(), Holding::default());
        let (mut batch, mut served, mut next_look) = (Vec::with_capacity(BATCH), 0, 0);
        let before = self.evicted()?;
        let start = Instant::now();
        while served < requests {
            batch.clear();
            batch.extend((0..(requests - served).min(BATCH as u64)).map(|_| trace.next_request()));
            if self.rate > 0 {
                let due = Duration::from_secs_f64(served as f64 / self.rate as f64);
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
            served += batch.len() as u64;
            self.exchange(&batch, &mut count)?;
            if served >= next_look && looks > 0 {
                next_look = served + requests / looks;
                let info = Info::read(&mut self.control)?;
                holding.keys.push(self.control.integer(&["DBSIZE"])?.max(0) as u64);
                holding.used_most = holding.used_most.max(info.number("used_memory").unwrap_or(0));
            }
        }
        holding.evicted = self.evicted()?.zip(before).map(|(after, before)| after - before);
        Ok((count, holding))
    }

    fn evicted(&mut self) -> Result<Option<u64>, String> {
        Ok(Info::read(&mut self.control)?.number("evicted_keys"))
    }

    /// Stores what was missed, then asks for `batch`.
    fn exchange(&mut self, batch: &[Request], count: &mut Count) -> Result<(), String> {
        let mut key = Vec::new();
        self.request.clear();
        for &number in &self.missed {
            key.clear();
            self.format.write(number, &mut key);
            match self.expires {
                true => command(&[b"SET", &key, self.value, b"EX", LIFE_SECONDS], &mut self.request),
                false => command(&[b"SET", &key, self.value], &mut self.request),
            }
        }
        for request in batch {
            key.clear();
            self.format.write(request.key, &mut key);
            command(&[b"GET", &key], &mut self.request);
        }
        self.pipe.send(&self.request)?;
        for _ in 0..self.missed.len() {
            match self.pipe.answer()? {
                Answer::Status(_) => {}
                Answer::Error(text) if text.starts_with(b"OOM") => count.refused += 1,
                other => return Err(format!("SET was answered with {}", show(other))),
            }
        }
        self.missed.clear();
        for request in batch {
            let hit = match self.pipe.answer()? {
                Answer::Value(None) if self.missed.contains(&request.key) => true, // It is being fetched already.
                Answer::Value(None) => {
                    self.missed.push(request.key);
                    false
                }
                Answer::Value(Some(value)) if value == self.value => true,
                other => return Err(format!("GET was answered with {}", show(other))),
            };
            match request.scanned {
                true => count.scanned += 1,
                false => {
                    count.requests += 1;
                    count.hits += u64::from(hit);
                }
            }
        }
        Ok(())
    }
}

fn show(answer: Answer<'_>) -> String {
    match answer {
        Answer::Error(text) | Answer::Status(text) | Answer::Value(Some(text)) => {
            format!("{:?}", String::from_utf8_lossy(&text[..text.len().min(80)]))
        }
        other => format!("{other:?}"),
    }
}
