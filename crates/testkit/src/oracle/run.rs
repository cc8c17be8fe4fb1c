//! Sends generated commands to both servers, compares, and shrinks what differs to the shortest sequence that still does.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::compare::equal;
use super::generate::{Generated, Generator};
use super::table::{Compare, Line};
use crate::value::command_line;
use crate::{Client, Random, Server, Value};

/// How much to run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What is sent.
    pub table: &'static [Line],
    /// The first episode's seed; each next episode adds one.
    pub seed: u64,
    /// Each episode starts from an empty keyspace and ends with a comparison of both keyspaces.
    pub episodes: u64,
    /// Commands per episode.
    pub commands: usize,
    /// Pipelines in a hundred before which all of our keys are made cold, at random; for a server with a storage device.
    pub cold_percent: usize,
}

/// What was compared.
#[derive(Debug, Default)]
pub struct Report {
    /// Generated commands whose replies were compared.
    pub commands: usize,
    /// Of these, how many were answered with an error.
    pub errors: usize,
    /// Replies compared in the final keyspaces.
    pub keyspace: usize,
    /// How often all keys were made cold.
    pub cold: usize,
    /// Commands by name.
    pub names: BTreeMap<String, usize>,
    /// The first difference found, shrunk.
    pub difference: Option<Difference>,
}

/// A difference between the servers.
#[derive(Debug)]
pub struct Difference {
    /// Seed of the episode.
    pub seed: u64,
    /// Commands, from an empty keyspace, of which the last is answered differently.
    pub commands: Vec<Vec<Vec<u8>>>,
    /// Whether a second run showed it too; else `commands` is only the tail of what was sent.
    pub repeats: bool,
    /// Our reply.
    pub ours: String,
    /// The oracle's reply.
    pub theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = if self.repeats { "from an empty keyspace" } else { "not again in a second run; the last commands were" };
        writeln!(f, "episode seed {}: {from}", self.seed)?;
        for command in &self.commands {
            writeln!(f, "  {}", command_line(command))?;
        }
        write!(f, "ours:   {}\noracle: {}", self.ours, self.theirs)
    }
}

const PIPELINE: usize = 64;
/// Longer than any expiry that asks for a barrier, by more than the clocks' granularity.
const BARRIER: Duration = Duration::from_millis(6);
/// Commands shown of a difference that does not repeat.
const TAIL: usize = 30;
const SHRINK_TIME: Duration = Duration::from_secs(20);

/// Runs episodes until one differs. `wanted` chooses commands by name.
///
/// # Errors
/// Of the connections; a server that ends shows here.
pub fn run(ours: &Server, oracle: &Server, settings: Settings, wanted: &dyn Fn(&str) -> bool) -> io::Result<Report> {
    let mut report = Report::default();
    for episode in 0..settings.episodes {
        let seed = settings.seed + episode;
        let mut generator = Generator::new(settings.table, seed, wanted);
        let commands: Vec<Generated> = (0..settings.commands).map(|_| generator.command()).collect();
        let mut pair = Pair::connect(ours, oracle, seed, settings.cold_percent)?;
        let found = match pair.play(&commands, &mut report)? {
            Some((at, ours, theirs)) => Some((at + 1, ours, theirs)),
            None => pair.keyspaces(&mut report)?.map(|(ours, theirs)| (commands.len(), ours, theirs)),
        };
        if let Some((len, ours_reply, theirs)) = found {
            let first = Difference { seed, commands: Vec::new(), repeats: true, ours: ours_reply, theirs };
            report.difference = Some(shrink(ours, oracle, (seed, settings.cold_percent), commands[..len].to_vec(), first)?);
            return Ok(report);
        }
    }
    Ok(report)
}

/// One connection to each.
struct Pair<'s> {
    ours: Client,
    oracle: Client,
    server: &'s Server,
    cold_percent: usize,
    random: Random,
    /// How the replies of queued commands are compared; `None`: no transaction is open.
    queued: Option<Vec<Compare>>,
}

/// What is sent of a window, with the command that it belongs to.
struct Sent {
    args: Vec<Vec<u8>>,
    compare: Compare,
    index: usize,
}

/// Redis counts expired keys, and their bytes, until something touches them; this touches all.
const TOUCH_ALL: [&[u8]; 4] = [b"SCAN", b"0", b"COUNT", b"100000"];
const EXCHANGE: &[u8] = b"EXCHANGE";

impl<'s> Pair<'s> {
    /// Connects with an empty keyspace; odd seeds speak RESP3.
    fn connect(server: &'s Server, oracle: &Server, seed: u64, cold_percent: usize) -> io::Result<Self> {
        let (ours, oracle) = (Client::connect(server.address())?, Client::connect(oracle.address())?);
        let mut pair = Self { ours, oracle, server, cold_percent, random: Random::new(seed), queued: None };
        if seed % 2 == 1 {
            let _ = pair.both(&[vec![b"HELLO".to_vec(), b"3".to_vec()]])?;
        }
        let _ = pair.both(&[vec![b"FLUSHALL".to_vec()]])?;
        Ok(pair)
    }

    fn both(&mut self, commands: &[Vec<Vec<u8>>]) -> io::Result<(Vec<Value>, Vec<Value>)> {
        self.ours.send(commands)?;
        self.oracle.send(commands)?;
        let name = |who: &str, e: io::Error| {
            let last = commands.last().map(|c| command_line(c)).unwrap_or_default();
            io::Error::new(e.kind(), format!("{who}: {e}, in a pipeline of {} that ends with {last}", commands.len()))
        };
        let mut replies = (Vec::new(), Vec::new());
        for _ in commands {
            replies.0.push(self.ours.receive().map_err(|e| name("our server", e))?);
            replies.1.push(self.oracle.receive().map_err(|e| name("the oracle", e))?);
        }
        Ok(replies)
    }

    /// Index and replies of the first command that is answered differently.
    fn play(&mut self, commands: &[Generated], report: &mut Report) -> io::Result<Option<(usize, String, String)>> {
        let mut start = 0;
        while start < commands.len() {
            if self.random.chance(self.cold_percent) {
                self.server.make_cold();
                report.cold += 1;
            }
            if commands[start].args[0] == EXCHANGE {
                if let Some((ours, theirs)) = self.exchange(&commands[start].args)? {
                    return Ok(Some((start, ours, theirs)));
                }
                report.commands += 1;
                start += 1;
                continue;
            }
            let window = &commands[start..commands.len().min(start + PIPELINE)];
            let len = window.iter().position(|c| c.args[0] == EXCHANGE).unwrap_or(window.len());
            let len = window[..len].iter().position(|c| c.barrier).map_or(len, |at| at + 1);
            if let Some((at, ours, theirs)) = self.window(&window[..len], report)? {
                return Ok(Some((start + at, ours, theirs)));
            }
            if window[len - 1].barrier {
                thread::sleep(BARRIER);
            }
            start += len;
        }
        Ok(None)
    }

    /// Sends commands in one pipeline and compares what is answered.
    fn window(&mut self, window: &[Generated], report: &mut Report) -> io::Result<Option<(usize, String, String)>> {
        let mut sent = Vec::with_capacity(window.len() + 2);
        for (index, command) in window.iter().enumerate() {
            if [&b"DBSIZE"[..], b"MEMORY"].iter().any(|name| command.args[0].eq_ignore_ascii_case(name)) {
                sent.push(Sent { args: TOUCH_ALL.map(<[u8]>::to_vec).to_vec(), compare: Compare::Unordered, index });
            }
            // Keys that are overwritten without a look at the device count twice until the background has looked.
            let estimate = self.cold_percent != 0 && command.args[0].eq_ignore_ascii_case(b"DBSIZE");
            let compare = if estimate { Compare::Kind } else { command.compare };
            sent.push(Sent { args: command.args.clone(), compare, index });
            report.commands += 1;
            *report.names.entry(String::from_utf8_lossy(&command.args[0]).to_ascii_uppercase()).or_default() += 1;
        }
        let commands: Vec<Vec<Vec<u8>>> = sent.iter().map(|sent| sent.args.clone()).collect();
        let (ours, theirs) = self.both(&commands)?;
        for (at, sent) in sent.iter().enumerate() {
            report.errors += usize::from(theirs[at].is_error());
            if !self.same(sent, &ours[at], &theirs[at]) {
                return Ok(Some((sent.index, ours[at].to_string(), theirs[at].to_string())));
            }
        }
        Ok(None)
    }

    /// Whether two replies count as equal, also when they are what EXEC answers for several commands.
    fn same(&mut self, sent: &Sent, ours: &Value, theirs: &Value) -> bool {
        if *theirs == Value::Simple(b"QUEUED".to_vec()) {
            self.queued.get_or_insert_default().push(sent.compare);
            return ours == theirs;
        }
        let is = |name: &[u8]| sent.args[0].eq_ignore_ascii_case(name);
        if is(b"MULTI") && *theirs == Value::ok() {
            self.queued = Some(Vec::new());
        }
        let ends = is(b"EXEC") || is(b"DISCARD") && *theirs == Value::ok();
        if !ends {
            return equal(sent.compare, ours, theirs);
        }
        // EXEC with a wrong number of arguments leaves the transaction open, and spoils it.
        let queued = if sent.args.len() == 1 { self.queued.take() } else { None };
        match (ours, theirs) {
            (Value::Array(ours), Value::Array(theirs)) => {
                let compares = queued.unwrap_or_default();
                let all = compares.iter().zip(ours).zip(theirs);
                compares.len() == theirs.len() && ours.len() == theirs.len() && { all }.all(|((c, a), b)| equal(*c, a, b))
            }
            _ => ours == theirs,
        }
    }

    /// Restores the payload of one server in the other, and compares what came of it.
    fn exchange(&mut self, args: &[Vec<u8>]) -> io::Result<Option<(String, String)>> {
        if self.queued.is_some() {
            return Ok(None);
        }
        let (from, to) = (&args[1], &args[2]);
        let (ours, theirs) = self.both(&[vec![b"DUMP".to_vec(), from.clone()]])?;
        let payloads = match (&ours[0], &theirs[0]) {
            (Value::Bulk(ours), Value::Bulk(theirs)) => (ours.clone(), theirs.clone()),
            (ours, theirs) if ours == theirs => return Ok(None),
            (ours, theirs) => return Ok(Some((ours.to_string(), theirs.to_string()))),
        };
        // Redis 7.0 has no form for a consumer with two times; its own payload stands for ours.
        let info = [b"XINFO".to_vec(), b"STREAM".to_vec(), from.clone(), b"FULL".to_vec(), b"COUNT".to_vec(), b"0".to_vec()];
        let payloads = if has_idle_consumer(&self.ours.call(&info)?) { (payloads.1.clone(), payloads.1) } else { payloads };
        let restore = |payload: Vec<u8>| [b"RESTORE".to_vec(), to.clone(), b"0".to_vec(), payload, b"REPLACE".to_vec()];
        let (here, there) = (self.ours.call(&restore(payloads.1))?, self.oracle.call(&restore(payloads.0))?);
        if here != Value::ok() || there != Value::ok() {
            return Ok(Some((format!("of redis-server's payload: {here}"), format!("of our payload: {there}"))));
        }
        self.values(to)
    }

    /// Everything about one key that differs.
    fn values(&mut self, key: &[u8]) -> io::Result<Option<(String, String)>> {
        let checks: &[(&[&[u8]], Compare)] = &[
            (&[b"TYPE"], Compare::Exact),
            (&[b"GET"], Compare::Exact),
            (&[b"HGETALL"], Compare::Pairs),
            (&[b"SMEMBERS"], Compare::Unordered),
            (&[b"LRANGE"], Compare::Exact),
            (&[b"XINFO", b"STREAM"], Compare::Known),
            (&[b"PTTL"], Compare::Near(1000)),
            (&[b"OBJECT", b"ENCODING"], Compare::Encoding),
        ];
        let commands: Vec<Vec<Vec<u8>>> = checks
            .iter()
            .map(|(words, _)| words.iter().copied().chain([key]).map(<[u8]>::to_vec).chain(behind(words)).collect())
            .collect();
        let (ours, theirs) = self.both(&commands)?;
        for (i, (_, compare)) in checks.iter().enumerate() {
            if !equal(*compare, &ours[i], &theirs[i]) {
                return Ok(Some((format!("{}: {}", command_line(&commands[i]), ours[i]), theirs[i].to_string())));
            }
        }
        Ok(None)
    }

    /// Compares every key of both databases.
    fn keyspaces(&mut self, report: &mut Report) -> io::Result<Option<(String, String)>> {
        // Of a transaction that is still open nothing has happened.
        let _ = self.both(&[vec![b"DISCARD".to_vec()]])?;
        if self.cold_percent != 0 {
            self.server.make_cold();
        }
        for db in [&b"0"[..], b"1"] {
            let count = [&b"SCAN"[..], b"0", b"COUNT", b"100000"].map(<[u8]>::to_vec).to_vec();
            let sizes = [vec![b"SELECT".to_vec(), db.to_vec()], count, vec![b"DBSIZE".to_vec()]];
            let (mut ours, mut theirs) = self.both(&sizes)?;
            report.keyspace += 1;
            for _ in 0..20 {
                if ours[2] == theirs[2] {
                    break;
                }
                // A key that is due leaves the count soon, but not at once.
                std::thread::sleep(Duration::from_millis(100));
                (ours, theirs) = self.both(&sizes)?;
            }
            if ours[2] != theirs[2] {
                return Ok(Some((format!("DBSIZE at the end: {}", ours[2]), theirs[2].to_string())));
            }
            let list = [vec![b"SELECT".to_vec(), db.to_vec()], vec![b"KEYS".to_vec(), b"*".to_vec()]];
            let (ours, theirs) = self.both(&list)?;
            report.keyspace += 1;
            if !equal(Compare::Unordered, &ours[1], &theirs[1]) {
                return Ok(Some((format!("KEYS in database: {}", ours[1]), theirs[1].to_string())));
            }
            for key in theirs[1].elements().unwrap_or_default() {
                report.keyspace += 1;
                if let Some((ours, theirs)) = self.values(key.bytes().unwrap_or_default())? {
                    return Ok(Some((format!("at the end, {ours}"), theirs)));
                }
            }
        }
        Ok(None)
    }
}

/// Removes commands while the last one (or the keyspace) still differs.
fn shrink(
    ours: &Server,
    oracle: &Server,
    (seed, cold_percent): (u64, usize),
    mut commands: Vec<Generated>,
    mut found: Difference,
) -> io::Result<Difference> {
    let deadline = Instant::now() + SHRINK_TIME;
    let differs = |commands: &[Generated]| -> io::Result<Option<(usize, String, String)>> {
        let mut pair = Pair::connect(ours, oracle, seed, cold_percent)?;
        let mut ignored = Report::default();
        Ok(match pair.play(commands, &mut ignored)? {
            Some((at, a, b)) => Some((at + 1, a, b)),
            None => pair.keyspaces(&mut ignored)?.map(|(a, b)| (commands.len(), a, b)),
        })
    };
    found.repeats = differs(&commands)?.is_some();
    if !found.repeats {
        found.commands = commands.split_off(commands.len().saturating_sub(TAIL)).into_iter().map(|c| c.args).collect();
        return Ok(found);
    }
    let mut chunk = commands.len().div_ceil(2);
    while chunk > 0 && Instant::now() < deadline {
        let mut start = 0;
        while start < commands.len() && Instant::now() < deadline {
            let mut fewer = commands.clone();
            fewer.drain(start..(start + chunk).min(commands.len()));
            if let Some((len, a, b)) = differs(&fewer)? {
                fewer.truncate(len);
                commands = fewer;
                (found.ours, found.theirs) = (a, b);
            } else {
                start += chunk;
            }
        }
        chunk /= 2;
    }
    found.commands = commands.into_iter().map(|c| c.args).collect();
    Ok(found)
}

/// Whether XINFO STREAM FULL tells of a consumer that was seen since it was given something.
fn has_idle_consumer(info: &Value) -> bool {
    match info {
        Value::Map(pairs) => {
            let time = |name: &[u8]| pairs.iter().find(|(key, _)| key.bytes() == Some(name)).map(|(_, time)| time);
            time(b"seen-time") != time(b"active-time") || pairs.iter().any(|(_, value)| has_idle_consumer(value))
        }
        Value::Array(items) => {
            let time = |name: &[u8]| items.windows(2).find(|two| two[0].bytes() == Some(name)).map(|two| &two[1]);
            time(b"seen-time") != time(b"active-time") || items.iter().any(has_idle_consumer)
        }
        _ => false,
    }
}

/// What follows the key of a command that tells all of its value.
fn behind(words: &[&[u8]]) -> Vec<Vec<u8>> {
    let more: &[&[u8]] = match words[0] {
        b"LRANGE" => &[b"0", b"-1"],
        b"XINFO" => &[b"FULL", b"COUNT", b"0"],
        _ => &[],
    };
    more.iter().map(|word| word.to_vec()).collect()
}
