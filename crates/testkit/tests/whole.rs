//! A command that fails has changed nothing, whichever allocation fails; and no client sees half of what several keys are set to.
//!
//! Only a server with debug assertions lets allocations fail on purpose (DEBUG LIMIT-ALLOCATIONS).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Random, Server, Value, full, seed};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];
/// Allocations that no command of these needs.
const ENOUGH: i64 = 1000;

/// Whether the server lets allocations fail.
fn is_limited(client: &mut Client) -> bool {
    let limited = !client.line("DEBUG LIMIT-ALLOCATIONS -1").is_error();
    assert!(limited || full(), "only a server with debug assertions lets allocations fail");
    if !limited {
        println!("whole: a release build lets no allocation fail; the run with the debug build shows what happens then");
    }
    limited
}

/// What is in databases 0 and 1, with expiries.
fn contents(client: &mut Client) -> Vec<Value> {
    let names = ["small", "volatile", "long", "heap", "heap:volatile", "=n700", "number", "new"];
    let fixed = ["DEBUG DIGEST", "SELECT 1", "DBSIZE", "SELECT 0", "DBSIZE"].map(words);
    let expiries = names.map(|name| words(&format!("PEXPIRETIME {name}")));
    client.pipeline(&[&fixed[..], &expiries[..]].concat()).expect("answers")
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(|word| value(word).unwrap_or_else(|| word.to_owned())).collect()
}

/// `=c40000` stands for this number of `c`.
fn value(word: &str) -> Option<String> {
    let (letter, len) = word.strip_prefix('=')?.split_at(1);
    Some(letter.repeat(len.parse().ok()?))
}

fn is_refused(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(b"OOM"))
}

/// Values in their records, in one of the longest records, on the heap; one under a long name; with expiries and without.
const KEYS: &[&str] = &[
    "SET small =s10",
    "SET volatile =v20 PX 500000000",
    "SET long =l1500",
    "SET heap =h40000",
    "SET heap:volatile =i30000 PX 500000000",
    "SET =n700 =k100",
    "SET number 41",
    "SET number:heap =041",
];

/// Commands that write, with more than one step if anything has.
const COMMANDS: &[&str] = &[
    "MSET small =a1500 volatile =b10 long =c2000 heap =d10 heap:volatile =e50000 =n700 =f5000 new =g10 new:heap =h40000 =m700 \
     =i700",
    "MSET small =a5 new =b10 small =c1500 new =d40000 small =e6",
    "MSETNX new =a10 new:heap =b40000 =m700 =c10",
    "MSETNX new =a10 small =b10",
    "MSETEX 4 small =a1500 heap =b10 new =c10 =n700 =d40000 EX 500000",
    "MSETEX 3 volatile =a1500 heap:volatile =b50000 new =c10 KEEPTTL",
    "MSETEX 2 small =a10 new =b10 NX",
    "MSETEX 2 small =a1500 heap =b10 XX",
    "MSETEX 2 small =a10 heap =b10 PXAT 1",
    "RENAME small new",
    "RENAME small heap",
    "RENAME heap small",
    "RENAME =n700 volatile",
    "RENAME heap:volatile =n700",
    "RENAMENX long =m700",
    "COPY small new",
    "COPY heap small REPLACE",
    "COPY heap:volatile =n700 REPLACE",
    "COPY =n700 new DB 1",
    "COPY heap new DB 1",
    "MOVE small 1",
    "MOVE heap:volatile 1",
    "MOVE =n700 1",
    "BITOP OR small heap long",
    "BITOP AND heap small long",
    "BITOP NOT new long",
    "APPEND small =a5000",
    "APPEND small =a50000",
    "APPEND new =a10",
    "SETRANGE small 1000 =a10",
    "SETRANGE new 50000 =a10",
    "SETBIT small 20000 1",
    "BITFIELD small SET u8 0 1 SET u8 20000 2 SET u8 400000 3 INCRBY u8 #1 1",
    "BITFIELD new SET u8 0 1 SET u8 20000 2 SET u8 400000 3",
    "SET small =a1500 EX 500000 GET",
    "SET heap =a10 KEEPTTL",
    "GETSET long =a40000",
    "GETEX small EX 500000",
    "GETEX heap EX 500000",
    "GETEX volatile PERSIST",
    "EXPIRE long 500000",
    "PERSIST heap:volatile",
    "INCR number",
    "INCRBYFLOAT number 0.000000000001",
    "INCREX number BYINT 1000000000 EX 500000",
    "SETIFGREATER small =a1500 17",
    "SETWITHETAG heap =a50000",
];

/// Runs each command with too few allocations, one more each time, until they are enough.
fn each_command_is_whole(flags: &[&str], cold: bool) {
    let server = Server::start(&Program::Almandine, &[&DEBUG[..], &["--workers", "1"], flags].concat());
    let mut client = server.client();
    if !is_limited(&mut client) {
        return;
    }
    let (mut failed, mut by_steps) = (0, BTreeSet::new());
    for command in COMMANDS {
        for limit in 0..ENOUGH {
            let setup: Vec<Vec<String>> = ["FLUSHALL"].iter().chain(KEYS).map(|line| words(line)).collect();
            assert!(client.pipeline(&setup).expect("answers").iter().all(|reply| *reply == Value::ok()));
            if cold {
                assert_eq!(client.line("DEBUG STORAGE EVICT"), Value::ok());
            }
            let before = contents(&mut client);
            let steps = [words(&format!("DEBUG LIMIT-ALLOCATIONS {limit}")), words(command), words("DEBUG LIMIT-ALLOCATIONS -1")];
            let replies = client.pipeline(&steps).expect("answers");
            if !is_refused(&replies[1]) {
                assert!(!replies[1].is_error(), "{command}: {}", replies[1]);
                by_steps.insert(limit);
                break;
            }
            failed += 1;
            assert_eq!(contents(&mut client), before, "{command}, after {limit} allocations, has changed something");
        }
    }
    println!("whole: {} commands failed {failed} times and changed nothing; they took {by_steps:?} allocations", COMMANDS.len());
    assert!(failed > COMMANDS.len() / 2 && by_steps.last().is_some_and(|most| *most > 5));
}

#[test]
fn a_command_without_space_changes_nothing() {
    each_command_is_whole(&[], false);
}

#[test]
fn a_command_on_cold_keys_without_space_changes_nothing() {
    each_command_is_whole(&["--storage-dir", "{dir}/s", "--maxmemory", "32mb"], true);
}

/// A command that fails leaves the others of its transaction standing.
#[test]
fn the_others_of_a_transaction_stand() {
    let server = Server::start(&Program::Almandine, &[&DEBUG[..], &["--workers", "1"]].concat());
    let mut client = server.client();
    if !is_limited(&mut client) {
        return;
    }
    // Its keys are known, or it may touch any and runs alone.
    the_others_stand(
        &mut client,
        &["SET a 1", "DEBUG LIMIT-ALLOCATIONS 2", "MULTI", "SET b 1", "MSET a 2 c 3 d 4", "GET a", "DEL b", "EXEC"],
    );
    the_others_stand(
        &mut client,
        &["SET a 1", "DEBUG LIMIT-ALLOCATIONS 2", "MULTI", "SET b 1", "MSET a 2 c 3 d 4", "GET a", "DEL b", "SELECT 0", "EXEC"],
    );
}

fn the_others_stand(client: &mut Client, steps: &[&str]) {
    let steps: Vec<Vec<String>> = steps.iter().map(|line| words(line)).collect();
    let mut replies = client.pipeline(&steps).expect("answers");
    client.line("DEBUG LIMIT-ALLOCATIONS -1");
    let Some(Value::Array(executed)) = replies.pop() else { panic!("{replies:?}") };
    assert_eq!([&executed[0], &executed[2], &executed[3]], [&Value::ok(), &Value::Bulk(b"1".to_vec()), &Value::Integer(1)]);
    assert!(is_refused(&executed[1]), "{}", executed[1]);
    let Value::Array(values) = client.line("MGET a b c d") else { panic!("no values") };
    assert_eq!(values, [Value::Bulk(b"1".to_vec()), Value::NullBulk, Value::NullBulk, Value::NullBulk]);
}

const PAIRS: usize = 8;
/// How much longer all go on until memory was full.
const PATIENCE: Duration = Duration::from_secs(60);

/// Until when clients go on beside each other: until a time, and until memory was full once.
struct Until {
    deadline: Instant,
    full: AtomicU64,
}

impl Until {
    fn is_over(&self) -> bool {
        let late = Instant::now().checked_duration_since(self.deadline);
        late.is_some_and(|late| self.full.load(Ordering::Relaxed) > 0 || late > PATIENCE)
    }
}

/// Sets pairs of keys to equal values, by every command that sets several, with too little space now and then.
fn set_pairs(address: SocketAddr, seed: u64, until: &Until) -> [u64; 2] {
    let (mut client, mut random) = (Client::connect(address).expect("a client"), Random::new(seed));
    let mut done = [0; 2];
    while !until.is_over() {
        let pair = random.below(PAIRS);
        let len = *random.pick(&[1, 30, 900, 3_000, 30_000]);
        let value = format!("{}:{}", random.bits(), "x".repeat(len));
        let (left, right) = (format!("left:{pair}"), format!("right:{pair}"));
        let command = match random.below(10) {
            0 => format!("DEL {left} {right}"),
            1 | 2 => format!("MSETNX {left} {value} {right} {value}"),
            3 | 4 => format!("MSETEX 2 {left} {value} {right} {value} PX 20"),
            _ => format!("MSET {left} {value} {right} {value}"),
        };
        let limit = format!("DEBUG LIMIT-ALLOCATIONS {}", random.below(6));
        let replies = client.pipeline(&[words(&limit), words(&command), words("DEBUG LIMIT-ALLOCATIONS -1")]).expect("answers");
        assert!(!replies[1].is_error() || is_refused(&replies[1]), "{}", replies[1]);
        done[usize::from(is_refused(&replies[1]))] += 1;
    }
    done
}

fn compare_pairs(address: SocketAddr, seed: u64, until: &Until) -> u64 {
    let (mut client, mut random, mut compared) = (Client::connect(address).expect("a client"), Random::new(seed), 0);
    while !until.is_over() {
        let pair = random.below(PAIRS);
        let Value::Array(values) = client.line(&format!("MGET left:{pair} right:{pair}")) else { panic!("no array") };
        assert!(values[0] == values[1], "half of pair {pair}: {} and {} bytes", len(&values[0]), len(&values[1]));
        compared += u64::from(!values[0].is_null());
    }
    compared
}

fn len(value: &Value) -> usize {
    value.bytes().map_or(0, <[u8]>::len)
}

/// Beside a memory that is full, too: the values of another client fill it, and go.
fn fill_memory(address: SocketAddr, until: &Until) {
    let mut client = Client::connect(address).expect("a client");
    let (value, names) = ("f".repeat(3_000), (0..6_000).map(|number| format!("fill:{number}")).collect::<Vec<_>>());
    while !until.is_over() {
        for names in names.chunks(100) {
            let sets: Vec<[&str; 3]> = names.iter().map(|name| ["SET", name, &value]).collect();
            let is_full = client.pipeline(&sets).expect("answers").iter().any(is_refused);
            until.full.fetch_add(is_full.into(), Ordering::Relaxed);
            if is_full || until.is_over() {
                break;
            }
        }
        let delete: Vec<&str> = std::iter::once("DEL").chain(names.iter().map(String::as_str)).collect();
        client.call(&delete).expect("an answer");
    }
}

#[test]
fn nobody_sees_half_of_a_pair() {
    let flags = [&DEBUG[..], &["--workers", "3", "--maxmemory", "16mb", "--maxmemory-policy", "noeviction"]].concat();
    let server = Server::start(&Program::Almandine, &flags);
    if !is_limited(&mut server.client()) {
        return;
    }
    let deadline = Instant::now() + Duration::from_secs(if full() { 30 } else { 3 });
    let (address, until) = (server.address(), &Until { deadline, full: AtomicU64::new(0) });
    let (mut done, mut compared) = ([0; 2], 0);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|number| scope.spawn(move || set_pairs(address, seed() + number, until))).collect();
        let readers: Vec<_> = (10..13).map(|number| scope.spawn(move || compare_pairs(address, seed() + number, until))).collect();
        scope.spawn(move || fill_memory(address, until));
        for writer in writers {
            let more = writer.join().expect("a writer");
            done = [done[0] + more[0], done[1] + more[1]];
        }
        compared += readers.into_iter().map(|reader| reader.join().expect("a reader")).sum::<u64>();
    });
    let times = until.full.load(Ordering::Relaxed);
    println!("whole: pairs set {}, refused {}, compared {compared}; memory was full {times} times", done[0], done[1]);
    assert!(done[0] > 300 && done[1] > 100 && compared > 300 && times > 0);
}
