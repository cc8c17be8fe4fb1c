//! A snapshot is of one moment: what transactions keep equal is equal in it, though clients write all the while.
//!
//! Each client's transaction counts in a key that all share, appends to one of many lists, sets a field of a growing hash, moves a
//! token by RENAME, and exchanges two keys of which one exists. One client exchanges databases. A snapshot that mixes two
//! moments breaks one of these equations.
//!
//! With `ALMANDINE_GOLDEN_SERVER=redis` the proof runs against redis-server.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Random, Server, Value, full, seed};

const CLIENTS: usize = 3;
const LISTS: usize = 40;
const SLOTS: usize = 64;
/// Keys that only make the copy take its time.
const BALLAST: usize = 60_000;

fn program() -> Program {
    match std::env::var("ALMANDINE_GOLDEN_SERVER").as_deref() {
        Ok("redis") => Program::Redis,
        _ => Program::Almandine,
    }
}

/// One client's transactions until the end is asked for. Returns how many were answered.
fn transact(address: SocketAddr, number: usize, stop: &AtomicBool) -> usize {
    let mut client = Client::connect(address).expect("the server accepts");
    let mut random = Random::new(seed() + number as u64);
    let (mut slot, mut done) = (0, 0);
    client.line(&format!("SET {number}:slot:0 token"));
    client.line(&format!("SET {number}:even 0"));
    while !stop.load(Ordering::Relaxed) {
        let (next, to) = (done + 1, random.below(SLOTS));
        let (set, gone) = if next % 2 == 0 { ("even", "odd") } else { ("odd", "even") };
        let mut commands = vec![
            "MULTI".to_owned(),
            "INCR shared".to_owned(),
            format!("RPUSH {number}:list:{} {next}", random.below(LISTS)),
            format!("HSET {number}:hash f{next} {next}"),
            format!("SET {number}:{set} {next}"),
            format!("DEL {number}:{gone}"),
        ];
        if to != slot {
            commands.push(format!("RENAME {number}:slot:{slot} {number}:slot:{to}"));
            slot = to;
        }
        commands.push("EXEC".to_owned());
        let words: Vec<Vec<&str>> = commands.iter().map(|command| command.split(' ').collect()).collect();
        let replies = client.pipeline(&words).expect("replies");
        assert!(matches!(replies.last(), Some(Value::Array(_))), "{replies:?}");
        done = next;
    }
    done
}

/// Exchanges two databases, one of which has a key, until the end is asked for.
fn exchange(address: SocketAddr, stop: &AtomicBool) {
    let mut client = Client::connect(address).expect("the server accepts");
    client.line("SELECT 2");
    client.line("SET either here");
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(client.line("SWAPDB 2 3"), Value::ok());
        thread::sleep(Duration::from_millis(2));
    }
}

fn number(value: &Value) -> usize {
    let text = match value {
        Value::Integer(number) => number.to_string(),
        value => String::from_utf8_lossy(value.bytes().unwrap_or(b"0")).into_owned(),
    };
    text.parse().unwrap_or_else(|_| panic!("a number: {value}"))
}

fn snapshot(client: &mut Client) {
    let started = client.line("BGSAVE");
    assert!(matches!(&started, Value::Simple(text) if text.starts_with(b"Background saving started")), "{started}");
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let info = client.line("INFO persistence");
        let text = String::from_utf8_lossy(info.bytes().unwrap_or_default()).into_owned();
        if text.contains("rdb_bgsave_in_progress:0") {
            assert!(text.contains("rdb_last_bgsave_status:ok"), "{text}");
            return;
        }
        assert!(Instant::now() < deadline, "BGSAVE has not ended: {text}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Checks the equations on what was loaded.
fn check(client: &mut Client) -> usize {
    let mut total = 0;
    for writer in 0..CLIENTS {
        let mut pushed = Vec::new();
        for list in 0..LISTS {
            let Value::Array(elements) = client.line(&format!("LRANGE {writer}:list:{list} 0 -1")) else { panic!("a list") };
            pushed.extend(elements.iter().map(number));
        }
        pushed.sort_unstable();
        let count = pushed.len();
        assert_eq!(pushed, (1..=count).collect::<Vec<_>>(), "client {writer}: each number once, up to the last");
        assert_eq!(number(&client.line(&format!("HLEN {writer}:hash"))), count, "client {writer}: a field for each");
        let (set, gone) = if count % 2 == 0 { ("even", "odd") } else { ("odd", "even") };
        assert_eq!(number(&client.line(&format!("GET {writer}:{set}"))), count, "client {writer}: the last that was set");
        assert_eq!(number(&client.line(&format!("EXISTS {writer}:{gone}"))), 0, "client {writer}: the other one is gone");
        let slots: usize = (0..SLOTS).map(|slot| number(&client.line(&format!("EXISTS {writer}:slot:{slot}")))).sum();
        assert_eq!(slots, 1, "client {writer}: the token is in one place");
        total += count;
    }
    assert_eq!(number(&client.line("GET shared")), total, "what all have counted");
    let homes: usize = [2, 3]
        .map(|db| {
            client.line(&format!("SELECT {db}"));
            number(&client.line("EXISTS either"))
        })
        .iter()
        .sum();
    client.line("SELECT 0");
    assert_eq!(homes, 1, "the key of one database");
    total
}

#[test]
fn a_snapshot_beside_writers_is_of_one_moment() {
    let program = program();
    for round in 0..if full() { 30 } else { 3 } {
        let mut server = Server::start(&program, &["--dbfilename", "dump.rdb"]);
        let mut client = server.client();
        let ballast: Vec<Vec<String>> =
            (0..BALLAST).map(|key| vec!["SET".to_owned(), format!("ballast:{key}"), format!("value of {key}")]).collect();
        for part in ballast.chunks(1000) {
            client.pipeline(part).expect("replies");
        }
        let (address, stop) = (server.address(), AtomicBool::new(false));
        let done: usize = thread::scope(|scope| {
            let stop = &stop;
            let writers: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || transact(address, number, stop))).collect();
            let exchanger = scope.spawn(move || exchange(address, stop));
            thread::sleep(Duration::from_millis(150));
            snapshot(&mut client);
            thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
            exchanger.join().expect("it ends");
            writers.into_iter().map(|writer| writer.join().expect("it ends")).sum()
        });
        server.kill();
        server.start_again();
        let mut client = server.client();
        let kept = check(&mut client);
        let ballast = (0..BALLAST).step_by(997).map(|key| client.line(&format!("GET ballast:{key}")));
        assert!(ballast.into_iter().all(|value| value != Value::NullBulk), "what did not change is there");
        assert!(kept > 0 && kept < done, "round {round}: the snapshot has {kept} of {done} transactions");
    }
}

#[test]
fn what_a_killed_process_has_written_of_a_snapshot_is_removed_at_the_next_start() {
    let mut server = Server::start(&Program::Almandine, &[]);
    server.kill();
    // No process has this number.
    let unfinished = server.directory().join("temp-4194304.rdb");
    std::fs::write(&unfinished, "REDIS0011").expect("a file");
    server.start_again();
    assert!(!unfinished.exists() && server.log().contains("Removed 1 snapshots"), "{}", server.log());
}
