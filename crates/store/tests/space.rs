//! Space: churn does not grow the log, what dies is given back, what is due is reclaimed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use almandine_store::{Kind, Options, Put, Slot, Store};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not in 20 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    number ^ (number >> 29)
}

/// INV-LOG-1, INV-LOG-2, INV-FREE-1: overwrites with values of 1 to 2,000 bytes: resident log at most 1.25 times the live
/// records and the fixed reserve.
#[test]
fn churn_stays_within_its_bound_and_loses_nothing() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let mut session = store.session().unwrap();
    const KEYS: u64 = 50_000;
    let mut lengths = vec![None; KEYS as usize];
    let value = vec![b'v'; 2_000];
    for step in 0..1_500_000u64 {
        let number = mix(step) % KEYS;
        let len = (mix(step + 1) % 2_000 + 1) as usize;
        session.enter(0);
        let bytes = number.to_le_bytes();
        let key = session.key(namespace, &bytes);
        if step % 20 == 7 {
            session.delete(key).unwrap();
            lengths[number as usize] = None;
        } else {
            session.upsert(key, &value[..len], Put::default()).unwrap();
            lengths[number as usize] = Some(len);
        }
        session.leave();
    }
    let live = || {
        let memory = store.figures().memory();
        (memory.log_resident_bytes, memory.log_live_bytes + memory.log_live_bytes / 4 + (16 << 20))
    };
    wait_until("resident within 1.25 x live + 16 MiB", || {
        let (resident, bound) = live();
        resident <= bound
    });
    session.enter(0);
    for (number, len) in lengths.iter().enumerate() {
        let found = session.read(session.key(namespace, &(number as u64).to_le_bytes()), |view| view.len()).unwrap();
        assert_eq!(found, *len, "key {number}");
    }
    session.leave();
    let total: u64 = lengths.iter().flatten().map(|&len| len as u64).sum();
    assert!(store.figures().memory().log_live_bytes < total + 64 * KEYS, "accounting: {:?}", store.figures().memory());
    assert!(store.figures().totals().revivified > 100_000);
}

/// Without a background that keeps up, memory passes its bound by no more than what a batch writes: then writers wait, until
/// one step of compaction.
#[test]
fn writers_wait_for_compaction_before_memory_passes_its_bound() {
    let store = Store::open(Options { background: false, ..Options::default() }).unwrap();
    let ends = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = std::sync::Arc::clone(&ends);
    store.listeners().on_stall_end(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let namespace = store.allocate_namespace().unwrap();
    let mut session = store.session().unwrap();
    const KEYS: u64 = 50_000;
    let (mut stalls, mut steps) = (0, 0);
    for number in 0..20 * KEYS {
        if number < KEYS {
            // A store that only grows waits for no thread.
            assert!(!store.is_stalled());
        } else if store.is_stalled() {
            stalls += 1;
            while store.is_stalled() {
                store.maintain(0);
                steps += 1;
                assert!(steps < 100 * stalls, "writers wait for a few steps");
            }
        }
        session.enter(0);
        // Each round's values are larger than the holes that the last one's have left.
        let value = vec![b'v'; 1_000 + (number / KEYS) as usize * 8];
        session.upsert(session.key(namespace, &(number % KEYS).to_le_bytes()), &value, Put::default()).unwrap();
        session.leave();
        if number % 1_000 == 0 {
            let memory = store.figures().memory();
            let bound = memory.log_live_bytes + memory.log_live_bytes / 4 + (40 << 20);
            assert!(memory.log_resident_bytes <= bound, "{number}: {memory:?}");
        }
    }
    assert!(stalls > 5, "{stalls} stalls");
    assert_eq!(ends.load(Ordering::Relaxed), stalls, "each end is told once");
    // When much dies at once, no writer waits until all of it is given back.
    for number in 0..KEYS {
        session.enter(0);
        assert!(session.delete(session.key(namespace, &number.to_le_bytes())).unwrap());
        session.upsert(session.key(namespace, b"one"), &[b'v'; 100], Put::default()).unwrap();
        session.leave();
        assert!(!store.is_stalled());
    }
}

#[test]
fn deleted_and_emptied_memory_goes_back_to_the_system() {
    let store = Store::open(Options::default()).unwrap();
    let mut session = store.session().unwrap();
    for round in 0..3u64 {
        let namespace = store.allocate_namespace().unwrap();
        for number in 0..200_000u64 {
            session.enter(0);
            session.upsert(session.key(namespace, &number.to_le_bytes()), &[7; 200], Put::default()).unwrap();
            session.leave();
        }
        assert!(store.figures().memory().log_resident_bytes > 40 << 20);
        if round == 1 {
            for number in 0..200_000u64 {
                session.enter(0);
                assert!(session.delete(session.key(namespace, &number.to_le_bytes())).unwrap());
                session.leave();
            }
        } else {
            store.drop_namespace(namespace);
        }
        wait_until("pages are released", || store.figures().memory().log_resident_bytes <= 24 << 20);
        assert_eq!(store.figures().namespace_len(namespace).0, 0);
    }
    wait_until("the index shrinks", || store.figures().memory().index_bytes < 2 << 20);
    assert!(store.figures().work().pages_evacuated > 20);
}

/// INV-EXP-1: whatever way an expiry came about, its key goes when it is due.
#[test]
fn due_keys_are_reclaimed_soon_and_others_are_not() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let mut session = store.session().unwrap();
    const KEYS: u64 = 200_000;
    let start = almandine_io::clock::unix_ms();
    for number in 0..KEYS {
        session.enter(almandine_io::clock::unix_ms());
        let after = if number % 10 == 0 { 3_600_000 } else { 1_000 + (number % 2_000) as i64 };
        // An expiry that is moved later and earlier again; only the last one counts.
        let bytes = number.to_le_bytes();
        let key = session.key(namespace, &bytes);
        session.upsert(key, b"v", Put { expiry_ms: Some(start + 500_000), ..Put::default() }).unwrap();
        session.upsert(key, b"v", Put { expiry_ms: Some(start + after), ..Put::default() }).unwrap();
        session.leave();
    }
    wait_until("all due keys are gone", || store.figures().namespace_len(namespace).0 == KEYS / 10);
    let lag = almandine_io::clock::unix_ms() - (start + 3_000);
    assert_eq!(store.figures().namespace_len(namespace), (KEYS / 10, KEYS / 10));
    assert!(lag < 10_000, "the last due key went {lag} ms late");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(store.figures().namespace_len(namespace).0, KEYS / 10, "keys with time left stay");
}

/// INV-EXP-1: a wheel full of stale entries is rebuilt, gives its memory back, and forgets no key.
#[test]
fn a_rebuilt_wheel_forgets_no_key() {
    let store = Store::open(Options { background: false, ..Options::default() }).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let mut session = store.session().unwrap();
    const KEEP: u64 = 1_000;
    store.maintain(1_000);
    for number in 0..1_200_000u64 {
        session.enter(1_000);
        let bytes = number.to_le_bytes();
        let key = session.key(namespace, &bytes);
        session.upsert(key, b"v", Put { expiry_ms: Some(20_000), ..Put::default() }).unwrap();
        if number >= KEEP {
            session.delete(key).unwrap();
        }
        session.leave();
    }
    assert_eq!(store.figures().namespace_len(namespace), (KEEP, KEEP));
    // The rebuild goes in steps.
    (0..1_000).for_each(|_| store.maintain(1_000));
    assert!(store.figures().memory().expiry_bytes < 1 << 20, "stale entries are dropped: {:?}", store.figures().memory());
    store.maintain(19_000);
    assert_eq!(store.figures().namespace_len(namespace), (KEEP, KEEP));
    store.maintain(20_500);
    assert_eq!(store.figures().namespace_len(namespace), (0, 0));
}

/// INV-LOG-1: half of the data expires, in no order; at rest next to nothing of its space is left, and nothing else is lost.
#[test]
fn what_expires_leaves_memory_when_the_store_comes_to_rest() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let mut session = store.session().unwrap();
    const KEYS: u64 = 100_000;
    let value = vec![b'v'; 16_000];
    let len =
        |number: u64| if mix(number).is_multiple_of(20) { 2_000 + mix(number) % 14_000 } else { 16 + mix(number) % 4_000 } as usize;
    let start = almandine_io::clock::unix_ms();
    for number in 0..KEYS {
        session.enter(start);
        let put = Put {
            expiry_ms: (mix(number + 1).is_multiple_of(2)).then_some(start + 2_000 + (number % 1_000) as i64),
            ..Put::default()
        };
        session.upsert(session.key(namespace, &number.to_le_bytes()), &value[..len(number)], put).unwrap();
        session.leave();
    }
    let stay = (0..KEYS).filter(|&number| !mix(number + 1).is_multiple_of(2)).count() as u64;
    wait_until("due keys are gone", || store.figures().namespace_len(namespace) == (stay, 0));
    wait_until("a tenth of what is taken is free at most", || {
        let memory = store.figures().memory();
        assert_eq!(memory.heap_bytes, 0, "values up to 16,000 bytes lie in the log, whose pages can be emptied");
        memory.log_free_bytes <= memory.log_live_bytes / 9
            && memory.log_resident_bytes <= memory.log_live_bytes / 9 * 10 + (24 << 20)
    });
    session.enter(almandine_io::clock::unix_ms());
    for number in 0..KEYS {
        let found = session.read(session.key(namespace, &number.to_le_bytes()), |view| view.len()).unwrap();
        assert_eq!(found, (!mix(number + 1).is_multiple_of(2)).then_some(len(number)), "key {number}");
    }
    session.leave();
}

/// INV-LOG-2: records as large as can be leave no more at the ends of chunks than compaction accepts; else it would never rest.
#[test]
fn compaction_comes_to_rest_whatever_the_size_of_records() {
    for len in [5_500, 9_400, 13_200, 16_300] {
        let store = Store::open(Options::default()).unwrap();
        let namespace = store.allocate_namespace().unwrap();
        let mut session = store.session().unwrap();
        let keys = (100 << 20) / len as u64;
        for number in 0..keys {
            session.enter(0);
            session.upsert(session.key(namespace, &number.to_le_bytes()), &vec![1; len], Put::default()).unwrap();
            session.leave();
        }
        let mut before = u64::MAX;
        wait_until("no page is evacuated for a second", || {
            std::thread::sleep(Duration::from_secs(1));
            let (now, memory) = (store.figures().work().pages_evacuated, store.figures().memory());
            let is_compact = memory.log_resident_bytes < memory.log_live_bytes / 8 * 9 + (16 << 20);
            // Before it is compact it rests only because its thread has no turn.
            std::mem::replace(&mut before, now) == now && is_compact
        });
        let memory = store.figures().memory();
        assert!(memory.log_live_bytes < keys * (len as u64 + 40) + (1 << 20), "{memory:?}");
    }
}

/// Room to grow that values got when they were appended to does not outlive the evacuation of their pages.
#[test]
fn room_to_grow_is_not_moved_along() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let mut session = store.session().unwrap();
    const KEYS: u64 = 100_000;
    for number in 0..KEYS {
        session.enter(0);
        let bytes = number.to_le_bytes();
        session.upsert(session.key(namespace, &bytes), &[1; 1_000], Put::default()).unwrap();
        match session.entry(session.key(namespace, &bytes)).unwrap() {
            Slot::Occupied(mut entry) => entry.append(&[2; 8]).unwrap(),
            Slot::Vacant(_) => panic!("it was just set"),
        }
        session.leave();
    }
    let packed = 1_008 + 16;
    assert!(store.figures().memory().log_live_bytes > KEYS * (packed + 200), "{:?}", store.figures().memory());
    for number in (0..KEYS).filter(|number| !mix(*number).is_multiple_of(4)) {
        session.enter(0);
        session.delete(session.key(namespace, &number.to_le_bytes())).unwrap();
        session.leave();
    }
    // Most survivors are moved; their space joins that of the dead.
    wait_until("few records have room to spare", || {
        store.figures().memory().log_live_bytes < store.figures().namespace_len(namespace).0 * (packed + 100) + (1 << 20)
    });
    session.enter(0);
    for number in (0..KEYS).filter(|number| mix(*number).is_multiple_of(4)) {
        let whole = session
            .read(session.key(namespace, &number.to_le_bytes()), |view| {
                let mut value = Vec::new();
                view.append_to(&mut value);
                value.len() == 1_008 && value[999] == 1 && value[1_000] == 2
            })
            .unwrap();
        assert_eq!(whole, Some(true), "key {number}");
    }
    session.leave();
}

/// Around the size where values leave the record: every optional word and growth find their place.
#[test]
fn values_of_any_length_take_expiry_and_tag_and_grow() {
    let store = Store::open(Options { background: false, ..Options::default() }).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let mut session = store.session().unwrap();
    for (key_len, len) in
        [1, 8, 100, 4_095, 5_000].into_iter().flat_map(|key| (11_900..16_500).step_by(7).map(move |len| (key, len)))
    {
        let bytes = vec![b'k'; key_len];
        let value: Vec<u8> = (0..len).map(|at| at as u8).collect();
        session.enter(1_000);
        session.upsert(session.key(namespace, &bytes), &value, Put::default()).unwrap();
        let Slot::Occupied(mut entry) = session.entry(session.key(namespace, &bytes)).unwrap() else { panic!("it was just set") };
        entry.set_expiry(Some(9_000)).unwrap();
        entry.set_put(Put { etag: Some(77), ..entry.put() }).unwrap();
        assert!(entry.value() == value, "{key_len} {len}");
        entry.append(b"tail").unwrap();
        entry.set_put(Put { etag: Some(78), ..entry.put() }).unwrap();
        assert!(entry.value()[..len] == value && &entry.value()[len..] == b"tail", "{key_len} {len}");
        assert_eq!((entry.expiry_ms(), entry.etag()), (Some(9_000), Some(78)));
        entry.replace(Kind::String, &value, entry.put()).unwrap();
        assert!(entry.value() == value && entry.etag() == Some(78), "{key_len} {len}");
        entry.remove();
        session.leave();
        store.maintain(1_000);
    }
    assert_eq!((store.figures().namespace_len(namespace), store.figures().memory().heap_bytes), ((0, 0), 0));
}

/// A write far behind the end of a value is refused before it takes memory that the budget does not have, and takes none for
/// zeroes.
#[test]
fn a_gap_of_zeroes_is_asked_for_before_it_is_made() {
    const GAP: usize = 400 << 20;
    let store = Store::open(Options { background: false, ..Options::default() }).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let mut session = store.session().unwrap();
    store.settings().set_budget(64 << 20);
    session.enter(0);
    session.upsert(session.key(namespace, b"short"), &[7; 100], Put::default()).unwrap();
    session.upsert(session.key(namespace, b"long"), &[7; 100_000], Put::default()).unwrap();
    let write = |session: &mut almandine_store::Session, key: &'static [u8], offset: usize| {
        let key = session.key(namespace, key);
        match session.entry(key).unwrap() {
            Slot::Vacant(vacant) => vacant.insert_at(Kind::String, offset, b"end", Put::EDITED),
            Slot::Occupied(mut occupied) => occupied.write_at(offset, b"end"),
        }
    };
    let heap_bytes = store.figures().memory().heap_bytes;
    for key in [&b"new"[..], b"short", b"long"] {
        assert!(write(&mut session, key, GAP).is_err());
    }
    assert_eq!(
        (store.figures().memory().heap_bytes, store.figures().namespace_len(namespace).0),
        (heap_bytes, 2),
        "nothing has changed"
    );
    // Within the budget, beside what is there.
    for (key, offset) in [(&b"new"[..], 10 << 20), (b"short", 10 << 20), (b"long", 10 << 20), (b"tiny", 20)] {
        write(&mut session, key, offset).unwrap();
        let value =
            session.read(session.key(namespace, key), |view| view.shared().map(|value| (*value).as_ref().to_vec())).unwrap();
        if let Some(value) = value.unwrap() {
            assert_eq!(value.len(), offset + 3);
            assert_eq!((&value[offset..], value[offset - 1], value[offset / 2]), (&b"end"[..], 0, 0));
            assert_eq!(value[0], if key == b"new" { 0 } else { 7 });
        }
    }
    assert!(write(&mut session, b"another", 60 << 20).is_err(), "there is not so much left");
    store.settings().set_budget(0);
    write(&mut session, b"new", GAP).unwrap();
    write(&mut session, b"another", GAP).unwrap();
    assert!(store.figures().memory().heap_bytes > 2 * GAP as u64);
    session.leave();
}
