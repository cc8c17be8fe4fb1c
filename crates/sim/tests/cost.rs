//! What a simulated node costs: the processor time of its start, of an hour in which nothing happens and of the commands that it
//! serves, and its memory. One test, so that its process does nothing else; all is printed, and bounds are ten times what a quiet
//! machine takes, for what is measured beside other programs.
#![cfg(feature = "sim")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use almandine_io::sim::turn::Schedule;
use almandine_io::sim::world::World;
use almandine_io::usage;
use almandine_sim::run::{Plan, run};
use almandine_sim::runtime::{Connection, Simulated};
use almandine_sim::server;
use almandine_testkit::{Client, Runtime, Value};

const SECOND: u64 = 1_000_000_000;
const WORKERS: &[&str] = &["--workers", "4"];

/// Processor time and real time.
struct Spent {
    processor: Duration,
    real: Duration,
}

fn spent(mut work: impl FnMut()) -> Spent {
    let (began, before) = (Instant::now(), usage::process());
    work();
    let after = usage::process();
    let processor_us = after.user_us + after.system_us - before.user_us - before.system_us;
    Spent { processor: Duration::from_micros(processor_us), real: began.elapsed() }
}

fn reach(server: &Simulated) -> Client<Connection> {
    loop {
        match Client::of(server) {
            Ok(client) => return client,
            Err(_) => server.sleep(Duration::from_millis(1)),
        }
    }
}

/// A node starts, has its clients do something, and ends.
fn serve(work: impl Fn(&Simulated) + Send + Sync + 'static) {
    let outcome = run(&Plan::new(1, Schedule::default()), |world: &Arc<World>| {
        let (node, clients) = (world.node(), world.node());
        drop(server::start(world, node, WORKERS));
        let simulated = Simulated::new(node, server::address());
        let drive = move || {
            work(&simulated);
            let _ = reach(&simulated).send(&[["SHUTDOWN", "NOSAVE"]]);
        };
        drop(world.spawn(clients, "client", drive));
    });
    assert!(outcome.failure.is_none(), "{outcome}");
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn starts() {
    const RUNS: u32 = 20;
    serve(|_| {});
    let Spent { processor, real } = spent(|| (0..RUNS).for_each(|_| serve(|_| {})));
    println!("a world with a node of four workers starts and ends in {:?}, {:?} of the clock", processor / RUNS, real / RUNS);
    assert!(processor / RUNS < Duration::from_millis(50));
}

fn idles(settings: &[&str]) {
    let mut most = 0;
    let before = resident_bytes();
    let plan = Plan { time_max_ns: 3_610 * SECOND, ..Plan::new(1, Schedule::default()) };
    let mut outcome = None;
    let all = spent(|| {
        outcome = Some(run(&plan, |world| {
            drop(server::start(world, world.node(), settings));
            world.run(10 * SECOND).unwrap();
            most = resident_bytes();
        }));
    });
    let first = spent(|| {
        run(&Plan { time_max_ns: 10 * SECOND, ..plan.clone() }, |world| drop(server::start(world, world.node(), settings)));
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.failure.as_deref(), Some("it has not ended in time"), "nothing goes wrong meanwhile");
    let (hour, bytes) = (all.processor.saturating_sub(first.processor), most.saturating_sub(before));
    let (real, kib, events) = (all.real, bytes >> 10, outcome.trace_hash.1);
    println!("an idle hour of a node with {settings:?} takes {hour:?}, {real:?} of the clock; it has {kib} KiB, {events} events");
    // The pages of the program that are touched first are among them, 13 MiB in this build.
    assert!(bytes < 24 << 20 && hour < Duration::from_millis(500));
    // Eight threads that look around ten times a second would be at 288,000 waits.
    assert!(events < 60_000, "{events} events");
}

/// Clients with pipelines.
fn serves() {
    const CLIENTS: u32 = 8;
    const ROUNDS: u32 = 50;
    const PIPELINE: u32 = 100;
    let load = |server: &Simulated| {
        let work = |number: u32| {
            let own = server.clone();
            let body = move || {
                let mut client = reach(&own);
                let commands: Vec<[String; 3]> =
                    (0..PIPELINE).map(|key| ["SET".to_owned(), format!("key:{number}:{key}"), "value".to_owned()]).collect();
                for _ in 0..ROUNDS {
                    assert!(client.pipeline(&commands).unwrap().iter().all(|reply| *reply == Value::ok()));
                }
            };
            server.spawn(&format!("client-{number}"), body)
        };
        (0..CLIENTS).map(work).collect::<Vec<_>>().into_iter().for_each(|client| client.join());
    };
    let Spent { processor, real } = spent(|| serve(load));
    let rate = |time: Duration| f64::from(CLIENTS * ROUNDS * PIPELINE) / time.as_secs_f64();
    println!(
        "a node of four workers serves {:.0} commands a second of the clock, {:.0} of a processor",
        rate(real),
        rate(processor)
    );
    assert!(rate(processor) > 5_000.0);
}

#[test]
fn a_node_costs_little() {
    // First, while no memory is left over from other nodes.
    idles(WORKERS);
    for mode in ["always", "everysec"] {
        idles(&[WORKERS, &["--appendonly", "yes", "--appendfsync", mode]].concat());
    }
    starts();
    serves();
}
