//! The operation log breaks while a script runs that has written, and is given up at once. What became of that is not known: the
//! script is not answered, nor is its message heard, by listeners of its own worker and of others, all of which have heard of the
//! break before it is sent.
//!
//! Or it is healed, while replies wait: these leave then, what they acknowledge is there behind a power cut, and it is not read
//! before.
#![cfg(feature = "sim")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::io;
use std::time::Duration;

use almandine_base::mutants::Mutant;
use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::world::{self, CrashKind, NodeId};
use almandine_sim::run::{Outcome, Plan, quiet, run};
use almandine_sim::runtime::{Connection, Simulated};
use almandine_sim::schedules::schedule;
use almandine_sim::server;
use almandine_testkit::{Client, Runtime, Value};

const SETTINGS: &[&str] = &["--workers", "2", "--appendonly", "yes", "--appendfsync", "always", "--log-heal-wait", "0"];
const LISTENERS: usize = 4;
/// How long the disk holds the write that fails. The script runs for about three times as long, in slices.
const STUCK_NS: u64 = 8_000_000;
/// It writes, runs alone, and tells of it when the log has broken.
const SCRIPT: &str = "redis.call('SET', KEYS[1], 'value') redis.call('DBSIZE') for i = 1, 500000 do end \
    return redis.call('PUBLISH', 'told', 'message')";

fn listener(server: &Simulated) -> Client<Connection> {
    let mut client = Client::of(server).unwrap();
    client.call(&["SUBSCRIBE", "told"]).unwrap();
    client
}

fn is_closed(reply: &io::Result<Value>) -> bool {
    match reply {
        Ok(reply) => *reply == Value::Closed,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

fn breaks(server: &Simulated, node: NodeId) {
    let (world, _) = world::current().unwrap();
    let begun = |client: &mut Client<Connection>| client.call(&["SET", "key", "before"]).is_ok_and(|reply| reply == Value::ok());
    let mut writer = loop {
        if let Some(client) = Client::of(server).ok().and_then(|mut client| begun(&mut client).then_some(client)) {
            break client;
        }
        server.sleep(Duration::from_millis(5));
    };
    let listeners: Vec<_> = (0..LISTENERS).map(|_| listener(server)).collect();
    let mut script = Client::of(server).unwrap();
    let all = DiskFaults { write_errors: 1_000_000, stuck_until_ns: server.now_ns() + STUCK_NS, ..DiskFaults::default() };
    world.disk(node).set_faults(all);
    writer.send(&[["SET", "other", "value"]]).unwrap();
    // The log is being written: it breaks when the disk says so, while the script keeps all others out.
    server.sleep(Duration::from_millis(2));
    let reply = script.call(&["EVAL", SCRIPT, "1", "key"]);
    assert!(is_closed(&reply), "the script is answered with {reply:?}");
    let answer = writer.receive();
    assert!(is_closed(&answer), "the write that failed is answered with {answer:?}");
    for mut listener in listeners {
        let heard = listener.receive();
        assert!(is_closed(&heard), "{heard:?} is heard");
    }
    // Others are served, and told of what changes nothing.
    let (mut other, mut publisher) = (listener(server), Client::of(server).unwrap());
    assert!(publisher.call(&["SET", "key", "value"]).unwrap().to_string().contains("MISCONF"));
    assert_eq!(publisher.call(&["PUBLISH", "told", "word"]).unwrap(), Value::Integer(1));
    assert_eq!(other.receive().unwrap().to_string(), r#"*[$"message", $"told", $"word"]"#);
    world.crash(node, CrashKind::Machine);
}

/// The settings of a server whose replies wait for longer than its disk fails.
const PATIENT: &[&str] = &["--workers", "2", "--appendonly", "yes", "--appendfsync", "always"];

fn reach(server: &Simulated) -> Client<Connection> {
    loop {
        let ready = |client: &mut Client<Connection>| client.call(&["DBSIZE"]).is_ok_and(|reply| reply.integer().is_some());
        if let Some(client) = Client::of(server).ok().and_then(|mut client| ready(&mut client).then_some(client)) {
            return client;
        }
        server.sleep(Duration::from_millis(5));
    }
}

fn waits(server: &Simulated, node: NodeId) {
    let (world, _) = world::current().unwrap();
    let [mut control, mut writer, mut reader, mut told] = std::array::from_fn(|_| reach(server));
    assert_eq!(control.call(&["SET", "key", "before"]).unwrap(), Value::ok());
    told.call(&["SUBSCRIBE", "told"]).unwrap();
    world.disk(node).set_faults(DiskFaults { write_errors: 1_000_000, ..DiskFaults::default() });
    writer.send(&[&["MULTI"][..], &["SET", "other", "value"], &["PUBLISH", "told", "message"], &["EXEC"]]).unwrap();
    server.sleep(Duration::from_millis(100));
    reader.send(&[["GET", "other"]]).unwrap();
    assert_eq!(control.call(&["GET", "key"]).unwrap().to_string(), r#"$"before""#);
    assert!(control.call(&["SET", "key", "value"]).unwrap().to_string().contains("MISCONF"));
    for (what, client) in [("a write", &mut writer), ("a reader", &mut reader), ("a listener", &mut told)] {
        let heard = client.receive_until_quiet(Duration::from_millis(500));
        assert!(heard.as_ref().is_ok_and(Vec::is_empty), "{what} is told too early: {heard:?}");
    }
    world.disk(node).set_faults(DiskFaults::default());
    let written: Vec<String> = (0..4).map(|_| writer.receive().unwrap().to_string()).collect();
    assert_eq!(written[3], "*[+OK, :1]");
    assert_eq!(reader.receive().unwrap().to_string(), r#"$"value""#);
    assert_eq!(told.receive().unwrap().to_string(), r#"*[$"message", $"told", $"message"]"#);
    world.crash(node, CrashKind::Machine);
    server.sleep(Duration::from_millis(200));
    drop(server::start(&world, node, PATIENT));
    assert_eq!(reach(server).call(&["GET", "other"]).unwrap().to_string(), r#"$"value""#);
    world.crash(node, CrashKind::Machine);
}

fn run_without(seed: u64, left_out: &[Mutant]) -> Outcome {
    run_body(seed, left_out, SETTINGS, breaks)
}

fn run_body(seed: u64, left_out: &[Mutant], settings: &'static [&'static str], body: fn(&Simulated, NodeId)) -> Outcome {
    quiet();
    run(&Plan::new(seed, schedule(seed, &["log", "worker-0", "worker-1"])).without(left_out), |world| {
        let (node, clients) = (world.node(), world.node());
        drop(server::start(world, node, settings));
        let simulated = Simulated::new(node, server::address());
        drop(world.spawn(clients, "client", move || body(&simulated, node)));
    })
}

#[test]
fn what_waits_for_a_broken_log_is_told_when_it_is_healed() {
    for seed in 0..8 {
        let outcome = run_body(seed, &[], PATIENT, waits);
        assert!(outcome.failure.is_none(), "seed {seed}: {outcome}");
    }
    let failure = (0..8).find_map(|seed| run_body(seed, &[Mutant::AwaitHealing], PATIENT, waits).failure);
    assert!(failure.as_ref().is_some_and(|failure| failure.contains("is told too early")), "{failure:?}");
}

#[test]
fn a_unit_that_the_log_may_lack_is_neither_answered_nor_told() {
    for seed in 0..8 {
        let outcome = run_without(seed, &[]);
        assert!(outcome.failure.is_none(), "seed {seed}: {outcome}");
    }
}

#[test]
fn a_missing_step_is_noticed() {
    for (mutant, report) in [(Mutant::CompareBreaks, "is heard"), (Mutant::CloseUnlogged, "is answered")] {
        let failure = (0..8).find_map(|seed| run_without(seed, &[mutant]).failure);
        assert!(failure.as_ref().is_some_and(|failure| failure.contains(report)), "{mutant:?}: {failure:?}");
    }
}
