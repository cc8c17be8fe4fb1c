//! Word of changed keys: of each that a session changes or the store removes by itself, once and with the reason; of nothing
//! else; and never too late for a thread that has found the key.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use almandine_device::MemoryDevice;
use almandine_io::clock;
use almandine_store::{
    Change, Consumer, EvictionOrder, EvictionPolicy, Fetcher, Options, Put, RemovalReason, Session, Slot, Stage, Storage, Store,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A key that was removed, and why.
type Removed = (Vec<u8>, RemovalReason);

/// What was told of removals.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<Removed>>>);

impl Ear {
    fn on(store: &Store) -> Self {
        let ear = Self::default();
        let told = ear.clone();
        let removal = |change: Change<'_>| Some((change.key.to_vec(), change.removal?));
        store.listeners().on_changes(move |changes| told.0.lock().unwrap().extend(changes.iter().filter_map(removal)));
        store.listeners().tell_changes(Consumer::Keys, true);
        ear
    }

    /// What was told since the last call: keys, with how often and why.
    fn take(&self) -> BTreeMap<Vec<u8>, Vec<RemovalReason>> {
        let mut told: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, reason) in std::mem::take(&mut *self.0.lock().unwrap()) {
            told.entry(key).or_default().push(reason);
        }
        told
    }
}

fn open(background: bool) -> (Store, u16) {
    let store = Store::open(Options { background, ..Options::default() }).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    (store, namespace)
}

fn put(session: &mut Session, now_ms: i64, namespace: u16, key: &[u8], value: &[u8], expiry_ms: Option<i64>) {
    session.enter(now_ms);
    session.upsert(session.key(namespace, key), value, Put { expiry_ms, ..Put::default() }).unwrap();
    session.leave();
}

fn has(session: &mut Session, now_ms: i64, namespace: u16, key: &[u8]) -> bool {
    session.enter(now_ms);
    let key = session.key(namespace, key);
    let found = session.read(key, |_| ()).unwrap().is_some();
    session.notes().remove_met_expired(key);
    session.leave();
    found
}

fn name(number: u64) -> Vec<u8> {
    // One in ten is too long to lie in its record.
    if number.is_multiple_of(10) { format!("{number:0300}").into_bytes() } else { number.to_string().into_bytes() }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not in 20 s: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn each_way_to_expire_is_told_once() {
    let (store, namespace) = open(false);
    let ear = Ear::on(&store);
    let mut session = store.session().unwrap();
    let long = [b'l'; 5000];
    for key in [&b"read"[..], b"written", b"deleted", b"background", b"scanned", &long] {
        put(&mut session, 1_000, namespace, key, b"value", Some(2_000));
    }
    put(&mut session, 1_000, namespace, b"stays", b"value", Some(9_000));
    put(&mut session, 1_000, namespace, b"removed", b"value", Some(9_000));
    session.enter(1_500);
    assert!(session.delete(session.key(namespace, b"removed")).unwrap());
    session.leave();
    store.maintain(1_999);
    assert!(ear.take().is_empty());

    assert!(!has(&mut session, 2_000, namespace, b"read"));
    put(&mut session, 2_000, namespace, b"written", b"again", None);
    session.enter(2_000);
    assert!(!session.delete(session.key(namespace, b"deleted")).unwrap());
    session.leave();
    let told = ear.take();
    assert_eq!(told.keys().map(Vec::as_slice).collect::<Vec<_>>(), [&b"deleted"[..], b"read", b"written"]);
    assert!(told.values().all(|reasons| reasons == &[RemovalReason::Expired]), "{told:?}");

    store.maintain(2_500);
    let told = ear.take();
    assert_eq!(told.keys().map(Vec::as_slice).collect::<Vec<_>>(), [&b"background"[..], &long, b"scanned"]);
    assert!(told.values().all(|reasons| reasons == &[RemovalReason::Expired]), "{told:?}");
    assert!(has(&mut session, 2_500, namespace, b"stays"));
}

#[test]
fn nobody_hears_while_nobody_listens_and_emptied_namespaces_are_no_removals() {
    let (store, namespace) = open(false);
    let ear = Ear::on(&store);
    store.listeners().tell_changes(Consumer::Keys, false);
    let mut session = store.session().unwrap();
    put(&mut session, 1_000, namespace, b"a", b"", Some(2_000));
    store.maintain(3_000);
    assert!(!has(&mut session, 3_000, namespace, b"a"));
    store.listeners().tell_changes(Consumer::Keys, true);
    store.maintain(3_000);
    assert!(ear.take().is_empty());

    put(&mut session, 3_000, namespace, b"b", b"", None);
    store.drop_namespace(namespace);
    assert_eq!((store.figures().work().namespaces_waiting, store.figures().work().namespaces_swept), (1, 0));
    for _ in 0..10 {
        store.maintain(3_000);
    }
    assert_eq!((store.figures().work().namespaces_waiting, store.figures().work().namespaces_swept), (0, 1));
    assert!(ear.take().is_empty());
}

/// INV-CHANGE-1: each verb that changes a key says so once, as it is counted; one that changes nothing does not.
#[test]
fn each_change_is_noted_and_counted_once() {
    let (store, namespace) = open(false);
    store.listeners().tell_changes(Consumer::Keys, true);
    let mut session = store.session().unwrap();
    session.enter(1_000);
    let mut noted = |what: &str, verb: &mut dyn FnMut(&mut Session)| {
        let before = store.figures().totals().changes;
        verb(&mut session);
        let mut count = 0;
        session.notes().drain_changes(|change| {
            assert_eq!((change.namespace, change.key, change.removal), (namespace, &b"k"[..], None), "{what}");
            count += 1;
        });
        assert_eq!(store.figures().totals().changes - before, count, "{what}");
        count
    };
    let key = |session: &Session| session.key(namespace, b"k");
    let occupied = |session: &mut Session, change: &mut dyn FnMut(&mut almandine_store::Occupied<'_>)| {
        let Slot::Occupied(mut entry) = session.entry(session.key(namespace, b"k")).unwrap() else { panic!("it is there") };
        change(&mut entry);
    };
    assert_eq!(noted("nothing to delete", &mut |s| assert_eq!(s.delete(key(s)), Ok(false))), 0);
    // Values in the record, and beside the log.
    for len in [10, 100_000] {
        let value = vec![b'v'; len];
        assert_eq!(noted("insert", &mut |s| s.upsert(key(s), &value, Put::default()).unwrap()), 1);
        assert_eq!(noted("replace", &mut |s| s.upsert(key(s), &value, Put::default()).unwrap()), 1);
        assert_eq!(noted("read", &mut |s| assert_eq!(s.read(key(s), |_| ()), Ok(Some(())))), 0);
        assert_eq!(noted("look", &mut |s| occupied(s, &mut |_| ())), 0);
        assert_eq!(noted("append", &mut |s| occupied(s, &mut |entry| entry.append(b"more").unwrap())), 1);
        assert_eq!(noted("write", &mut |s| occupied(s, &mut |entry| entry.write_at(3, b"x").unwrap())), 1);
        assert_eq!(noted("grow", &mut |s| occupied(s, &mut |entry| entry.write_at(len * 3, b"x").unwrap())), 1);
        assert_eq!(noted("expiry", &mut |s| occupied(s, &mut |entry| entry.set_expiry(Some(9_000)).unwrap())), 1);
        assert_eq!(
            noted("tag", &mut |s| occupied(s, &mut |entry| entry.set_put(Put { etag: Some(7), ..entry.put() }).unwrap())),
            1
        );
        assert_eq!(noted("mark", &mut |s| occupied(s, &mut |entry| entry.mark_edited().unwrap())), 0);
        assert_eq!(noted("delete", &mut |s| assert_eq!(s.delete(key(s)), Ok(true))), 1);
    }
    store.listeners().tell_changes(Consumer::Keys, false);
    let before = store.figures().totals().changes;
    assert_eq!(noted_off(&mut session, namespace), 0);
    assert_eq!(store.figures().totals().changes - before, 1, "counted whether or not anybody listens");
    session.leave();
}

fn noted_off(session: &mut Session, namespace: u16) -> usize {
    session.upsert(session.key(namespace, b"k"), b"v", Put::default()).unwrap();
    let mut count = 0;
    session.notes().drain_changes(|_| count += 1);
    count
}

#[test]
fn what_gives_way_is_told_by_every_policy() {
    for order in [EvictionOrder::Recency, EvictionOrder::Frequency, EvictionOrder::Random, EvictionOrder::Expiry] {
        let (store, namespace) = open(false);
        store.settings().set_eviction(EvictionPolicy { order, volatile_only: order == EvictionOrder::Expiry });
        store.settings().set_budget(6 * MIB);
        let ear = Ear::on(&store);
        let mut session = store.session().unwrap();
        let mut told = BTreeMap::new();
        for number in 0..60_000 {
            put(&mut session, 1_000, namespace, &name(number), &[1; 100], Some(1_000_000 + number as i64));
            if number % 100 == 0 {
                store.maintain(1_000);
                told.append(&mut ear.take());
            }
        }
        store.maintain(1_000);
        told.append(&mut ear.take());
        assert!(told.len() > 10_000, "{order:?} {}", told.len());
        assert!(told.values().all(|reasons| reasons == &[RemovalReason::Evicted]), "{order:?}");
        for number in 0..60_000 {
            let key = name(number);
            assert_eq!(has(&mut session, 1_000, namespace, &key), !told.contains_key(&key), "{order:?} {number}");
        }
        assert_eq!(store.figures().totals().evicted, told.len() as i64);
    }
}

/// INV-CHANGE-1: a reader notes that it reads, reads, and keeps what it found until it is told. What is left in the end must be
/// in the store.
#[test]
fn who_finds_a_key_hears_of_its_removal() {
    const KEYS: u64 = 40_000;
    let (store, namespace) = open(true);
    store.settings().set_eviction(EvictionPolicy { order: EvictionOrder::Random, volatile_only: false });
    store.settings().set_budget(4 * MIB);
    // Like the table of tracked keys: set before the read, taken when the removal is told.
    let copies: Arc<Vec<AtomicBool>> = Arc::new((0..KEYS).map(|_| AtomicBool::new(false)).collect());
    let told = Arc::new(AtomicU64::new(0));
    let (held, count) = (Arc::clone(&copies), Arc::clone(&told));
    store.listeners().on_changes(move |changes| {
        for removal in changes.iter().filter(|change| change.removal.is_some()) {
            let number: u64 = std::str::from_utf8(removal.key).unwrap().parse().unwrap();
            held[number as usize].store(false, Ordering::SeqCst);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    store.listeners().tell_changes(Consumer::Keys, true);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for part in 0..2 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let mut session = store.session().unwrap();
                let mut number = part;
                while !stop.load(Ordering::Relaxed) {
                    number = (number * 31 + 7) % KEYS;
                    // Some expire while they are read.
                    let now_ms = clock::unix_ms();
                    let expiry_ms = (number % 4 == 0).then_some(now_ms + 3);
                    put(&mut session, now_ms, namespace, &name(number), &[7; 200], expiry_ms);
                    number += 1;
                }
            });
        }
        let mut session = store.session().unwrap();
        let began = Instant::now();
        let mut number = 0;
        // For longer where a busy machine has not removed enough meanwhile.
        let is_enough = |elapsed: Duration| elapsed >= Duration::from_secs(2) && told.load(Ordering::Relaxed) > 1_000;
        while !is_enough(began.elapsed()) && began.elapsed() < Duration::from_secs(60) {
            number = (number + 17) % KEYS;
            let copy = &copies[number as usize];
            let had = copy.swap(true, Ordering::SeqCst);
            if !has(&mut session, clock::unix_ms(), namespace, &name(number)) && !had {
                copy.store(false, Ordering::SeqCst);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut session = store.session().unwrap();
    let stale = |session: &mut Session| {
        let held = (0..KEYS).filter(|&number| copies[number as usize].load(Ordering::SeqCst));
        held.filter(|&number| !has(session, clock::unix_ms(), namespace, &name(number))).collect::<BTreeSet<u64>>()
    };
    let still = stale(&mut session);
    wait_until("the last removals", || stale(&mut session).is_empty());
    assert!(told.load(Ordering::Relaxed) > 1_000, "{told:?} {}", still.len());
    assert!(copies.iter().any(|copy| copy.load(Ordering::SeqCst)), "no copy is left to be compared");
}

#[test]
fn with_a_device_only_expired_keys_are_told() {
    let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: Arc::default() };
    let store = Store::open(Options { memory_bytes_max: 1 << 30, storage: Some(storage), ..Options::default() }).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    // As a server sets it, whatever there is below memory.
    store.settings().set_eviction(EvictionPolicy { order: EvictionOrder::Recency, volatile_only: false });
    store.settings().set_budget(64 * MIB);
    let ear = Ear::on(&store);
    let mut session = store.session().unwrap();
    let due_ms = clock::unix_ms() + 1_500;
    const KEYS: u64 = 2_000;
    for number in 0..KEYS {
        let expiry_ms = (number % 2 == 0).then_some(due_ms);
        put(&mut session, clock::unix_ms(), namespace, &name(number), &[3; 400], expiry_ms);
    }
    assert!(store.empty_memory(Duration::from_secs(10)));
    assert!(store.figures().tier().unwrap().pages_flushed > 0);
    let mut told: BTreeMap<_, Vec<_>> = ear.take();
    assert!(clock::unix_ms() >= due_ms || told.is_empty(), "{told:?}");
    wait_until("all that is due", || {
        for (key, mut reasons) in ear.take() {
            told.entry(key).or_default().append(&mut reasons);
        }
        told.len() as u64 == KEYS / 2
    });
    assert!(clock::unix_ms() >= due_ms);
    for (key, reasons) in &told {
        let number: u64 = std::str::from_utf8(key).unwrap().parse().unwrap();
        assert_eq!((number % 2, &reasons[..]), (0, &[RemovalReason::Expired][..]), "{number}");
    }
    // Also a removal because a session met the record on the device.
    let due_ms = clock::unix_ms() + 300;
    put(&mut session, clock::unix_ms(), namespace, b"met", &[3; 400], Some(due_ms));
    assert!(store.empty_memory(Duration::from_secs(10)));
    let (mut stage, mut fetcher) = (Stage::default(), Fetcher::default());
    while clock::unix_ms() < due_ms {
        std::thread::sleep(Duration::from_millis(1));
    }
    loop {
        session.enter(clock::unix_ms());
        session.staging().attach(stage);
        let key = session.key(namespace, b"met");
        let read = session.read(key, |_| ());
        session.notes().remove_met_expired(key);
        stage = session.staging().detach();
        session.leave();
        if let Ok(found) = read {
            assert!(found.is_none());
            break;
        }
        session.cold().stage_blocking(&mut session.cold().take_wanted(), &mut stage, &mut fetcher);
    }
    let mut met = BTreeMap::new();
    wait_until("the one that was met", || {
        met.append(&mut ear.take());
        !met.is_empty()
    });
    assert_eq!(met, BTreeMap::from([(b"met".to_vec(), vec![RemovalReason::Expired])]));
}
