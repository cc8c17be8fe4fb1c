//! What a server with a log has told of changes before it crashed is so behind the crash: keyspace events, published messages, and
//! invalidations of copies that clients keep.
//!
//! Each change is of a key of its own. Only what was heard is compared: what a client was told is not asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use super::tracking::{Changed, changed};
use crate::runtime::Stream;
use crate::{Client, Random, Runtime, Value};

const CHANNEL: &str = "told";
/// Units of a writer that are sent before the first reply is awaited.
const DEPTH: u64 = 3;
/// Units of a writer in one life of the server, so that a check stays short.
const UNITS_MAX: u64 = 600;
/// Behind how many units a key goes again that is to go.
const REMOVED_AFTER: u64 = 3;
/// What is refused while keys are evicted is not told of.
const SCRIPT: &str = "redis.call('SET', KEYS[1], 'v') return redis.call('PUBLISH', 'told', ARGV[1])";

/// A writer, through all lives of the server.
#[derive(Debug)]
pub struct Writer {
    number: usize,
    random: Random,
    /// Units that were sent.
    sent: u64,
}

/// How a client hears of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ear {
    /// Keyspace events.
    Events,
    /// Messages that units publish.
    Messages,
    /// Invalidations.
    Copies,
}

/// What clients have heard.
#[derive(Debug, Default)]
pub struct Told {
    /// Keys that were made.
    there: BTreeSet<String>,
    /// Keys that were removed or evicted.
    gone: BTreeSet<String>,
}

/// Whether the key of a unit goes again.
fn is_removed(unit: u64) -> bool {
    unit.is_multiple_of(4)
}

/// The writer and the unit of a key.
fn unit_of(key: &str) -> Option<(usize, u64)> {
    let (writer, unit) = key.strip_prefix("told:")?.split_once('.')?;
    Some((writer.parse().ok()?, unit.parse().ok()?))
}

impl Writer {
    /// One that has done nothing yet. `number` is its own.
    #[must_use]
    pub fn new(number: usize, seed: u64) -> Self {
        Self { number, random: Random::new(seed.wrapping_mul(1000) + number as u64), sent: 0 }
    }

    /// Commands of a unit: one, a transaction, or a script; and a key that may be evicted.
    fn commands(&self, unit: u64) -> Vec<Vec<String>> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let name = |unit: u64| format!("{}.{unit}", self.number);
        let own = name(unit);
        let mut commands = match unit % 4 {
            0 => vec![words(&format!("SET told:{own} v"))],
            1 => {
                let lines = ["MULTI", &format!("PUBLISH {CHANNEL} {own}"), &format!("SET told:{own} v"), "EXEC"];
                lines.map(words).to_vec()
            }
            2 => vec![["EVAL", SCRIPT, "1", &format!("told:{own}"), &own].map(str::to_owned).to_vec()],
            _ => vec![words(&format!("UNLINK told:{}", name(unit - REMOVED_AFTER)))],
        };
        commands.push(words(&format!("SET fill:{own} {} PX 1000000000", "f".repeat(400))));
        commands
    }

    /// Does units until the time is over or the server does not answer.
    pub fn write<R: Runtime>(&mut self, runtime: &R, until_ns: u64, pause: Duration) {
        let Ok(mut client) = Client::of(runtime) else { return };
        let last = self.sent + UNITS_MAX;
        while runtime.now_ns() < until_ns && self.sent < last {
            runtime.sleep(Duration::from_nanos(self.random.below(pause.as_nanos() as usize + 1) as u64));
            let units = self.sent..self.sent + 1 + self.random.below(DEPTH as usize) as u64;
            self.sent = units.end;
            let commands = units.filter(|unit| runtime.includes(self.number, *unit)).flat_map(|unit| self.commands(unit));
            // What does not fit while keys are evicted is refused, and is not told of.
            match client.pipeline(&commands.collect::<Vec<_>>()) {
                Ok(replies) if !replies.contains(&Value::Closed) => {}
                _ => return,
            }
        }
    }
}

impl Told {
    /// Listens until the time is over or the server does not answer.
    pub fn listen<R: Runtime>(runtime: &R, until_ns: u64, ear: Ear) -> Self {
        let mut told = Self::default();
        while runtime.now_ns() < until_ns {
            let Ok(mut client) = Client::of(runtime) else { break };
            let asked: &[&[&str]] = match ear {
                Ear::Events => &[&["PSUBSCRIBE", "__keyevent@0__:*"]],
                Ear::Messages => &[&["SUBSCRIBE", CHANNEL]],
                Ear::Copies => &[&["HELLO", "3"], &["CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "told:"]],
            };
            if client.send(asked).is_err() {
                break;
            }
            while let Ok(message) = client.receive()
                && message != Value::Closed
            {
                told.hear(ear, &message);
            }
        }
        told
    }

    fn hear(&mut self, ear: Ear, message: &Value) {
        let words: Vec<String> = message.elements().unwrap_or_default().iter().map(text).collect();
        match (ear, &words[..]) {
            (Ear::Events, [_, _, channel, key]) => match channel.rsplit(':').next() {
                Some("set") if key.starts_with("told:") => _ = self.there.insert(key.clone()),
                Some("del" | "evicted") => _ = self.gone.insert(key.clone()),
                _ => {}
            },
            (Ear::Messages, [kind, _, unit]) if kind == "message" => _ = self.there.insert(format!("told:{unit}")),
            (Ear::Copies, _) => {
                if let Some(Changed::Keys(keys)) = changed(message) {
                    // Of the others it is not said what became of them.
                    self.there.extend(keys.into_iter().filter(|key| unit_of(key).is_some_and(|(_, unit)| !is_removed(unit))));
                }
            }
            _ => {}
        }
    }

    /// Takes up what another client has heard.
    pub fn extend(&mut self, other: Self) {
        self.there.extend(other.there);
        self.gone.extend(other.gone);
    }

    /// Compares with what is there behind a crash. How many keys were heard of.
    ///
    /// # Errors
    /// What is otherwise.
    pub fn check<S: Stream>(&self, client: &mut Client<S>, writers: &[Writer]) -> Result<usize, String> {
        let is_kept = |key: &&String| {
            unit_of(key).is_some_and(|(writer, unit)| !is_removed(unit) || writers[writer].sent <= unit + REMOVED_AFTER)
        };
        let there = self.there.iter().filter(is_kept).map(|key| (key, 1));
        let expected: Vec<(&String, i64)> = there.chain(self.gone.iter().map(|key| (key, 0))).collect();
        for part in expected.chunks(200) {
            let asked: Vec<[&str; 2]> = part.iter().map(|(key, _)| ["EXISTS", key]).collect();
            let replies = client.pipeline(&asked).map_err(|error| error.to_string())?;
            for ((key, expected), reply) in part.iter().zip(replies) {
                if reply.integer() != Some(*expected) {
                    let what = if *expected == 1 { "made" } else { "removed" };
                    return Err(format!("it was told that {key} was {what}, and EXISTS says {reply}"));
                }
            }
        }
        Ok(expected.len())
    }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.bytes().unwrap_or_default()).into_owned()
}
