//! One session against a map: any sequence of verbs gives what the map gives, whatever the background does in between.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use almandine_store::{Kind, Options, Put, Session, Slot, Store};
use std::collections::HashMap;

/// A small generator of pseudo-random numbers (xorshift), so that a failure names its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self, longest: u64) -> Vec<u8> {
        let len = match self.below(20) {
            0 => 0,
            1 => self.below(longest),
            _ => self.below(100),
        };
        (0..len).map(|_| self.next() as u8).collect()
    }
}

#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    value: Vec<u8>,
    expiry_ms: Option<i64>,
    etag: Option<u64>,
    edited: bool,
}

/// Longer values may forget that they were edited.
const EDITED_BYTES_MAX: usize = 1000;

fn read(session: &Session, namespace: u16, key: &[u8]) -> Option<Model> {
    let mut model = Model::default();
    session
        .read(session.key(namespace, key), |view| {
            model.value.clear();
            view.append_to(&mut model.value);
            if let Some(shared) = view.shared() {
                assert_eq!(shared.as_ref().as_ref(), &model.value[..]);
            }
            (model.expiry_ms, model.etag) = (view.expiry_ms(), view.etag());
            model.edited = view.is_edited();
        })
        .unwrap()?;
    model.edited &= model.value.len() <= EDITED_BYTES_MAX;
    Some(model)
}

fn run(seed: u64, steps: usize, options: Options) {
    let store = Store::open(Options { background: false, ..options }).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let mut session = store.session().unwrap();
    let mut random = Random(seed);
    let mut model: HashMap<Vec<u8>, Model> = HashMap::new();
    let mut now = 1_000;
    session.enter(now);
    for step in 0..steps {
        let number = random.below(3000);
        let key = match number {
            0..10 => vec![b'k'; 4000 + number as usize * 50],
            _ => format!("key:{number}").into_bytes(),
        };
        if model.get(&key).is_some_and(|entry| entry.expiry_ms.is_some_and(|at| at <= now)) {
            model.remove(&key);
        }
        let handle = session.key(namespace, &key);
        match random.below(10) {
            0..3 => {
                let put = Put {
                    expiry_ms: (random.below(3) == 0).then(|| now + random.below(50) as i64),
                    etag: (random.below(5) == 0).then(|| random.next()),
                    edited: random.below(4) == 0,
                };
                let value = random.bytes(20_000);
                session.upsert(handle, &value, put).unwrap();
                let edited = put.edited && value.len() <= EDITED_BYTES_MAX;
                model.insert(key, Model { value, expiry_ms: put.expiry_ms, etag: put.etag, edited });
            }
            3 => assert_eq!(session.delete(handle).unwrap(), model.remove(&key).is_some(), "seed {seed} step {step}"),
            4 => {
                let value = random.bytes(9000);
                match session.entry(handle).unwrap() {
                    Slot::Occupied(mut entry) => {
                        entry.append(&value).unwrap();
                        let model = model.get_mut(&key).unwrap();
                        model.value.extend_from_slice(&value);
                        model.edited = model.value.len() <= EDITED_BYTES_MAX;
                    }
                    Slot::Vacant(entry) => {
                        entry.insert(Kind::String, &value, Put::default()).unwrap();
                        assert!(model.insert(key.clone(), Model { value, ..Model::default() }).is_none());
                    }
                }
            }
            5 => {
                if let Slot::Occupied(mut entry) = session.entry(handle).unwrap() {
                    let (offset, bytes) = (random.below(300) as usize, random.bytes(400));
                    entry.write_at(offset, &bytes).unwrap();
                    let model = model.get_mut(&key).unwrap();
                    let end = model.value.len().max(offset + bytes.len());
                    model.value.resize(end, 0);
                    model.value[offset..offset + bytes.len()].copy_from_slice(&bytes);
                    model.edited = end <= EDITED_BYTES_MAX;
                }
            }
            6 => {
                if let Slot::Occupied(mut entry) = session.entry(handle).unwrap() {
                    let expiry_ms = (random.below(2) == 0).then(|| now + 1 + random.below(50) as i64);
                    let etag = (random.below(2) == 0).then(|| random.next());
                    entry.set_expiry(expiry_ms).unwrap();
                    entry.set_put(Put { etag, ..entry.put() }).unwrap();
                    let entry = model.get_mut(&key).unwrap();
                    (entry.expiry_ms, entry.etag) = (expiry_ms, etag);
                }
            }
            _ => assert_eq!(read(&session, namespace, &key), model.get(&key).cloned(), "seed {seed} step {step}"),
        }
        if step % 64 == 0 {
            session.leave();
            if step % 512 == 0 {
                store.maintain(now);
            }
            now += 1;
            session.enter(now);
        }
    }
    model.retain(|_, entry| entry.expiry_ms.is_none_or(|at| at > now));
    let mut cursor = 0;
    let mut seen = HashMap::new();
    loop {
        let scanned = session.keys(namespace).scan(cursor, 10, |key, _| {
            assert!(seen.insert(key.to_vec(), ()).is_none(), "seen twice");
        });
        cursor = scanned.cursor;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen.len(), model.len());
    assert_eq!(store.figures().namespace_len(namespace).0, model.len() as u64, "a scan removes what it meets expired");
    for (key, entry) in &model {
        assert_eq!(read(&session, namespace, key).as_ref(), Some(entry));
        assert!(session.delete(session.key(namespace, key)).unwrap());
    }
    session.leave();
    // What expired unnoticed is still counted; everything else is gone, and so is every byte on the heap.
    session.enter(i64::MAX - 1);
    let left = store.figures().namespace_len(namespace).0;
    for number in 0..3000u64 {
        let key = if number < 10 { vec![b'k'; 4000 + number as usize * 50] } else { format!("key:{number}").into_bytes() };
        session.delete(session.key(namespace, &key)).unwrap();
    }
    session.leave();
    assert_eq!((store.figures().namespace_len(namespace), left > 3000), ((0, 0), false));
    assert_eq!(store.figures().memory().heap_bytes, 0, "seed {seed}: heap values are all released");
}

/// INV-INDEX-3 is asserted on the way: thousands of keys come and go in a small index.
#[test]
fn random_verbs_equal_a_map() {
    for seed in 1..=if cfg!(miri) { 1 } else { 8 } {
        run(seed * 7919, if cfg!(miri) { 400 } else { 60_000 }, Options::default());
    }
}

#[test]
fn random_verbs_equal_a_map_with_a_read_only_region() {
    for seed in 1..=if cfg!(miri) { 1 } else { 4 } {
        let options = Options { mutable_fraction: 0.3, ..Options::default() };
        run(seed * 104_729, if cfg!(miri) { 400 } else { 60_000 }, options);
    }
}

/// INV-NS-1: a namespace is used again only when it is empty.
#[test]
fn a_key_of_a_dropped_namespace_never_comes_back() {
    let store = Store::open(Options { background: false, ..Options::default() }).unwrap();
    let mut session = store.session().unwrap();
    for round in 0..50u64 {
        let namespace = store.allocate_namespace().unwrap();
        assert_eq!(store.figures().namespace_len(namespace), (0, 0));
        session.enter(0);
        for number in 0..1000u64 {
            let bytes = number.to_le_bytes();
            let key = session.key(namespace, &bytes);
            assert!(session.read(key, |_| ()).unwrap().is_none(), "round {round}");
            session.upsert(key, b"value", Put::default()).unwrap();
        }
        session.leave();
        store.drop_namespace(namespace);
        for _ in 0..4 {
            store.maintain(0);
        }
    }
    assert_eq!(store.figures().work().namespaces_swept, 50);
    assert_eq!(store.figures().totals().live, 0);
}
