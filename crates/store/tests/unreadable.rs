//! A device that cannot be read: for a while, then nothing changes and no reply is wrong; or for good, because a
//! block is damaged, then its keys can be set and deleted, and nothing else is harmed.

#![cfg(not(loom))]

use almandine_device::{Device, FaultPlan, FaultyDevice, MemoryDevice};
use almandine_io::storage::Buffer;
use almandine_store::{Fetcher, Kind, Missing, NotSet, Options, Put, Session, Slot, Stage, Storage, Store};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const START_MS: i64 = 1_000_000;
const KEYS: u64 = 40_000;

/// A store without threads of its own, with most of its keys on the device.
struct Rig {
    store: Store,
    session: Session,
    namespace: u16,
    memory: Arc<MemoryDevice>,
    faulty: Arc<FaultyDevice>,
    fetcher: Fetcher,
    now_ms: i64,
}

/// The device could not give what a command needed.
#[derive(Debug, PartialEq, Eq)]
struct Unreadable;

impl Rig {
    fn empty() -> Self {
        let memory = Arc::new(MemoryDevice::new());
        let faulty = Arc::new(FaultyDevice::new(Arc::clone(&memory) as Arc<dyn Device>, 1, FaultPlan::default()));
        let storage = Storage {
            pages: Arc::clone(&faulty) as Arc<dyn Device>,
            values: Arc::new(MemoryDevice::new()),
            ciphers: Arc::default(),
        };
        let options = Options { memory_bytes_max: 1 << 30, storage: Some(storage), background: false, ..Options::default() };
        let store = Store::open(options).expect("a store");
        store.settings().set_budget(16 * MIB);
        store.settings().set_compaction(0.99, 1 << 30);
        let session = store.session().expect("a session");
        let namespace = store.allocate_namespace().expect("a namespace");
        Self { store, session, namespace, memory, faulty, fetcher: Fetcher::default(), now_ms: START_MS }
    }

    fn new() -> Self {
        let mut rig = Self::empty();
        rig.set_all(0..KEYS);
        assert!(rig.store.figures().tier().expect("a device").pages_evicted > 5);
        rig
    }

    /// Runs a command until nothing that it needs is missing.
    fn run<R>(&mut self, mut command: impl FnMut(&mut Session, u16) -> Result<R, NotSet>) -> Result<R, Unreadable> {
        let mut stage = Stage::default();
        for _ in 0..100 {
            self.session.enter(self.now_ms);
            self.session.staging().attach(stage);
            let result = command(&mut self.session, self.namespace);
            stage = self.session.staging().detach();
            self.session.leave();
            let cold = self.session.cold();
            match result {
                Ok(result) => return Ok(result),
                Err(NotSet::Missing(Missing::Cold)) => cold.stage_blocking(&mut cold.take_wanted(), &mut stage, &mut self.fetcher),
                Err(NotSet::Missing(_)) => return Err(Unreadable),
                Err(NotSet::Full) => panic!("the store is full"),
            }
        }
        panic!("a record moves whenever it is looked for");
    }

    fn set_with(&mut self, number: u64, value: &[u8], put: Put) -> Result<(), Unreadable> {
        let name = format!("key:{number}");
        self.run(|session, namespace| {
            let key = session.key(namespace, name.as_bytes());
            session.upsert(key, value, put)
        })
    }

    fn set(&mut self, number: u64, value: &[u8]) -> Result<(), Unreadable> {
        self.set_with(number, value, Put::default())
    }

    fn set_all(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            self.set(number, &[7; 1000]).expect("readable");
            if number.is_multiple_of(100) {
                self.maintain(4);
            }
        }
    }

    fn append(&mut self, number: u64) -> Result<(), Unreadable> {
        let name = format!("key:{number}");
        self.run(|session, namespace| {
            let key = session.key(namespace, name.as_bytes());
            Ok(match session.entry(key)? {
                Slot::Occupied(mut entry) => entry.append(b"!"),
                Slot::Vacant(vacant) => vacant.insert(Kind::String, b"!", Put::EDITED),
            }?)
        })
    }

    fn delete(&mut self, number: u64) -> Result<bool, Unreadable> {
        let name = format!("key:{number}");
        self.run(|session, namespace| {
            let key = session.key(namespace, name.as_bytes());
            Ok(session.delete(key)?)
        })
    }

    fn get(&mut self, number: u64) -> Result<Option<Vec<u8>>, Unreadable> {
        let name = format!("key:{number}");
        self.run(|session, namespace| {
            let (key, mut value) = (session.key(namespace, name.as_bytes()), Vec::new());
            let found = session.read(key, |view| {
                value.clear();
                view.append_to(&mut value);
            })?;
            Ok(found.map(|()| value))
        })
    }

    fn maintain(&self, steps: usize) {
        (0..steps).for_each(|_| self.store.maintain(self.now_ms));
    }

    fn fail_reads(&self, fail: bool) {
        self.faulty.set_plan(FaultPlan { read_errors: if fail { 1_000_000 } else { 0 }, ..FaultPlan::default() });
    }

    fn background_reads(&self) -> u64 {
        self.store.figures().tier().expect("a device").background_reads
    }

    fn lost(&self) -> u64 {
        self.store.figures().tier().expect("a device").records_lost
    }

    fn len(&self) -> u64 {
        self.store.figures().namespace_len(self.namespace).0
    }

    /// Damages bytes of a page on the device.
    fn damage(&self, page: u64, from: u64, bytes: u64) {
        let mut garbage = Buffer::new(bytes as usize);
        garbage.fill(0xA5);
        self.memory.write(page * 2 * MIB + from, &garbage).expect("room");
    }
}

#[test]
fn a_device_that_fails_for_a_while_changes_nothing() {
    let mut rig = Rig::new();
    rig.fail_reads(true);
    for number in 0..100 {
        assert_eq!(rig.set(number, b"new"), Err(Unreadable), "it is not known what would be overwritten");
        assert_eq!(rig.append(number), Err(Unreadable));
        assert_eq!(rig.delete(number), Err(Unreadable));
        assert_eq!(rig.get(number), Err(Unreadable));
    }
    assert_eq!(rig.set(KEYS, b"new"), Ok(()), "a new key needs nothing of the device");
    assert_eq!(rig.len(), KEYS + 1);
    rig.fail_reads(false);
    for number in 0..100 {
        assert_eq!(rig.get(number), Ok(Some(vec![7; 1000])), "nothing has changed");
    }
    assert_eq!(rig.set(0, b"new"), Ok(()));
    assert_eq!(rig.delete(1), Ok(true));
    assert_eq!((rig.len(), rig.lost()), (KEYS, 0));
}

#[test]
fn a_read_that_is_wrong_once_is_no_damage() {
    let mut rig = Rig::new();
    rig.faulty.set_plan(FaultPlan { flipped_bits: 1_000, ..FaultPlan::default() });
    for number in 0..5_000 {
        assert_eq!(rig.get(number), Ok(Some(vec![7; 1000])), "{number}");
    }
    assert!(rig.store.figures().tier().expect("a device").corrupt_blocks > 0, "some reads were wrong");
}

#[test]
fn keys_of_a_damaged_page_can_be_set_and_deleted() {
    let mut rig = Rig::new();
    // The first page's blocks from the second on: the first one's keys stay readable.
    rig.damage(1, 4096, 2 * MIB - 4096);
    let damaged: Vec<u64> = (0..3_000).filter(|&number| rig.get(number) == Err(Unreadable)).collect();
    assert!(damaged.len() > 1_000 && damaged.len() < 2_100, "{}: the keys of one page", damaged.len());
    for &number in &damaged[..30] {
        assert_eq!(rig.append(number), Err(Unreadable), "what it was cannot be told");
    }
    assert_eq!((rig.len(), rig.lost()), (KEYS, 0), "nothing is given up before it is replaced");
    let (set, deleted) = damaged.split_at(damaged.len() / 2);
    for &number in set {
        assert_eq!(rig.set(number, b"new"), Ok(()), "{number}");
        assert_eq!(rig.get(number), Ok(Some(b"new".to_vec())), "{number}");
    }
    // A key whose tag agrees with a damaged one's may have gone with it.
    let (before, gone) = (rig.lost(), deleted.iter().filter(|&&number| rig.delete(number) == Ok(true)).count() as u64);
    assert!(rig.lost() - before <= gone && gone <= deleted.len() as u64 && gone + 10 >= deleted.len() as u64, "{gone}");
    assert!(damaged.iter().skip(set.len()).all(|&number| rig.get(number) == Ok(None)), "nothing is left in the way");
    assert_eq!(rig.lost(), damaged.len() as u64, "each of them has gone once");
    assert_eq!(rig.len(), KEYS - deleted.len() as u64, "INV-TIER-2: each key counts once");
    for number in damaged.last().expect("some") + 1..KEYS {
        assert_eq!(rig.get(number), Ok(Some(vec![7; 1000])), "another page is not harmed");
    }
}

#[test]
fn an_expiry_waits_for_a_device_that_fails() {
    let mut rig = Rig::empty();
    let put = |after_ms: i64| Put { expiry_ms: Some(START_MS + after_ms), ..Put::default() };
    rig.set_with(KEYS, b"due", put(10_000)).expect("readable");
    rig.set_with(KEYS + 1, b"later", put(10_000)).expect("readable");
    rig.set_with(KEYS + 1, b"later", put(300_000)).expect("readable");
    rig.set_all(0..KEYS);
    // Both notices come up while nothing can be read.
    rig.fail_reads(true);
    rig.now_ms = START_MS + 11_000;
    rig.maintain(20);
    assert_eq!(rig.store.figures().namespace_len(rig.namespace), (KEYS + 2, 2));
    let asked = rig.background_reads();
    rig.maintain(100);
    assert_eq!(rig.background_reads(), asked, "it is not asked again and again");
    // One record comes into memory before it is asked for again.
    rig.fail_reads(false);
    rig.append(KEYS + 1).expect("readable");
    rig.now_ms += 70_000;
    rig.maintain(20);
    assert_eq!(rig.store.figures().namespace_len(rig.namespace), (KEYS + 1, 1), "what was due is gone");
    rig.now_ms = START_MS + 301_000;
    rig.maintain(20);
    assert_eq!(rig.store.figures().namespace_len(rig.namespace), (KEYS, 0), "INV-EXP-1: a record in memory has its notice, too");
}

#[test]
fn an_expiry_that_was_put_off_is_found_on_the_device() {
    let mut rig = Rig::empty();
    let put = |after_ms: i64| Put { expiry_ms: Some(START_MS + after_ms), ..Put::default() };
    rig.set_with(KEYS, b"later", put(10_000)).expect("readable");
    rig.set_with(KEYS, b"later", put(300_000)).expect("readable");
    rig.set_all(0..KEYS);
    rig.now_ms = START_MS + 11_000;
    rig.maintain(20);
    assert_eq!(rig.store.figures().namespace_len(rig.namespace), (KEYS + 1, 1), "its notice has come up, and it is not due");
    rig.now_ms = START_MS + 301_000;
    rig.maintain(20);
    assert_eq!(rig.store.figures().namespace_len(rig.namespace), (KEYS, 0), "INV-EXP-1: it was filed anew");
}

#[test]
fn a_page_of_two_namespaces_that_cannot_be_swept_is_not_swept_for_ever() {
    let mut rig = Rig::new();
    let first = std::mem::replace(&mut rig.namespace, rig.store.allocate_namespace().expect("a namespace"));
    rig.set_all(0..KEYS);
    // Every page is damaged at its end, the one that has records of both as well.
    for page in 1..rig.memory.used_bytes() / (2 * MIB) {
        rig.damage(page, 2 * MIB - 8192, 8192);
    }
    let second = rig.namespace;
    rig.store.drop_namespace(first);
    rig.maintain(300);
    assert_eq!(rig.store.figures().work().namespaces_swept, 1);
    assert_eq!(rig.store.figures().namespace_len(first).0, 0);
    assert_eq!(rig.store.figures().totals().live as u64, rig.store.figures().namespace_len(second).0);
    let asked = rig.background_reads();
    rig.maintain(300);
    assert_eq!(rig.background_reads(), asked, "what cannot be read is not read again and again");
    assert_ne!(rig.store.allocate_namespace(), Ok(first), "INV-NS-1: it is not used again while records of it are left");
}
