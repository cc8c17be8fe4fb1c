//! Several sessions at once, with the background running: nothing torn, nothing lost, nothing counted wrongly.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use almandine_store::{Key, Kind, Missing, NotSet, Options, Put, Session, Slot, Store};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn fill(value: &mut Vec<u8>, stamp: u64, len: usize) {
    value.clear();
    value.resize(len, (stamp % 251) as u8);
}

/// INV-READ-1, INV-INDEX-1: readers check that every value they see is one that some writer wrote, whole, while writers change
/// its length in place, by copy and on the heap, delete it, and the index grows from its smallest size.
#[test]
fn readers_never_see_a_torn_value() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let stop = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let mut session = store.session().unwrap();
                let mut value = Vec::new();
                for round in 0..150_000u64 {
                    let stamp = round * 2 + writer;
                    let number = stamp.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
                    let len = match stamp % 97 {
                        0 => 20_000,
                        1 => 2_000,
                        other => (other * 3) as usize,
                    };
                    fill(&mut value, stamp, len);
                    session.enter(0);
                    let bytes = number.to_le_bytes();
                    let key = session.key(namespace, &bytes);
                    if stamp % 31 == 0 {
                        session.delete(key).unwrap();
                    } else {
                        session.upsert(key, &value, Put { etag: (stamp % 5 == 0).then_some(stamp), ..Put::default() }).unwrap();
                    }
                    // New keys make the index grow under the readers.
                    let bytes = (1_000_000 + stamp).to_le_bytes();
                    session.upsert(session.key(namespace, &bytes), b"x", Put::default()).unwrap();
                    session.leave();
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut session = store.session().unwrap();
                let mut copy = Vec::new();
                let mut number = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    session.enter(0);
                    for _ in 0..16 {
                        number = (number + 1) % 256;
                        let found = session
                            .read(session.key(namespace, &number.to_le_bytes()), |view| {
                                copy.clear();
                                view.append_to(&mut copy);
                            })
                            .unwrap();
                        if found.is_some() {
                            assert!(copy.windows(2).all(|pair| pair[0] == pair[1]), "torn: {copy:?}");
                            reads.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    session.leave();
                }
            });
        }
    });
    assert!(reads.load(Ordering::Relaxed) > 1000);
    assert!(store.figures().work().buckets_split > 10_000, "the index grew meanwhile");
}

/// INV-LATCH-1: one writer at a time.
#[test]
fn increments_are_not_lost() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 100_000;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut session = store.session().unwrap();
                for round in 0..ROUNDS {
                    session.enter(0);
                    let bytes = (round % 7).to_le_bytes();
                    match session.entry(session.key(namespace, &bytes)).unwrap() {
                        Slot::Occupied(mut entry) => {
                            let count = u64::from_le_bytes(entry.value().try_into().unwrap()) + 1;
                            entry.write_at(0, &count.to_le_bytes()).unwrap();
                        }
                        Slot::Vacant(entry) => entry.insert(Kind::String, &1u64.to_le_bytes(), Put::default()).unwrap(),
                    }
                    session.leave();
                }
            });
        }
    });
    let mut session = store.session().unwrap();
    session.enter(0);
    let mut total = 0;
    for number in 0..7u64 {
        let mut value = Vec::new();
        session
            .read(session.key(namespace, &number.to_le_bytes()), |view| {
                value.clear();
                view.append_to(&mut value);
            })
            .unwrap();
        total += u64::from_le_bytes(value.try_into().unwrap());
    }
    session.leave();
    assert_eq!(total, THREADS * ROUNDS);
}

/// INV-LATCH-2, INV-LATCH-3: transfers between accounts under lock plans keep the sum that shared lock plans read.
#[test]
fn lock_plans_are_atomic() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    const ACCOUNTS: u64 = 6;
    {
        let mut session = store.session().unwrap();
        session.enter(0);
        for account in 0..ACCOUNTS {
            session.upsert(session.key(namespace, &account.to_le_bytes()), &100u64.to_le_bytes(), Put::default()).unwrap();
        }
        session.leave();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let mut session = store.session().unwrap();
                for round in 0..60_000u64 {
                    session.enter(0);
                    let (from, to) = ((round + writer) % ACCOUNTS, (round * 5 + 1) % ACCOUNTS);
                    let (from, to) = (from.to_le_bytes(), to.to_le_bytes());
                    let hashes = [&from, &to].map(|key| session.key(namespace, key).hash);
                    session.plan().lock_all(&hashes, true);
                    for (account, change) in [(&from, -1i64), (&to, 1)] {
                        if let Slot::Occupied(mut entry) = session.entry(session.key(namespace, account)).unwrap() {
                            let balance = i64::from_le_bytes(entry.value().try_into().unwrap()) + change;
                            entry.write_at(0, &balance.to_le_bytes()).unwrap();
                        }
                    }
                    session.plan().unlock_all();
                    // Growth must not disturb lock plans.
                    let bytes = (1_000 + round * 2 + writer).to_le_bytes();
                    session.upsert(session.key(namespace, &bytes), b"", Put::default()).unwrap();
                    session.leave();
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            let mut session = store.session().unwrap();
            let keys: Vec<_> = (0..ACCOUNTS).map(u64::to_le_bytes).collect();
            while !stop.load(Ordering::Relaxed) {
                session.enter(0);
                let hashes: Vec<_> = keys.iter().map(|key| session.key(namespace, key).hash).collect();
                session.plan().lock_all(&hashes, false);
                let sum: i64 = keys
                    .iter()
                    .map(|key| {
                        session
                            .read(session.key(namespace, key), |view| i64::from_le_bytes(view.bytes().unwrap().try_into().unwrap()))
                            .unwrap()
                            .unwrap()
                    })
                    .sum();
                session.plan().unlock_all();
                session.leave();
                assert_eq!(sum, 100 * ACCOUNTS as i64);
            }
        });
    });
}

/// INV-LATCH-3, INV-INDEX-1: plans of many keys change all of them together while the index grows from its smallest size and
/// shrinks again.
#[test]
fn lock_plans_of_many_keys_are_atomic_while_the_index_is_resized() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    const KEYS: u64 = 3_000;
    let keys: Vec<_> = (0..KEYS).map(u64::to_le_bytes).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let change = |stamps: std::ops::Range<u64>| {
            let mut session = store.session().unwrap();
            for stamp in stamps {
                session.enter(0);
                let hashes: Vec<_> = keys.iter().map(|key| session.key(namespace, key).hash).collect();
                session.plan().lock_all(&hashes, true);
                for key in &keys {
                    session.upsert(session.key(namespace, key), &stamp.to_le_bytes(), Put::default()).unwrap();
                }
                session.plan().unlock_all();
                session.leave();
            }
        };
        change(0..1);
        let changes = scope.spawn(move || change(1..100));
        scope.spawn(|| {
            let mut session = store.session().unwrap();
            for number in (KEYS..KEYS + 100_000).chain(KEYS..KEYS + 100_000) {
                session.enter(0);
                let bytes = number.to_le_bytes();
                let key = session.key(namespace, &bytes);
                if !session.delete(key).unwrap() {
                    session.upsert(key, b"", Put::default()).unwrap();
                }
                session.leave();
            }
            stop.store(true, Ordering::Relaxed);
        });
        let mut session = store.session().unwrap();
        let mut plans = 0;
        while !stop.load(Ordering::Relaxed) || !changes.is_finished() {
            session.enter(0);
            let hashes: Vec<_> = keys.iter().map(|key| session.key(namespace, key).hash).collect();
            session.plan().lock_all(&hashes, false);
            let stamps: HashSet<_> = keys
                .iter()
                .map(|key| session.read(session.key(namespace, key), |view| view.bytes().unwrap().to_vec()).unwrap())
                .collect();
            session.plan().unlock_all();
            session.leave();
            assert_eq!(stamps.len(), 1, "all keys have the stamp of one plan");
            plans += 1;
        }
        assert!(plans > 0 && store.figures().index_buckets() > 0);
    });
}

/// INV-SCAN-1, INV-INDEX-2: keys that stay are all seen, once each, while others come and go and the index grows and shrinks.
#[test]
fn a_scan_sees_every_key_that_stays() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    const STAY: u64 = 5_000;
    let mut session = store.session().unwrap();
    session.enter(0);
    for number in 0..STAY {
        session.upsert(session.key(namespace, &number.to_le_bytes()), b"stays", Put::default()).unwrap();
    }
    session.leave();
    let stop = AtomicBool::new(false);
    let scans = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = store.session().unwrap();
            for round in 0..6u64 {
                for delete in [false, true] {
                    for number in 0..60_000u64 {
                        session.enter(0);
                        let bytes = (STAY + number).to_le_bytes();
                        let key = session.key(namespace, &bytes);
                        if delete {
                            session.delete(key).unwrap();
                        } else {
                            session.upsert(key, &[round as u8; 40], Put::default()).unwrap();
                        }
                        session.leave();
                    }
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            let mut session = store.session().unwrap();
            while !stop.load(Ordering::Relaxed) {
                let mut seen = HashSet::new();
                let mut cursor = 0;
                loop {
                    session.enter(0);
                    let scanned = session.keys(namespace).scan(cursor, 20, |key, _| {
                        let number = u64::from_le_bytes(key.try_into().unwrap());
                        assert!(number >= STAY || seen.insert(number), "{number} seen twice");
                    });
                    cursor = scanned.cursor;
                    session.leave();
                    if cursor == 0 {
                        break;
                    }
                }
                assert_eq!(seen.len() as u64, STAY);
                scans.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    assert!(scans.load(Ordering::Relaxed) >= 3);
    let work = store.figures().work();
    assert!(work.buckets_split > 0 && work.buckets_merged > 0, "{work:?}");
}

/// INV-LATCH-5: what a long unit has latched, each verb of a session that passes by misses, alone and in a plan, and has changed
/// nothing; behind the end of the unit it finds it. A session that does not pass by waits.
#[test]
fn who_passes_a_long_unit_misses_its_keys() {
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    let [mut long, mut passer] = [(); 2].map(|()| store.session().unwrap());
    long.enter(0);
    for name in [&b"held"[..], b"other"] {
        long.upsert(long.key(namespace, name), b"before", Put::default()).unwrap();
    }
    let hashes = [&b"held"[..], b"second"].map(|name| long.key(namespace, name).hash);
    long.plan().lock_all(&hashes, true);
    assert!(!long.plan().long_units().is_any());
    long.plan().long_units().tell();
    assert!(long.plan().long_units().is_any());
    passer.enter(0);
    assert!(!passer.plan().long_units().pass(true));
    let (held, other) = (passer.key(namespace, b"held"), passer.key(namespace, b"other"));
    assert_eq!(passer.read(held, |_| ()), Err(Missing::Held));
    assert!(matches!(passer.entry(held), Err(Missing::Held)));
    assert_eq!(passer.upsert(held, b"after", Put::default()), Err(NotSet::Missing(Missing::Held)));
    assert_eq!(passer.delete(held), Err(Missing::Held));
    assert_eq!(passer.heat().of(held), Err(Missing::Held));
    assert_eq!(passer.read(other, |view| view.len()), Ok(Some(6)));
    for exclusive in [false, true] {
        for hashes in [&[held.hash][..], &[other.hash, held.hash]] {
            passer.plan().lock_all(hashes, exclusive);
            assert!(passer.plan().long_units().has_refused() && passer.plan().holds_any() && !passer.plan().holds(other.hash));
            // Not even what is free: the plan has all of its keys or none.
            assert_eq!(passer.read(other, |_| ()), Err(Missing::Held));
            assert!(matches!(passer.entry(other), Err(Missing::Held)));
            passer.plan().unlock_all();
            assert!(!passer.plan().long_units().has_refused() && !passer.plan().holds_any());
        }
    }
    long.upsert(long.key(namespace, b"held"), b"whole", Put::default()).unwrap();
    long.plan().unlock_all();
    long.leave();
    assert!(!passer.plan().long_units().is_any());
    passer.plan().lock_all(&[other.hash, held.hash], true);
    assert!(!passer.plan().long_units().has_refused());
    assert_eq!(passer.read(held, |view| view.len()), Ok(Some(5)));
    passer.plan().unlock_all();
    passer.leave();
}

fn number_of(session: &Session, key: Key<'_>) -> Result<u64, Missing> {
    let read = session.read(key, |view| {
        let mut bytes = Vec::new();
        view.append_to(&mut bytes);
        u64::from_le_bytes(bytes.try_into().unwrap_or_default())
    });
    Ok(read?.unwrap_or(0))
}

/// INV-LATCH-5: a session that gives up does not miss the message of the end, which is sent behind it. One that waits at a latch
/// when the unit says that it is long gives up, too.
#[test]
fn who_gives_up_hears_of_the_end() {
    const ROUNDS: u64 = 300;
    let store = Store::open(Options::default()).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    // Ends of long units that were told, and the sum of all additions.
    let (ended, over, given_up) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let add = |session: &mut Session| -> Result<(), Missing> {
        let key = session.key(namespace, b"sum");
        let sum = number_of(session, key)?;
        session.upsert(key, &(sum + 1).to_le_bytes(), Put::default()).map_err(|_| Missing::Unplanned)
    };
    let added = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = store.session().unwrap();
            for round in 0..ROUNDS {
                session.enter(0);
                let hashes = [&b"sum"[..], b"second"].map(|name| session.key(namespace, name).hash);
                session.plan().lock_all(&hashes, true);
                if round % 2 == 0 {
                    std::thread::yield_now();
                }
                session.plan().long_units().tell();
                let before = given_up.load(Ordering::Relaxed);
                for _ in 0..200 {
                    if given_up.load(Ordering::Relaxed) != before {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
                add(&mut session).unwrap();
                session.plan().unlock_all();
                session.leave();
                ended.fetch_add(1, Ordering::Release);
            }
            over.store(true, Ordering::Release);
        });
        for planned in [false, true] {
            let (store, ended, over, given_up, added) = (&store, &ended, &over, &given_up, &added);
            scope.spawn(move || {
                let mut session = store.session().unwrap();
                session.plan().long_units().pass(true);
                while !over.load(Ordering::Acquire) {
                    // What a worker has heard before its batch.
                    let heard = ended.load(Ordering::Acquire);
                    session.enter(0);
                    let hashes = [&b"sum"[..], b"third"].map(|name| session.key(namespace, name).hash);
                    session.plan().lock_all(if planned { &hashes } else { &hashes[..1] }, true);
                    let done = add(&mut session);
                    session.plan().unlock_all();
                    session.leave();
                    match done {
                        Ok(()) => _ = added.fetch_add(1, Ordering::Relaxed),
                        Err(missing) => {
                            assert_eq!(missing, Missing::Held);
                            given_up.fetch_add(1, Ordering::Relaxed);
                            // It sleeps until it hears of an end behind that.
                            while ended.load(Ordering::Acquire) == heard {
                                std::thread::yield_now();
                            }
                        }
                    }
                }
            });
        }
    });
    let mut session = store.session().unwrap();
    session.enter(0);
    let sum = number_of(&session, session.key(namespace, b"sum"));
    session.leave();
    assert_eq!(sum.unwrap(), added.load(Ordering::Relaxed) + ROUNDS);
    assert!(given_up.load(Ordering::Relaxed) > ROUNDS / 10, "{given_up:?}");
}
