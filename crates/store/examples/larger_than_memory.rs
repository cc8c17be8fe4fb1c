//! Ten times as much data as memory, used by two threads that may wait for the device:
//! `cargo run --release -p almandine-store --example larger_than_memory -- [KEYS [MEMORY_MIB]]`.
//!
//! A record on the device is met, not waited for: the batch is void, what it met is staged, and the batch runs again.

#![allow(clippy::unwrap_used, reason = "an example may end when something is wrong")]

use almandine_device::{FileDevice, FileOptions};
use almandine_store::{Fetcher, HeatRule, Missing, NotSet, Options, Put, Session, Slot, Stage, Storage, Store};
use std::{error::Error, path::Path, sync::Arc, thread, time::Duration};

/// Keys of a batch: their reads are under way together.
const GROUP: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let keys = args.next().transpose()?.unwrap_or(1_500_000);
    let memory_mib = args.next().transpose()?.unwrap_or(64);
    let directory = std::env::temp_dir().join(format!("almandine-larger-than-memory-{}", std::process::id()));
    let outcome = run(&directory, keys, memory_mib << 20);
    std::fs::remove_dir_all(&directory)?;
    outcome
}

fn run(directory: &Path, keys: u64, memory_bytes: u64) -> Result<(), Box<dyn Error>> {
    let device = |part: &str| FileDevice::open(directory.join(part), &FileOptions::default());
    let storage = Storage { pages: Arc::new(device("log")?), values: Arc::new(device("values")?), ciphers: Arc::default() };
    let store = Arc::new(Store::open(Options { storage: Some(storage), ..Options::default() })?);
    store.settings().set_budget(memory_bytes);
    // So that what is read again and again stays in memory.
    store.settings().set_heat_rule(HeatRule::Uses);
    let namespace = store.allocate_namespace()?;
    let numbers: Vec<u64> = (0..keys).collect();
    let (first, second) = numbers.split_at(numbers.len() / 2);
    let load: fn(&mut User, &[u64]) = |user, group| group.iter().for_each(|&number| user.set(number, 0));
    for (name, work) in [("loaded", load), ("changed", User::change), ("compared", User::compare)] {
        let part = &|half: &[u64]| {
            let mut user =
                User { store: Arc::clone(&store), session: store.session().unwrap(), namespace, fetcher: Fetcher::default() };
            half.chunks(GROUP).for_each(|group| work(&mut user, group));
        };
        thread::scope(|scope| {
            let threads = [first, second].map(|half| scope.spawn(move || part(half)));
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked"))
        })?;
        let (memory, tier) = (store.figures().memory(), store.figures().tier().ok_or("no device")?);
        let (in_memory, on_device) = (memory.log_resident_bytes + memory.beside_log_bytes(), tier.device_bytes);
        println!("{name:8} {} MiB in memory, {} MiB on the device, {} reads so far", in_memory >> 20, on_device >> 20, tier.reads);
    }
    let (count, expected) =
        (store.figures().namespace_len(namespace).0, numbers.iter().filter(|&&n| final_value(n).is_some()).count());
    println!("{count} keys, {expected} expected");
    if count == expected as u64 { Ok(()) } else { Err("the count is wrong".into()) }
}

fn name_of(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

/// 100 to 740 bytes that differ by key and version.
fn value_of(number: u64, version: u64) -> Vec<u8> {
    let seed = (number << 1 | version).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    (0..100 + seed % 641).map(|at| (seed >> (at % 57)) as u8).collect()
}

/// What a key holds in the end.
fn final_value(number: u64) -> Option<Vec<u8>> {
    match number % 100 {
        7 => None,
        8 => Some([&value_of(number, 0)[..], b"!"].concat()),
        last => Some(value_of(number, u64::from(last % 10 == 3))),
    }
}

/// One thread's way to use a store that is larger than memory.
struct User {
    store: Arc<Store>,
    session: Session,
    namespace: u16,
    fetcher: Fetcher,
}

impl User {
    /// Sets a key whatever was there. What may be its record on the device is read first; a new key needs nothing.
    fn set(&mut self, number: u64, version: u64) {
        while self.store.is_stalled() {
            thread::sleep(Duration::from_micros(200));
        }
        let (name, value) = (name_of(number), value_of(number, version));
        self.until_staged(|session, namespace| session.upsert(session.key(namespace, &name), &value, Put::default()));
    }

    /// Overwrites every tenth key; of every hundred it removes one and extends one, with regard to what they were.
    fn change(&mut self, group: &[u64]) {
        group.iter().filter(|&number| number % 10 == 3).for_each(|&number| self.set(number, 1));
        for &number in group.iter().filter(|&number| [7, 8].contains(&(number % 100))) {
            let name = name_of(number);
            self.until_staged(|session, namespace| {
                match session.entry(session.key(namespace, &name))? {
                    Slot::Occupied(entry) if number % 100 == 7 => entry.remove(),
                    Slot::Occupied(mut entry) => entry.append(b"!")?,
                    Slot::Vacant(_) => panic!("key {number} is missing"),
                }
                Ok(())
            });
        }
    }

    fn compare(&mut self, group: &[u64]) {
        let values = self.until_staged(|session, namespace| {
            let read = |&number: &u64| {
                session.read(session.key(namespace, &name_of(number)), |view| {
                    let mut value = Vec::new();
                    view.append_to(&mut value);
                    value
                })
            };
            let values: Vec<_> = group.iter().map(read).collect();
            // All of them are looked up, so that all are read together.
            values.into_iter().map(|value| Ok(value?)).collect::<Result<Vec<_>, NotSet>>()
        });
        assert!(group.iter().map(|&number| final_value(number)).eq(values), "a value is wrong");
    }

    /// Runs a batch again and again until everything that it needs from the device is staged.
    fn until_staged<R>(&mut self, mut batch: impl FnMut(&mut Session, u16) -> Result<R, NotSet>) -> R {
        let mut stage = Stage::default();
        loop {
            self.session.enter(0);
            self.session.staging().attach(stage);
            let result = batch(&mut self.session, self.namespace);
            stage = self.session.staging().detach();
            self.session.leave();
            match result {
                Ok(result) => {
                    self.fetcher.reclaim(&mut stage);
                    return result;
                }
                Err(NotSet::Missing(Missing::Cold)) => {}
                Err(refusal) => panic!("{refusal:?}"),
            }
            let cold = self.session.cold();
            cold.stage_blocking(&mut cold.take_wanted(), &mut stage, &mut self.fetcher);
        }
    }
}
