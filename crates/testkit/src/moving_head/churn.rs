//! The others: connections that write keys of their own as fast as the settings say, so that pages keep leaving memory.
//!
//! Each key is new: overwriting cold keys would leave questions open, and a server that is behind with those looks at what it
//! overwrites, which hides the races.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Settings;
use crate::{Random, Server, Value};

const CONNECTIONS: usize = 2;
/// The database of the first one; the racing pairs have those from 1.
const DATABASES_FROM: usize = 12;
/// A connection empties its database when it has written so much since the last time.
const BYTES_PER_DATABASE: usize = 1 << 29;
const PIPELINE: usize = 32;
const VALUE_BYTES_MAX: usize = 8000;

/// What they did.
#[derive(Default)]
pub(super) struct Churned {
    pub(super) bytes: usize,
    /// Keys that are left, by database.
    pub(super) keys: BTreeMap<usize, i64>,
}

/// Overwrites until told to stop.
pub(super) fn run(server: &Server, settings: Settings, stop: &AtomicBool) -> Churned {
    thread::scope(|scope| {
        let all: Vec<_> = (0..CONNECTIONS).map(|number| scope.spawn(move || connection(server, settings, number, stop))).collect();
        all.into_iter().map(|one| one.join().expect("churn")).fold(Churned::default(), |mut sum, one| {
            sum.bytes += one.bytes;
            sum.keys.extend(one.keys);
            sum
        })
    })
}

fn connection(server: &Server, settings: Settings, number: usize, stop: &AtomicBool) -> Churned {
    let mut client = server.client();
    let database = DATABASES_FROM + number;
    assert_eq!(client.line(&format!("SELECT {database}")), Value::ok());
    let mut random = Random::new(settings.seed ^ (number as u64 + 1) << 32);
    let filler = vec![b'f'; VALUE_BYTES_MAX];
    let (started, mut bytes, mut bytes_here, mut keys) = (Instant::now(), 0, 0, 0);
    let rate = (settings.churn_bytes / CONNECTIONS) as f64;
    let mut wire = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        wire.clear();
        for _ in 0..PIPELINE {
            let len = 1 + random.below(VALUE_BYTES_MAX);
            keys += 1;
            let name = format!("churn:{keys}");
            let _ = write!(wire, "*3\r\n$3\r\nSET\r\n${}\r\n{name}\r\n${len}\r\n", name.len());
            wire.extend_from_slice(&filler[..len]);
            wire.extend_from_slice(b"\r\n");
            bytes_here += len;
        }
        client.send_raw(&wire).expect("churn");
        for _ in 0..PIPELINE {
            assert_eq!(client.receive().expect("churn"), Value::ok(), "churn; server log:\n{}", server.log());
        }
        if bytes_here > BYTES_PER_DATABASE {
            assert_eq!(client.line("FLUSHDB"), Value::ok());
            (bytes, bytes_here, keys) = (bytes + bytes_here, 0, 0);
        }
        let due = Duration::from_secs_f64((bytes + bytes_here) as f64 / rate);
        thread::sleep(due.saturating_sub(started.elapsed()));
    }
    Churned { bytes: bytes + bytes_here, keys: BTreeMap::from([(database, keys)]) }
}
