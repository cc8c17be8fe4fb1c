//! How many bytes the log takes for commands on collections, packed and large, beside redis-server's append-only file of the same
//! commands: at most 1.2 times as many.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::fs;

use almandine_testkit::{Client, Program, Server, Value};

/// Allowed bytes, as a share of redis-server's.
const SHARE_MAX: f64 = 1.2;
/// Commands of a measurement.
const COMMANDS: usize = 2_000;

/// What is done, as a command of its number. Of packed collections every key has a few elements; of large ones there is one key.
type Made = fn(usize) -> Vec<String>;

fn words(line: String) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

const CASES: [(&str, Made); 12] = [
    ("SET", |n| words(format!("SET key:{n:08} {}", "v".repeat(64)))),
    ("INCR", |n| words(format!("INCR counter:{}", n % 50))),
    ("HSET packed", |n| words(format!("HSET hash:{} field:{n:06} value:{n:06}", n % 100))),
    ("HSET large", |n| words(format!("HSET hash field:{n:06} value:{n:06}"))),
    ("HSET again", |n| words(format!("HSET hash field:{} value:{n:06}", n % 10))),
    ("SADD packed", |n| words(format!("SADD set:{} member:{n:06}", n % 100))),
    ("SADD large", |n| words(format!("SADD set member:{n:06}"))),
    ("SADD integers", |n| words(format!("SADD set:{} {n}", n % 20))),
    ("ZADD packed", |n| words(format!("ZADD sorted:{} {n} member:{n:06}", n % 100))),
    ("ZADD large", |n| words(format!("ZADD sorted {n} member:{n:06}"))),
    ("RPUSH packed", |n| words(format!("RPUSH list:{} element:{n:06}", n % 100))),
    ("RPUSH large", |n| words(format!("RPUSH list element:{n:06}"))),
];

fn run(client: &mut Client, made: Made) {
    let commands: Vec<Vec<String>> = (0..COMMANDS).map(made).collect();
    for batch in commands.chunks(200) {
        assert!(client.pipeline(batch).unwrap().iter().all(|reply| !matches!(reply, Value::Error(_))));
    }
}

/// Bytes of units in the log, when all of them are in its files.
fn payload(client: &mut Client) -> u64 {
    assert_eq!(client.line("COMMITAOF"), Value::Simple(b"AOF file committed".to_vec()));
    let Value::Bulk(text) = client.line("INFO storage") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix("oplog_payload_bytes:"));
    found.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

/// Bytes of redis-server's append-only file.
fn written(server: &Server) -> u64 {
    let files = fs::read_dir(server.directory().join("appendonlydir")).unwrap().map(|entry| entry.unwrap());
    files.filter(|entry| entry.file_name().to_string_lossy().ends_with(".aof")).map(|entry| entry.metadata().unwrap().len()).sum()
}

#[test]
fn the_log_takes_no_more_bytes_than_redis() {
    let ours = Server::start(&Program::Almandine, &["--appendonly", "yes", "--ring-dir", "{dir}"]);
    let redis =
        Server::start(&Program::Redis, &["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]);
    let (mut client, mut peer) = (ours.client(), redis.client());
    let mut over = Vec::new();
    for (what, made) in CASES {
        client.line("FLUSHALL");
        peer.line("FLUSHALL");
        let (before, peer_before) = (payload(&mut client), written(&redis));
        run(&mut client, made);
        run(&mut peer, made);
        let (bytes, peer_bytes) = (payload(&mut client) - before, written(&redis) - peer_before);
        let share = bytes as f64 / peer_bytes as f64;
        println!("{what:<14} {:>6.1} bytes a command, redis-server {:>6.1}: {share:.2}", each(bytes), each(peer_bytes));
        if share > SHARE_MAX {
            over.push(format!("{what}: {share:.2}"));
        }
    }
    assert!(over.is_empty(), "more than {SHARE_MAX} of redis-server's bytes: {over:?}");
}

fn each(bytes: u64) -> f64 {
    bytes as f64 / COMMANDS as f64
}
