//! Several threads set, read and delete keys of their own, with and without expiry, while the background of the store grows and
//! shrinks the index, compacts pages and removes what has expired: each thread sees what it has written, under any schedule.
#![cfg(feature = "sim")]
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use almandine_base::mutants::Mutant;
use almandine_io::sim::world::World;
use almandine_io::sync::Mutex;
use almandine_io::{clock, thread};
use almandine_keyspace::{Accessor, Keyspace, Options, Put, Work};
use almandine_sim::run::{Outcome, Plan, choose, run, run_twice};
use almandine_sim::schedules::schedule;

const WORKERS: u64 = 3;
const BATCHES: u64 = 60;
const THREADS: &[&str] = &["store", "worker-0", "worker-1", "worker-2"];

/// What a worker has written: the first byte, the length and the expiry of each value.
type Model = BTreeMap<Vec<u8>, (u8, usize, Option<i64>)>;

fn length() -> usize {
    let most = [8, 100, 400, 3_000, 30_000][choose(5) as usize];
    choose(most) as usize
}

fn read(accessor: &mut Accessor, db: u16, key: &[u8]) -> Option<Vec<u8>> {
    let mut reader = accessor.reader(db);
    let key = reader.key(key);
    reader.read(key).unwrap().map(|value| (*value).to_vec())
}

/// Whether a value is there: for the batch that began at this time, and for the background, which may have removed it meanwhile.
fn visible((_, _, expiry_ms): (u8, usize, Option<i64>), now_ms: i64) -> (bool, bool) {
    let at = |time_ms| expiry_ms.is_none_or(|expiry_ms| time_ms < expiry_ms);
    (at(now_ms), at(clock::unix_ms()))
}

fn check(accessor: &mut Accessor, db: u16, model: &Model, key: &[u8], now_ms: i64) {
    let found = read(accessor, db, key);
    let known = model.get(key).copied();
    let (for_batch, for_background) = known.map_or((false, false), |known| visible(known, now_ms));
    match found {
        Some(found) => {
            let (first, length, _) = known.unwrap_or_default();
            assert!(for_batch && found == vec![first; length], "{}: {} bytes, not {known:?}", key.escape_ascii(), found.len());
        }
        None => assert!(!for_background, "{}: nothing, not {known:?}", key.escape_ascii()),
    }
}

fn step(accessor: &mut Accessor, db: u16, model: &mut Model, key: &[u8], now_ms: i64) {
    match choose(10) {
        0..5 => {
            let (first, length) = (choose(256) as u8, length());
            let expiry_ms = (choose(3) == 1).then(|| now_ms + 1 + choose(400) as i64);
            let mut writer = accessor.writer(db);
            let own = writer.key(key);
            writer.upsert(own, &vec![first; length], Put { expiry_ms, ..Put::default() }).unwrap();
            model.insert(key.to_vec(), (first, length, expiry_ms));
        }
        5 | 6 => {
            let mut writer = accessor.writer(db);
            let own = writer.key(key);
            let there = writer.delete(own).unwrap();
            let known = model.remove(key);
            let (for_batch, for_background) = known.map_or((false, false), |known| visible(known, now_ms));
            assert!(if there { for_batch } else { !for_background }, "{}: {there}, not {known:?}", key.escape_ascii());
        }
        _ => check(accessor, db, model, key, now_ms),
    }
}

/// Works in a database of its own, or in one of all.
fn work(keyspace: &Arc<Keyspace>, own: u64, is_shared: bool) -> Model {
    let mut accessor = keyspace.accessor().unwrap();
    let mut model = Model::new();
    let db = if is_shared { 0 } else { own as u16 };
    let keys = [10, 200, 2_000][choose(3) as usize];
    for _ in 0..BATCHES {
        let now_ms = clock::unix_ms();
        accessor.begin_batch(now_ms);
        if !is_shared && choose(20) == 1 {
            accessor.flush(&[db]);
            model.clear();
        }
        for _ in 0..choose(60) {
            step(&mut accessor, db, &mut model, format!("{own}:{}", choose(keys)).as_bytes(), now_ms);
        }
        accessor.end_batch();
        match choose(4) {
            0 => thread::sleep(Duration::from_millis(choose(200))),
            _ => thread::yield_now(),
        }
    }
    let now_ms = clock::unix_ms();
    for keys in model.keys().cloned().collect::<Vec<_>>().chunks(50) {
        accessor.begin_batch(now_ms);
        keys.iter().for_each(|key| check(&mut accessor, db, &model, key, now_ms));
        accessor.end_batch();
    }
    model
}

fn main_thread() -> Work {
    let store = almandine_store::Options { memory_bytes_max: 16 << 20, ..Default::default() };
    let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
    let is_shared = choose(2) == 0;
    let start = |own: u64| {
        let keyspace = Arc::clone(&keyspace);
        thread::spawn(&format!("worker-{own}"), move || work(&keyspace, own, is_shared)).unwrap()
    };
    let workers: Vec<_> = (0..WORKERS).map(start).collect();
    let models: Vec<Model> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    // The longest expiry is over after 0.4 s, what has expired is gone a second later, and a thread is starved for 10 s at most.
    thread::sleep(Duration::from_secs(13));
    let kept = models.iter().flat_map(BTreeMap::values).filter(|(_, _, expiry_ms)| expiry_ms.is_none()).count();
    let of_all = |count: fn(&Keyspace, u16) -> u64| (0..WORKERS as u16).map(|db| count(&keyspace, db)).sum::<u64>();
    assert_eq!((of_all(Keyspace::dbsize), of_all(Keyspace::expires)), (kept as u64, 0), "expired keys are left");
    keyspace.figures().work()
}

fn start(world: &Arc<World>) {
    start_and_tell(world, &Arc::default());
}

/// What the background has done is added to `works`.
fn start_and_tell(world: &Arc<World>, works: &Arc<Mutex<Vec<Work>>>) {
    let (node, works) = (world.node(), Arc::clone(works));
    drop(world.spawn(node, "main", move || {
        let work = main_thread();
        works.lock().unwrap().push(work);
    }));
}

fn plan(seed: u64) -> Plan {
    Plan::new(seed, schedule(seed, THREADS))
}

fn passes(outcome: &Outcome, seed: u64) {
    assert!(outcome.failure.is_none(), "seed {seed}: {outcome}");
}

#[test]
fn threads_see_what_they_have_written_and_seeds_repeat() {
    let from: u64 = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in from..from + 10 {
        passes(&run_twice(&plan(seed), start), seed);
    }
}

#[test]
fn threads_see_what_they_have_written_under_many_schedules() {
    let from: u64 = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(100);
    let number: u64 = std::env::var("SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40);
    let works = Arc::default();
    for seed in from..from + number {
        passes(&run(&plan(seed), |world| start_and_tell(world, &works)), seed);
    }
    let works = works.lock().unwrap();
    let some = |part: fn(&Work) -> u64| works.iter().filter(|work| part(work) != 0).count();
    let done = [some(|work| work.buckets_split), some(|work| work.buckets_merged), some(|work| work.pages_evacuated)];
    let swept = some(|work| work.namespaces_swept);
    println!("runs that split, merged, evacuated: {done:?}, swept: {swept}; of {}", works.len());
    assert!(done.iter().all(|runs| *runs != 0) && swept != 0, "{done:?} {swept}");
}

#[test]
fn an_entry_that_is_looked_at_without_its_latch_is_found() {
    let found = (0..200).find(|&seed| run(&plan(seed).without(&[Mutant::LookUnderLatch]), start).failure.is_some());
    println!("found by seed {found:?}");
    assert!(found.is_some());
}
