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
/// A server whose rings end with it.
const WITHOUT_RINGS: &[&str] = &["--appendfsync", "everysec", "--ring-dir", "none"];

fn flags(more: &[&'static str]) -> Vec<&'static str> {
    [FLAGS, more].concat()
}

fn heard(client: &mut Client, quiet: Duration) -> Vec<String> {
    client.receive_until_quiet(quiet).expect("the connection stays").iter().map(ToString::to_string).collect()
}

fn nothing_is_heard_too_early(server: &Server) {
    let [mut control, mut writer, mut transaction, mut reader, mut listener, mut tracker] =
        std::array::from_fn(|_| server.client());
    control.line("MSET durable 1 key 0");
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
    nothing_is_heard_too_early(&Server::start(&Program::Almandine, &flags(ALWAYS)));
}

#[test]
fn nothing_is_heard_before_the_file_has_it_where_rings_end_with_the_process() {
    nothing_is_heard_too_early(&Server::start(&Program::Almandine, &flags(WITHOUT_RINGS)));
}

#[test]
fn what_is_heard_too_early_is_noticed() {
    for mutant in ["HoldReplies", "AskSeen", "DeferMessages"] {
        must_notice(mutant, &flags(ALWAYS), 1, nothing_is_heard_too_early);
    }
}
