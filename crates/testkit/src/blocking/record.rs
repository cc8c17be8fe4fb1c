//! Runs concurrent clients against a server and records what they asked, when they waited, and what they were told.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::command::{Action, Command, Element, flat, text};
use crate::runtime::{Joiner, LEFT_OUT};
use crate::scripted::Script;
use crate::witness::Moments;
use crate::{Client, Random, Runtime, Value};

/// A command or a transaction of one client.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which client: what it does does not overlap.
    pub client: usize,
    /// The server's number of its connection; a client that was killed has another one.
    pub connection: u64,
    /// By the clock of the runtime, before it was sent.
    pub called_ns: u64,
    /// When another client had seen that it waits.
    pub arrived_ns: Option<u64>,
    /// After its reply was read, or after it was certain that the server has given up the connection.
    pub returned_ns: u64,
    /// When it took effect, where the server says so.
    pub witness: Option<Moments>,
    /// For how long it may wait; 0: for ever.
    pub timeout_ms: u64,
    /// What was asked.
    pub action: Action,
    /// What was answered; `None` when the connection ended: it may have happened or not.
    pub reply: Option<Value>,
}

impl Entry {
    /// Whether it is a command that may wait.
    #[must_use]
    pub fn is_wait(&self) -> bool {
        self.action.blocks()
    }
}

/// How to load the server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Concurrent clients of a group, each a thread with a connection and one more that looks on; below 64.
    pub clients: usize,
    /// Groups of keys, each with two databases of its own; at most 7.
    pub groups: usize,
    /// When to stop.
    pub duration: Duration,
    /// All clients act at the same ticks of the clock, at which times to wait are over, too.
    pub aligned: bool,
    /// The server has BLMOVE and BRPOPLPUSH.
    pub moves: bool,
    /// For the choice of commands; the interleaving is the machine's.
    pub seed: u64,
}

/// The first database of the first group; those before are for other clients.
const FIRST_DB: usize = 2;
/// The ticks of aligned clients.
const TICK: Duration = Duration::from_millis(4);
/// Until when a reply must be there, and the server must have seen that a connection is closed.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the clients of a group share.
#[derive(Debug)]
struct Group {
    first_db: usize,
    /// The connection of each client.
    connections: Vec<AtomicU64>,
    elements: AtomicU32,
    /// Clients that have not finished.
    running: AtomicUsize,
    /// A client has failed.
    failed: AtomicBool,
}

/// Records a history for each group, whose databases are emptied first.
///
/// # Errors
/// When the server does not answer as it must for a history to be recorded.
///
/// # Panics
/// When a client's thread panics, or the settings ask for more than they allow.
pub fn record<R: Runtime>(runtime: R, settings: Settings) -> io::Result<Vec<Vec<Entry>>> {
    assert!(settings.clients < 64 && settings.groups <= 7, "a client is a bit of a word, and there are 16 databases");
    let mut client = Client::of(&runtime)?;
    for db in FIRST_DB..FIRST_DB + 2 * settings.groups {
        client.pipeline(&[vec!["SELECT".to_owned(), db.to_string()], vec!["FLUSHDB".to_owned()]])?;
    }
    let group = |number: usize| Group {
        first_db: FIRST_DB + 2 * number,
        connections: (0..settings.clients).map(|_| AtomicU64::new(0)).collect(),
        elements: AtomicU32::new(1),
        running: AtomicUsize::new(settings.clients),
        failed: AtomicBool::new(false),
    };
    let start_ns = runtime.now_ns();
    let mut histories = Vec::new();
    for (at, group) in (0..settings.groups).map(group).map(Arc::new).enumerate() {
        let recorder = |number| Recorder::new(&runtime, (at, number), Arc::clone(&group), settings, start_ns);
        let recorders = (0..=settings.clients).map(recorder).collect::<io::Result<Vec<Recorder<R>>>>()?;
        let spawn = |recorder: Recorder<R>| runtime.spawn(&format!("client-{at}-{}", recorder.number), || recorder.run());
        histories.push(recorders.into_iter().map(spawn).collect::<Vec<_>>());
    }
    let history = |threads: Vec<Joiner<io::Result<Vec<Entry>>>>| {
        threads.into_iter().map(Joiner::join).collect::<io::Result<Vec<_>>>().map(|entries| entries.concat())
    };
    histories.into_iter().map(history).collect()
}

/// One client. The last of a group only ends the waiting of the others when all is over.
struct Recorder<R: Runtime> {
    runtime: R,
    client: Client<R::Stream>,
    connection: u64,
    /// Looks whether the other one waits.
    onlooker: Client<R::Stream>,
    number: usize,
    /// Its number among the clients of all groups.
    place: usize,
    group: Arc<Group>,
    settings: Settings,
    start_ns: u64,
    random: Random,
    acts: u64,
    entries: Vec<Entry>,
}

/// A new connection and its number.
fn connect<R: Runtime>(runtime: &R) -> io::Result<(Client<R::Stream>, u64)> {
    let mut client = Client::of(runtime)?;
    let reply = client.call(&["CLIENT", "ID"])?;
    let number = reply.integer().ok_or_else(|| unexpected("CLIENT ID", &reply))?;
    Ok((client, number as u64))
}

fn unexpected(what: &str, reply: &Value) -> io::Error {
    io::Error::other(format!("{what}: {reply}"))
}

impl<R: Runtime> Recorder<R> {
    fn new(runtime: &R, (at, number): (usize, usize), group: Arc<Group>, settings: Settings, start_ns: u64) -> io::Result<Self> {
        let (client, connection) = connect(runtime)?;
        if let Some(own) = group.connections.get(number) {
            own.store(connection, Ordering::Relaxed);
        }
        let (runtime, onlooker) = (runtime.clone(), Client::of(runtime)?);
        let place = at * 100 + number;
        let random = Random::new(settings.seed.wrapping_mul(10_000) + place as u64);
        let (acts, entries) = (0, Vec::new());
        Ok(Self { runtime, client, connection, onlooker, number, place, group, settings, start_ns, random, acts, entries })
    }

    fn now_ns(&self) -> u64 {
        self.runtime.now_ns() - self.start_ns
    }

    fn run(mut self) -> io::Result<Vec<Entry>> {
        let result = if self.number == self.settings.clients { self.release() } else { self.act_at_random() };
        if result.is_err() {
            self.group.failed.store(true, Ordering::Relaxed);
        }
        self.group.running.fetch_sub(usize::from(self.number < self.settings.clients), Ordering::Relaxed);
        result.map(|()| self.entries).map_err(|e| io::Error::new(e.kind(), format!("client {}: {e}", self.number)))
    }

    fn act_at_random(&mut self) -> io::Result<()> {
        // Some never wait, so that there is always a client that fills lists.
        let waits = if self.number.is_multiple_of(3) { 0 } else { 60 };
        while u128::from(self.now_ns()) < self.settings.duration.as_nanos() && !self.group.failed.load(Ordering::Relaxed) {
            if self.settings.aligned {
                let tick_ns = TICK.as_nanos() as u64;
                self.runtime.sleep(Duration::from_nanos(tick_ns - self.now_ns() % tick_ns));
            } else if waits == 0 {
                // Lists are to be empty most of the time.
                let pause = Duration::from_micros(self.random.below(1_200) as u64);
                self.runtime.sleep(pause);
            }
            let db = self.random.below(2);
            if self.random.chance(waits) {
                self.wait(db)?;
            } else if self.random.chance(3) {
                let victim = self.other();
                self.onlooker.call(&["CLIENT", "KILL", "ID", &victim.to_string()])?;
            } else if self.random.chance(10) {
                let action = Action::Unblock(self.other(), self.random.chance(50));
                self.act(action, 0)?;
            } else {
                let action = self.action(db);
                self.act(action, 0)?;
            }
        }
        Ok(())
    }

    /// Ends the waits that are left when the time is over.
    fn release(&mut self) -> io::Result<()> {
        self.runtime.sleep(self.settings.duration);
        while self.group.running.load(Ordering::Relaxed) > 0 {
            for client in 0..self.settings.clients {
                self.act(Action::Unblock(self.group.connections[client].load(Ordering::Relaxed), false), 0)?;
            }
            self.runtime.sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The connection of another client.
    fn other(&mut self) -> u64 {
        let other = (self.number + 1 + self.random.below(self.settings.clients - 1)) % self.settings.clients;
        self.group.connections[other].load(Ordering::Relaxed)
    }

    /// A command that does not wait, or a transaction.
    fn action(&mut self, db: usize) -> Action {
        let (group, moves, random) = (&self.group, self.settings.moves, &mut self.random);
        let mut element = || -> Element { group.elements.fetch_add(1, Ordering::Relaxed) };
        if random.chance(80) {
            return Action::One(Command::random(db, random, &mut element));
        }
        let count = 1 + random.below(4);
        let script = random.chance(50).then(|| Script::random(random));
        let mut commands = Vec::new();
        while commands.len() < count {
            let command = if script.is_none() && random.chance(20) {
                Command::random_blocking(db, moves, random)
            } else {
                Command::random(db, random, &mut element)
            };
            // It is sent to any database.
            if command.database() == db {
                commands.push(command);
            }
        }
        match script {
            Some(script) if random.chance(40) => Action::Mixed(script, commands),
            Some(script) => Action::Script(script, commands),
            None => Action::Exec(commands),
        }
    }

    fn wait(&mut self, db: usize) -> io::Result<()> {
        let command = Command::random_blocking(db, self.settings.moves, &mut self.random);
        let timeout_ms = match self.random.below(20) {
            0 => 0,
            1..12 if self.settings.aligned => TICK.as_millis() as u64 * (1 + self.random.below(3) as u64),
            1..12 => 1 + self.random.below(20) as u64,
            _ => 60 + self.random.below(60) as u64,
        };
        self.act(Action::One(command), timeout_ms)
    }

    /// Does something and records it.
    fn act(&mut self, mut action: Action, timeout_ms: u64) -> io::Result<()> {
        self.acts += 1;
        // The one that ends the waits of others does so in any case.
        if self.number < self.settings.clients && !self.runtime.includes(self.place, self.acts) {
            self.runtime.pause(LEFT_OUT);
            return Ok(());
        }
        if !self.dump(&mut action)? {
            return self.reconnect();
        }
        let commands = action.words(timeout_ms, self.group.first_db);
        let called_ns = self.runtime.now_ns();
        let sent = self.client.send(&commands);
        let looks = action.blocks() && self.random.chance(40);
        let arrived_ns = if looks && sent.is_ok() { self.look()? } else { None };
        let mut reply = None;
        if action.blocks() && self.random.chance(4) {
            self.close()?;
        } else if sent.is_ok() {
            reply = self.receive(commands.len(), &action)?;
        }
        let entry = Entry {
            client: self.number,
            connection: self.connection,
            called_ns,
            arrived_ns,
            returned_ns: self.runtime.now_ns(),
            witness: None,
            timeout_ms,
            action,
            reply,
        };
        let lost = entry.reply.is_none();
        self.entries.push(entry);
        if lost { self.reconnect() } else { Ok(()) }
    }

    /// The last of some replies; `None` when the connection has ended.
    fn receive(&mut self, count: usize, action: &Action) -> io::Result<Option<Value>> {
        let mut last = None;
        for _ in 0..count {
            match self.client.receive() {
                Ok(Value::Closed) => return Ok(None),
                Ok(value) => last = Some(flat(action, value)),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(io::Error::other(format!("no answer within {PATIENCE:?} to {action:?}")));
                }
                Err(e) if e.kind() == io::ErrorKind::InvalidData => return Err(e),
                Err(_) => return Ok(None),
            }
        }
        Ok(last)
    }

    /// When this client's connection was seen to wait, if it soon was.
    fn look(&mut self) -> io::Result<Option<u64>> {
        for _ in 0..4 {
            if self.line()?.is_some_and(|flags| flags.contains('b')) {
                return Ok(Some(self.runtime.now_ns()));
            }
        }
        Ok(None)
    }

    /// The flags of this client's connection in CLIENT LIST; none when it is not there, or was killed.
    fn line(&mut self) -> io::Result<Option<String>> {
        let reply = self.onlooker.call(&["CLIENT", "LIST", "ID", &self.connection.to_string()])?;
        let text = reply.bytes().ok_or_else(|| unexpected("CLIENT LIST", &reply))?;
        let text = String::from_utf8_lossy(text).into_owned();
        Ok(text.split_once(" flags=").and_then(|(_, rest)| rest.split(' ').next()).map(str::to_owned))
    }

    /// Ends what this client sends, and waits until the server has closed the connection: when that is seen, no other client
    /// serves it any more. That CLIENT LIST does not name it says less: it leaves out clients that were killed and whose worker
    /// has not heard of it.
    fn close(&mut self) -> io::Result<()> {
        self.client.end_writing();
        loop {
            match self.client.receive() {
                Ok(Value::Closed) => return Ok(()),
                Ok(_) => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(io::Error::other(format!("connection {} was ended and is not closed", self.connection)));
                }
                Err(e) if e.kind() == io::ErrorKind::InvalidData => return Err(e),
                Err(_) => return Ok(()),
            }
        }
    }

    fn reconnect(&mut self) -> io::Result<()> {
        (self.client, self.connection) = connect(&self.runtime)?;
        if let Some(own) = self.group.connections.get(self.number) {
            own.store(self.connection, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives lists that are to be restored their payloads. False when the connection has ended.
    fn dump(&mut self, action: &mut Action) -> io::Result<bool> {
        let commands = match action {
            Action::One(command) => std::slice::from_mut(command),
            Action::Exec(commands) | Action::Script(_, commands) | Action::Mixed(_, commands) => commands,
            Action::Unblock(..) => &mut [],
        };
        for command in commands {
            let Command::Restore(_, elements, payload) = command else { continue };
            let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
            let name = format!("dumped:{}:{}", self.group.first_db, self.number);
            let pushed = [words(&format!("RPUSH {name}")), elements.iter().map(|element| text(*element)).collect()].concat();
            let sent = [words("SELECT 0"), words(&format!("DEL {name}")), pushed, words(&format!("DUMP {name}"))];
            match self.client.pipeline(&sent).map(|mut replies| replies.pop()) {
                Ok(Some(Value::Bulk(dumped))) => *payload = dumped,
                Ok(Some(Value::Closed) | None) => return Ok(false),
                Ok(Some(reply)) => return Err(unexpected("DUMP", &reply)),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => return Err(e),
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}
