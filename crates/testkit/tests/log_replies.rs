//! Where replies wait for the log, nothing is heard that could still be lost: no reply to a write, no reply to a look at what was
//! written, no keyspace event, no message of a transaction, no invalidation of a tracked key. What is durable is answered
//! meanwhile.
//!
//! DEBUG AOF-FLUSH-SLEEP keeps the log's writer from writing for as long as the proof looks.

use std::time::Duration;

use almandine_testkit::mutants::must_notice;
use almandine_testkit::{Client, Program, Server, Value};

/// For which nothing must come.
const QUIET: Duration = Duration::from_millis(200);
const FLAGS: &[&str] =
    &["--appendonly", "yes", "--enable-debug-command", "yes", "--workers", "1", "--notify-keyspace-events", "KEA"];
const ALWAYS: &[&str] = &["--appendfsync", "always", "--ring-dir", "{dir}"];
/// One with data on a device.
const DEVICE: &[&str] = &["--storage-dir", "{dir}/s", "--maxmemory", "16mb"];
const EVICT: &[&str] = &["DEBUG STORAGE EVICT"];
/// One whose rings outlive it: replies do not wait.
const EVERY_SECOND: &[&str] = &["--ring-dir", "{dir}", "--workers", "2", "--busy-reply-threshold", "1"];
/// A server whose rings end with it.
const WITHOUT_RINGS: &[&str] = &["--appendfsync", "everysec", "--ring-dir", "none"];

fn flags(more: &[&'static str]) -> Vec<&'static str> {
    [FLAGS, more].concat()
}

fn heard(client: &mut Client, quiet: Duration) -> Vec<String> {
    client.receive_until_quiet(quiet).expect("the connection stays").iter().map(ToString::to_string).collect()
}

fn nothing_is_heard_too_early(server: &Server, prepare: &[&str]) {
    let [mut control, mut writer, mut transaction, mut reader, mut listener, mut tracker] =
        std::array::from_fn(|_| server.client());
    control.line("MSET durable 1 key 0");
    for line in prepare {
        assert_eq!(control.line(line), Value::ok(), "{line}");
    }
    listener.line("PSUBSCRIBE *");
    tracker.line("HELLO 3");
    tracker.line("CLIENT TRACKING on");
    tracker.line("GET key");
    assert_eq!(control.line("DEBUG AOF-FLUSH-SLEEP 3600000000"), Value::ok());
    transaction.line("MULTI");
    transaction.line("INCR counter");
    transaction.line("PUBLISH channel message");
    writer.send(&[["SET", "key", "1"]]).expect("sent");
    transaction.send(&[["EXEC"]]).expect("sent");
    // The one worker has come around behind that, and answers what is durable.
    for _ in 0..20 {
        assert_eq!(reader.line("GET durable").to_string(), r#"$"1""#);
    }
    reader.send(&[["GET", "key"]]).expect("sent");
    for (what, client) in [
        ("the reply to a write", &mut writer),
        ("the reply to a transaction", &mut transaction),
        ("a value that is not durable", &mut reader),
        ("an event or a message", &mut listener),
        ("an invalidation", &mut tracker),
    ] {
        assert_eq!(heard(client, QUIET), Vec::<String>::new(), "{what} is heard too early");
    }
    assert_eq!(control.line("DEBUG AOF-FLUSH-SLEEP 0"), Value::ok());
    let next = |client: &mut Client| client.receive().expect("a reply").to_string();
    assert_eq!((next(&mut writer), next(&mut reader)), ("+OK".to_owned(), r#"$"1""#.to_owned()));
    assert_eq!(next(&mut transaction), "*[:1, :1]");
    assert_eq!(next(&mut tracker), r#">[$"invalidate", *[$"key"]]"#);
    let all: Vec<String> = (0..5).map(|_| next(&mut listener)).collect();
    for message in ["set", "incrby", "message", "__keyevent@0__:set", "__keyspace@0__:counter"] {
        assert!(all.iter().any(|heard| heard.contains(message)), "{message}: {all:?}");
    }
}

#[test]
fn nothing_is_heard_before_it_is_durable() {
    nothing_is_heard_too_early(&Server::start(&Program::Almandine, &flags(ALWAYS)), &[]);
}

#[test]
fn nothing_is_heard_before_it_is_durable_while_data_lies_on_a_device() {
    nothing_is_heard_too_early(&Server::start(&Program::Almandine, &[flags(ALWAYS), DEVICE.to_vec()].concat()), EVICT);
}

#[test]
fn nothing_is_heard_before_the_file_has_it_where_rings_end_with_the_process() {
    nothing_is_heard_too_early(&Server::start(&Program::Almandine, &flags(WITHOUT_RINGS)), &[]);
}

/// Clients that hear of what others do: of events and messages, and of a key that they have read.
fn those_that_hear(server: &Server) -> [Client; 2] {
    let [mut listener, mut tracker] = std::array::from_fn(|_| server.client());
    listener.line("PSUBSCRIBE *");
    tracker.line("HELLO 3");
    tracker.line("CLIENT TRACKING on");
    tracker.line("GET key");
    [listener, tracker]
}

/// A script that has told of what it did, and does not end: a process that is killed then has done none of it.
fn nothing_is_heard_before_its_unit_ends(server: &Server) {
    let (mut control, mut writer) = (server.client(), server.client());
    assert_eq!(control.line("SET key 0"), Value::ok());
    let mut all: Vec<[Client; 2]> = (0..4).map(|_| those_that_hear(server)).collect();
    let code = "redis.call('SET', KEYS[1], '1') redis.call('PUBLISH', 'channel', 'message') while true do end";
    writer.send(&[["EVAL", code, "1", "key"]]).expect("sent");
    while !matches!(control.line("PING"), Value::Error(text) if text.starts_with(b"BUSY")) {}
    for client in all.as_flattened_mut() {
        assert_eq!(heard(client, QUIET), Vec::<String>::new(), "it is heard too early");
    }
}

#[test]
fn nothing_is_heard_before_the_rings_have_its_unit() {
    let mut server = Server::start(&Program::Almandine, &flags(EVERY_SECOND));
    nothing_is_heard_before_its_unit_ends(&server);
    server.kill();
    server.start_again();
    assert_eq!(server.client().line("GET key").to_string(), r#"$"0""#);
}

/// What is heard, and in which order, is the same with a log and without one.
#[test]
fn what_is_held_is_heard_in_its_order() {
    let heard_of = |flags: &[&str]| {
        let server = Server::start(&Program::Almandine, flags);
        let mut hearing = those_that_hear(&server);
        let (mut writer, mut waiting) = (server.client(), server.client());
        let id = waiting.line("CLIENT ID");
        waiting.send(&[["BLPOP", "list", "0"]]).expect("sent");
        while !writer.line(&format!("CLIENT LIST ID {}", id.integer().expect("an id"))).to_string().contains("flags=b") {}
        let lines = [
            "MULTI",
            "PUBLISH channel first",
            "SET key 1",
            "PUBLISH channel second",
            "SET other 2",
            "RPUSH list a b",
            "DEL other",
            "SUBSCRIBE own",
            "PUBLISH own mine",
            "PUBLISH channel last",
            "EXEC",
        ];
        let mut told: Vec<String> = lines.iter().map(|line| writer.line(line).to_string()).collect();
        told.push(waiting.receive().expect("a reply").to_string());
        let code = "redis.call('SET', KEYS[1], '3') local n = redis.call('PUBLISH', 'channel', 'script') \
                    redis.call('DEL', KEYS[1]) return n";
        told.push(server.client().call(&["EVAL", code, "1", "key"]).expect("a reply").to_string());
        let [listener, tracker] = &mut hearing;
        told.extend([&mut writer, tracker].map(|client| client.receive().expect("a message").to_string()));
        server.client().line("PUBLISH end end");
        while !told.last().is_some_and(|last| last.contains("end")) {
            told.push(listener.receive().expect("a message").to_string());
        }
        told
    };
    let without = heard_of(&["--workers", "2", "--notify-keyspace-events", "KEA"]);
    assert!(without.len() > 30, "{without:#?}");
    assert_eq!(heard_of(&flags(EVERY_SECOND)), without);
}

#[test]
fn what_is_heard_before_its_unit_ends_is_noticed() {
    must_notice("HoldMessages", &flags(EVERY_SECOND), 1, nothing_is_heard_before_its_unit_ends);
}

#[test]
fn what_is_heard_too_early_is_noticed() {
    for mutant in ["HoldReplies", "AskSeen", "DeferMessages"] {
        must_notice(mutant, &flags(ALWAYS), 1, |server| nothing_is_heard_too_early(server, &[]));
    }
    let device = [flags(ALWAYS), DEVICE.to_vec()].concat();
    must_notice("AskSeen", &device, 1, |server| nothing_is_heard_too_early(server, EVICT));
}
