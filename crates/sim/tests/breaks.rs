//! The operation log breaks while a script runs that has written. What became of that is not known: the script is not answered, nor
//! is its message heard, by listeners of its own worker and of others, all of which have heard of the break before it is sent.
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

const SETTINGS: &[&str] = &["--workers", "2", "--appendonly", "yes", "--appendfsync", "always"];
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

fn run_without(seed: u64, left_out: &[Mutant]) -> Outcome {
    quiet();
    run(&Plan::new(seed, schedule(seed, &["log", "worker-0", "worker-1"])).without(left_out), |world| {
        let (node, clients) = (world.node(), world.node());
        drop(server::start(world, node, SETTINGS));
        let simulated = Simulated::new(node, server::address());
        drop(world.spawn(clients, "client", move || breaks(&simulated, node)));
    })
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
