//! The tables of `docs/effects.md` against redis-server: what each row says of its example must be what the server does.
//!
//! An example is run on an empty server with three observers: a client that is subscribed to all keyspace events, one that is a
//! replica and reads the stream of commands, and the count of changes in INFO. A message that reaches the first two marks where
//! an example ends. Events do not say of which class they are, so an example is repeated with one class at a time.
//!
//! Our own server is run for the count of changes and for the events: as the rows are, as transactions, and on cold keys.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::client::{READ_TIMEOUT, decode};
use crate::{Client, Program, Server, Value};

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Its line in the document, from 1.
    pub line: usize,
    /// The command and what is particular of this form.
    pub form: String,
    /// Where the row is from: `7.0` is to be proven.
    pub source: String,
    /// Keys with their access.
    pub keys: String,
    /// How keys are latched.
    pub plan: String,
    /// When it counts as a change.
    pub changed: String,
    /// What is written down.
    pub effects: String,
    /// What a replica is sent for the example.
    pub replica: String,
    /// Class, event and key of each event of the example.
    pub events: String,
    /// By how much the count of changes grows.
    pub dirty: i64,
    /// Commands that prepare, `=>`, commands that are looked at.
    pub example: String,
}

const HEADER: &str = "| form | source | keys | plan | changed | effects | replica | events | dirty | example |";
/// No effects, events or commands.
pub const NOTHING: &str = "-";
/// The source of rows that are proven.
pub const PROVEN: &str = "7.0";

impl Row {
    /// The words in capitals that name its commands; options are among them.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        let words = self.form.split([' ', '/', ',']);
        let capital = |word: &&str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase() || b"-_".contains(&b));
        words.filter(capital).map(str::to_owned).collect()
    }

    /// Whether its example is to be run.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.source == PROVEN
    }
}

/// The rows of all tables with the fixed columns.
///
/// # Errors
/// When a row has other columns than its header, or a count that is none: which.
pub fn parse(text: &str) -> Result<Vec<Row>, String> {
    let (mut rows, mut inside) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        inside = line == HEADER || inside && line.starts_with('|');
        if inside && line != HEADER && !line.starts_with("|---") {
            rows.push(parse_row(number + 1, line).ok_or_else(|| format!("line {}: not a row: {line}", number + 1))?);
        }
    }
    Ok(rows)
}

fn parse_row(line: usize, text: &str) -> Option<Row> {
    let cells = text.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").map(|cell| cell.trim_matches('`').to_owned());
    let cells: [String; 10] = cells.collect::<Vec<_>>().try_into().ok()?;
    let [form, source, keys, plan, changed, effects, replica, events, dirty, example] = cells;
    let dirty = dirty.parse().ok()?;
    Some(Row { line, form, source, keys, plan, changed, effects, replica, events, dirty, example })
}

/// The commands of one side of an example, with times as of now.
#[must_use]
pub fn commands(text: &str) -> Vec<Vec<Vec<u8>>> {
    Times::now().commands(text).collect()
}

/// What an example did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Event and key of each event, in order.
    pub events: Vec<String>,
    /// Each command that a replica was sent.
    pub replica: Vec<String>,
    /// By how much the count of changes grew.
    pub dirty: i64,
}

/// The clients that perform an example.
#[derive(Debug)]
struct Actors {
    client: Client,
    other: Client,
}

impl Actors {
    fn new(server: &Server) -> Self {
        Self { client: server.client(), other: server.client() }
    }

    /// Runs the lines, of which each must be answered by OK.
    fn prepare(&mut self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.client.line(line), Value::ok(), "{line}");
        }
    }

    /// Whether all of the commands are known.
    fn perform(&mut self, commands: &str, times: &Times) -> bool {
        let mut known = true;
        for words in times.commands(commands) {
            let reply = match words[0].as_slice() {
                b"@wait" => {
                    let text = std::str::from_utf8(&words[1]).expect("a number of milliseconds");
                    thread::sleep(Duration::from_millis(text.parse().expect("a number of milliseconds")));
                    continue;
                }
                b"@other" => self.other.call(&words[1..]).expect("the other client is answered"),
                _ => self.client.call(&words).expect("the client is answered"),
            };
            known &= !matches!(reply, Value::Error(text) if text.starts_with(b"ERR unknown command"));
        }
        known
    }

    fn dirty(&mut self) -> i64 {
        let information = self.client.line("INFO persistence");
        let text = String::from_utf8_lossy(information.bytes().expect("INFO is text"));
        let count = text.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:")).expect("a count of changes");
        count.parse().expect("a number")
    }
}

/// How our server is made to run an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As it stands.
    Plain,
    /// What is looked at is one transaction.
    Transaction,
    /// All keys are on the device before what is looked at.
    Cold,
}

/// Our server, which counts changes and tells events.
#[derive(Debug)]
pub struct Ours {
    actors: Actors,
    subscriber: Subscriber,
    manner: Manner,
    server: Server,
}

impl Ours {
    /// Starts the server.
    #[must_use]
    pub fn start(manner: Manner) -> Self {
        let mut flags = vec!["--enable-debug-command", "yes"];
        if manner == Manner::Cold {
            flags.extend(["--maxmemory", "16mb", "--storage-device", "memory"]);
        }
        let server = Server::start(&Program::Almandine, &flags);
        Self { actors: Actors::new(&server), subscriber: Subscriber::connect(&server), manner, server }
    }

    /// By how much an example lets the count of changes grow; none if it has commands that the server does not have.
    pub fn count(&mut self, example: &str) -> Option<i64> {
        let times = Times::now();
        self.actors.prepare(&["UNWATCH", "SELECT 0", "FLUSHALL"]);
        let (before, looked_at) = example.split_once("=>").unwrap_or(("", example));
        let mut known = self.actors.perform(before, &times);
        let dirty = self.actors.dirty();
        known &= self.actors.perform(looked_at, &times);
        known.then(|| self.actors.dirty() - dirty)
    }

    /// What is wrong with the events of a row, or nothing; none if it has commands that the server does not have, or cannot be
    /// run in this manner.
    pub fn difference(&mut self, row: &Row) -> Option<Result<(), String>> {
        let (before, looked_at) = row.example.split_once("=>").unwrap_or(("", &row.example));
        let is_alone = ["MULTI", "WATCH", "DISCARD", "@", "HIMPORT PREPARE"].iter().any(|word| looked_at.contains(word));
        if self.manner == Manner::Transaction && (is_alone || looked_at.trim().is_empty()) {
            return None;
        }
        let expected = listed(&row.events);
        let named = |events: &[&str]| {
            events.iter().map(|event| event.split_once(' ').map_or(*event, |(_, name)| name).to_owned()).collect()
        };
        let mut wrong = Vec::new();
        let mut all: Vec<String> = named(&expected);
        if row.form.contains("which is past") && all.iter().any(|event| event.starts_with("set ")) {
            // It expires as it is set, in redis-server when it is met.
            let expired =
                all.iter().rposition(|event| event.starts_with("expire ")).map(|at| all[at].replacen("expire", "expired", 1));
            all.extend(expired);
        }
        let classes: BTreeSet<&str> = expected.iter().filter_map(|event| event.split_once(' ')).map(|(class, _)| class).collect();
        compare(
            "events",
            &all.iter().map(String::as_str).collect::<Vec<_>>(),
            &self.run(before, looked_at, ALL_CLASSES)?,
            &mut wrong,
        );
        for class in classes {
            let of_class = expected.iter().filter_map(|event| event.strip_prefix(class)).map(str::trim_start).collect::<Vec<_>>();
            compare(&format!("class {class}"), &of_class, &self.run(before, looked_at, &format!("E{class}"))?, &mut wrong);
        }
        let report = || Err(format!("docs/effects.md:{}: {}: {}", row.line, row.example, wrong.join("; ")));
        Some(if wrong.is_empty() { Ok(()) } else { report() })
    }

    /// The events of what is looked at.
    fn run(&mut self, before: &str, looked_at: &str, classes: &str) -> Option<Vec<String>> {
        let times = Times::now();
        let notify = format!("CONFIG SET notify-keyspace-events {classes}");
        self.actors.prepare(&["UNWATCH", "SELECT 0", "FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 0", &notify]);
        if !self.actors.perform(before, &times) {
            return None;
        }
        if self.manner == Manner::Cold {
            assert!(self.server.make_cold(), "memory is emptied");
        }
        self.subscriber.events(&mut self.actors.client);
        let known = match self.manner {
            Manner::Transaction => self.actors.perform(&format!("MULTI; {looked_at}; EXEC"), &times),
            _ => self.actors.perform(looked_at, &times),
        };
        let events = self.subscriber.events(&mut self.actors.client);
        known.then_some(events)
    }
}

/// A client that hears all keyspace events.
#[derive(Debug)]
struct Subscriber {
    client: Client,
    marks: u32,
}

impl Subscriber {
    fn connect(server: &Server) -> Self {
        let mut client = server.client();
        client.send(&[["PSUBSCRIBE", "__keyevent@*__:*", MARKER]]).expect("the server takes a subscription");
        for _ in 0..2 {
            client.receive().expect("a subscription is confirmed");
        }
        Self { client, marks: 0 }
    }

    /// The events since it was asked last, which end with what another client publishes.
    fn events(&mut self, publisher: &mut Client) -> Vec<String> {
        self.marks += 1;
        publisher.call(&["PUBLISH", MARKER, &self.marks.to_string()]).expect("a message is published");
        let mut events = Vec::new();
        loop {
            let message = words(&self.client.receive().expect("a message"));
            let [_, _, channel, text] = &message[..] else { panic!("not a message: {message:?}") };
            if *channel == MARKER {
                return events;
            }
            let (database, event) = channel.split_once("__:").expect("a channel of events");
            let database = database.trim_start_matches("__keyevent@");
            events.push(if database == "0" { format!("{event} {text}") } else { format!("{event} {text}@{database}") });
        }
    }
}

/// A redis-server with its observers.
#[derive(Debug)]
pub struct Laboratory {
    actors: Actors,
    subscriber: Subscriber,
    replica: Replica,
    _server: Server,
}

const MARKER: &str = "end-of-example";
/// DUMP of the string 10, as redis-server 7.0 answers it.
const DUMP: &[u8] = b"\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xaec\xbb";
const ALL_CLASSES: &str = "AEnm";

impl Laboratory {
    /// Starts the server and connects the observers.
    ///
    /// # Panics
    /// When redis-server cannot be started or does not speak as expected.
    #[must_use]
    pub fn start() -> Self {
        let flags = ["--repl-diskless-sync", "no", "--repl-ping-replica-period", "3600", "--enable-debug-command", "yes"];
        let server = Server::start(&Program::Redis, &flags);
        let subscriber = Subscriber::connect(&server);
        let replica = Replica::connect(server.address());
        Self { actors: Actors::new(&server), subscriber, replica, _server: server }
    }

    /// What is wrong with a row, or nothing.
    pub fn difference(&mut self, row: &Row) -> Option<String> {
        let observed = self.run(&row.example, ALL_CLASSES);
        let expected: Vec<&str> = listed(&row.events);
        let names: Vec<&str> = expected.iter().map(|event| event.split_once(' ').map_or(*event, |(_, name)| name)).collect();
        let mut wrong = Vec::new();
        compare("events", &names, &observed.events, &mut wrong);
        compare("replica", &listed(&row.replica), &observed.replica, &mut wrong);
        if row.dirty != observed.dirty {
            wrong.push(format!("dirty: {} in the row, {} counted", row.dirty, observed.dirty));
        }
        let classes: BTreeSet<&str> = expected.iter().filter_map(|event| event.split_once(' ')).map(|(class, _)| class).collect();
        for class in classes {
            let of_class = expected.iter().filter_map(|event| event.strip_prefix(class)).map(str::trim_start).collect::<Vec<_>>();
            compare(&format!("class {class}"), &of_class, &self.run(&row.example, &format!("E{class}")).events, &mut wrong);
        }
        (!wrong.is_empty()).then(|| format!("docs/effects.md:{}: {}: {}", row.line, row.example, wrong.join("; ")))
    }

    /// Runs an example on an empty server that tells events of these classes.
    fn run(&mut self, example: &str, classes: &str) -> Observed {
        let times = Times::now();
        let notify = format!("CONFIG SET notify-keyspace-events {classes}");
        self.actors.prepare(&["UNWATCH", "SELECT 0", "FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 0", &notify]);
        let (before, looked_at) = example.split_once("=>").unwrap_or(("", example));
        self.actors.perform(before, &times);
        self.observe();
        let dirty = self.actors.dirty();
        self.actors.perform(looked_at, &times);
        let dirty = self.actors.dirty() - dirty;
        let (events, replica) = self.observe();
        Observed { events, replica, dirty }
    }

    /// What subscriber and replica were told since they were asked last.
    fn observe(&mut self) -> (Vec<String>, Vec<String>) {
        let events = self.subscriber.events(&mut self.actors.client);
        let mark = self.subscriber.marks.to_string();
        let mut commands = Vec::new();
        loop {
            let command = self.replica.next();
            match command[0].to_ascii_uppercase().as_str() {
                "PUBLISH" if command[2] == mark => return (events, commands),
                "PUBLISH" | "SELECT" | "PING" | "REPLCONF" => {}
                _ => commands.push(command.join(" ")),
            }
        }
    }
}

/// The parts of a cell.
fn listed(cell: &str) -> Vec<&str> {
    if cell == NOTHING { Vec::new() } else { cell.split("; ").collect() }
}

fn compare(what: &str, expected: &[&str], observed: &[String], wrong: &mut Vec<String>) {
    if expected != observed {
        wrong.push(format!("{what}: {expected:?} in the row, {observed:?} observed"));
    }
}

/// The strings of an array as a row shows them.
fn words(value: &Value) -> Vec<String> {
    let elements = value.elements().expect("an array");
    elements.iter().map(|element| shown(element.bytes().unwrap_or_default())).collect()
}

fn shown(word: &[u8]) -> String {
    match word {
        b"" => "\"\"".to_owned(),
        DUMP => "<dump>".to_owned(),
        _ if word.len() == 13 && word.iter().all(u8::is_ascii_digit) => "<ms>".to_owned(),
        _ => String::from_utf8_lossy(word).into_owned(),
    }
}

/// What the placeholders of examples stand for, in milliseconds since 1970.
struct Times {
    now_ms: u128,
}

impl Times {
    fn now() -> Self {
        Self { now_ms: SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis() }
    }

    fn commands<'t>(&self, text: &'t str) -> impl Iterator<Item = Vec<Vec<u8>>> + use<'t, '_> {
        let commands = text.split(';').map(str::trim).filter(|command| !command.is_empty());
        commands.map(move |command| command.split(' ').map(|word| self.fill_in(word)).collect())
    }

    fn fill_in(&self, word: &str) -> Vec<u8> {
        const FAR_MS: u128 = 1_000_000;
        match word {
            "<future>" => (self.now_ms + FAR_MS).to_string().into_bytes(),
            "<later>" => (self.now_ms + 2 * FAR_MS).to_string().into_bytes(),
            "<futures>" => ((self.now_ms + FAR_MS) / 1000).to_string().into_bytes(),
            "<past>" => (self.now_ms - 1000).to_string().into_bytes(),
            "<dump>" => DUMP.to_vec(),
            "\"\"" => Vec::new(),
            _ => word.as_bytes().to_vec(),
        }
    }
}

/// The stream of commands that a server sends its replica.
#[derive(Debug)]
struct Replica {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Replica {
    /// Asks for a snapshot and leaves it aside.
    fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(READ_TIMEOUT)).expect("a timeout");
        stream.write_all(b"SYNC\r\n").expect("the server takes SYNC");
        let mut replica = Self { stream, unread: Vec::new() };
        // Empty lines keep the connection alive while the snapshot is made.
        let snapshot_len = loop {
            let line = replica.line();
            if let Some(len) = line.strip_prefix('$') {
                break len.parse::<usize>().expect("the snapshot's length");
            }
            assert!(line.is_empty(), "the answer to SYNC: {line}");
        };
        while replica.unread.len() < snapshot_len {
            replica.fill();
        }
        replica.unread.drain(..snapshot_len);
        replica
    }

    fn next(&mut self) -> Vec<String> {
        loop {
            if let Some((command, len)) = decode(&self.unread).expect("a stream of commands") {
                self.unread.drain(..len);
                return words(&command);
            }
            self.fill();
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return String::from_utf8_lossy(&line).trim_end().to_owned();
            }
            self.fill();
        }
    }

    fn fill(&mut self) {
        let mut bytes = [0; 4096];
        let len = self.stream.read(&mut bytes).expect("the server sends");
        assert!(len > 0, "the server has closed the connection of its replica");
        self.unread.extend_from_slice(&bytes[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_others_refused() {
        let text = format!(
            "# Title\n\n{HEADER}\n|---|---|\n| SET key | 7.0 | k | x | always | - | `SET k` | `$ set k` | 1 | `=> SET k` |\n"
        );
        let rows = parse(&text).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].line, rows[0].events.as_str(), rows[0].dirty), (5, "$ set k", 1));
        assert_eq!(rows[0].names(), BTreeSet::from(["SET".to_owned()]));
        assert!(parse(&text.replace("| 1 |", "| one |")).is_err());
        assert!(parse(&text.replace("| x |", "|")).is_err());
    }
}
