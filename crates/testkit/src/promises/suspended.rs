//! Scripts that run for so long that they are suspended, beside clients that change what they have read, wait for what they push,
//! and kill them.
//!
//! - A script sees one moment: pairs of keys that transactions set together are equal.
//! - Nothing between its look and its change is lost: a counter is as high as there were additions that were answered.
//! - A script that is killed has changed nothing, and each kill ends one script at most.
//! - A client that waits for an element is served when the script that pushes it has ended, in the order of the pushes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::connect;
use crate::runtime::{Joiner, LEFT_OUT};
use crate::{Client, Random, Runtime, Value};

const COUNTERS: [&str; 2] = ["counter:0", "counter:1"];
const PAIR: [&str; 2] = ["pair:0", "pair:1"];
const QUEUE: &str = "queue";

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Scripts that have returned.
    pub returned: u64,
    /// Scripts that were killed.
    pub killed: u64,
    /// Kills that were answered with OK.
    pub kills: u64,
    /// Commands that were refused while a script was alone.
    pub busy: u64,
    /// Elements that clients have waited for.
    pub served: u64,
    /// Other commands that were answered.
    pub answered: u64,
}

impl Report {
    fn add(&mut self, other: &Self) {
        self.returned += other.returned;
        self.killed += other.killed;
        self.kills += other.kills;
        self.busy += other.busy;
        self.served += other.served;
        self.answered += other.answered;
    }
}

/// How a script comes to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Its code shows them.
    Planned,
    /// Only its run shows them.
    Growing,
    /// A command beside them may use any key.
    Alone,
}

impl Class {
    const ALL: [Self; 3] = [Self::Planned, Self::Growing, Self::Alone];

    /// The code of a script in which `$n` is the key of this number, and LONG a loop.
    fn code(self, text: &str, rounds: u32) -> String {
        let mut code = if self == Self::Alone { "redis.call('DBSIZE') ".to_owned() } else { String::new() };
        code += &text.replace("LONG", &format!("for i = 1, {rounds} do end"));
        for number in 1..=3 {
            let key = if self == Self::Growing { format!("redis.call('ECHO', KEYS[{number}])") } else { format!("KEYS[{number}]") };
            code = code.replace(&format!("${number}"), &key);
        }
        code
    }
}

/// Both keys of a pair.
const READ: &str = "local first = redis.call('GET', $1) LONG return {first, redis.call('GET', $2)}";
/// Adds one to a counter.
const COUNT: &str = "local n = redis.call('GET', $1) or 0 LONG redis.call('SET', $1, n + 1) LONG return 1";
/// The same with an element for a queue, and a mark that the script has come to its end.
const PUSH: &str = "local n = redis.call('GET', $1) or 0 LONG redis.call('RPUSH', $2, ARGV[1]) LONG
    redis.call('SET', $1, n + 1) redis.call('SET', $3, 'done') return 1";

/// One client.
struct Worker<R: Runtime> {
    runtime: R,
    client: Client<R::Stream>,
    number: usize,
    rounds: u32,
    random: Random,
    report: Report,
    /// Additions to each counter that were answered.
    counted: [i64; COUNTERS.len()],
    /// The number of the last element that this client has pushed, and those that were answered.
    last: u64,
    pushed: Vec<String>,
    /// Elements that it was served.
    popped: Vec<String>,
}

/// What a client does once.
type Work<R> = fn(&mut Worker<R>);

/// Loads the server for a while. A loop of `rounds` rounds takes as long as a script runs before it is suspended, or longer.
///
/// # Panics
/// When a promise is broken, or the server does not answer.
pub fn hold<R: Runtime>(runtime: &R, duration: Duration, rounds: u32, seed: u64) -> Report {
    let works: [Work<R>; 9] = [
        Worker::script,
        Worker::script,
        Worker::script,
        Worker::script_in_transaction,
        Worker::change,
        Worker::change,
        Worker::kill,
        Worker::wait,
        Worker::wait,
    ];
    let end_ns = runtime.now_ns() + duration.as_nanos() as u64;
    connect(runtime).call(&["MSET", PAIR[0], "0", PAIR[1], "0"]).expect("a reply");
    let spawn = |(number, work): (usize, &Work<R>)| {
        let (mut worker, work) = (Worker::new(runtime, number, rounds, seed), *work);
        runtime.spawn(&format!("client-{number}"), move || {
            for operation in 0.. {
                if worker.runtime.now_ns() >= end_ns {
                    break;
                }
                if worker.runtime.includes(number, operation) {
                    work(&mut worker);
                } else {
                    worker.runtime.sleep(LEFT_OUT);
                }
            }
            worker
        })
    };
    let threads: Vec<_> = works.iter().enumerate().map(spawn).collect();
    let workers: Vec<_> = threads.into_iter().map(Joiner::join).collect();
    check(&mut connect(runtime), &workers)
}

/// Looks at what is left when all clients have ended.
fn check<R: Runtime>(client: &mut Client<R::Stream>, workers: &[Worker<R>]) -> Report {
    let mut report = Report::default();
    workers.iter().for_each(|worker| report.add(&worker.report));
    for (place, counter) in COUNTERS.iter().enumerate() {
        let expected: i64 = workers.iter().map(|worker| worker.counted[place]).sum();
        let found = client.call(&["GET", counter]).expect("a reply");
        let found = found.bytes().map_or(0, |bytes| String::from_utf8_lossy(bytes).parse().expect("a number"));
        assert_eq!(found, expected, "{counter} behind so many additions");
    }
    assert!(report.killed <= report.kills, "{} scripts were killed by {} kills", report.killed, report.kills);
    let left = client.call(&["LRANGE", QUEUE, "0", "-1"]).expect("a reply");
    let Value::Array(left) = left else { panic!("no list: {left}") };
    let left = left.iter().filter_map(|element| Some(String::from_utf8_lossy(element.bytes()?).into_owned()));
    let mut popped: Vec<String> = workers.iter().flat_map(|worker| worker.popped.iter().cloned()).chain(left).collect();
    let mut pushed: Vec<String> = workers.iter().flat_map(|worker| worker.pushed.iter().cloned()).collect();
    popped.sort_unstable();
    pushed.sort_unstable();
    assert_eq!(popped, pushed, "what was pushed is there once");
    report
}

impl<R: Runtime> Worker<R> {
    fn new(runtime: &R, number: usize, rounds: u32, seed: u64) -> Self {
        Self {
            runtime: runtime.clone(),
            client: connect(runtime),
            number,
            rounds,
            random: Random::new(seed.wrapping_mul(100) + number as u64),
            report: Report::default(),
            counted: [0; COUNTERS.len()],
            last: 0,
            pushed: Vec::new(),
            popped: Vec::new(),
        }
    }

    /// Calls a script. Nothing if it was not run, or was killed.
    fn eval(&mut self, code: &str, keys: &[&str], argument: &str) -> Option<Value> {
        let count = keys.len().to_string();
        let words: Vec<&str> = ["EVAL", code, &count].into_iter().chain(keys.iter().copied()).chain([argument]).collect();
        let reply = self.client.call(&words).expect("a reply");
        self.ran(reply)
    }

    /// The reply of a script that has returned.
    fn ran(&mut self, reply: Value) -> Option<Value> {
        match &reply {
            Value::Error(text) if text.starts_with(b"ERR Script killed by user") => self.report.killed += 1,
            Value::Error(text) if text.starts_with(b"BUSY") => self.rest(),
            Value::Error(_) => panic!("a script is answered with {reply}"),
            _ => {
                self.report.returned += 1;
                return Some(reply);
            }
        }
        None
    }

    /// The server is busy.
    fn rest(&mut self) {
        self.report.busy += 1;
        self.runtime.sleep(Duration::from_micros(200));
    }

    fn is_busy(&mut self, reply: &Value) -> bool {
        let is_busy = matches!(reply, Value::Error(text) if text.starts_with(b"BUSY"));
        if is_busy {
            self.rest();
        }
        is_busy
    }

    fn script(&mut self) {
        let class = *self.random.pick(&Class::ALL);
        match self.random.below(3) {
            0 => {
                if let Some(reply) = self.eval(&class.code(READ, self.rounds), &PAIR, "") {
                    let Value::Array(pair) = &reply else { panic!("no pair: {reply}") };
                    assert_eq!(pair[0], pair[1], "a script of the class {class:?} has seen two moments");
                }
            }
            1 => {
                let place = self.random.below(COUNTERS.len());
                let ran = self.eval(&class.code(COUNT, self.rounds), &[COUNTERS[place]], "");
                self.counted[place] += i64::from(ran.is_some());
            }
            _ => {
                self.last += 1;
                let element = format!("{}:{:06}", self.number, self.last);
                let ran = self.eval(&class.code(PUSH, self.rounds), &[COUNTERS[0], QUEUE, &format!("done:{element}")], &element);
                if ran.is_some() {
                    self.counted[0] += 1;
                    self.pushed.push(element);
                }
            }
        }
    }

    /// A transaction that reads a pair before its script does, and behind it: all of one moment.
    fn read_in_transaction(&mut self) {
        let class = *self.random.pick(&Class::ALL);
        let code = class.code(READ, self.rounds);
        let get = |key| vec!["GET", key];
        let commands = [vec!["MULTI"], get(PAIR[0]), vec!["EVAL", &code, "2", PAIR[0], PAIR[1]], get(PAIR[1]), vec!["EXEC"]];
        let replies = self.client.pipeline(&commands).expect("replies");
        match replies.into_iter().last().expect("a reply for each") {
            Value::Array(mut replies) => {
                assert_eq!(replies.len(), 3);
                let script = replies.remove(1);
                assert_eq!(replies[0], replies[1], "a transaction with a script of the class {class:?} has seen two moments");
                if let Some(pair) = self.ran(script) {
                    assert_eq!(
                        pair,
                        Value::Array(replies),
                        "a script of the class {class:?} has seen another moment than its EXEC"
                    );
                }
            }
            Value::Error(_) => {
                // It was refused while a script was alone.
                self.rest();
                self.client.call(&["DISCARD"]).expect("a reply");
            }
            other => panic!("EXEC is answered with {other}"),
        }
    }

    /// A transaction that is suspended with its script, unless that says its keys.
    fn script_in_transaction(&mut self) {
        self.runtime.sleep(Duration::from_millis(self.random.below(10) as u64));
        if self.random.chance(40) {
            return self.read_in_transaction();
        }
        let code = self.random.pick(&Class::ALL).code(COUNT, self.rounds);
        let commands: [&[&str]; 4] = [&["MULTI"], &["INCR", COUNTERS[1]], &["EVAL", &code, "1", COUNTERS[0]], &["EXEC"]];
        let replies = self.client.pipeline(&commands).expect("replies");
        match replies.into_iter().last().expect("a reply for each") {
            Value::Array(mut replies) => {
                assert_eq!(replies.len(), 2);
                self.counted[1] += 1;
                let script = replies.remove(1);
                self.counted[0] += i64::from(self.ran(script).is_some());
            }
            Value::Error(_) => {
                // It was refused while a script was alone.
                self.rest();
                self.client.call(&["DISCARD"]).expect("a reply");
            }
            other => panic!("EXEC is answered with {other}"),
        }
    }

    /// Changes what scripts have read, and a key that none uses.
    fn change(&mut self) {
        self.runtime.sleep(Duration::from_micros(self.random.below(3_000) as u64));
        match self.random.below(3) {
            0 => {
                let value = format!("{}:{}", self.number, self.random.below(1 << 40));
                let commands: [&[&str]; 4] = [&["MULTI"], &["SET", PAIR[0], &value], &["SET", PAIR[1], &value], &["EXEC"]];
                let replies = self.client.pipeline(&commands).expect("replies");
                if !matches!(replies.last(), Some(Value::Array(_))) {
                    self.rest();
                    self.client.call(&["DISCARD"]).expect("a reply");
                }
            }
            1 => {
                let place = self.random.below(COUNTERS.len());
                let reply = self.client.call(&["INCR", COUNTERS[place]]).expect("a reply");
                if !self.is_busy(&reply) {
                    assert!(matches!(reply, Value::Integer(_)), "INCR is answered with {reply}");
                    self.counted[place] += 1;
                }
            }
            _ => {
                let (key, value) = (format!("own:{}", self.number), self.random.below(1 << 40).to_string());
                let reply = self.client.call(&["SET", &key, &value]).expect("a reply");
                if self.is_busy(&reply) {
                    return;
                }
                let found = self.client.call(&["GET", &key]).expect("a reply");
                if !self.is_busy(&found) {
                    assert_eq!(found.bytes(), Some(value.as_bytes()), "a client finds what it wrote last");
                    self.report.answered += 2;
                }
            }
        }
    }

    fn kill(&mut self) {
        self.runtime.sleep(Duration::from_micros(self.random.below(8_000) as u64));
        match self.client.call(&["SCRIPT", "KILL"]).expect("a reply") {
            Value::Error(text) => {
                let is_known = text.starts_with(b"NOTBUSY") || text.starts_with(b"UNKILLABLE");
                assert!(is_known, "SCRIPT KILL is answered with {}", text.escape_ascii());
            }
            reply => {
                assert_eq!(reply, Value::ok());
                self.report.kills += 1;
            }
        }
    }

    /// Waits for an element.
    fn wait(&mut self) {
        let reply = self.client.call(&["BLPOP", QUEUE, "0.02"]).expect("a reply");
        if self.is_busy(&reply) || reply.is_null() {
            return;
        }
        let Value::Array(items) = &reply else { panic!("BLPOP is answered with {reply}") };
        let element = String::from_utf8_lossy(items[1].bytes().expect("an element")).into_owned();
        loop {
            let mark = self.client.call(&["GET", &format!("done:{element}")]).expect("a reply");
            if !self.is_busy(&mark) {
                assert_eq!(mark.bytes(), Some(&b"done"[..]), "{element} was served before its script had ended");
                break;
            }
        }
        let mut last = BTreeMap::new();
        for element in self.popped.iter().chain([&element]) {
            let (client, number) = element.split_once(':').expect("a client and a number");
            let before = last.insert(client, number);
            assert!(before.is_none_or(|before| before < number), "{element} was served out of order");
        }
        self.popped.push(element);
        self.report.served += 1;
    }
}
