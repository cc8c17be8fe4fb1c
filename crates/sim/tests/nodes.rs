//! Nodes that crash and boot again in the simulation, with and without a device.
#![cfg(feature = "sim")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;
use std::time::Duration;

use almandine_io::sim::disk::DiskFaults;
use almandine_io::sim::net::NetOptions;
use almandine_io::sim::world::{CrashKind, NodeId, World};
use almandine_sim::run::{Outcome, Plan, run, run_twice};
use almandine_sim::runtime::{Connection, Simulated};
use almandine_sim::schedules::schedule;
use almandine_sim::server;
use almandine_testkit::{Client, Runtime, Value};

const THREADS: &[&str] = &["store", "flusher", "compactor", "control", "worker-0", "worker-1"];
const IN_MEMORY: &[&str] = &["--workers", "2"];
const ON_DISK: &[&str] = &["--workers", "2", "--storage-dir", "pages", "--maxmemory", "12mb"];
const SECOND: u64 = 1_000_000_000;

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn plan(seed: u64) -> Plan {
    Plan::new(seed, schedule(seed, THREADS))
}

fn check(outcome: &Outcome, seed: u64) {
    assert!(outcome.failure.is_none(), "seed {seed}: {outcome}");
}

/// A client of a server that may be booting.
fn reach(server: &Simulated) -> Client<Connection> {
    for _ in 0..600 {
        if let Ok(client) = Client::of(server) {
            return client;
        }
        server.sleep(Duration::from_millis(100));
    }
    panic!("the server does not come back");
}

/// Sends a command; none when the connection is broken.
fn call(client: &mut Client<Connection>, words: &[&str]) -> Option<Value> {
    client.call(words).ok().filter(|reply| *reply != Value::Closed)
}

/// Has a node crash in this way after some time, and boot again a second later.
fn crash_after(world: &Arc<World>, node: NodeId, settings: &'static [&'static str], kind: CrashKind, time_ns: u64) {
    let (first, second) = (Arc::downgrade(world), Arc::downgrade(world));
    let at_ns = world.turn().now_ns() + time_ns;
    world.turn().at(at_ns, move || first.upgrade().into_iter().for_each(|world| world.crash(node, kind)));
    let boot = move || second.upgrade().into_iter().for_each(|world| drop(server::start(&world, node, settings)));
    world.turn().at(at_ns + SECOND, boot);
}

/// A client writes while its server crashes three times, in different ways; after each it serves, and has nothing.
fn crashes(world: &Arc<World>, settings: &'static [&'static str]) {
    let (node, clients) = (world.node(), world.node());
    drop(server::start(world, node, settings));
    let kinds = [CrashKind::Process, CrashKind::Container, CrashKind::Machine];
    for (number, kind) in (1..).zip(kinds) {
        crash_after(world, node, settings, kind, number * 5 * SECOND);
    }
    let simulated = Simulated::new(node, server::address());
    let write = move || {
        let value = "v".repeat(4000);
        for life in 0..=kinds.len() {
            let mut client = reach(&simulated);
            if life == kinds.len() {
                assert_eq!(client.call(&["SET", "key", "value"]).unwrap(), Value::ok());
                assert_eq!(client.call(&["GET", "key"]).unwrap(), bulk("value"));
                let _ = client.send(&[["SHUTDOWN", "NOSAVE"]]);
                return;
            }
            assert_eq!(call(&mut client, &["DBSIZE"]), Some(Value::Integer(0)), "nothing is durable yet");
            let mut written = 0_u64;
            while call(&mut client, &["SET", &format!("key:{written}"), &value]).is_some() {
                written += 1;
                simulated.sleep(Duration::from_millis(1));
            }
            assert!(written > 100, "life {life} served {written} commands");
        }
    };
    drop(world.spawn(clients, "client", write));
}

#[test]
fn a_node_boots_serves_crashes_and_boots_again_and_each_seed_repeats() {
    for seed in 0..3 {
        check(&run_twice(&plan(seed), |world| crashes(world, IN_MEMORY)), seed);
    }
    for seed in 3..8 {
        check(&run(&plan(seed), |world| crashes(world, IN_MEMORY)), seed);
    }
}

#[test]
fn a_node_with_a_device_boots_serves_crashes_and_boots_again_and_each_seed_repeats() {
    for seed in 0..3 {
        check(&run_twice(&plan(seed), |world| crashes(world, ON_DISK)), seed);
    }
    for seed in 3..8 {
        check(&run(&plan(seed), |world| crashes(world, ON_DISK)), seed);
    }
}

/// A client waits for an element while its server has more data than memory.
#[test]
fn a_client_waits_while_pages_go_to_the_device_and_come_back() {
    let start = |world: &Arc<World>, seed: u64| {
        let (node, clients) = (world.node(), world.node());
        if seed % 2 == 1 {
            world.net().set_options(NetOptions::rough());
            world.disk(node).set_faults(DiskFaults::harmless(1000));
        }
        drop(server::start(world, node, ON_DISK));
        let simulated = Simulated::new(node, server::address());
        let own = simulated.clone();
        let waits = world.spawn(clients, "waits", move || {
            let mut client = reach(&own);
            client.call(&["BLPOP", "list", "0"]).unwrap()
        });
        let write = move || {
            let (mut client, value) = (reach(&simulated), "v".repeat(4000));
            for number in 0..6000 {
                let reply = client.call(&["SET", &format!("key:{number}"), &value]).unwrap();
                assert_eq!(reply, Value::ok(), "{number}");
            }
            for number in [0, 1, 3000, 5999] {
                assert_eq!(client.call(&["GET", &format!("key:{number}")]).unwrap(), bulk(&value), "{number}");
            }
            let info = client.call(&["INFO", "storage"]).unwrap();
            let info = String::from_utf8_lossy(info.bytes().unwrap()).into_owned();
            assert!(!info.contains("storage_pages_evicted:0\r"), "no page has left memory: {info}");
            assert_eq!(client.call(&["RPUSH", "list", "element"]).unwrap(), Value::Integer(1));
            assert_eq!(waits.join(), Some(Value::Array(vec![bulk("list"), bulk("element")])));
            let _ = client.send(&[["SHUTDOWN", "NOSAVE"]]);
        };
        drop(world.spawn(clients, "client", write));
    };
    for seed in 0..2 {
        check(&run(&plan(seed), |world| start(world, seed)), seed);
    }
}

/// Memory is used up and the device takes nothing: it is asked again up to fifty times a second, whatever clients want.
#[test]
fn a_full_device_is_not_asked_again_at_once() {
    const NAME: &str = "apart: the disk is full";
    const LOOKS: Duration = Duration::from_secs(2);
    const SEED: u64 = 1;
    let ran = run(&plan(SEED), |world| {
        let (node, clients) = (world.node(), world.node());
        let disk = world.disk(node);
        disk.set_faults_of("/data/pages", DiskFaults::default());
        drop(server::start(world, node, ON_DISK));
        let simulated = Simulated::new(node, server::address());
        let write = move || {
            let (mut client, value) = (reach(&simulated), "v".repeat(60_000));
            disk.set_faults_of("/data/pages", DiskFaults { full_at_bytes: Some(0), ..DiskFaults::default() });
            let full = (0..1_000).find(|number| client.call(&["SET", &format!("key:{number}"), &value]).unwrap().is_error());
            assert!(full.is_some_and(|number| number > 50), "memory is not used up: {full:?}");
            let asked = || disk.happened().get(NAME).copied().unwrap_or(0);
            let (before, until_ns) = (asked(), simulated.now_ns() + LOOKS.as_nanos() as u64);
            while simulated.now_ns() < until_ns {
                let reply = client.call(&["SET", "key:0", &value]).unwrap().to_string();
                assert!(reply.contains("OOM"), "{reply}");
                simulated.sleep(Duration::from_millis(1));
            }
            let asked = asked() - before;
            assert!((20..=2 * 55).contains(&asked), "it is asked {asked} times in {LOOKS:?}");
            disk.set_faults_of("/data/pages", DiskFaults::default());
            let heals = (0..1_000).any(|_| {
                simulated.sleep(Duration::from_millis(10));
                client.call(&["SET", "key:0", &value]).unwrap() == Value::ok()
            });
            assert!(heals, "the device has room, and writes are refused");
            let _ = client.send(&[["SHUTDOWN", "NOSAVE"]]);
        };
        drop(world.spawn(clients, "client", write));
    });
    check(&ran, SEED);
}
