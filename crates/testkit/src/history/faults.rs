//! Faults for a server with a storage device while a history is recorded: everything is made cold again and again, and garbage is
//! made, so that pages are flushed, evicted and collected under the clients' feet.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::model::Op;
use super::record::{Entry, History};
use crate::storage::UNREADABLE;
use crate::{Client, Random, Value};

/// Keys that are overwritten to make garbage, and bytes of their values.
const CHURN_KEYS: usize = 64;
const CHURN_BYTES: usize = 12_000;
/// Keys that come and go, so that the index grows and shrinks.
const FLOOD_KEYS: usize = 160_000;
const FLOOD_PIPELINE: usize = 500;

/// Runs `work` beside these faults. Returns its result and how often all keys were made cold.
///
/// # Panics
/// When a client cannot connect, or the server gives an answer that is neither right nor an error of its device.
pub fn with_faults<R>(address: SocketAddr, work: impl FnOnce() -> R) -> (R, usize) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let evictor = scope.spawn(|| evict(address, &stop));
        let churner = scope.spawn(|| churn(address, &stop));
        let flooder = scope.spawn(|| flood(address, &stop));
        let stopping = Stopping(&stop);
        let result = work();
        drop(stopping);
        churner.join().expect("the churning client");
        flooder.join().expect("the flooding client");
        (result, evictor.join().expect("the evicting client"))
    })
}

/// Runs `work` while the index grows and shrinks.
///
/// # Panics
/// When a client loses the server.
pub fn with_resizing<R>(address: SocketAddr, work: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let flooder = scope.spawn(|| flood(address, &stop));
        let stopping = Stopping(&stop);
        let result = work();
        drop(stopping);
        flooder.join().expect("the flooding client");
        result
    })
}

/// Ends the faults when `work` has ended, by a panic too.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn evict(address: SocketAddr, stop: &AtomicBool) -> usize {
    let mut client = Client::connect(address).expect("a client that evicts");
    let mut times = 0;
    while !stop.load(Ordering::Relaxed) {
        // A faulty device may not take all in time; what it took is cold.
        times += usize::from(client.call(&["DEBUG", "STORAGE", "EVICT"]).expect("an answer") == Value::ok());
        thread::sleep(Duration::from_millis(2));
    }
    times
}

fn churn(address: SocketAddr, stop: &AtomicBool) {
    let mut client = Client::connect(address).expect("a client that churns");
    let mut random = Random::new(7);
    while !stop.load(Ordering::Relaxed) {
        let key = format!("churn:{}", random.below(CHURN_KEYS));
        let len = 1 + random.below(CHURN_BYTES);
        let reply = client.call(&[b"SET", key.as_bytes(), &vec![b'c'; len]]).expect("an answer");
        assert!(reply == Value::ok() || is_unreadable(&reply) || is_full(&reply), "SET {key}: {reply}");
    }
}

fn flood(address: SocketAddr, stop: &AtomicBool) {
    let mut client = Client::connect(address).expect("a client that floods");
    for word in ["SET", "DEL"].into_iter().cycle() {
        for first in (0..FLOOD_KEYS).step_by(FLOOD_PIPELINE) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let commands: Vec<Vec<String>> = (first..first + FLOOD_PIPELINE)
                .map(|n| {
                    let value = (word == "SET").then(|| "f".repeat(n % 8));
                    [word.to_owned(), format!("flood:{n}")].into_iter().chain(value).collect()
                })
                .collect();
            for reply in client.pipeline(&commands).expect("answers") {
                assert!(!reply.is_error() || is_unreadable(&reply) || is_full(&reply), "{word} of a flood key: {reply}");
            }
        }
    }
}

/// Whether a reply says that the device does not give what the command needs.
#[must_use]
pub fn is_unreadable(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(UNREADABLE))
}

/// The device takes nothing, and memory is used up.
fn is_full(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(b"OOM"))
}

/// Takes out what was answered with an error of the device: it must have changed nothing. Returns how many those were.
pub fn without_refused(histories: &mut [History]) -> usize {
    let mut refused = 0;
    for history in histories {
        let before = history.entries.len();
        history.entries.retain(|entry| !entry.reply.as_ref().is_some_and(|reply| is_unreadable(reply) || is_full(reply)));
        refused += before - history.entries.len();
    }
    refused
}

/// Reads all keys of a group until the device gives them, so that the history ends with what was kept. `None` when it never does.
///
/// # Panics
/// When the server does not answer.
#[must_use]
pub fn final_read(address: SocketAddr, keys: &[Vec<u8>], client: usize) -> Option<Vec<Entry>> {
    const TRIES: usize = 200;
    let mut connection = Client::connect(address).expect("a client that reads what is left");
    (0..keys.len())
        .map(|key| {
            let op = Op::Get(key);
            let reply =
                (0..TRIES).map(|_| connection.call(&op.command(keys)).expect("an answer")).find(|reply| !is_unreadable(reply))?;
            let at = u64::MAX - 2 * (keys.len() - key) as u64;
            Some(Entry { client, called_ns: at, returned_ns: at + 1, op, reply: Some(reply) })
        })
        .collect()
}
