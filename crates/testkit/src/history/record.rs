//! Runs concurrent clients against a server and records what they saw.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::model::{Kind, Op};
use crate::runtime::LEFT_OUT;
use crate::scripted::told;
use crate::witness::Moments;
use crate::{Client, Random, Runtime, Value};

/// One operation of one client.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which client: its operations within a group do not overlap.
    pub client: usize,
    /// The server's number of its connection; 0 when it is not known.
    pub connection: u64,
    /// Its place among the commands that were sent at once.
    pub place: usize,
    /// By the clock of the runtime, before the command was sent.
    pub called_ns: u64,
    /// After the reply was read; the far future when it never was.
    pub returned_ns: u64,
    /// When it took effect, where the server says so.
    pub witness: Option<Moments>,
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
    /// One in eight operations is a script.
    pub scripts: bool,
    /// For the operations' choice; the interleaving is the machine's.
    pub seed: u64,
}

/// The kind and the keys of each group.
type Groups = Arc<Vec<(Kind, Vec<Vec<u8>>)>>;

/// Records histories, one per group. Keys are new in each call.
///
/// # Errors
/// When a client cannot connect.
///
/// # Panics
/// When a client thread panics, or the settings ask for more than they allow.
pub fn record<R: Runtime>(runtime: R, settings: Settings) -> io::Result<Vec<History>> {
    assert!(settings.clients <= 64 && settings.pipeline <= settings.groups * 3);
    let run = runtime.unique();
    let kinds = [Kind::Register, Kind::Counter, Kind::Group];
    let group = |number: usize| {
        let kind = kinds[number % kinds.len()];
        (kind, (0..kind.keys()).map(|key| format!("history:{run}:{number}:{key}").into_bytes()).collect())
    };
    let groups: Groups = Arc::new((0..settings.groups * kinds.len()).map(group).collect());
    let start_ns = runtime.now_ns();
    let recorder = |number: usize| {
        let random = Random::new(settings.seed.wrapping_mul(1000) + number as u64);
        let (runtime, groups) = (runtime.clone(), Arc::clone(&groups));
        let mut client = Client::of(&runtime)?;
        let connection = client.call(&["CLIENT", "ID"])?.integer().map_or(0, i64::cast_unsigned);
        Ok(Recorder { client, connection, runtime, number, groups, settings, start_ns, random })
    };
    let recorders = (0..settings.clients).map(recorder).collect::<io::Result<Vec<Recorder<R>>>>()?;
    let spawn = |recorder: Recorder<R>| runtime.spawn(&format!("client-{}", recorder.number), || recorder.run());
    let threads: Vec<_> = recorders.into_iter().map(spawn).collect();
    let mut histories: Vec<History> =
        groups.iter().map(|(kind, keys)| History { kind: *kind, keys: keys.clone(), entries: Vec::new() }).collect();
    for (group, entry) in threads.into_iter().flat_map(crate::runtime::Joiner::join) {
        histories[group].entries.push(entry);
    }
    Ok(histories)
}

/// One client.
struct Recorder<R: Runtime> {
    client: Client<R::Stream>,
    connection: u64,
    runtime: R,
    number: usize,
    groups: Groups,
    settings: Settings,
    start_ns: u64,
    random: Random,
}

impl<R: Runtime> Recorder<R> {
    fn run(mut self) -> Vec<(usize, Entry)> {
        let Settings { pipeline, duration, scripts, .. } = self.settings;
        let groups = Arc::clone(&self.groups);
        let mut entries = Vec::new();
        let mut sequence = 0;
        while u128::from(self.runtime.now_ns() - self.start_ns) < duration.as_nanos() {
            let first = self.random.below(groups.len());
            let batch: Vec<(usize, Op)> = (0..pipeline)
                .map(|i| {
                    let group = (first + i) % groups.len();
                    sequence += 1;
                    let (kind, stamp, random) = (groups[group].0, format!("c{}.{sequence};", self.number), &mut self.random);
                    let is_script = scripts && random.below(8) == 0;
                    (group, if is_script { Op::scripted(kind, &stamp, random) } else { Op::random(kind, &stamp, random) })
                })
                .collect();
            if !self.runtime.includes(self.number, sequence) {
                self.runtime.pause(LEFT_OUT);
                continue;
            }
            let commands: Vec<_> = batch.iter().map(|(group, op)| op.command(&groups[*group].1)).collect();
            let called_ns = self.runtime.now_ns();
            let sent = self.client.send(&commands).is_ok();
            let mut failed = !sent;
            for (place, (group, op)) in batch.into_iter().enumerate() {
                let reply = if failed { None } else { self.client.receive().ok().filter(|v| *v != Value::Closed) };
                failed |= reply.is_none();
                let reply = if matches!(op, Op::Script(..)) { reply.map(told) } else { reply };
                let returned_ns = if failed { u64::MAX } else { self.runtime.now_ns() };
                let (client, connection) = (self.number, self.connection);
                let entry = Entry { client, connection, place, called_ns, returned_ns, witness: None, op, reply };
                entries.push((group, entry));
            }
            if failed {
                break;
            }
        }
        entries
    }
}
