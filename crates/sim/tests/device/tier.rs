//! The store's tier on disks that lie, fail or are slow: a value is what was written, or an error, never another one (INV-TIER-3).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use almandine_device::{FileDevice, FileOptions};
use almandine_io::sim::choice::Subsystem;
use almandine_io::sim::disk::{Disk, DiskFaults};
use almandine_io::sim::turn;
use almandine_store::{Fetcher, Missing, NotSet, Options, Put, Session, Stage, Storage, Store};

use crate::crashes::One;

const MIB: u64 = 1 << 20;
/// Keys, of which every eighth has a value of several pieces on the value device, and every other eighth one of a single piece.
const KEYS: u64 = 1_600;

/// A store without threads of its own, with a tenth of its data in memory.
struct Rig {
    store: Store,
    session: Session,
    namespace: u16,
    fetcher: Fetcher,
    now_ms: i64,
}

/// What a key is found to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Right,
    Nothing,
    Unreadable,
}

fn value_of(number: u64, version: u64) -> Vec<u8> {
    let length = match number % 8 {
        0 => 300_000,
        4 => 70_000,
        _ => 1_000,
    };
    let word = (number << 8 | version).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..length).map(|at| (word >> (at % 57)) as u8 ^ (at >> 12) as u8).collect()
}

fn below(limit: u64) -> u64 {
    turn::simulation().unwrap().below(Subsystem::Clients, limit)
}

impl Rig {
    fn new() -> Self {
        let device = |part: &str| {
            let options = FileOptions { segment_bytes: 16 * MIB, ..FileOptions::default() };
            Arc::new(FileDevice::open(format!("/data/{part}"), &options).unwrap())
        };
        let storage = Storage { pages: device("log"), values: device("values"), ciphers: Arc::default() };
        let options = Options {
            memory_bytes_max: 1 << 28,
            storage: Some(storage),
            device_pages_max: 1 << 12,
            background: false,
            ..Options::default()
        };
        let store = Store::open(options).unwrap();
        store.settings().set_budget(12 * MIB);
        let session = store.session().unwrap();
        let namespace = store.allocate_namespace().unwrap();
        Self { store, session, namespace, fetcher: Fetcher::default(), now_ms: 1_000_000 }
    }

    fn maintain(&mut self, steps: usize) {
        for _ in 0..steps {
            self.now_ms += 10;
            self.store.maintain(self.now_ms);
        }
    }

    /// Runs `run` until it meets nothing cold.
    fn staged<R>(&mut self, mut run: impl FnMut(&mut Session, u16) -> Result<R, NotSet>) -> Result<R, NotSet> {
        let mut stage = Stage::default();
        loop {
            self.session.enter(self.now_ms);
            self.session.staging().attach(stage);
            let result = run(&mut self.session, self.namespace);
            stage = self.session.staging().detach();
            self.session.leave();
            if result.as_ref().err() != Some(&NotSet::Missing(Missing::Cold)) {
                self.fetcher.reclaim(&mut stage);
                return result;
            }
            let cold = self.session.cold();
            cold.stage_blocking(&mut cold.take_wanted(), &mut stage, &mut self.fetcher);
        }
    }

    /// Whether the key has the value now; otherwise it has what it had.
    fn set(&mut self, number: u64, version: u64) -> bool {
        let (name, value) = (number.to_le_bytes(), value_of(number, version));
        for _ in 0..200 {
            if self.store.is_stalled() || self.store.is_over_limit() {
                self.maintain(5);
                continue;
            }
            let set = self.staged(|session, namespace| session.upsert(session.key(namespace, &name), &value, Put::default()));
            match set {
                Ok(()) => return true,
                Err(NotSet::Full) => self.maintain(5),
                Err(NotSet::Missing(_)) => return false,
            }
        }
        false
    }

    fn get(&mut self, number: u64, version: Option<u64>) -> Found {
        let name = number.to_le_bytes();
        let found = self.staged(|session, namespace| {
            Ok(session.read(session.key(namespace, &name), |view| match view.shared() {
                Some(shared) => (*shared).as_ref().to_vec(),
                None => {
                    let mut value = Vec::new();
                    view.append_to(&mut value);
                    value
                }
            })?)
        });
        match (found, version) {
            (Ok(Some(value)), Some(version)) if value == value_of(number, version) => Found::Right,
            (Ok(None), _) => Found::Nothing,
            (Err(NotSet::Missing(Missing::Unreadable)), _) => Found::Unreadable,
            (other, _) => panic!("key {number} of version {version:?} is {:?}", other.map(|value| value.map(|value| value.len()))),
        }
    }
}

/// What was found how often, with these faults once the store is open. The faults that happened are added to `happened`.
fn run(seed: u64, faults: DiskFaults, happened: &mut BTreeMap<&'static str, u64>) -> BTreeMap<Found, u64> {
    One::enter(seed, |one| {
        let disk = Arc::clone(&one.disk);
        let found = one.run(move || write_and_read(&disk, faults)).unwrap();
        one.disk.happened().into_iter().for_each(|(what, times)| *happened.entry(what).or_default() += times);
        found
    })
}

fn write_and_read(disk: &Disk, faults: DiskFaults) -> BTreeMap<Found, u64> {
    let mut rig = Rig::new();
    disk.set_faults(faults);
    let mut versions = BTreeMap::new();
    let found = Mutex::new(BTreeMap::<Found, u64>::new());
    for round in 0..2 {
        for number in 0..KEYS {
            // In the second round some are written anew, so that the first pages are sparse.
            if (round == 0 || below(3) == 0) && rig.set(number, round) {
                versions.insert(number, round);
            }
            if number % 50 == 0 {
                rig.maintain(10);
            }
        }
        rig.maintain(200);
        for number in (0..KEYS).filter(|number| number % 8 == 0 || number % 3 == 0) {
            *found.lock().unwrap().entry(rig.get(number, versions.get(&number).copied())).or_default() += 1;
        }
    }
    disk.set_faults(DiskFaults::default());
    found.into_inner().unwrap()
}

#[test]
fn a_disk_without_faults_gives_everything_back() {
    for seed in 0..3 {
        let mut happened = BTreeMap::new();
        let found = run(seed, DiskFaults::harmless(20_000), &mut happened);
        assert!(found.len() == 1 && found[&Found::Right] > 0, "{found:?}");
    }
}

#[test]
fn a_disk_that_lies_never_gives_another_value() {
    let mut happened = BTreeMap::new();
    let mut found = BTreeMap::<Found, u64>::new();
    for seed in 0..12 {
        let each = run(seed, DiskFaults { read_errors: 1_000, ..DiskFaults::detected(60_000) }, &mut happened);
        each.into_iter().for_each(|(what, times)| *found.entry(what).or_default() += times);
    }
    println!("{found:?} {happened:?}");
    for what in ["a bit is flipped", "a write is lost", "a write is misdirected", "a page becomes unreadable"] {
        assert!(happened.get(what).is_some_and(|times| *times > 5), "{what}: {happened:?}");
    }
    assert!(found[&Found::Right] > 1000 && found[&Found::Unreadable] > 10, "{found:?}");
}
