//! Transactions of many clients at once, on keys that they share: no client may see one half done, and none may run on what has
//! changed since its client looked.
//!
//! Three promises, each with a way to see it broken from outside:
//!
//! - *Atomic*: money moves between accounts in transactions whose keys are known, in ones that may touch any key (SELECT,
//!   DBSIZE inside), in ones that watch, and in scripts of each class. A client that reads all accounts, by MGET, in a transaction
//!   of either sort or in a script, must find the same sum.
//! - *Optimistic locks hold*: counters are read, and written by EXEC if no other client was faster, or by a script that computes
//!   for long between. At the end a counter is as high as there were executed transactions, scripts and plain increments.
//! - *An executed transaction sees what was watched*: clients watch keys, read them, and read them again in the transaction,
//!   while others set, append, delete, rename, expire, empty and swap databases. If EXEC executes, both must be equal.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::runtime::{Joiner, LEFT_OUT};
use crate::scripted::Script;
use crate::{Client, Random, Runtime, Value};

const ACCOUNTS: usize = 6;
const BALANCE: i64 = 1000;
const COUNTERS: usize = 2;
/// Databases in which watched keys change, and are swapped and emptied.
const SHARED_DBS: [usize; 2] = [4, 5];
const SHARED_KEYS: usize = 4;
/// Counts, and computes for so long between its look and its change that it is suspended.
const COUNT_SLOWLY: &str = "local n = redis.call('GET', KEYS[1]) or 0 for i = 1, 70000 do end
    return redis.call('SET', KEYS[1], n + 1)";

/// Moves an amount between two accounts, the second of which its code does not show; and counts.
const TRANSFER: &str = "redis.call('DECRBY', KEYS[1], ARGV[2])
    redis.call('INCRBY', string.sub(ARGV[1] .. 'x', 1, -2), ARGV[2])
    if ARGV[3] ~= '' then redis.call('INCR', string.sub(ARGV[3] .. 'x', 1, -2)) end return 1";
/// The same, with what it reads first.
const TRANSFER_LATE: &str = "local to = string.sub(ARGV[1] .. 'x', 1, -2)
    local before, after = redis.call('GET', KEYS[1]), redis.call('GET', to)
    if ARGV[3] ~= '' then redis.call('INCR', string.sub(ARGV[3] .. 'x', 1, -2)) end
    redis.call('SET', KEYS[1], string.format('%d', before - ARGV[2]))
    redis.call('SET', to, string.format('%d', after + ARGV[2])) return 1";
/// Reads two keys, changes one, and compares the other one with what it was.
const CHANGE: &str = "local first = redis.call('GET', KEYS[1])
    local other = string.sub(ARGV[1] .. 'x', 1, -2)
    local second = redis.call('GET', other)
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    for i = 1, 50 do redis.call('EXISTS', 'none' .. i) end
    return (other == KEYS[1] or redis.call('GET', other) == second) and redis.call('GET', KEYS[1]) == ARGV[2] and 1 or 0";

/// How to load the server.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// For how long.
    pub duration: Duration,
    /// Threads of each kind.
    pub threads: usize,
    /// Bytes that one more client writes to other keys again and again; 0: none.
    pub churn_bytes: usize,
    /// For the choice of operations; the interleaving is the machine's.
    pub seed: u64,
}

/// What was done, and what was wrong.
#[derive(Debug, Default)]
pub struct Report {
    /// Executed transactions.
    pub executed: u64,
    /// Transactions that did not run because a watched key had changed.
    pub aborted: u64,
    /// Reads of all accounts.
    pub sums: u64,
    /// Watched keys that were compared.
    pub compared: u64,
    /// What was wrong, the first of each client.
    pub breaches: Vec<String>,
}

impl Report {
    fn add(&mut self, other: Self) {
        self.executed += other.executed;
        self.aborted += other.aborted;
        self.sums += other.sums;
        self.compared += other.compared;
        self.breaches.extend(other.breaches);
    }

    fn breach(&mut self, what: String) {
        if self.breaches.len() < 3 {
            self.breaches.push(what);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executed, aborted, sums, compared, breaches } = self;
        write!(f, "{executed} transactions executed, {aborted} aborted, {sums} sums, {compared} watched reads compared, ")?;
        write!(f, "{} breaches", breaches.len())?;
        breaches.iter().try_for_each(|breach| write!(f, "\n  {breach}"))
    }
}

/// Runs all clients, and checks what is left.
///
/// # Errors
/// When the server does not answer any more.
///
/// # Panics
/// When a thread panics.
pub fn run<R: Runtime>(runtime: R, settings: Settings) -> io::Result<Report> {
    let mut client = Client::of(&runtime)?;
    for account in 0..ACCOUNTS {
        client.call(&["SET", &account_key(account), &BALANCE.to_string()])?;
    }
    let end_ns = runtime.now_ns() + settings.duration.as_nanos() as u64;
    let kinds: [Work<R>; 12] = [
        Worker::transfer_planned,
        Worker::transfer_alone,
        Worker::transfer_watching,
        Worker::transfer_by_script,
        Worker::change_by_script,
        Worker::sum,
        Worker::sum_alone,
        Worker::count,
        Worker::compare_watched,
        Worker::disturb_watched,
        Worker::transfer_scripted,
        Worker::sum_scripted,
    ];
    let mut workers = Vec::new();
    for number in 0..kinds.len() * settings.threads {
        workers.push(Worker::new(&runtime, number, settings.seed + number as u64)?);
    }
    let spawn = |(number, worker): (usize, Worker<R>)| {
        let work = kinds[number % kinds.len()];
        runtime.spawn(&format!("client-{number}"), move || worker.run(work, end_ns))
    };
    let threads: Vec<_> = workers.into_iter().enumerate().map(spawn).collect();
    let churning = (settings.churn_bytes > 0).then(|| {
        let own = runtime.clone();
        runtime.spawn("churner", move || churn(&own, settings.churn_bytes, end_ns))
    });
    let mut report = Report::default();
    let mut counted = [0; COUNTERS];
    for worker in threads.into_iter().map(Joiner::join) {
        let worker = worker?;
        report.add(worker.report);
        counted.iter_mut().zip(worker.counted).for_each(|(sum, more)| *sum += more);
    }
    churning.map_or(Ok(()), Joiner::join)?;
    for (counter, expected) in counted.into_iter().enumerate() {
        let found = client.call(&["GET", &format!("counter:{counter}")])?;
        // One that no client has come to is not there.
        if number(&found) != Some(expected) && !(expected == 0 && found.is_null()) {
            report.breach(format!("counter {counter} is {found} after {expected} increments"));
        }
    }
    Ok(report)
}

/// What a client does again and again.
type Work<R> = fn(&mut Worker<R>) -> io::Result<()>;

fn account_key(account: usize) -> String {
    format!("account:{account}")
}

fn number(value: &Value) -> Option<i64> {
    value.integer().or_else(|| std::str::from_utf8(value.bytes()?).ok()?.parse().ok())
}

/// Fills memory beside, so that keys become cold and the index grows and shrinks.
fn churn<R: Runtime>(runtime: &R, bytes: usize, end_ns: u64) -> io::Result<()> {
    let mut client = Client::of(runtime)?;
    client.call(&["SELECT", "9"])?;
    let value = "x".repeat(1000);
    while runtime.now_ns() < end_ns {
        for first in (0..bytes / 1000).step_by(100) {
            let keys: Vec<String> = (first..first + 100).map(|key| format!("churn:{key}")).collect();
            let commands: Vec<[&str; 3]> = keys.iter().map(|key| ["SET", key, &value]).collect();
            client.pipeline(&commands)?;
            if runtime.now_ns() >= end_ns {
                return Ok(());
            }
        }
        client.call(&["FLUSHDB"])?;
    }
    Ok(())
}

/// One client.
struct Worker<R: Runtime> {
    runtime: R,
    client: Client<R::Stream>,
    number: usize,
    random: Random,
    report: Report,
    counted: [i64; COUNTERS],
}

impl<R: Runtime> Worker<R> {
    fn new(runtime: &R, number: usize, seed: u64) -> io::Result<Self> {
        let (client, random) = (Client::of(runtime)?, Random::new(seed));
        let runtime = runtime.clone();
        Ok(Self { runtime, client, number, random, report: Report::default(), counted: [0; COUNTERS] })
    }

    fn run(mut self, work: Work<R>, end_ns: u64) -> io::Result<Self> {
        let mut operation = 0;
        while self.runtime.now_ns() < end_ns {
            operation += 1;
            match self.runtime.includes(self.number, operation) {
                true => work(&mut self)?,
                false => self.runtime.pause(LEFT_OUT),
            }
        }
        Ok(self)
    }

    /// Sends a transaction, as a whole or with EXEC by itself, and returns what EXEC answered. A part of its commands is called
    /// by scripts.
    fn execute(&mut self, commands: &[Vec<String>]) -> io::Result<Value> {
        let bytes = |words: &[String]| words.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>();
        let (some, script) = (self.random.chance(30), Script::random(&mut self.random));
        let is_scripted: Vec<bool> = commands.iter().map(|words| some && words.len() > 1 && words[0] != "SELECT").collect();
        let sent = commands.iter().zip(&is_scripted).map(|(words, is_scripted)| {
            let keys = if words[0] == "MGET" { &words[1..] } else { words.get(1..2).unwrap_or_default() };
            if *is_scripted { script.words(&[bytes(words)], &bytes(keys)) } else { bytes(words) }
        });
        let word = |word: &str| vec![word.as_bytes().to_vec()];
        let whole: Vec<Vec<Vec<u8>>> = [word("MULTI")].into_iter().chain(sent).chain([word("EXEC")]).collect();
        let (queued, rest) = whole.split_at(if self.random.chance(50) { 0 } else { whole.len() - 1 });
        self.client.pipeline(queued)?;
        let mut reply = self.client.pipeline(rest)?.pop().unwrap_or(Value::Null);
        if let Value::Array(items) = &mut reply {
            for (item, _) in items.iter_mut().zip(is_scripted).filter(|(_, is_scripted)| *is_scripted) {
                match item {
                    Value::Array(only) if only.len() == 1 => *item = only.remove(0),
                    _ => self.report.breach(format!("a script in {commands:?} answered {item}")),
                }
            }
        }
        match &reply {
            Value::Array(items) if items.len() == commands.len() && !items.iter().any(Value::is_error) => self.report.executed += 1,
            reply if reply.is_null() => self.report.aborted += 1,
            reply => self.report.breach(format!("EXEC of {commands:?} answered {reply}")),
        }
        Ok(reply)
    }

    /// Has a script call commands, and returns what they have answered.
    fn script(&mut self, commands: &[Vec<String>]) -> io::Result<Value> {
        let bytes = |words: &Vec<String>| words.iter().map(|word| word.clone().into_bytes()).collect();
        let keys: Vec<Vec<u8>> = (0..ACCOUNTS).map(|account| account_key(account).into_bytes()).collect();
        let script = Script::random(&mut self.random);
        let reply = self.client.call(&script.words(&commands.iter().map(bytes).collect::<Vec<_>>(), &keys))?;
        match &reply {
            Value::Array(items) if items.len() == commands.len() && !items.iter().any(Value::is_error) => self.report.executed += 1,
            reply => self.report.breach(format!("a script of {commands:?} answered {reply}")),
        }
        Ok(reply)
    }

    /// Two accounts and an amount.
    fn choose(&mut self) -> (String, String, String) {
        let from = self.random.below(ACCOUNTS);
        let to = (from + 1 + self.random.below(ACCOUNTS - 1)) % ACCOUNTS;
        (account_key(from), account_key(to), self.random.between(1, 50).to_string())
    }

    fn transfer_planned(&mut self) -> io::Result<()> {
        let (from, to, amount) = self.choose();
        self.execute(&[words(&["DECRBY", &from, &amount]), words(&["INCRBY", &to, &amount])]).map(drop)
    }

    fn transfer_scripted(&mut self) -> io::Result<()> {
        let (from, to, amount) = self.choose();
        self.script(&[words(&["DECRBY", &from, &amount]), words(&["INCRBY", &to, &amount])]).map(drop)
    }

    fn transfer_alone(&mut self) -> io::Result<()> {
        let (from, to, amount) = self.choose();
        let (first, second) = (words(&["DECRBY", &from, &amount]), words(&["INCRBY", &to, &amount]));
        self.execute(&[words(&["SELECT", "0"]), first, words(&["DBSIZE"]), second]).map(drop)
    }

    fn transfer_watching(&mut self) -> io::Result<()> {
        let (from, to, amount) = self.choose();
        self.client.call(&["WATCH", &from, &to])?;
        let read = self.client.call(&["MGET", &from, &to])?;
        let balances: Vec<i64> = read.elements().unwrap_or_default().iter().filter_map(number).collect();
        let [before, after] = balances[..] else {
            self.report.breach(format!("MGET of accounts answered {read}"));
            return Ok(());
        };
        let amount: i64 = amount.parse().unwrap_or(0);
        let commands =
            [words(&["SET", &from, &(before - amount).to_string()]), words(&["SET", &to, &(after + amount).to_string()])];
        self.execute(&commands).map(drop)
    }

    /// By a script whose keys show while it runs; some write before, or count a key that others watch.
    fn transfer_by_script(&mut self) -> io::Result<()> {
        let (from, to, amount) = self.choose();
        let counter = self.random.below(COUNTERS);
        let key = format!("counter:{counter}");
        let counts = self.random.chance(30);
        let script = if self.random.chance(50) { TRANSFER } else { TRANSFER_LATE };
        let reply = self.client.call(&["EVAL", script, "1", &from, &to, &amount, if counts { &key } else { "" }])?;
        if reply.integer() != Some(1) {
            self.report.breach(format!("a script that moves {amount} from {from} to {to} answered {reply}"));
        }
        self.report.executed += 1;
        self.counted[counter] += i64::from(counts);
        Ok(())
    }

    /// Changes keys that others watch by a script whose keys show while it runs, and reads them at its begin and at its end.
    fn change_by_script(&mut self) -> io::Result<()> {
        let db = self.random.pick(&SHARED_DBS).to_string();
        self.client.call(&["SELECT", &db])?;
        let keys: [String; 2] = std::array::from_fn(|_| format!("shared:{}", self.random.below(SHARED_KEYS)));
        let (value, life_ms) = (self.random.bits().to_string(), self.random.between(1, 4).to_string());
        let reply = self.client.call(&["EVAL", CHANGE, "1", &keys[0], &keys[1], &value, &life_ms])?;
        self.report.compared += 1;
        if reply.integer() != Some(1) {
            self.report.breach(format!("a script found another value in {keys:?} of database {db} than before: {reply}"));
        }
        Ok(())
    }

    fn check_sum(&mut self, how: &str, balances: &[Value]) {
        self.report.sums += 1;
        let sum: i64 = balances.iter().filter_map(number).sum();
        if sum != ACCOUNTS as i64 * BALANCE {
            self.report.breach(format!("{how} found {sum} in all accounts: {balances:?}"));
        }
    }

    fn sum(&mut self) -> io::Result<()> {
        let keys: Vec<String> = (0..ACCOUNTS).map(account_key).collect();
        let mget = [&["MGET".to_owned()][..], &keys].concat();
        if self.random.chance(50) {
            let reply = self.client.call(&mget)?;
            self.check_sum("MGET", reply.elements().unwrap_or_default());
            return Ok(());
        }
        let gets: Vec<Vec<String>> = keys.iter().map(|key| words(&["GET", key])).collect();
        let reply = self.execute(&gets)?;
        self.check_sum("a transaction", reply.elements().unwrap_or_default());
        Ok(())
    }

    fn sum_alone(&mut self) -> io::Result<()> {
        let gets = (0..ACCOUNTS).map(|account| words(&["GET", &account_key(account)]));
        let commands: Vec<Vec<String>> = [words(&["SELECT", "0"])].into_iter().chain(gets).collect();
        let reply = self.execute(&commands)?;
        self.check_sum("a transaction that runs alone", reply.elements().unwrap_or_default().get(1..).unwrap_or_default());
        Ok(())
    }

    fn sum_scripted(&mut self) -> io::Result<()> {
        let gets: Vec<Vec<String>> = (0..ACCOUNTS).map(|account| words(&["GET", &account_key(account)])).collect();
        let reply = self.script(&gets)?;
        self.check_sum("a script", reply.elements().unwrap_or_default());
        Ok(())
    }

    fn count(&mut self) -> io::Result<()> {
        let counter = self.random.below(COUNTERS);
        let key = format!("counter:{counter}");
        if self.random.chance(20) {
            self.client.call(&["INCR", &key])?;
            self.counted[counter] += 1;
            return Ok(());
        }
        if self.random.chance(20) {
            let reply = self.client.call(&["EVAL", COUNT_SLOWLY, "1", &key])?;
            if reply != Value::ok() {
                self.report.breach(format!("a script that counts answered {reply}"));
            }
            self.counted[counter] += 1;
            return Ok(());
        }
        self.client.call(&["WATCH", &key])?;
        let value = number(&self.client.call(&["GET", &key])?).unwrap_or(0);
        let mut commands = vec![words(&["SET", &key, &(value + 1).to_string()])];
        if self.random.chance(20) {
            commands.push(words(&["DBSIZE"]));
        }
        let reply = self.execute(&commands)?;
        self.counted[counter] += i64::from(!reply.is_null());
        Ok(())
    }

    fn compare_watched(&mut self) -> io::Result<()> {
        let db = self.random.pick(&SHARED_DBS).to_string();
        self.client.call(&["SELECT", &db])?;
        let keys: Vec<String> = (0..2).map(|_| format!("shared:{}", self.random.below(SHARED_KEYS))).collect();
        let mget = [&["MGET".to_owned()][..], &keys].concat();
        self.client.call(&[&["WATCH".to_owned()][..], &keys].concat())?;
        let before = self.client.call(&mget)?;
        if self.random.chance(30) {
            self.runtime.sleep(Duration::from_millis(2));
        }
        let mut commands = vec![mget];
        if self.random.chance(30) {
            commands.push(words(&["DBSIZE"]));
        }
        if let Value::Array(items) = self.execute(&commands)? {
            self.report.compared += 1;
            if items[0] != before {
                self.report.breach(format!("{keys:?} of database {db} were {before} when watched and {} in EXEC", items[0]));
            }
        }
        Ok(())
    }

    fn disturb_watched(&mut self) -> io::Result<()> {
        let db = self.random.pick(&SHARED_DBS).to_string();
        self.client.call(&["SELECT", &db])?;
        let key = format!("shared:{}", self.random.below(SHARED_KEYS));
        let other = format!("shared:{}", self.random.below(SHARED_KEYS));
        let value = self.random.bits().to_string();
        let command = match self.random.below(40) {
            0..12 => words(&["SET", &key, &value]),
            12..18 => words(&["SET", &key, &value, "PX", "3"]),
            18..22 => words(&["APPEND", &key, &value]),
            22..26 => words(&["DEL", &key]),
            26..29 => words(&["RENAME", &key, &other]),
            29..31 => words(&["COPY", &key, &other, "REPLACE"]),
            31..33 => words(&["GETDEL", &key]),
            33..35 => words(&["MSET", &key, &value, &other, "x"]),
            35 => words(&["FLUSHDB"]),
            36 | 37 => words(&["SWAPDB", "4", "5"]),
            38 => words(&["MOVE", &key, "5"]),
            _ => words(&["SETRANGE", &key, "3", "abc"]),
        };
        if self.random.chance(10) {
            return self.client.pipeline(&[words(&["MULTI"]), command, words(&["EXEC"])]).map(drop);
        }
        self.client.call(&command)?;
        Ok(())
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
