//! The store with less memory than data, against a map: everything that leaves memory comes back as it was.

#![cfg(not(loom))]

use almandine_device::MemoryDevice;
use almandine_store::{
    CopyReads, Fetcher, Kind, MemoryUse, Missing, Need, NotSet, Options, Put, Session, Slot, Stage, Storage, Store,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

#[path = "support/encrypted.rs"]
mod encrypted;

use encrypted::ciphers;

/// Values that readers hold count in the whole process, and all tests share the disk: a test that measures memory runs alone.
static PROCESS: RwLock<()> = RwLock::new(());

const MIB: u64 = 1 << 20;

fn tiered(budget: u64) -> Store {
    let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: ciphers() };
    let options = Options { memory_bytes_max: 1 << 30, storage: Some(storage), ..Options::default() };
    let store = Store::open(options).expect("a store");
    store.settings().set_budget(budget);
    store
}

/// A thread's way to use cold keys: it blocks on the device.
struct Client<'s> {
    store: &'s Store,
    session: Session,
    namespace: u16,
    fetcher: Fetcher,
    now_ms: i64,
    cold_waits: u64,
}

impl<'s> Client<'s> {
    fn new(store: &'s Store, namespace: u16) -> Self {
        Self {
            store,
            session: store.session().expect("a session"),
            namespace,
            fetcher: Fetcher::default(),
            now_ms: 0,
            cold_waits: 0,
        }
    }

    /// Runs a read until it met nothing cold.
    fn read<R>(&mut self, mut run: impl FnMut(&mut Session, u16) -> Result<R, NotSet>) -> R {
        let mut stage = Stage::default();
        loop {
            self.session.enter(self.now_ms);
            self.session.staging().attach(stage);
            let result = run(&mut self.session, self.namespace);
            stage = self.session.staging().detach();
            self.session.leave();
            match result {
                Ok(result) => return result,
                Err(NotSet::Missing(Missing::Cold)) => self.stage_wanted(&mut stage),
                Err(refusal) => panic!("{refusal:?}"),
            }
        }
    }

    fn stage_wanted(&mut self, stage: &mut Stage) {
        self.cold_waits += 1;
        let cold = self.session.cold();
        cold.stage_blocking(&mut cold.take_wanted(), stage, &mut self.fetcher);
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.read(|session, namespace| {
            let mut value = Vec::new();
            let key = session.key(namespace, key);
            let found = session.read(key, |view| {
                value.clear();
                view.append_to(&mut value);
                if let Some(shared) = view.shared() {
                    value.clear();
                    value.extend_from_slice((*shared).as_ref());
                }
            })?;
            Ok(found.map(|()| value))
        })
    }

    /// Changes one key under its latch, with all its records staged.
    fn change<R>(&mut self, key: &[u8], run: impl FnOnce(Slot<'_>) -> R) -> R {
        self.await_room();
        let mut stage = Stage::default();
        loop {
            self.session.enter(self.now_ms);
            self.session.staging().attach(stage);
            let key = self.session.key(self.namespace, key);
            self.session.plan().lock_all(&[key.hash], true);
            let probed = self.session.cold().probe(key, Need::Read);
            assert_ne!(probed, Err(Missing::Unreadable), "the device gave an error");
            if probed.is_ok() {
                let result = run(self.session.entry(key).expect("what was probed is at hand"));
                self.session.plan().unlock_all();
                self.session.staging().detach();
                self.session.leave();
                return result;
            }
            self.session.plan().unlock_all();
            stage = self.session.staging().detach();
            self.session.leave();
            self.stage_wanted(&mut stage);
        }
    }

    fn await_room(&self) {
        while self.store.is_stalled() {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8], put: Put) {
        self.await_room();
        self.read(|session, namespace| session.upsert(session.key(namespace, key), value, put));
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.change(key, |slot| match slot {
            Slot::Occupied(entry) => {
                entry.remove();
                true
            }
            Slot::Vacant(_) => false,
        })
    }

    fn keys(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut cursor = 0;
        loop {
            let (next, some) = self.read(|session, namespace| {
                let mut some = Vec::new();
                let scanned = session.keys(namespace).scan(cursor, 100, |key, _| some.push(key.to_vec()));
                scanned.whole?;
                Ok((scanned.cursor, some))
            });
            all.extend(some);
            cursor = next;
            if cursor == 0 {
                all.sort_unstable();
                return all;
            }
        }
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

fn value_of(dice: &mut Dice) -> Vec<u8> {
    let len = match dice.roll(20) {
        0 => 8_193 + dice.roll(30_000),
        1..=4 => dice.roll(4_000),
        _ => dice.roll(300),
    };
    let first = dice.roll(256) as u8;
    (0..len).map(|at| first.wrapping_add(at as u8)).collect()
}

fn against_a_map(mode: CopyReads, seed: u64) {
    let store = tiered(16 * MIB);
    store.settings().set_copy_reads(mode);
    let namespace = store.allocate_namespace().expect("a namespace");
    let mut client = Client::new(&store, namespace);
    let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut dice = Dice(seed);
    for step in 0..120_000u64 {
        let mut key = format!("key:{}", dice.roll(40_000)).into_bytes();
        if dice.roll(200) == 0 {
            key.resize(5_000, b'k');
        }
        match dice.roll(10) {
            0..=4 => {
                let value = value_of(&mut dice);
                client.set(&key, &value, Put::default());
                model.insert(key, value);
            }
            5 | 6 => assert_eq!(client.get(&key).as_ref(), model.get(&key), "{step}"),
            7 => assert_eq!(client.delete(&key), model.remove(&key).is_some(), "{step}"),
            8 => {
                let addition = value_of(&mut dice);
                client.change(&key, |slot| match slot {
                    Slot::Occupied(mut entry) => entry.append(&addition).expect("room"),
                    Slot::Vacant(vacant) => vacant.insert(Kind::String, &addition, Put::EDITED).expect("room"),
                });
                model.entry(key).or_default().extend_from_slice(&addition);
            }
            _ => {
                let expected = model.contains_key(&key);
                let found = client.change(&key, |slot| match slot {
                    Slot::Occupied(mut entry) => {
                        entry.set_put(Put { etag: Some(step), ..entry.put() }).expect("room");
                        true
                    }
                    Slot::Vacant(_) => false,
                });
                assert_eq!(found, expected, "{step}");
            }
        }
    }
    for (key, value) in &model {
        assert_eq!(client.get(key).as_ref(), Some(value), "{}", String::from_utf8_lossy(&key[..key.len().min(20)]));
    }
    let statistics = store.figures().tier().expect("a device");
    assert!(statistics.pages_flushed > 10 && statistics.pages_evicted > 10, "{statistics:?}");
    assert!(client.cold_waits > 1000, "{}", client.cold_waits);
    let mut expected: Vec<_> = model.keys().cloned().collect();
    expected.sort_unstable();
    assert_eq!(client.keys(), expected);
    assert_eq!(store.figures().namespace_len(namespace).0, model.len() as u64, "INV-TIER-2: each key counts once");
    assert_eq!(statistics.corrupt_blocks + statistics.read_errors + statistics.write_errors, 0, "{statistics:?}");
}

#[test]
fn a_store_larger_than_memory_is_a_map() {
    let _others = PROCESS.read();
    against_a_map(CopyReads::ReadCache, 1);
}

#[test]
fn a_store_without_copies_is_a_map() {
    let _others = PROCESS.read();
    against_a_map(CopyReads::None, 2);
}

#[test]
fn a_store_that_copies_to_the_tail_is_a_map() {
    let _others = PROCESS.read();
    against_a_map(CopyReads::Tail, 3);
}

#[test]
fn new_keys_read_next_to_nothing_and_the_count_is_exact_at_all_times() {
    let _others = PROCESS.read();
    let store = tiered(16 * MIB);
    let namespace = store.allocate_namespace().expect("a namespace");
    let mut client = Client::new(&store, namespace);
    let keys = 200_000u64;
    for round in 0..3u64 {
        for number in 0..keys {
            client.set(format!("key:{number}").as_bytes(), &[round as u8; 100], Put::default());
            if number.is_multiple_of(20_000) {
                let expected = if round == 0 { number + 1 } else { keys };
                assert_eq!(store.figures().namespace_len(namespace).0, expected, "INV-TIER-2: each key counts once");
            }
        }
        if round == 0 {
            // An entry knows enough of its hash that a key which is not there is seldom looked for on the device.
            assert!(client.cold_waits < keys / 100, "{} waits for new keys", client.cold_waits);
        }
    }
    assert!(client.cold_waits > keys, "{} waits for {} overwrites", client.cold_waits, 2 * keys);
    for number in 0..keys {
        assert!(client.delete(format!("key:{number}").as_bytes()), "{number}");
    }
    assert_eq!(store.figures().namespace_len(namespace).0, 0);
    assert_eq!(client.keys(), Vec::<Vec<u8>>::new());
}

#[test]
fn emptying_a_namespace_gives_the_device_back() {
    let _others = PROCESS.read();
    let store = tiered(16 * MIB);
    let namespaces = [0; 2].map(|_| store.allocate_namespace().expect("a namespace"));
    let mut clients = namespaces.map(|namespace| Client::new(&store, namespace));
    for number in 0..300_000u64 {
        clients[(number % 2) as usize].set(format!("key:{number}").as_bytes(), &[7; 100], Put::default());
    }
    // 38 MB, of which memory keeps 12 at rest.
    for _ in 0..6000 {
        if store.figures().tier().expect("a device").device_bytes > 20 * MIB {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(store.figures().tier().expect("a device").device_bytes > 20 * MIB);
    store.drop_namespace(namespaces[0]);
    for _ in 0..6000 {
        if store.figures().work().namespaces_swept == 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(store.figures().totals().live, 150_000);
    for number in (1..300_000u64).step_by(20) {
        assert_eq!(clients[1].get(format!("key:{number}").as_bytes()), Some(vec![7; 100]));
    }
    // Half of the device is dead now, so it is compacted.
    for _ in 0..6000 {
        let statistics = store.figures().tier().expect("a device");
        if statistics.device_bytes * 10 < statistics.device_live_bytes * 16 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{:?}", store.figures().tier());
}

#[test]
fn expired_records_on_the_device_are_reclaimed() {
    let _others = PROCESS.read();
    let store = tiered(16 * MIB);
    // On a busy machine the first keys may be due before the last ones are there; then they get more time.
    let (namespace, mut client) = [3_000, 12_000, 48_000]
        .into_iter()
        .find_map(|due_in_ms| {
            let namespace = store.allocate_namespace().expect("a namespace");
            let mut client = Client::new(&store, namespace);
            let now_ms = almandine_io::clock::unix_ms();
            client.now_ms = now_ms;
            for number in 0..200_000u64 {
                let put = Put { expiry_ms: (number % 2 == 0).then_some(now_ms + due_in_ms), ..Put::default() };
                client.set(format!("key:{number}").as_bytes(), &[7; 150], put);
            }
            let there = store.figures().namespace_len(namespace);
            let in_time = almandine_io::clock::unix_ms() < now_ms + due_in_ms;
            assert!(!in_time || there == (200_000, 100_000), "{there:?}");
            if !in_time {
                store.drop_namespace(namespace);
            }
            in_time.then_some((namespace, client))
        })
        .expect("the keys are there before their time");
    for _ in 0..6000 {
        if store.figures().namespace_len(namespace) == (100_000, 0) {
            client.now_ms = almandine_io::clock::unix_ms();
            assert_eq!(client.get(b"key:0"), None);
            assert_eq!(client.get(b"key:1"), Some(vec![7; 150]));
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{:?} {:?}", store.figures().namespace_len(namespace), store.figures().tier());
}

#[test]
fn several_sessions_count_together_while_pages_come_and_go() {
    let _others = PROCESS.read();
    let store = Arc::new(tiered(16 * MIB));
    let namespace = store.allocate_namespace().expect("a namespace");
    let sums = Arc::new((0..80_000).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let threads: Vec<_> = (1..=3u64)
        .map(|seed| {
            let (store, sums) = (Arc::clone(&store), Arc::clone(&sums));
            std::thread::spawn(move || {
                let mut client = Client::new(&store, namespace);
                let mut dice = Dice(seed);
                let padding = [b'.'; 900];
                for _ in 0..40_000 {
                    let number = dice.roll(80_000);
                    let key = format!("counter:{number}");
                    client.change(key.as_bytes(), |slot| match slot {
                        Slot::Occupied(mut entry) => {
                            let mut value = entry.value().to_vec();
                            let count = u64::from_le_bytes(value[..8].try_into().expect("eight bytes")) + 1;
                            value[..8].copy_from_slice(&count.to_le_bytes());
                            entry.replace(Kind::String, &value, Put::default()).expect("room");
                        }
                        Slot::Vacant(vacant) => {
                            let value = [&1u64.to_le_bytes()[..], &padding].concat();
                            vacant.insert(Kind::String, &value, Put::default()).expect("room");
                        }
                    });
                    sums[number as usize].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a client"));
    let mut client = Client::new(&store, namespace);
    for (number, sum) in sums.iter().enumerate() {
        let expected = sum.load(Ordering::Relaxed);
        let value = client.get(format!("counter:{number}").as_bytes());
        let count = value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().expect("eight bytes")));
        assert_eq!(count, expected, "counter {number}");
    }
    // INV-TIER-1: pages have left memory under the sessions, and no session read a page that was gone.
    assert!(store.figures().tier().expect("a device").pages_evicted > 10, "INV-TIER-1");
}

#[test]
fn values_beyond_the_log_leave_memory_too() {
    let _alone = PROCESS.write();
    let budget = 32 * MIB;
    let store = tiered(budget);
    let namespace = store.allocate_namespace().expect("a namespace");
    let mut client = Client::new(&store, namespace);
    let value = |number: usize| vec![number as u8; 20_000 + number * 100];
    // What the tests before this one held is counted in the process until the last of their threads has let go of it.
    let begin = Instant::now();
    while store.figures().memory().external_bytes + store.figures().memory().staged_bytes > 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", store.figures().memory());
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut most = store.figures().memory();
    let larger = |most: MemoryUse, now: MemoryUse| if now.used_bytes() > most.used_bytes() { now } else { most };
    for number in 0..2000 {
        client.set(format!("key:{number}").as_bytes(), &value(number), Put::default());
        most = larger(most, store.figures().memory());
    }
    for number in (0..2000).rev() {
        assert!(client.get(format!("key:{number}").as_bytes()) == Some(value(number)), "{number}");
        most = larger(most, store.figures().memory());
    }
    let statistics = store.figures().tier().expect("a device");
    // 240 MB in few pages, so it is bytes on the heap that make them leave, before they are full.
    assert!(statistics.pages_evicted >= 8 && statistics.device_bytes > 150 * MIB, "{statistics:?}");
    assert!(most.used_bytes() < budget + budget / 2, "{} bytes of {budget}: {most:?}", most.used_bytes());
    assert_eq!(statistics.corrupt_blocks + statistics.read_errors + statistics.write_errors, 0, "{statistics:?}");
}
