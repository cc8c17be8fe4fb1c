//! Random commands to a server and to the model, in pipelines and transactions, and what differs.

use std::fmt;
use std::io;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::model::{Ask, Change, Condition, Existing, Fault, Model, Remaining, Time};
use crate::oracle::compare::equal;
use crate::oracle::table::Compare;
use crate::value::command_line;
use crate::{Client, Random, Server, Value};

/// How much to run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The first episode's seed; each next episode adds one.
    pub seed: u64,
    /// Each begins without keys. They take turns in how many fields a hash may have: few, more than are packed, many.
    pub episodes: u64,
    /// Commands per episode.
    pub commands: usize,
    /// Pipelines in a hundred before which all keys are made cold; for a server with a storage device.
    pub cold_percent: usize,
    /// What the model does wrong.
    pub fault: Fault,
}

/// What was compared.
#[derive(Debug, Default)]
pub struct Report {
    /// Replies.
    pub replies: usize,
    /// How often fields that were to expire within milliseconds were waited for.
    pub waits: usize,
    /// Keys whose last field expired.
    pub emptied: usize,
    /// The longest time until such a key was gone without being touched.
    pub slowest: Duration,
    /// The first difference.
    pub difference: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replies, waits, emptied, slowest, .. } = self;
        write!(
            f,
            "{replies} replies compared, {waits} times waited for expiry, {emptied} keys emptied by it, the last gone after \
             {slowest:.0?}"
        )
    }
}

const KEYS: usize = 6;
const FIELDS: [usize; 3] = [6, 150, 1200];
const PIPELINE: usize = 40;
/// Longer than short expiries, by more than the clocks' granularity.
const BARRIER: Duration = Duration::from_millis(8);
/// Times that are compared are this far away at least, and may be off by a tenth of it: what a busy machine takes between two
/// readings.
const LONG_MS: i64 = 200_000;
const OFF_MS: i64 = LONG_MS / 10;
/// A key without fields is removed by the background, which has other work, too.
const GONE_WITHIN: Duration = Duration::from_secs(20);
/// Commands on the same key that are shown with a difference.
const SHOWN: usize = 25;

/// What must be answered.
#[derive(Clone, Debug)]
enum Expected {
    Reply(Compare, Value),
    Times(Vec<Remaining>, i64),
}

impl Expected {
    fn holds(&self, reply: &Value) -> bool {
        match self {
            Self::Reply(compare, value) => equal(*compare, reply, value),
            Self::Times(times, off) => reply.elements().is_some_and(|answers| {
                answers.len() == times.len()
                    && answers.iter().zip(times).all(|(answer, time)| match (answer, time) {
                        (Value::Integer(is), Remaining::Exactly(n)) => is == n,
                        (Value::Integer(is), Remaining::About(n)) => (is - n).abs() <= *off,
                        _ => false,
                    })
            }),
        }
    }
}

struct Step {
    args: Vec<Vec<u8>>,
    expected: Expected,
}

/// Runs episodes until one differs.
///
/// # Errors
/// Of the connection.
pub fn run(server: &Server, settings: Settings) -> io::Result<Report> {
    let mut report = Report::default();
    for episode in 0..settings.episodes {
        let seed = settings.seed + episode;
        let mut client = Client::connect(server.address())?;
        client.line("FLUSHALL");
        let fields = FIELDS[seed as usize % FIELDS.len()];
        let model = Model::new(settings.fault);
        let mut stream =
            Stream { model, random: Random::new(seed), fields, now_ms: 0, short: false, unsettled: false, history: Vec::new() };
        report.difference = stream.episode(&mut client, server, settings, &mut report)?;
        if let Some(difference) = &mut report.difference {
            *difference = format!("episode seed {seed}, {fields} fields: {difference}");
            break;
        }
    }
    Ok(report)
}

struct Stream {
    model: Model,
    random: Random,
    fields: usize,
    now_ms: i64,
    /// A command has set a time that passes within milliseconds.
    short: bool,
    /// Fields have expired, and may not be removed yet: no command sees them, but HLEN of a large hash counts them.
    unsettled: bool,
    history: Vec<Vec<Vec<u8>>>,
}

fn words(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

fn number(n: i64) -> Vec<u8> {
    n.to_string().into_bytes()
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

fn exact(value: Value) -> Expected {
    Expected::Reply(Compare::Exact, value)
}

fn integers(numbers: Vec<i64>) -> Expected {
    exact(Value::Array(numbers.into_iter().map(Value::Integer).collect()))
}

impl Stream {
    fn episode(
        &mut self,
        client: &mut Client,
        server: &Server,
        settings: Settings,
        report: &mut Report,
    ) -> io::Result<Option<String>> {
        let mut done = 0;
        while done < settings.commands {
            if self.random.chance(settings.cold_percent) {
                server.make_cold();
            }
            if self.random.chance(8)
                && let Some(difference) = self.restore(client)?
            {
                return Ok(Some(difference));
            }
            self.now_ms = now_ms();
            let mut steps = Vec::new();
            while steps.len() < PIPELINE && !self.short {
                steps.push(self.step());
            }
            done += steps.len();
            if let Some(difference) = self.play(client, steps, report)? {
                return Ok(Some(difference));
            }
            let difference = if std::mem::take(&mut self.short) {
                self.wait(client, report)?
            } else if std::mem::take(&mut self.unsettled) {
                self.settle(client)?
            } else {
                None
            };
            if difference.is_some() {
                return Ok(difference);
            }
        }
        self.settle(client)?.map_or_else(|| self.compare_all(client, report), |difference| Ok(Some(difference)))
    }

    /// Waits until the fields that have expired are removed.
    fn settle(&mut self, client: &mut Client) -> io::Result<Option<String>> {
        let started = Instant::now();
        let keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        for key in keys {
            let wanted = Value::Integer(self.model.len(&key));
            loop {
                let len = client.call(&words(&[b"HLEN", &key]))?;
                if len == wanted {
                    break;
                }
                if started.elapsed() > GONE_WITHIN {
                    let shown = self.shown(&words(&[b"", &key]));
                    return Ok(Some(format!("\n{shown}expired fields are not removed: HLEN is {len}, {wanted} are left")));
                }
                thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(None)
    }

    /// Sends steps in one pipeline, sometimes as a transaction, and compares.
    fn play(&mut self, client: &mut Client, steps: Vec<Step>, report: &mut Report) -> io::Result<Option<String>> {
        let mut commands: Vec<Vec<Vec<u8>>> = steps.iter().map(|step| step.args.clone()).collect();
        let transaction = self.random.chance(15);
        let replies = if transaction {
            commands.insert(0, words(&[b"MULTI"]));
            commands.push(words(&[b"EXEC"]));
            let mut replies = client.pipeline(&commands)?;
            match replies.pop() {
                Some(Value::Array(replies)) => replies,
                other => return Ok(Some(format!("EXEC: {other:?}"))),
            }
        } else {
            client.pipeline(&commands)?
        };
        for (step, reply) in steps.into_iter().zip(&replies) {
            report.replies += 1;
            self.history.push(step.args.clone());
            if !step.expected.holds(reply) {
                let within = if transaction { " (in a transaction)" } else { "" };
                return Ok(Some(format!("{within}\n{}reply: {reply}\nmodel: {:?}", self.shown(&step.args), step.expected)));
            }
        }
        Ok(None)
    }

    /// The last commands on the keys of this one.
    fn shown(&self, args: &[Vec<u8>]) -> String {
        let same =
            |command: &&Vec<Vec<u8>>| command[1..].iter().take(2).any(|key| args[1..].iter().take(2).any(|other| key == other));
        let mut commands: Vec<String> = self.history.iter().rev().filter(same).take(SHOWN).map(|args| command_line(args)).collect();
        commands.reverse();
        commands.iter().map(|command| format!("  {}\n", command.chars().take(300).collect::<String>())).collect()
    }

    /// Waits until short times are over, and until hashes that have lost all fields are gone without any command on them.
    fn wait(&mut self, client: &mut Client, report: &mut Report) -> io::Result<Option<String>> {
        thread::sleep(BARRIER);
        let started = Instant::now();
        report.waits += 1;
        self.unsettled = true;
        for key in self.model.expire(now_ms()) {
            report.emptied += 1;
            // DBSIZE touches no key; each step of the loop waits for one key at least.
            let wanted = self.model.keys().count() as i64;
            while client.line("DBSIZE") != Value::Integer(wanted) {
                if started.elapsed() > GONE_WITHIN {
                    let left = client.line("KEYS *");
                    let shown = self.shown(&words(&[b"", &key]));
                    return Ok(Some(format!("\n{shown}all fields have expired and keys are left: {left}, {wanted} expected")));
                }
                thread::sleep(Duration::from_millis(2));
            }
            report.slowest = report.slowest.max(started.elapsed());
        }
        Ok(None)
    }

    /// DUMP and RESTORE, whose payload is known only when it was read.
    fn restore(&mut self, client: &mut Client) -> io::Result<Option<String>> {
        let (from, to) = (self.key(), self.key());
        let payload = client.call(&words(&[b"DUMP", &from]))?;
        self.history.push(words(&[b"(DUMP and RESTORE)", &from, &to]));
        let Value::Bulk(payload) = payload else {
            let right = payload.is_null() && !self.model.exists(&from);
            return Ok((!right).then(|| format!("\n{}DUMP: {payload}", self.shown(&words(&[b"", &from])))));
        };
        let reply = client.call(&words(&[b"RESTORE", &to, b"0", &payload, b"REPLACE"]))?;
        let right = self.model.restore(&from, &to) && reply == Value::ok();
        Ok((!right).then(|| format!("\n{}RESTORE: {reply}", self.shown(&words(&[b"", &from])))))
    }

    /// Everything that is left, field by field.
    fn compare_all(&mut self, client: &mut Client, report: &mut Report) -> io::Result<Option<String>> {
        self.now_ms = now_ms();
        let mut steps = Vec::new();
        let keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        steps.push(Step { args: words(&[b"DBSIZE"]), expected: exact(Value::Integer(keys.len() as i64)) });
        for key in keys {
            steps.push(Step { args: words(&[b"HGETALL", &key]), expected: Expected::Reply(Compare::Pairs, self.model.all(&key)) });
            let names = self.model.names(&key);
            let names: Vec<Vec<u8>> =
                names.elements().unwrap_or_default().iter().filter_map(|v| v.bytes().map(<[u8]>::to_vec)).collect();
            if !names.is_empty() {
                steps.push(self.times(Ask::AtMilliseconds, b"HPEXPIRETIME", key, names));
            }
        }
        self.play(client, steps, report)
    }

    fn key(&mut self) -> Vec<u8> {
        format!("h{}", self.random.below(KEYS)).into_bytes()
    }

    fn field(&mut self) -> Vec<u8> {
        let bound = if self.random.chance(40) { FIELDS[0].min(self.fields) } else { self.fields };
        format!("f{}", self.random.below(bound)).into_bytes()
    }

    fn some_fields(&mut self) -> Vec<Vec<u8>> {
        let most = if self.random.chance(5) { self.fields } else { 4 };
        (0..1 + self.random.below(most)).map(|_| self.field()).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.random.below(10) {
            0..5 => number(self.random.between(-100, 100)),
            5..7 => format!("{}.5", self.random.between(0, 50)).into_bytes(),
            7..9 => {
                let len = self.random.below(40);
                vec![b'x'; len]
            }
            _ => {
                let len = 60 + self.random.below(400);
                self.random.bytes(len)
            }
        }
    }

    fn pairs(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.some_fields().into_iter().map(|field| (field, self.value())).collect()
    }

    /// A time as it is written after one of EX, PX, EXAT, PXAT (0 to 3), and what it is.
    fn time(&mut self, unit: usize) -> (Vec<u8>, Time) {
        let past = self.random.chance(12);
        let long_ms = self.random.between(LONG_MS, 2_000_000_000);
        // Some that come again, so that equal ones meet.
        let same_ms = 4_000_000_000_000 + self.random.between(0, 3) * 1000 + self.random.between(0, 1) * 400;
        let at_ms = if self.random.chance(50) { same_ms } else { self.now_ms + long_ms };
        let after = |ms: i64, now_ms: i64| Time { at_ms: now_ms + ms, exact: false };
        let at = |ms: i64| Time { at_ms: ms, exact: true };
        match unit {
            0 | 1 if past => (number(0), after(0, self.now_ms)),
            0 => (number(long_ms / 1000), after(long_ms / 1000 * 1000, self.now_ms)),
            1 if self.random.chance(6) => {
                self.short = true;
                // Past for the model when it has been waited for, and not before.
                let ms = self.random.between(1, 3);
                (number(ms), after(ms, self.now_ms))
            }
            1 => (number(long_ms), after(long_ms, self.now_ms)),
            2 if past => (number(1), at(1000)),
            2 => (number(at_ms / 1000), at(at_ms / 1000 * 1000)),
            _ if past => (number(self.now_ms - 100_000), at(self.now_ms - 100_000)),
            _ => (number(at_ms), at(at_ms)),
        }
    }

    /// The time of HGETEX and HSETEX, in words.
    fn change(&mut self, without: &[(&'static [u8], Change)]) -> (Vec<Vec<u8>>, Change) {
        let choice = self.random.below(5 + without.len());
        if let Some((word, change)) = without.get(choice) {
            let words = if word.is_empty() { Vec::new() } else { vec![word.to_vec()] };
            return (words, *change);
        }
        let unit = self.random.below(4);
        let (text, time) = self.time(unit);
        (vec![[&b"EX"[..], b"PX", b"EXAT", b"PXAT"][unit].to_vec(), text], Change::Set(time))
    }

    fn step(&mut self) -> Step {
        match self.random.below(100) {
            0..14 => self.set(),
            14..18 => self.set_new(),
            18..30 => self.read(),
            30..38 => self.read_all(),
            38..44 => self.delete(),
            44..50 => self.increment(),
            50..66 => self.expire(),
            66..74 => {
                let asked = [
                    (Ask::Seconds, &b"HTTL"[..]),
                    (Ask::Milliseconds, b"HPTTL"),
                    (Ask::AtSeconds, b"HEXPIRETIME"),
                    (Ask::AtMilliseconds, b"HPEXPIRETIME"),
                ];
                let (ask, name) = *self.random.pick(&asked);
                let (key, fields) = (self.key(), self.some_fields());
                self.times(ask, name, key, fields)
            }
            74..79 => self.persist(),
            79..85 => self.get_and_change(),
            85..93 => self.set_and_change(),
            93..95 => self.take(),
            _ => self.move_key(),
        }
    }

    fn set(&mut self) -> Step {
        let (key, pairs) = (self.key(), self.pairs());
        let mut args = words(&[b"HSET", &key]);
        let mut new = 0;
        for (field, value) in pairs {
            new += i64::from(self.model.hset(&key, &field, &value));
            args.extend([field, value]);
        }
        Step { args, expected: exact(Value::Integer(new)) }
    }

    fn set_new(&mut self) -> Step {
        let (key, field, value) = (self.key(), self.field(), self.value());
        let new = self.model.value(&key, &field).is_none();
        if new {
            self.model.hset(&key, &field, &value);
        }
        Step { args: words(&[b"HSETNX", &key, &field, &value]), expected: exact(Value::Integer(new.into())) }
    }

    fn read(&mut self) -> Step {
        let (key, field) = (self.key(), self.field());
        let value = self.model.value(&key, &field).map(<[u8]>::len);
        let integer = |n: usize| exact(Value::Integer(n as i64));
        match self.random.below(4) {
            0 => Step { args: words(&[b"HEXISTS", &key, &field]), expected: integer(usize::from(value.is_some())) },
            1 => Step { args: words(&[b"HSTRLEN", &key, &field]), expected: integer(value.unwrap_or(0)) },
            2 => {
                let fields = self.some_fields();
                let values = fields.iter().map(|field| self.model.get(&key, field)).collect();
                let args = [words(&[b"HMGET", &key]), fields].concat();
                Step { args, expected: exact(Value::Array(values)) }
            }
            _ => Step { args: words(&[b"HGET", &key, &field]), expected: exact(self.model.get(&key, &field)) },
        }
    }

    fn read_all(&mut self) -> Step {
        let key = self.key();
        let (all, len) = (self.model.all(&key), self.model.len(&key));
        let scanned = Value::Array(vec![Value::Bulk(b"0".to_vec()), all.clone()]);
        match self.random.below(5) {
            0 if !self.unsettled => Step { args: words(&[b"HLEN", &key]), expected: exact(Value::Integer(len)) },
            0 | 1 => Step { args: words(&[b"HKEYS", &key]), expected: Expected::Reply(Compare::Unordered, self.model.names(&key)) },
            2 => Step { args: words(&[b"HGETALL", &key]), expected: Expected::Reply(Compare::Pairs, all) },
            3 => {
                let args = words(&[b"HRANDFIELD", &key, b"100000", b"WITHVALUES"]);
                Step { args, expected: Expected::Reply(Compare::Pairs, all) }
            }
            _ => {
                let args = words(&[b"HSCAN", &key, b"0", b"COUNT", b"100000"]);
                Step { args, expected: Expected::Reply(Compare::Scan, scanned) }
            }
        }
    }

    fn delete(&mut self) -> Step {
        let (key, fields) = (self.key(), self.some_fields());
        let gone = fields.iter().filter(|field| self.model.remove(&key, field).is_some()).count() as i64;
        Step { args: [words(&[b"HDEL", &key]), fields].concat(), expected: exact(Value::Integer(gone)) }
    }

    fn increment(&mut self) -> Step {
        let (key, field, by) = (self.key(), self.field(), self.random.between(-50, 50));
        let before = self.model.value(&key, &field).unwrap_or(b"0").to_vec();
        let text = std::str::from_utf8(&before).unwrap_or("x");
        if self.random.chance(50) {
            let args = words(&[b"HINCRBY", &key, &field, &number(by)]);
            let Some(sum) = text.parse::<i64>().ok().filter(|_| !text.contains(' ')).map(|n| n + by) else {
                return Step { args, expected: exact(Value::Error(b"ERR hash value is not an integer".to_vec())) };
            };
            self.model.increment(&key, &field, &number(sum));
            return Step { args, expected: exact(Value::Integer(sum)) };
        }
        let args = words(&[b"HINCRBYFLOAT", &key, &field, format!("{by}.25").as_bytes()]);
        let by = format!("{by}.25").parse::<f64>().unwrap_or_default();
        let Some(sum) = text.parse::<f64>().ok().map(|n| (n + by).to_string().into_bytes()) else {
            return Step { args, expected: exact(Value::Error(b"ERR hash value is not a float".to_vec())) };
        };
        self.model.increment(&key, &field, &sum);
        Step { args, expected: exact(Value::Bulk(sum)) }
    }

    fn expire(&mut self) -> Step {
        let unit = self.random.below(4);
        let name = [&b"HEXPIRE"[..], b"HPEXPIRE", b"HEXPIREAT", b"HPEXPIREAT"][unit];
        let conditions = [
            (&b""[..], Condition::Always),
            (b"", Condition::Always),
            (b"NX", Condition::Nx),
            (b"xx", Condition::Xx),
            (b"GT", Condition::Gt),
            (b"LT", Condition::Lt),
        ];
        let (key, (word, condition)) = (self.key(), *self.random.pick(&conditions));
        let fields = self.some_fields();
        let (text, time) = self.time(unit);
        let mut args = words(&[name, &key, &text]);
        if !word.is_empty() {
            args.push(word.to_vec());
        }
        args.extend([b"FIELDS".to_vec(), number(fields.len() as i64)]);
        let mut answers = Vec::new();
        for field in fields {
            answers.push(self.model.expire_field(&key, &field, time, condition, self.now_ms));
            args.push(field);
        }
        Step { args, expected: integers(answers) }
    }

    fn times(&mut self, ask: Ask, name: &[u8], key: Vec<u8>, fields: Vec<Vec<u8>>) -> Step {
        let times = fields.iter().map(|field| self.model.remaining(&key, field, ask, self.now_ms)).collect();
        let off = if matches!(ask, Ask::Seconds | Ask::AtSeconds) { OFF_MS / 1000 } else { OFF_MS };
        let args = [words(&[name, &key, b"FIELDS", &number(fields.len() as i64)]), fields].concat();
        Step { args, expected: Expected::Times(times, off) }
    }

    fn persist(&mut self) -> Step {
        let (key, fields) = (self.key(), self.some_fields());
        let answers = fields.iter().map(|field| self.model.persist(&key, field)).collect();
        let args = [words(&[b"HPERSIST", &key, b"FIELDS", &number(fields.len() as i64)]), fields].concat();
        Step { args, expected: integers(answers) }
    }

    fn get_and_change(&mut self) -> Step {
        let (key, fields) = (self.key(), self.some_fields());
        let (words_of_time, change) = self.change(&[(b"", Change::Keep), (b"", Change::Keep), (b"PERSIST", Change::Clear)]);
        let answers = fields.iter().map(|field| self.model.get_and_change(&key, field, change, self.now_ms)).collect();
        let mut args = [words(&[b"HGETEX", &key]), words_of_time].concat();
        args.extend([b"FIELDS".to_vec(), number(fields.len() as i64)]);
        args.extend(fields);
        Step { args, expected: exact(Value::Array(answers)) }
    }

    fn set_and_change(&mut self) -> Step {
        let (key, pairs) = (self.key(), self.pairs());
        let conditions = [(&b""[..], Existing::Any), (b"", Existing::Any), (b"FNX", Existing::Fnx), (b"fxx", Existing::Fxx)];
        let (word, existing) = *self.random.pick(&conditions);
        let (words_of_time, change) = self.change(&[(b"", Change::Clear), (b"KEEPTTL", Change::Keep), (b"KEEPTTL", Change::Keep)]);
        let answer = self.model.set_all(&key, &pairs, existing, change, self.now_ms);
        let mut args = words(&[b"HSETEX", &key]);
        if !word.is_empty() {
            args.push(word.to_vec());
        }
        args.extend(words_of_time);
        args.extend([b"FIELDS".to_vec(), number(pairs.len() as i64)]);
        args.extend(pairs.into_iter().flat_map(|(field, value)| [field, value]));
        Step { args, expected: exact(Value::Integer(answer)) }
    }

    fn take(&mut self) -> Step {
        let (key, fields) = (self.key(), self.some_fields());
        let taken = |value: Option<Vec<u8>>| value.map_or(Value::NullBulk, Value::Bulk);
        let answers = fields.iter().map(|field| taken(self.model.remove(&key, field))).collect();
        let args = [words(&[b"HGETDEL", &key, b"FIELDS", &number(fields.len() as i64)]), fields].concat();
        Step { args, expected: exact(Value::Array(answers)) }
    }

    fn move_key(&mut self) -> Step {
        let (from, to) = (self.key(), self.key());
        let integer = |is: bool| exact(Value::Integer(is.into()));
        match self.random.below(8) {
            0 => Step { args: words(&[b"DEL", &from]), expected: integer(self.model.delete(&from)) },
            1 => Step { args: words(&[b"EXISTS", &from]), expected: integer(self.model.exists(&from)) },
            2..5 => {
                let args = words(&[b"RENAME", &from, &to]);
                let done = self.model.rename(&from, &to);
                let expected = if done { Value::ok() } else { Value::Error(b"ERR no such key".to_vec()) };
                Step { args, expected: exact(expected) }
            }
            _ if from == to => Step { args: words(&[b"EXISTS", &from]), expected: integer(self.model.exists(&from)) },
            5 => Step { args: words(&[b"COPY", &from, &to]), expected: integer(self.model.copy(&from, &to, false)) },
            _ => {
                let args = words(&[b"COPY", &from, &to, b"REPLACE"]);
                Step { args, expected: integer(self.model.copy(&from, &to, true)) }
            }
        }
    }
}
