//! Faults for a server with a storage device while a history is recorded: everything is made cold again and again, and garbage is
//! made, so that pages are flushed, evicted and collected under the clients' feet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::model::Op;
use super::record::{Entry, History};
use crate::runtime::Joiner;
use crate::storage::UNREADABLE;
use crate::witness::Moments;
use crate::{Client, Random, Runtime, Value};

/// Keys that are overwritten to make garbage, and bytes of their values.
const CHURN_KEYS: usize = 64;
const CHURN_BYTES: usize = 12_000;
/// Keys that come and go, so that the index grows and shrinks, on a server with tables of the usual size.
const FLOOD_KEYS: usize = 160_000;
const FLOOD_PIPELINE: usize = 500;
/// Records of a key that may be lost in a history, and the first of the clients that stand for that.
const LOST_MAX: usize = 2;
const FIRST_LOST: usize = 50;

/// Runs `work` beside these faults. Returns its result and how often all keys were made cold.
///
/// # Panics
/// When a client cannot connect, or the server gives an answer that is neither right nor an error of its device.
pub fn with_faults<R: Runtime, T>(runtime: R, work: impl FnOnce() -> T) -> (T, usize) {
    with_faults_of(runtime, FLOOD_KEYS, work)
}

/// As [`with_faults`], with `flood_keys` keys that come and go.
///
/// # Panics
/// As there.
pub fn with_faults_of<R: Runtime, T>(runtime: R, flood_keys: usize, work: impl FnOnce() -> T) -> (T, usize) {
    let stopping = Stopping::default();
    let evictor = beside(&runtime, "evictor", &stopping, evict);
    let churner = beside(&runtime, "churner", &stopping, churn);
    let flooder = beside(&runtime, "flooder", &stopping, move |runtime, stop| flood(runtime, stop, flood_keys));
    let result = work();
    drop(stopping);
    churner.join();
    flooder.join();
    (result, evictor.join())
}

/// Runs `work` while the index grows and shrinks.
///
/// # Panics
/// When a client loses the server.
pub fn with_resizing<R: Runtime, T>(runtime: R, work: impl FnOnce() -> T) -> T {
    with_resizing_of(runtime, FLOOD_KEYS, work)
}

/// As [`with_resizing`], with `flood_keys` keys that come and go.
///
/// # Panics
/// As there.
pub fn with_resizing_of<R: Runtime, T>(runtime: R, flood_keys: usize, work: impl FnOnce() -> T) -> T {
    let stopping = Stopping::default();
    let flooder = beside(&runtime, "flooder", &stopping, move |runtime, stop| flood(runtime, stop, flood_keys));
    let result = work();
    drop(stopping);
    flooder.join();
    result
}

/// Runs a fault in a thread until the faults end.
fn beside<R: Runtime, T: Send + 'static>(
    runtime: &R,
    name: &str,
    stopping: &Stopping,
    fault: impl FnOnce(&R, &AtomicBool) -> T + Send + 'static,
) -> Joiner<T> {
    let (own, stop) = (runtime.clone(), Arc::clone(&stopping.0));
    runtime.spawn(name, move || fault(&own, &stop))
}

/// Ends the faults when `work` has ended, by a panic too.
#[derive(Default)]
struct Stopping(Arc<AtomicBool>);

impl Drop for Stopping {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn evict<R: Runtime>(runtime: &R, stop: &AtomicBool) -> usize {
    let mut client = Client::of(runtime).expect("a client that evicts");
    let mut times = 0;
    while !stop.load(Ordering::Relaxed) {
        let asked_ns = runtime.now_ns();
        // A faulty device may not take all in time; what it took is cold.
        times += usize::from(client.call(&["DEBUG", "STORAGE", "EVICT"]).expect("an answer") == Value::ok());
        // The command keeps its worker, however slow the device is: the worker's other clients get as much time.
        runtime.sleep(Duration::from_nanos(runtime.now_ns() - asked_ns).max(Duration::from_millis(2)));
    }
    times
}

fn churn<R: Runtime>(runtime: &R, stop: &AtomicBool) {
    let mut client = Client::of(runtime).expect("a client that churns");
    let mut random = Random::new(7);
    while !stop.load(Ordering::Relaxed) {
        let key = format!("churn:{}", random.below(CHURN_KEYS));
        let len = 1 + random.below(CHURN_BYTES);
        let reply = client.call(&[b"SET", key.as_bytes(), &vec![b'c'; len]]).expect("an answer");
        assert!(reply == Value::ok() || is_unreadable(&reply) || is_full(&reply), "SET {key}: {reply}");
    }
}

fn flood<R: Runtime>(runtime: &R, stop: &AtomicBool, keys: usize) {
    let mut client = Client::of(runtime).expect("a client that floods");
    for word in ["SET", "DEL"].into_iter().cycle() {
        for first in (0..keys).step_by(FLOOD_PIPELINE) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let commands: Vec<Vec<String>> = (first..keys.min(first + FLOOD_PIPELINE))
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

/// Takes out what was answered with an error of the device, also of what a script has called: it must have changed nothing. Returns
/// how many those were.
pub fn without_refused(histories: &mut [History]) -> usize {
    let is_refused = |reply: &Value| is_unreadable(reply) || is_full(reply);
    let mut refused = 0;
    for history in histories {
        history.entries.retain_mut(|entry| {
            if let (Op::Script(_, ops), Some(Value::Array(replies))) = (&mut entry.op, &mut entry.reply) {
                let all = std::mem::take(ops).into_iter().zip(std::mem::take(replies));
                let (without, kept): (Vec<_>, Vec<_>) = all.partition(|(_, reply)| is_refused(reply));
                refused += without.len();
                (*ops, *replies) = kept.into_iter().unzip();
                return !ops.is_empty();
            }
            let is_kept = !entry.reply.as_ref().is_some_and(is_refused);
            refused += usize::from(!is_kept);
            is_kept
        });
    }
    refused
}

/// Lets histories have what a device does that lies: `lost` records were given up, of which none tells the key. A key may have gone
/// with each of them at any time, and DEL may have counted one of another key whose hash has the same tag.
pub fn with_lost(histories: &mut [History], lost: u64) {
    if lost == 0 {
        return;
    }
    for history in histories {
        for entry in history.entries.iter_mut().filter(|entry| entry.op == Op::Del && entry.reply.is_some()) {
            let (from_ns, until_ns) = (entry.called_ns, Some(entry.returned_ns));
            entry.witness.get_or_insert(Moments { from_ns, waits_ns: None, leaves_ns: None, until_ns });
            entry.reply = None;
        }
        let keys = 0..history.kind.keys();
        let each = keys.flat_map(|key| std::iter::repeat_n(key, if lost > 1 { LOST_MAX } else { 1 }));
        // Further clients, whose operation is never over.
        history.entries.extend(each.zip(FIRST_LOST..).map(|(key, client)| Entry {
            client,
            connection: 0,
            place: 0,
            called_ns: 0,
            returned_ns: u64::MAX,
            witness: None,
            op: Op::GetDel(key),
            reply: None,
        }));
    }
}

/// Reads all keys of a group until the device gives them, so that the history ends with what was kept. `None` when it never does.
///
/// # Panics
/// When the server does not answer.
#[must_use]
pub fn final_read<R: Runtime>(runtime: &R, keys: &[Vec<u8>], client: usize) -> Option<Vec<Entry>> {
    const TRIES: usize = 200;
    let mut connection = Client::of(runtime).expect("a client that reads what is left");
    (0..keys.len())
        .map(|key| {
            let op = Op::Get(key);
            let reply =
                (0..TRIES).map(|_| connection.call(&op.command(keys)).expect("an answer")).find(|reply| !is_unreadable(reply))?;
            let at = u64::MAX - 2 * (keys.len() - key) as u64;
            Some(Entry {
                client,
                connection: 0,
                place: 0,
                called_ns: at,
                returned_ns: at + 1,
                witness: None,
                op,
                reply: Some(reply),
            })
        })
        .collect()
}
