//! Several threads add to the same counters in one keyspace: no addition is lost, under any schedule, and each run repeats.
#![cfg(feature = "sim")]
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;

use almandine_base::mutants::Mutant;
use almandine_io::sim::choice::Subsystem;
use almandine_io::sim::world::{CrashKind, World};
use almandine_io::{clock, thread};
use almandine_keyspace::{Accessor, Keyspace, Kind, Options, Put, Slot};
use almandine_sim::run::{Outcome, Plan, run, run_twice};
use almandine_sim::schedules::schedule;

const WORKERS: u64 = 3;
const KEYS: u64 = 4;
const ROUNDS: u64 = 60;
const THREADS: &[&str] = &["store", "worker-0", "worker-1", "worker-2"];

fn key(number: u64) -> Vec<u8> {
    format!("counter:{number}").into_bytes()
}

/// INCR, by the verbs of the waist.
fn increment(accessor: &mut Accessor, key: &[u8]) {
    let mut writer = accessor.writer(0);
    let key = writer.key(key);
    match writer.modify(key).unwrap() {
        Slot::Vacant(slot) => slot.insert(Kind::String, &1_u64.to_le_bytes(), Put::default()).unwrap(),
        Slot::Occupied(mut slot) => {
            let value = u64::from_le_bytes(slot.value().try_into().unwrap()) + 1;
            slot.replace(Kind::String, &value.to_le_bytes(), Put::default()).unwrap();
        }
    }
}

fn value(accessor: &mut Accessor, key: &[u8]) -> u64 {
    let mut reader = accessor.reader(0);
    let key = reader.key(key);
    reader.read(key).unwrap().map_or(0, |value| u64::from_le_bytes((*value).try_into().unwrap()))
}

fn work(keyspace: &Arc<Keyspace>, own: u64) {
    let mut accessor = keyspace.accessor().unwrap();
    for round in 0..ROUNDS {
        accessor.begin_batch(clock::unix_ms());
        increment(&mut accessor, &key((own + round) % KEYS));
        accessor.end_batch();
        thread::yield_now();
    }
}

/// The node's main thread: opens the keyspace, starts workers, waits for them and looks at the counters.
fn main_thread() {
    let store = almandine_store::Options { memory_bytes_max: 16 << 20, ..Default::default() };
    let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
    let start = |own: u64| {
        let keyspace = Arc::clone(&keyspace);
        thread::spawn(&format!("worker-{own}"), move || work(&keyspace, own)).unwrap()
    };
    let workers: Vec<_> = (0..WORKERS).map(start).collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let mut accessor = keyspace.accessor().unwrap();
    accessor.begin_batch(clock::unix_ms());
    let sum: u64 = (0..KEYS).map(|number| value(&mut accessor, &key(number))).sum();
    accessor.end_batch();
    assert_eq!(sum, WORKERS * ROUNDS, "additions are lost");
}

fn start(world: &Arc<World>) {
    let node = world.node();
    drop(world.spawn(node, "main", main_thread));
}

fn plan(seed: u64) -> Plan {
    Plan::new(seed, schedule(seed, THREADS))
}

fn check(outcome: &Outcome, seed: u64) {
    assert!(outcome.failure.is_none(), "seed {seed}: {outcome}");
}

#[test]
fn no_addition_is_lost_and_seeds_repeat() {
    for seed in 0..8 {
        check(&run_twice(&plan(seed), start), seed);
    }
}

#[test]
fn no_addition_is_lost_under_many_schedules() {
    for seed in 100..140 {
        check(&run(&plan(seed), start), seed);
    }
}

#[test]
fn an_entry_that_is_looked_at_without_its_latch_is_found() {
    let found = (0..200).find(|&seed| run(&plan(seed).without(&[Mutant::LookUnderLatch]), start).failure.is_some());
    println!("found by seed {found:?}");
    assert!(found.is_some());
}

/// The process crashes in the middle, whatever its threads do and hold; the next one finds nothing of it.
#[test]
fn a_process_that_crashes_leaves_nothing_to_the_next() {
    for seed in 0..60 {
        let crash_and_start_again = |world: &Arc<World>| {
            let node = world.node();
            for crash in 0..3 {
                drop(world.spawn(node, "main", main_thread));
                let time_ns = 1 + world.turn().below(Subsystem::Clients, 3_000_000);
                world.run(time_ns).unwrap();
                world.crash(node, if crash == 0 { CrashKind::Process } else { CrashKind::Machine });
            }
            drop(world.spawn(node, "main", main_thread));
        };
        check(&run_twice(&plan(seed), crash_and_start_again), seed);
    }
}
