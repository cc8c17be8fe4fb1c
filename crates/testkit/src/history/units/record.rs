//! Runs concurrent clients against a server and records what they saw.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::command::{Command, DATABASES, Features, NAMES, Unit, select};
use crate::runtime::{Joiner, LEFT_OUT};
use crate::scripted::Script;
use crate::witness::Moments;
use crate::{Client, Random, Runtime, Value};

/// One unit of one client.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which client: its units do not overlap.
    pub client: usize,
    /// The server's number of its connection; 0 when it is not known.
    pub connection: u64,
    /// By the clock of the runtime, before the unit was sent.
    pub called_ns: u64,
    /// After its last reply was read; the far future when it never was.
    pub returned_ns: u64,
    /// When it took effect, where the server says so.
    pub witness: Option<Moments>,
    /// What was asked.
    pub unit: Unit,
    /// What was answered; `None` when the connection failed: it may have happened or not.
    pub reply: Option<Value>,
}

/// All units on one group of keys.
#[derive(Debug)]
pub struct History {
    /// The names of its keys, each in every database of the run.
    pub names: Vec<String>,
    /// In no particular order.
    pub entries: Vec<Entry>,
}

/// How to load the server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Concurrent clients, each a thread with a connection to each database; at most 64.
    pub clients: usize,
    /// Groups of keys: fewer mean more contention.
    pub groups: usize,
    /// When to stop.
    pub duration: Duration,
    /// What is used.
    pub features: Features,
    /// For the units' choice; the interleaving is the machine's.
    pub seed: u64,
}

/// The first of the databases; those of other clients are left alone.
const FIRST_DB: usize = 6;

/// Records histories, one per group. Keys are new in each call.
///
/// # Errors
/// When a client cannot connect.
///
/// # Panics
/// When a client thread panics, or the settings ask for more than they allow.
pub fn record<R: Runtime>(runtime: R, settings: Settings) -> io::Result<Vec<History>> {
    assert!(settings.clients <= 64, "a client is a bit of a word");
    let run = runtime.unique();
    let name = |group: usize, name: usize| format!("units:{run}:{group}:{name}");
    let groups: Groups =
        Arc::new((0..settings.groups).map(|group| (0..NAMES).map(|number| name(group, number)).collect()).collect());
    let start_ns = runtime.now_ns();
    let recorder = |number| Recorder::new(&runtime, number, Arc::clone(&groups), settings, start_ns);
    let recorders = (0..settings.clients).map(recorder).collect::<io::Result<Vec<Recorder<R>>>>()?;
    let spawn = |recorder: Recorder<R>| runtime.spawn(&format!("client-{}", recorder.number), || recorder.run());
    let threads: Vec<_> = recorders.into_iter().map(spawn).collect();
    let mut histories: Vec<History> = groups.iter().map(|names| History { names: names.clone(), entries: Vec::new() }).collect();
    for (group, entry) in threads.into_iter().flat_map(Joiner::join) {
        histories[group].entries.push(entry);
    }
    Ok(histories)
}

/// The names of the keys of each group.
type Groups = Arc<Vec<Vec<String>>>;

/// One client.
struct Recorder<R: Runtime> {
    runtime: R,
    /// To each database, with the server's numbers of them.
    connections: Vec<(Client<R::Stream>, u64)>,
    number: usize,
    groups: Groups,
    settings: Settings,
    start_ns: u64,
    random: Random,
    /// Commands and units that were drawn.
    sequence: u64,
    units: u64,
    entries: Vec<(usize, Entry)>,
}

impl<R: Runtime> Recorder<R> {
    fn new(runtime: &R, number: usize, groups: Groups, settings: Settings, start_ns: u64) -> io::Result<Self> {
        let connect = |db: usize| {
            let mut client = Client::of(runtime)?;
            client.call(&select(FIRST_DB + db))?;
            let number = client.call(&["CLIENT", "ID"])?.integer().map_or(0, i64::cast_unsigned);
            Ok((client, number))
        };
        let connections = (0..DATABASES).map(connect).collect::<io::Result<Vec<_>>>()?;
        let (runtime, random) = (runtime.clone(), Random::new(settings.seed.wrapping_mul(1000) + number as u64));
        Ok(Self { runtime, connections, number, groups, settings, start_ns, random, sequence: 0, units: 0, entries: Vec::new() })
    }

    fn run(mut self) -> Vec<(usize, Entry)> {
        while u128::from(self.runtime.now_ns() - self.start_ns) < self.settings.duration.as_nanos() {
            let group = self.random.below(self.groups.len());
            let db = self.random.below(DATABASES);
            let sent = match self.random.below(10) {
                0..4 => self.one(group, db),
                4 | 5 => self.exec(group, db),
                6 => self.script(group, db),
                _ => self.optimistic(group, db),
            };
            if sent.is_none() {
                break;
            }
        }
        self.entries
    }

    fn command(&mut self, db: usize) -> Command {
        self.sequence += 1;
        let stamp = format!("{}.{};", self.number, self.sequence);
        Command::random(db, &stamp, self.settings.features, &mut self.random)
    }

    fn one(&mut self, group: usize, db: usize) -> Option<()> {
        let command = self.command(db);
        self.unit(group, Unit::One(command))
    }

    /// A transaction of one database, or of two.
    fn exec(&mut self, group: usize, db: usize) -> Option<()> {
        let several = self.random.chance(30);
        let commands = (0..1 + self.random.below(4)).map(|_| {
            let db = if several { self.random.below(DATABASES) } else { db };
            self.command(db)
        });
        let commands = commands.collect();
        let unit = self.transaction(commands);
        self.unit(group, unit)
    }

    /// A transaction, in some of which scripts call commands.
    fn transaction(&mut self, commands: Vec<Command>) -> Unit {
        if self.random.chance(30) { Unit::Mixed(Script::random(&mut self.random), commands) } else { Unit::Exec(commands) }
    }

    fn script(&mut self, group: usize, db: usize) -> Option<()> {
        let script = Script::random(&mut self.random);
        let only_reads = self.random.chance(30);
        let commands = (0..1 + self.random.below(4)).map(|_| match only_reads {
            true => Command::random_read(db, self.settings.features, &mut self.random),
            false => self.command(db),
        });
        let unit = Unit::Script(script, commands.collect());
        self.unit(group, unit)
    }

    /// A transaction that executes only if nothing has changed since its client looked.
    fn optimistic(&mut self, group: usize, db: usize) -> Option<()> {
        self.unit(group, Unit::Watch(db))?;
        // One without the other would be another plan: what is watched would be forgotten by a unit on other keys.
        let watch = self.units;
        let look = Command::random_read(db, self.settings.features, &mut self.random);
        self.unit(group, Unit::One(look))?;
        match self.random.below(20) {
            0 => return self.numbered(watch, group, Unit::Unwatch(db)),
            1..4 => {
                let command = self.command(db);
                self.unit(group, Unit::One(command))?;
            }
            4 => self.runtime.sleep(Duration::from_millis(3)),
            _ => {}
        }
        let mut commands = vec![Command::random_read(db, self.settings.features, &mut self.random)];
        commands.extend((0..self.random.below(3)).map(|_| self.command(db)));
        if self.random.chance(20) {
            commands.push(self.command((db + 1) % DATABASES));
        }
        let unit = self.transaction(commands);
        self.numbered(watch, group, unit)
    }

    /// Sends a unit and records it. None when the connection has failed.
    fn unit(&mut self, group: usize, unit: Unit) -> Option<()> {
        self.units += 1;
        self.numbered(self.units, group, unit)
    }

    /// As [`Recorder::unit`], of a number of which there is one before: a plan has both or none.
    fn numbered(&mut self, number: u64, group: usize, unit: Unit) -> Option<()> {
        if !self.runtime.includes(self.number, number) {
            self.runtime.pause(LEFT_OUT);
            return Some(());
        }
        let words = unit.words(&self.groups[group], FIRST_DB);
        let called_ns = self.runtime.now_ns();
        let (client, connection) = &mut self.connections[unit.database()];
        let replies = client.pipeline(&words).ok().filter(|replies| !replies.contains(&Value::Closed));
        let reply = replies.and_then(|mut replies| replies.pop()).map(|reply| answer(&unit, reply));
        let returned_ns = if reply.is_some() { self.runtime.now_ns() } else { u64::MAX };
        let answered = reply.is_some();
        let (client, connection) = (self.number, *connection);
        self.entries.push((group, Entry { client, connection, called_ns, returned_ns, witness: None, unit, reply }));
        answered.then_some(())
    }
}

/// What of a reply answers the unit's commands.
fn answer(unit: &Unit, reply: Value) -> Value {
    let answers = unit.answers();
    match (unit, reply) {
        (Unit::One(command), reply) => command.told(reply),
        (Unit::Exec(commands) | Unit::Mixed(_, commands) | Unit::Script(_, commands), Value::Array(items))
            if items.len() == answers.len() =>
        {
            let told = items.into_iter().zip(answers).filter_map(|(item, answers)| answers.then_some(item));
            // A script of one command answers with an array of one.
            let item = |(number, item)| match item {
                Value::Array(mut only) if unit.script_of(number).is_some() && only.len() == 1 => only.remove(0),
                item => item,
            };
            let told = told.enumerate().map(item);
            Value::Array(told.zip(commands).map(|(item, command)| command.told(item)).collect())
        }
        (_, reply) => reply,
    }
}
