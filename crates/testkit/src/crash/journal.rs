//! One client: it writes until its connection ends, and notes what it has sent and what was acknowledged.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::commands::{Command, Generator};
use crate::storage::UNREADABLE;
use crate::{Client, Value};

/// Commands of one life of the server at most, so that a check stays short.
const COMMANDS_MAX: usize = 6_000;
/// Commands in flight at most.
const DEPTH_MAX: usize = 24;

/// What a client has done in one life of the server.
#[derive(Debug, Default)]
pub struct Journal {
    /// All that was sent, in order.
    pub sent: Vec<Command>,
    /// How many of the first were acknowledged: all of their replies came.
    pub acknowledged: usize,
    /// When how many had been acknowledged.
    moments: Vec<(Instant, usize)>,
}

impl Journal {
    /// How many had been acknowledged at a time.
    #[must_use]
    pub fn acknowledged_at(&self, time: Instant) -> usize {
        let passed = self.moments.partition_point(|&(moment, _)| moment <= time);
        passed.checked_sub(1).map_or(0, |last| self.moments[last].1)
    }
}

/// Whether the server has noticed that its disk is gone: it refuses writes, or cannot read what lies on the device, also within a
/// transaction. Such a command has done nothing, or not all that it should.
fn tells_of_disk(reply: &Value) -> bool {
    match reply {
        Value::Error(text) => text.starts_with(b"MISCONF") || text.starts_with(UNREADABLE),
        Value::Array(replies) => replies.iter().any(tells_of_disk),
        _ => false,
    }
}

/// Writes until the connection ends, or as much as a check takes; rests after each pipeline.
pub(super) fn write(address: SocketAddr, generator: &mut Generator, rest: Duration) -> Journal {
    let mut journal = Journal::default();
    let Ok(mut client) = Client::connect(address) else { return journal };
    let select = client.call(&["SELECT", &generator.db().to_string()]);
    if !matches!(select, Ok(Value::Simple(_))) {
        return journal;
    }
    let mut wire = Vec::new();
    while journal.sent.len() < COMMANDS_MAX {
        wire.clear();
        let first = journal.sent.len();
        for _ in 0..generator.depth(DEPTH_MAX) {
            let command = generator.next_command();
            command.encode(&mut wire);
            journal.sent.push(command);
        }
        if client.send_raw(&wire).is_err() {
            return journal;
        }
        for at in first..journal.sent.len() {
            for _ in 0..journal.sent[at].replies() {
                match client.receive() {
                    Ok(Value::Closed) | Err(_) => return journal,
                    Ok(reply) if tells_of_disk(&reply) => return journal,
                    Ok(_) => {}
                }
            }
            journal.acknowledged = at + 1;
            journal.moments.push((Instant::now(), at + 1));
        }
        thread::sleep(rest);
    }
    // The rest of this life is silence.
    while matches!(client.receive(), Ok(value) if value != Value::Closed) {}
    journal
}
