//! The load of a soak: several connections, a batch each, every reply compared with the model.

use std::time::Instant;

use super::model::{Act, Model, Span, content};
use crate::pipe::{Pipe, command};
use almandine_bench::control::Target;
use almandine_bench::generate::key::{Chooser, Distribution, KeyFormat};
use almandine_bench::generate::random::Random;
use almandine_bench::generate::value::Lengths;

/// Commands per batch.
const BATCH: usize = 32;
/// Weights out of 100: what is done to a key that was chosen.
const SET: u64 = 35;
const SET_EXPIRING: u64 = 12;
const APPEND: u64 = 8;
const EXPIRE: u64 = 3;
const DELETE: u64 = 12;
/// One in this many commands asks for the key of the command before it, in the same batch.
const ECHO: u64 = 16;
/// Times to live in milliseconds: from short to longer than most keys remain untouched.
const LIFE_MS: (u64, u64) = (500, 60_000);
/// Half of the commands go to a tenth of the keys, so that some records live in memory and others only on the device.
const HOT: Distribution = Distribution::Hotspot { keys: 0.1, operations: 0.5 };
/// Violations that are kept word for word.
const SHOWN_MAX: usize = 10;

struct Line {
    pipe: Pipe,
    /// Sent and not yet answered.
    acts: Vec<(u64, Act)>,
    sent: u64,
}

/// The client.
pub(super) struct Driver {
    lines: Vec<Line>,
    pub(super) model: Model,
    format: KeyFormat,
    lengths: Lengths,
    chooser: Chooser,
    random: Random,
    start: Instant,
    request: Vec<u8>,
    pub(super) operations: u64,
    pub(super) violations: u64,
    pub(super) shown: Vec<String>,
}

impl Driver {
    pub(super) fn connect(target: &Target, keys: u64, lengths: Lengths, connections: u64, seed: u64) -> Result<Self, String> {
        let connections = connections.max(1);
        let keys = keys.next_multiple_of(connections);
        let line = |_| Ok(Line { pipe: Pipe::connect(target)?, acts: Vec::with_capacity(BATCH), sent: 0 });
        Ok(Self {
            lines: (0..connections).map(line).collect::<Result<_, String>>()?,
            model: Model::new(keys),
            format: KeyFormat::new("key:", 16, keys)?,
            lengths,
            chooser: Chooser::new(HOT, keys / connections, 0, 1),
            random: Random::new(seed, 0),
            start: Instant::now(),
            request: Vec::new(),
            operations: 0,
            violations: 0,
            shown: Vec::new(),
        })
    }

    /// Bytes of a key.
    pub(super) fn key_len(&self) -> u64 {
        self.format.len() as u64
    }

    /// Milliseconds since the start; never 0.
    pub(super) fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 + 1
    }

    /// A batch of anything on every connection.
    pub(super) fn churn(&mut self) -> Result<(), String> {
        for index in 0..self.lines.len() {
            for _ in 0..BATCH {
                let (key, act) = self.choose(index);
                self.lines[index].acts.push((key, act));
            }
            self.send(index)?;
        }
        self.receive()
    }

    /// Sets (or asks for) every key once. `progress` gets the share that is done.
    pub(super) fn sweep(&mut self, set: bool, progress: &mut dyn FnMut(f64)) -> Result<(), String> {
        let (lines, keys) = (self.lines.len() as u64, self.model.keys());
        let mut from = 0;
        while from < keys / lines {
            let to = (from + BATCH as u64).min(keys / lines);
            for index in 0..self.lines.len() {
                for own in from..to {
                    let act = if set { self.set(0) } else { Act::Get };
                    self.lines[index].acts.push((own * lines + index as u64, act));
                }
                self.send(index)?;
            }
            self.receive()?;
            from = to;
            progress(from as f64 * lines as f64 / keys as f64);
        }
        Ok(())
    }

    fn set(&mut self, life_ms: u64) -> Act {
        let len = self.lengths.draw(&mut self.random) as u32;
        Act::Set { number: self.model.new_number(), len, life_ms }
    }

    fn choose(&mut self, index: usize) -> (u64, Act) {
        let last = self.lines[index].acts.last().map(|last| last.0);
        if let Some(key) = last.filter(|_| self.random.below(ECHO) == 0) {
            return (key, Act::Get);
        }
        let key = self.chooser.choose(&mut self.random) * self.lines.len() as u64 + index as u64;
        // What is appended depends on what is there, which a command that is under way may change.
        let touched = self.lines[index].acts.iter().any(|(other, _)| *other == key);
        let life_ms = LIFE_MS.0 + self.random.below(LIFE_MS.1 - LIFE_MS.0);
        let act = match self.random.below(100) {
            n if n < SET => self.set(0),
            n if n < SET + SET_EXPIRING => self.set(life_ms),
            n if n < SET + SET_EXPIRING + APPEND && !touched => {
                let (len, now) = (1 + self.random.below(64) as u32, self.now());
                self.model.append(key, len, now).unwrap_or(Act::Get)
            }
            n if n < SET + SET_EXPIRING + APPEND + EXPIRE => Act::Expire { life_ms },
            n if n < SET + SET_EXPIRING + APPEND + EXPIRE + DELETE => Act::Delete,
            _ => Act::Get,
        };
        (key, act)
    }

    fn send(&mut self, index: usize) -> Result<(), String> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.request.clear();
        for &(number, act) in &self.lines[index].acts {
            key.clear();
            value.clear();
            self.format.write(number, &mut key);
            let out = &mut self.request;
            match act {
                Act::Get => command(&[b"GET", &key], out),
                Act::Delete => command(&[b"DEL", &key], out),
                Act::Expire { life_ms } => command(&[b"PEXPIRE", &key, life_ms.to_string().as_bytes()], out),
                Act::Append { number: of, from, len } => {
                    content(number, of, from, from + len, &mut value);
                    command(&[b"APPEND", &key, &value], out);
                }
                Act::Set { number: of, len, life_ms } => {
                    content(number, of, 0, len, &mut value);
                    match life_ms {
                        0 => command(&[b"SET", &key, &value], out),
                        _ => command(&[b"SET", &key, &value, b"PX", life_ms.to_string().as_bytes()], out),
                    }
                }
            }
        }
        let now = self.now();
        let line = &mut self.lines[index];
        line.sent = now;
        line.pipe.send(&self.request)
    }

    fn receive(&mut self) -> Result<(), String> {
        let start = self.start;
        for line in &mut self.lines {
            for (key, act) in line.acts.drain(..) {
                let answer = line.pipe.answer()?;
                // Each reply's own time would do; the time it was read is later and so safe.
                let span = Span { sent: line.sent, got: start.elapsed().as_millis() as u64 + 1 };
                self.operations += 1;
                if let Err(violation) = self.model.apply(key, act, span, answer) {
                    self.violations += 1;
                    if self.shown.len() < SHOWN_MAX {
                        self.shown.push(violation);
                    }
                }
            }
        }
        Ok(())
    }
}
