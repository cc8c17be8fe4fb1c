//! `log-object-url`: a machine with an empty disk starts from object storage, with all that the commit tier promises; one server at
//! a time goes on with a log.

#![cfg(feature = "object-store")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod pages;

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value, s3};

const LOG: &[&str] = &["--appendonly", "yes", "--ring-dir", "{dir}", "--log-object-url", "s3://bucket/folder"];
const AWAITED: &[&str] = &["--appendfsync", "always", "--commit-tier", "object-store"];

fn start(objects: &s3::Server, flags: &[&str]) -> Server {
    Server::start_with(&Program::Almandine, &[LOG, flags].concat(), &objects.environment())
}

fn refusal(objects: &s3::Server, flags: &[&str]) -> String {
    let flags = [LOG, flags].concat();
    Server::try_start(&Program::Almandine, &flags, &objects.environment()).err().unwrap_or_else(|| panic!("{flags:?} started"))
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn info(client: &mut Client, field: &str) -> String {
    let Value::Bulk(text) = client.line("INFO storage") else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).unwrap_or_default()
}

fn eventually(server: &Server, what: &str, holds: impl Fn(&mut Client) -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    let mut client = server.client();
    while !holds(&mut client) {
        assert!(Instant::now() < until, "not in time: {what}\n{}", server.log());
        thread::sleep(Duration::from_millis(20));
    }
}

/// The archive has all that is durable.
fn settle(server: &Server) {
    assert_eq!(
        server.client().line("WAITAOF 1 0 20000"),
        Value::Array(vec![Value::Integer(1), Value::Integer(0)]),
        "{}",
        server.log()
    );
    eventually(server, "the archive has it", |client| {
        info(client, "log_archive_state") == "shipping" && info(client, "log_archive_behind_bytes") == "0"
    });
}

/// Clients that count in a key each, until their server is gone: how far they were told.
fn count(server: &Server, clients: usize) -> Vec<JoinHandle<u64>> {
    let count = |client: usize, mut connection: Client| {
        let mut told = 0;
        loop {
            match connection.call(&["INCR", &format!("count:{client}")]) {
                Ok(Value::Integer(number)) => told = u64::try_from(number).unwrap(),
                Ok(Value::Error(_) | Value::Closed) | Err(_) => return told,
                Ok(other) => panic!("{other}"),
            }
        }
    };
    (0..clients)
        .map(|client| (client, server.client()))
        .map(|(client, connection)| thread::spawn(move || count(client, connection)))
        .collect()
}

fn counted(server: &Server, client: usize) -> u64 {
    match server.client().line(&format!("GET count:{client}")) {
        Value::Bulk(number) => String::from_utf8(number).unwrap().parse().unwrap(),
        Value::NullBulk => 0,
        other => panic!("{other}"),
    }
}

#[test]
fn what_was_acknowledged_is_there_where_the_machine_is_gone() {
    let objects = s3::Server::start();
    let mut server = start(&objects, AWAITED);
    for round in 0..4 {
        // A base now and then, and a store that fails now and then.
        objects.fail_each([0, 7, 0, 5][round]);
        let counters = count(&server, 4);
        thread::sleep(Duration::from_millis(700));
        if round % 2 == 1 {
            server.client().line("BGREWRITEAOF");
            thread::sleep(Duration::from_millis(300));
        }
        server.kill();
        let told: Vec<u64> = counters.into_iter().map(|counter| counter.join().unwrap()).collect();
        assert!(told.iter().all(|told| *told > 0), "{told:?}\n{}", server.log());
        objects.fail_each(0);
        // Its disk is gone with it.
        server = start(&objects, AWAITED);
        assert!(server.log().contains("is fetched from"), "{}", server.log());
        for (client, told) in told.into_iter().enumerate() {
            let there = counted(&server, client);
            assert!(there == told || there == told + 1, "{there} of {told} in round {round}\n{}", server.log());
        }
    }
}

#[test]
fn all_types_and_libraries_come_from_objects_alone() {
    let objects = s3::Server::start();
    let mut server = start(&objects, &["--enable-debug-command", "yes"]);
    let commands = [
        "SET string value EX 1000",
        "RPUSH list a b c",
        "HSET hash f v g w",
        "SADD set a b 1",
        "ZADD sorted 1 a 2.5 b",
        "XADD stream 1-1 f v",
        "SETRANGE large 2000000 x",
    ];
    let mut client = server.client();
    commands.iter().for_each(|command| assert!(!matches!(client.line(command), Value::Error(_)), "{command}"));
    let library = "#!lua name=l\nredis.register_function('f', function() return 7 end)";
    client.send(&[["FUNCTION", "LOAD", library]]).unwrap();
    client.receive().unwrap();
    let digest = |server: &Server| server.client().line("DEBUG DIGEST");
    for rewritten in [false, true] {
        if rewritten {
            server.client().line("BGREWRITEAOF");
            eventually(&server, "a base", |client| {
                let Value::Bulk(text) = client.line("INFO persistence") else { return false };
                let text = String::from_utf8(text).unwrap();
                text.contains("aof_rewrite_in_progress:0") && text.contains("aof_rewrites:1")
            });
        }
        settle(&server);
        let before = digest(&server);
        server.kill();
        server = start(&objects, &["--enable-debug-command", "yes"]);
        assert_eq!(digest(&server), before, "{}", server.log());
        assert_eq!(server.client().line("FCALL f 0"), Value::Integer(7));
    }
    // One more base, and what was before it is gone.
    let count = || objects.objects().iter().map(|(_, bytes)| bytes).sum::<usize>();
    let before = count();
    server.client().line("DEL large");
    server.client().line("BGREWRITEAOF");
    eventually(&server, "what no catalog names is deleted", |_| count() < before / 2);
}

#[test]
fn a_store_that_is_away_loses_nothing_and_blocks_no_reads() {
    let objects = s3::Server::start();
    let server = start(&objects, AWAITED);
    let (mut writer, mut reader) = (server.client(), server.client());
    assert_eq!(writer.line("SET before 1"), ok());
    objects.refuse(true);
    writer.send(&[["SET", "meanwhile", "2"]]).unwrap();
    eventually(&server, "the failure is told", |client| info(client, "log_archive_state") == "failing");
    for _ in 0..100 {
        assert_eq!(reader.line("GET before"), Value::Bulk(b"1".to_vec()));
    }
    assert!(info(&mut reader, "log_archive_last_error").contains("object storage"), "{}", server.log());
    assert!(info(&mut reader, "log_archive_behind_bytes") != "0");
    // A look at what may be lost waits, too.
    let mut curious = server.client();
    curious.send(&[["GET", "meanwhile"]]).unwrap();
    thread::sleep(Duration::from_secs(2));
    objects.refuse(false);
    assert_eq!(writer.receive().unwrap(), ok());
    assert_eq!(curious.receive().unwrap(), Value::Bulk(b"2".to_vec()));
    drop(server);
    let next = start(&objects, AWAITED);
    assert_eq!(next.client().line("GET meanwhile"), Value::Bulk(b"2".to_vec()), "{}", next.log());
}

#[test]
fn a_server_whose_log_was_taken_over_acknowledges_nothing_more() {
    let objects = s3::Server::start();
    let mut former = start(&objects, AWAITED);
    assert_eq!(former.client().line("SET key 1"), ok());
    let next = start(&objects, AWAITED);
    let mut lost = former.client();
    lost.send(&[["SET", "key", "lost"]]).unwrap();
    eventually(&former, "it learns of that", |client| info(client, "log_archive_state") == "taken-over");
    let mut client = former.client();
    assert!(matches!(client.line("SET other 1"), Value::Error(text) if text.starts_with(b"MISCONF")), "{}", former.log());
    assert_eq!(next.client().line("GET key"), Value::Bulk(b"1".to_vec()));
    assert_eq!(next.client().line("SET key 2"), ok());
    former.kill();
    // Nor does it start again with it.
    let started = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| former.start_again()));
    assert!(started.is_err() && former.log().contains("another server has taken the archive over"), "{}", former.log());
    assert_eq!(next.client().line("GET key"), Value::Bulk(b"2".to_vec()));
}

#[test]
fn a_start_goes_on_with_its_own_archive_and_without_an_answer() {
    let objects = s3::Server::start();
    let mut server = start(&objects, &[]);
    assert_eq!(server.client().line("SET a 1"), ok());
    settle(&server);
    objects.refuse(true);
    assert_eq!(server.client().line("SET b 2"), ok());
    server.kill();
    server.start_again();
    assert_eq!(server.client().line("MGET a b"), Value::Array(vec![Value::Bulk(b"1".to_vec()), Value::Bulk(b"2".to_vec())]));
    assert!(server.log().contains("does not answer"), "{}", server.log());
    // Without a directory it is not known what there is.
    let refused = refusal(&objects, &[]);
    assert!(refused.contains("log-object-url s3://bucket/folder"), "{refused}");
    objects.refuse(false);
    settle(&server);
    server.client().send(&[["SHUTDOWN"]]).unwrap();
    assert!(server.await_exit(Duration::from_secs(20)).is_some_and(|status| status.success()), "{}", server.log());
    let next = start(&objects, &[]);
    assert_eq!(next.client().line("MGET a b"), Value::Array(vec![Value::Bulk(b"1".to_vec()), Value::Bulk(b"2".to_vec())]));
}

#[test]
fn a_clean_end_ships_the_last_write() {
    let objects = s3::Server::start();
    let mut server = start(&objects, &[]);
    (0..100).for_each(|key| assert_eq!(server.client().line(&format!("SET {key} x")), ok()));
    server.client().send(&[["SHUTDOWN"]]).unwrap();
    assert!(server.await_exit(Duration::from_secs(20)).is_some_and(|status| status.success()), "{}", server.log());
    assert_eq!(start(&objects, &[]).client().line("DBSIZE"), Value::Integer(100));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let objects = s3::Server::start();
    for (flags, why) in [
        (&["--storage-object-url", "s3://bucket/other"][..], "not with storage-device or storage-object-url"),
        (&["--commit-tier", "object-store"], "needs appendfsync always"),
    ] {
        let refused = refusal(&objects, flags);
        assert!(refused.contains(why), "{refused}");
    }
    let server = start(&objects, AWAITED);
    for (line, why) in [
        ("CONFIG SET appendfsync everysec", "needs appendfsync always"),
        ("CONFIG SET appendonly no", "with log-object-url the log begins and ends with the server"),
    ] {
        let refused = server.client().line(line);
        assert!(matches!(&refused, Value::Error(text) if String::from_utf8_lossy(text).contains(why)), "{refused}");
    }
}
