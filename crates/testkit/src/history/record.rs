//! Runs concurrent clients against a server and records what they saw.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::model::{Kind, Op};
use crate::{Client, Random, Value};

/// One operation of one client.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which client: its operations within a group do not overlap.
    pub client: usize,
    /// Nanoseconds since the start, before the command was sent.
    pub called_ns: u64,
    /// Nanoseconds since the start, after the reply was read; the far future when it never was.
    pub returned_ns: u64,
    /// What was asked.
    pub op: Op,
    /// What was answered; `None` when the connection failed: it may have happened or not.
    pub reply: Option<Value>,
}

/// All operations on one group.
#[derive(Debug)]
pub struct History {
    /// What the group is used for.
    pub kind: Kind,
    /// Its keys.
    pub keys: Vec<Vec<u8>>,
    /// In no particular order.
    pub entries: Vec<Entry>,
}

/// How to load the server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Concurrent connections, each a thread; at most 64.
    pub clients: usize,
    /// Groups of each kind: fewer mean more contention.
    pub groups: usize,
    /// Commands per pipeline. They go to different groups, so that a client has one operation at a time in each.
    pub pipeline: usize,
    /// When to stop.
    pub duration: Duration,
    /// For the operations' choice; the interleaving is the machine's.
    pub seed: u64,
}

static RUNS: AtomicU64 = AtomicU64::new(0);

/// Records histories, one per group. Keys are new in each call.
///
/// # Errors
/// When a client cannot connect.
///
/// # Panics
/// When a client thread panics, or the settings ask for more than they allow.
pub fn record(address: SocketAddr, settings: Settings) -> io::Result<Vec<History>> {
    assert!(settings.clients <= 64 && settings.pipeline <= settings.groups * 3);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let kinds = [Kind::Register, Kind::Counter, Kind::Group];
    let groups: Vec<(Kind, Vec<Vec<u8>>)> = (0..settings.groups * kinds.len())
        .map(|g| {
            let kind = kinds[g % kinds.len()];
            (kind, (0..kind.keys()).map(|k| format!("history:{run}:{g}:{k}").into_bytes()).collect())
        })
        .collect();
    let start = Instant::now();
    let clients: io::Result<Vec<Client>> = (0..settings.clients).map(|_| Client::connect(address)).collect();
    let all: Vec<Vec<(usize, Entry)>> = thread::scope(|scope| {
        let threads: Vec<_> = clients?
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                let groups = &groups;
                scope.spawn(move || one_client(client, number, groups, settings, start))
            })
            .collect();
        io::Result::Ok(threads.into_iter().map(|t| t.join().expect("a client thread")).collect())
    })?;
    let mut histories: Vec<History> =
        groups.iter().map(|(kind, keys)| History { kind: *kind, keys: keys.clone(), entries: Vec::new() }).collect();
    for (group, entry) in all.into_iter().flatten() {
        histories[group].entries.push(entry);
    }
    Ok(histories)
}

fn one_client(
    mut client: Client,
    number: usize,
    groups: &[(Kind, Vec<Vec<u8>>)],
    settings: Settings,
    start: Instant,
) -> Vec<(usize, Entry)> {
    let mut random = Random::new(settings.seed.wrapping_mul(1000) + number as u64);
    let mut entries = Vec::new();
    let mut sequence = 0;
    while start.elapsed() < settings.duration {
        let first = random.below(groups.len());
        let batch: Vec<(usize, Op)> = (0..settings.pipeline)
            .map(|i| {
                let group = (first + i) % groups.len();
                sequence += 1;
                (group, Op::random(groups[group].0, &format!("c{number}.{sequence};"), &mut random))
            })
            .collect();
        let commands: Vec<_> = batch.iter().map(|(group, op)| op.command(&groups[*group].1)).collect();
        let called_ns = start.elapsed().as_nanos() as u64;
        let sent = client.send(&commands).is_ok();
        let mut failed = !sent;
        for (group, op) in batch {
            let reply = if failed { None } else { client.receive().ok().filter(|v| *v != Value::Closed) };
            failed |= reply.is_none();
            let returned_ns = if failed { u64::MAX } else { start.elapsed().as_nanos() as u64 };
            entries.push((group, Entry { client: number, called_ns, returned_ns, op, reply }));
        }
        if failed {
            break;
        }
    }
    entries
}
