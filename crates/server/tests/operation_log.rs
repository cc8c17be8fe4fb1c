//! `appendonly yes`: what was acknowledged is there after each kind of end, and logs that do not belong are refused.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

const LOG: &[&str] = &["--appendonly", "yes", "--ring-dir", "{dir}"];

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, &[LOG, flags].concat())
}

fn refusal(flags: &[&str]) -> String {
    Server::try_start(&Program::Almandine, flags, &[]).err().unwrap_or_else(|| panic!("{flags:?} started"))
}

fn error(value: &Value) -> String {
    let Value::Error(text) = value else { panic!("no error: {value}") };
    String::from_utf8_lossy(text).into_owned()
}

fn info(client: &mut Client, field: &str) -> Option<String> {
    let Value::Bulk(text) = client.line("INFO persistence") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
}

fn rings(server: &Server) -> usize {
    let log = fs::read_dir(server.directory()).unwrap().filter_map(Result::ok);
    let directories = log.filter(|entry| entry.file_name().to_string_lossy().starts_with("almandine-"));
    directories.map(|entry| fs::read_dir(entry.path()).unwrap().count()).sum()
}

fn shut_down(server: &mut Server) {
    server.client().send(&[["SHUTDOWN"]]).unwrap();
    assert!(server.await_exit(Duration::from_secs(20)).is_some_and(|status| status.success()), "{}", server.log());
}

#[test]
fn data_of_all_types_outlives_a_clean_end_and_a_kill() {
    let mut server = start(&[]);
    let commands = [
        "SET string value",
        "SET with:expiry value EX 1000",
        "INCRBY number 42",
        "RPUSH list a b c",
        "HSET hash f v g w",
        "SADD set a b 1",
        "ZADD sorted 1 a 2.5 b",
        "XADD stream 1-1 f v",
        "PFADD hll a b c",
        "SELECT 3",
        "SET other 1",
        "SWAPDB 3 4",
        "SELECT 4",
        "RENAME other renamed",
        "SELECT 5",
        "SET gone 1",
        "FLUSHDB",
        "SELECT 0",
        "SET short x PX 1",
        "LPOP list",
    ];
    let mut client = server.client();
    for command in commands {
        assert!(!matches!(client.line(command), Value::Error(_)), "{command}");
    }
    for round in 0..4 {
        if round % 2 == 0 {
            shut_down(&mut server);
            assert_eq!(rings(&server), 0, "a clean end leaves no rings");
            assert!(!server.log().contains("Nothing was saved"), "{}", server.log());
        } else {
            assert!(rings(&server) > 0);
            server.kill();
        }
        server.start_again();
        let mut client = server.client();
        // What is past its time goes when the server serves.
        let began = Instant::now();
        while client.line("DBSIZE") != Value::Integer(9) {
            assert!(began.elapsed() < Duration::from_secs(20), "{}\n{}", client.line("KEYS *"), server.log());
        }
        assert_eq!(client.line("GET number"), Value::Bulk((42 + round).to_string().into_bytes()));
        assert_eq!(client.line("LLEN list"), Value::Integer(2));
        assert_eq!(client.line("PFCOUNT hll"), Value::Integer(3));
        assert!(client.line("TTL with:expiry").integer().is_some_and(|left| left > 900));
        client.line("SELECT 4");
        assert_eq!(client.line("EXISTS renamed"), Value::Integer(1));
        client.line("SELECT 5");
        assert_eq!(client.line("DBSIZE"), Value::Integer(0));
        client.line("SELECT 0");
        client.line("INCR number");
    }
}

#[test]
fn a_new_log_begins_with_the_snapshot_and_counts_alone_from_then_on() {
    let source = Server::start(&Program::Redis, &[]);
    source.client().line("SET from:redis 1");
    source.client().line("SAVE");
    let directory = std::env::temp_dir().join(format!("almandine-log-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    fs::copy(source.directory().join("dump.rdb"), directory.join("dump.rdb")).unwrap();
    let mut server = start(&["--dir", directory.to_str().unwrap()]);
    assert_eq!(server.client().line("GET from:redis"), Value::Bulk(b"1".to_vec()), "{}", server.log());
    assert_eq!(server.client().line("DEL from:redis"), Value::Integer(1));
    server.kill();
    server.start_again();
    assert_eq!(server.client().line("EXISTS from:redis"), Value::Integer(0), "the log counts");
    drop(server);
    let refused = refusal(&["--appendonly", "yes", "--dir", directory.to_str().unwrap(), "--databases", "8"]);
    assert!(refused.contains("set it to 16"), "{refused}");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn what_does_not_go_together_is_refused_with_what_to_do() {
    let refused = refusal(&["--appendonly", "yes", "--storage-device", "memory"]);
    assert!(refused.contains("appendonly yes goes with storage-dir alone"), "{refused}");
    let server = Server::start(&Program::Almandine, &["--storage-device", "memory"]);
    let refused = error(&server.client().line("CONFIG SET appendonly yes"));
    assert!(refused.contains("appendonly yes goes with storage-dir alone"), "{refused}");
    assert_eq!(info(&mut server.client(), "aof_enabled").as_deref(), Some("0"));
}

/// Flags of a server with a log, most of whose data lies in a directory.
fn on_device(place: &std::path::Path) -> Vec<String> {
    let place = place.display();
    let flags = format!(
        "--appendonly yes --dir {place} --storage-dir {place}/s --maxmemory 24mb --enable-debug-command yes --ring-dir {place}"
    );
    flags.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_store_larger_than_memory_begins_where_it_ended() {
    let place = std::env::temp_dir().join(format!("almandine-kept-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    let flags = on_device(&place);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut server = Server::start(&Program::Almandine, &flags);
    let value = |number: u64, round: u64| format!("{number}:{round}:{}", "v".repeat((number % 700) as usize)).into_bytes();
    let write = |client: &mut Client, round: u64| {
        let numbers: Vec<u64> = (0..60_000).filter(|number| number % 3 != round % 3).collect();
        for part in numbers.chunks(500) {
            let sets = part.iter().map(|number| [b"SET".to_vec(), format!("key:{number}").into_bytes(), value(*number, round)]);
            client.send(&sets.collect::<Vec<_>>()).unwrap();
            part.iter().for_each(|_| assert_eq!(client.receive().unwrap(), Value::Simple(b"OK".to_vec())));
            client.line(&format!("RPUSH list:{} {round}", part[0] % 7));
        }
    };
    for round in 1..4u64 {
        let mut client = server.client();
        write(&mut client, round);
        client.line("SELECT 3");
        client.line(&format!("SET other:{round} {round} EX 1000"));
        if round > 1 {
            assert_eq!(client.line("DEBUG STORAGE EVICT"), Value::Simple(b"OK".to_vec()));
            // One may be under way, for the space that the one before keeps.
            while client.line("BGREWRITEAOF").is_error() {
                thread::sleep(Duration::from_millis(10));
            }
        }
        while round == 3 && info(&mut client, "aof_rewrite_in_progress").as_deref() != Some("0") {
            thread::sleep(Duration::from_millis(10));
        }
        match round {
            3 => shut_down(&mut server),
            _ => server.kill(),
        }
        server.start_again();
        let mut client = server.client();
        let number = |value: Value| if let Value::Integer(number) = value { number } else { panic!("{value}") };
        assert_eq!(number(client.line("DBSIZE")), if round == 1 { 40_000 } else { 60_000 } + 7);
        for number in (0..60_000u64).step_by(97) {
            let last = (1..=round).rev().find(|round| number % 3 != round % 3);
            let there = client.line(&format!("GET key:{number}"));
            assert_eq!(there, last.map_or(Value::NullBulk, |last| Value::Bulk(value(number, last))), "key:{number}, round {round}");
        }
        let pushed = (0..7).map(|list| number(client.line(&format!("LLEN list:{list}")))).sum::<i64>();
        assert_eq!(pushed, 80 * round.cast_signed());
        client.line("SELECT 3");
        assert_eq!(client.line("DBSIZE"), Value::Integer(round.cast_signed()));
        let keyspace = client.line("INFO keyspace").to_string();
        assert!(keyspace.contains(&format!("db3:keys={round},expires={round}")), "{keyspace}");
    }
    let tier = server.client().line("INFO storage").to_string();
    assert!(tier.contains("storage_device_bytes"), "{tier}");
    drop(server);
    // What the log names is deleted by no other server, and not done without.
    let refused = refusal(&["--storage-dir", place.join("s").to_str().unwrap()]);
    assert!(refused.contains("which would be deleted"), "{refused}");
    let refused = refusal(&["--appendonly", "yes", "--storage-dir", place.join("s").to_str().unwrap()]);
    assert!(refused.contains("which would be deleted"), "{refused}");
    let refused = refusal(&["--appendonly", "yes", "--dir", place.to_str().unwrap()]);
    assert!(refused.contains("it names data in storage-dir"), "{refused}");
    fs::remove_dir_all(place.join("s")).unwrap();
    let refused = refusal(&flags);
    assert!(refused.contains("of the storage is not there"), "{refused}");
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn each_mode_answers_and_they_change_while_the_server_runs() {
    let mut server = start(&["--ring-dir", "none"]);
    let (mut client, mut waiting) = (server.client(), server.client());
    for (round, mode) in ["always", "everysec", "no", "always"].into_iter().enumerate() {
        assert_eq!(client.line(&format!("CONFIG SET appendfsync {mode}")), Value::ok());
        waiting.send(&[["BLPOP", "queue", "0"]]).unwrap();
        let commands: Vec<Vec<String>> =
            (0..500).map(|key| vec!["SET".to_owned(), format!("{round}:{key}"), "value".to_owned()]).collect();
        assert!(client.pipeline(&commands).unwrap().iter().all(|reply| *reply == Value::ok()), "{mode}");
        assert_eq!(client.line("RPUSH queue x"), Value::Integer(1));
        assert!(matches!(waiting.receive().unwrap(), Value::Array(_)), "{mode}: a client that waited is answered");
        assert_eq!(client.line("MULTI"), Value::ok());
        assert_eq!(client.line("INCR count"), Value::Simple(b"QUEUED".to_vec()));
        assert_eq!(client.line("EXEC"), Value::Array(vec![Value::Integer(round as i64 + 1)]));
    }
    assert_eq!(info(&mut client, "aof_enabled").as_deref(), Some("1"));
    assert_eq!(info(&mut client, "aof_last_write_status").as_deref(), Some("ok"));
    assert!(info(&mut client, "aof_current_size").unwrap().parse::<u64>().unwrap() > 4096);
    // The last word of a connection that closes is answered too.
    client.send(&[["SET", "last", "word"].as_slice(), ["QUIT"].as_slice()]).unwrap();
    assert_eq!((client.receive().unwrap(), client.receive().unwrap()), (Value::ok(), Value::ok()));
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert_eq!(client.line("DBSIZE"), Value::Integer(4 * 500 + 2), "{}", server.log());
}

#[test]
fn without_a_log_nothing_is_told_of_it() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    assert_eq!(info(&mut client, "aof_enabled").as_deref(), Some("0"));
    assert_eq!(info(&mut client, "aof_current_size"), None);
    assert!(!server.directory().join("appendonlydir").exists());
}

/// WAITAOF is answered when what was done before is durable; without that, at once where a client cannot wait, and when its time is
/// up.
#[test]
fn a_client_waits_until_what_it_did_is_durable() {
    let confirmed = |local: i64| Value::Array(vec![Value::Integer(local), Value::Integer(0)]);
    let server = start(&["--appendfsync", "everysec"]);
    let mut client = server.client();
    assert_eq!(client.line("WAITAOF 0 0 0"), confirmed(1), "nothing was written");
    for round in 0..3 {
        let replies = client.pipeline(&[vec!["INCR", "count"], vec!["WAITAOF", "1", "0", "0"], vec!["INCR", "count"]]).unwrap();
        assert_eq!(replies, [Value::Integer(2 * round + 1), confirmed(1), Value::Integer(2 * round + 2)]);
        assert_eq!(info(&mut client, "aof_pending_bio_fsync").as_deref(), Some("0"));
    }
    assert_eq!(client.line("WAITAOF 1 0 0"), confirmed(1));
    assert_eq!(client.line("WAITAOF 1 1 50"), confirmed(1), "no replica confirms anything");
    assert_eq!(client.line("CONFIG SET appendfsync no"), Value::ok());
    assert_eq!(client.line("INCR count"), Value::Integer(7));
    assert_eq!(client.line("WAITAOF 1 0 50"), confirmed(0), "nothing is synced");
    client.line("MULTI");
    client.line("INCR count");
    client.line("WAITAOF 1 0 0");
    assert_eq!(client.line("EXEC"), Value::Array(vec![Value::Integer(8), confirmed(0)]));
    let mut waiting = server.client();
    waiting.send(&[["WAITAOF", "1", "0", "0"]]).unwrap();
    let blocked = |client: &mut Client| {
        let Value::Bulk(text) = client.line("INFO clients") else { panic!("no INFO") };
        String::from_utf8(text).unwrap().contains("blocked_clients:1\r\n")
    };
    while !blocked(&mut client) {}
    assert_eq!(client.line("CONFIG SET appendfsync everysec"), Value::ok());
    assert_eq!(waiting.receive().unwrap(), confirmed(1), "the mode counts that there is then");
    assert_eq!(client.line("CONFIG SET appendfsync always"), Value::ok());
    assert_eq!(client.line("INCR count"), Value::Integer(9));
    assert_eq!(client.line("WAITAOF 1 0 0"), confirmed(1));
    for wrong in ["WAITAOF 2 0 0", "WAITAOF -1 0 0", "WAITAOF 1 -1 0", "WAITAOF 1 0 -1", "WAITAOF 1 0"] {
        error(&client.line(wrong));
    }
    // The connection goes while it waits.
    client.line("CONFIG SET appendfsync no");
    client.line("INCR count");
    waiting.send(&[["WAITAOF", "1", "0", "0"]]).unwrap();
    while !blocked(&mut client) {}
    drop(waiting);
    while blocked(&mut client) {}
    client.line("CONFIG SET appendfsync everysec");
    assert_eq!(client.line("WAITAOF 1 0 0"), confirmed(1));
}

/// A client that connects while the log is read waits for it, and is told only when it is no matter of a moment.
#[test]
fn a_client_that_comes_early_waits_for_the_log() {
    let mut server = start(&[]);
    let address = server.address();
    server.client().line("SET key value");
    for _ in 0..3 {
        server.kill();
        let early = thread::spawn(move || {
            loop {
                let asked = Instant::now();
                // Neither the process that ends nor the connection itself, which may get the port, has an answer.
                let reply = Client::connect(address).and_then(|mut client| client.call(&["GET", "key"]));
                if let Ok(reply @ (Value::Bulk(_) | Value::Error(_) | Value::Null)) = reply {
                    break (reply, asked.elapsed());
                }
            }
        });
        server.start_again();
        let (reply, waited) = early.join().unwrap();
        let is_told = matches!(&reply, Value::Error(text) if text.starts_with(b"LOADING")) && waited > Duration::from_millis(500);
        assert!(is_told || reply == Value::Bulk(b"value".to_vec()), "{reply} after {waited:?}");
    }
}

/// Garnet's word for it; with `appendfsync no` nothing else makes what was written durable.
#[test]
fn commitaof_makes_durable_what_was_written_in_every_mode() {
    for mode in ["no", "everysec", "always"] {
        let server = start(&["--appendfsync", mode]);
        let mut client = server.client();
        for key in 0..3 {
            assert_eq!(client.line(&format!("SET key:{key} 1")), Value::ok());
            assert_eq!(client.line("COMMITAOF 0"), Value::Simple(b"AOF file committed".to_vec()));
            assert_eq!(client.line("WAITAOF 1 0 1"), Value::Array(vec![Value::Integer(1), Value::Integer(0)]), "{mode}");
        }
    }
}

/// The files of the log have the size that is set when they are begun.
#[test]
fn files_of_the_log_have_the_size_that_is_set() {
    let mut server = start(&["--log-segment-size", "4mb"]);
    let sizes = |server: &Server| {
        let directory = server.directory().join("appendonlydir");
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        let logs = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("log-"));
        logs.map(|entry| entry.metadata().unwrap().len()).collect::<Vec<_>>()
    };
    let mut client = server.client();
    assert_eq!(sizes(&server), [4 << 20]);
    assert!(client.line("CONFIG SET log-segment-size 3mb").is_error() && client.line("CONFIG SET log-segment-size 2gb").is_error());
    assert_eq!(client.line("CONFIG SET log-segment-size 5mb"), Value::ok());
    let value = "v".repeat(100_000);
    for key in 0..100 {
        assert_eq!(client.call(&["SET", &format!("key:{key}"), &value]).unwrap(), Value::ok());
        assert_eq!(client.line("COMMITAOF"), Value::Simple(b"AOF file committed".to_vec()));
    }
    let sizes = sizes(&server);
    assert!(sizes.contains(&(4 << 20)) && sizes.contains(&(6 << 20)), "whole pages of 2 MiB: {sizes:?}");
    server.kill();
    server.start_again();
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(100));
}
