//! Eviction: the budget holds, what may not go stays, what is used stays, and the hit ratios are those of a good cache.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod hits;

use almandine_store::{EvictionOrder, EvictionPolicy, Options, Put, Session, Store};
use hits::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not in 20 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn store_with(order: EvictionOrder, volatile_only: bool, budget: u64, background: bool) -> (Store, u16) {
    let store = Store::open(Options { background, ..Options::default() }).unwrap();
    let namespace = store.allocate_namespace().unwrap();
    store.settings().set_eviction(EvictionPolicy { order, volatile_only });
    store.settings().set_budget(budget);
    (store, namespace)
}

fn put(session: &mut Session, namespace: u16, number: u64, value: &[u8], expiry_ms: Option<i64>) {
    session.enter(1_000);
    let bytes = number.to_le_bytes();
    session.upsert(session.key(namespace, &bytes), value, Put { expiry_ms, ..Put::default() }).unwrap();
    session.leave();
}

fn has(session: &mut Session, namespace: u16, number: u64) -> bool {
    session.enter(1_000);
    let found = session.read(session.key(namespace, &number.to_le_bytes()), |_| ()).unwrap().is_some();
    session.leave();
    found
}

/// As good as sampling on stationary and moving streams, and clearly better when scans pass through.
#[test]
fn hit_ratios_are_at_least_those_of_sampling() {
    use hits::Stream;
    let (keys, cache) = (30_000, 3_000);
    for (stream, lru_gain, lfu_gain) in
        [(Stream::Zipf, 0.02, 0.0), (Stream::Scan, 0.025, 0.0), (Stream::Shift, -0.01, 0.1), (Stream::ShiftingZipf, -0.01, 0.02)]
    {
        let requests = hits::requests(stream, keys, cache, keys * 10);
        for (order, gain) in [(EvictionOrder::Recency, lru_gain), (EvictionOrder::Frequency, lfu_gain)] {
            let (ratio, held) = hits::of_store(order, hits::budget(cache), keys, &requests);
            assert!((2_500..3_500).contains(&held), "{held}");
            let sampled = hits::of_redis(order, held, keys, &requests);
            assert!(ratio >= sampled + gain, "{stream:?} {order:?}: {ratio:.4}, sampling {sampled:.4}");
        }
    }
}

#[test]
fn policies_for_volatile_keys_spare_the_others_and_end_when_there_are_none() {
    for order in [EvictionOrder::Recency, EvictionOrder::Frequency, EvictionOrder::Random, EvictionOrder::Expiry] {
        let (store, namespace) = store_with(order, true, 6 * MIB, false);
        let mut session = store.session().unwrap();
        const KEPT: u64 = 10_000;
        for number in 0..KEPT {
            put(&mut session, namespace, number, &[1; 100], None);
        }
        for number in KEPT..60_000 {
            put(&mut session, namespace, number, &[2; 100], Some(1_000_000 + number as i64));
            if number % 100 == 0 {
                store.maintain(1_000);
            }
        }
        assert!(!store.is_over_limit(), "{order:?}");
        assert!((KEPT..60_000).any(|number| has(&mut session, namespace, number)));
        assert_eq!((0..KEPT).filter(|&number| !has(&mut session, namespace, number)).count(), 0, "{order:?}");
        let (live, volatile) = store.figures().namespace_len(namespace);
        assert_eq!(live - volatile, KEPT);
        assert_eq!(store.figures().totals().evicted as u64, 60_000 - live, "{order:?}: counted");
        // More that may not go: the volatile ones are evicted to the last, then there is nothing left.
        for number in 100_000..140_000 {
            if store.is_over_limit() {
                break;
            }
            put(&mut session, namespace, number, &[3; 100], None);
            if number % 100 == 0 {
                store.maintain(1_000);
            }
        }
        for _ in 0..100 {
            store.maintain(1_000);
        }
        assert!(store.is_over_limit(), "{order:?}");
        assert_eq!(store.figures().namespace_len(namespace).1, 0, "{order:?}: all volatile keys are gone");
        store.settings().set_eviction(EvictionPolicy { order: EvictionOrder::Random, volatile_only: false });
        assert!(!store.is_over_limit(), "{order:?}: all keys may go now");
    }
}

#[test]
fn what_is_used_stays_and_what_is_not_goes() {
    for order in [EvictionOrder::Recency, EvictionOrder::Frequency] {
        let (store, namespace) = store_with(order, false, 4 * MIB, false);
        let mut session = store.session().unwrap();
        for number in 0..1_000 {
            put(&mut session, namespace, number, &[1; 100], None);
        }
        for number in 1_000..200_000u64 {
            put(&mut session, namespace, number, &[2; 100], None);
            if number % 4 == 0 {
                has(&mut session, namespace, number / 4 % 1_000);
            }
            if number % 500 == 0 {
                store.maintain(1_000);
            }
        }
        let kept = (0..1_000).filter(|&number| has(&mut session, namespace, number)).count();
        assert!(kept >= 995, "{order:?}: {kept} of 1000 keys in use are left");
        assert!(store.figures().totals().evicted > 150_000);
    }
}

#[test]
fn what_expires_soonest_goes_first() {
    let (store, namespace) = store_with(EvictionOrder::Expiry, true, 6 * MIB, false);
    let mut session = store.session().unwrap();
    const KEYS: u64 = 60_000;
    store.maintain(1_000);
    for number in 0..KEYS {
        // Times from a second to twelve days, in no order.
        let after = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34) as i64 + 1_000;
        put(&mut session, namespace, number, &[1; 100], Some(1_000 + after));
        if number % 50 == 0 {
            store.maintain(1_000);
        }
    }
    let after = |number: u64| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34) as i64;
    let mut left: Vec<i64> = (0..KEYS).filter(|&number| has(&mut session, namespace, number)).map(after).collect();
    let mut all: Vec<i64> = (0..KEYS).map(after).collect();
    left.sort_unstable();
    all.sort_unstable();
    assert!(left.len() > 10_000 && left.len() < 50_000, "{}", left.len());
    let bound = all[all.len() - left.len() - left.len() / 50];
    let early = left.iter().filter(|&&at| at < bound).count();
    assert!(early < left.len() / 20, "{early} of {} should have gone before others", left.len());
}

#[test]
fn random_eviction_takes_old_and_new_alike() {
    let (store, namespace) = store_with(EvictionOrder::Random, false, 6 * MIB, false);
    let mut session = store.session().unwrap();
    for number in 0..60_000 {
        put(&mut session, namespace, number, &[1; 100], None);
        if number % 100 == 0 {
            store.maintain(1_000);
        }
    }
    let left = |range: std::ops::Range<u64>, session: &mut Session| range.filter(|&number| has(session, namespace, number)).count();
    let (old, new) = (left(0..30_000, &mut session), left(30_000..60_000, &mut session));
    assert!(old > 3_000 && new > old && new < 27_000, "{old} {new}");
}

/// Several sessions at the limit: the budget holds at every moment, counts are exact, freed space is used again.
#[test]
fn the_budget_holds_while_sessions_compete() {
    const BUDGET: u64 = 48 * MIB;
    for sizes in [200..201, 1..2_000] {
        let (store, namespace) = store_with(EvictionOrder::Recency, false, BUDGET, true);
        let stop = AtomicBool::new(false);
        let mut most = 0;
        std::thread::scope(|scope| {
            let writers: Vec<_> = (1..=3u64)
                .map(|seed| {
                    let (store, sizes) = (&store, sizes.clone());
                    scope.spawn(move || {
                        let mut random = Random(seed * 77);
                        let mut session = store.session().unwrap();
                        let value = vec![7; 2_000];
                        for _ in 0..250_000 {
                            let len = sizes.start + random.below(sizes.end - sizes.start);
                            put(&mut session, namespace, random.below(2_000_000) as u64, &value[..len], None);
                        }
                    })
                })
                .collect();
            let watcher = scope.spawn(|| {
                let mut most = 0;
                let used = || store.figures().memory().used_bytes();
                while !stop.load(Ordering::Relaxed) {
                    // Counters of sessions are read one behind the other: what one frees and another takes meanwhile may count
                    // twice, though hardly in both of two looks.
                    most = most.max(used().min(used()));
                    assert!(!store.is_over_limit(), "writes go on");
                    std::thread::sleep(Duration::from_millis(1));
                }
                most
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            stop.store(true, Ordering::Relaxed);
            most = watcher.join().unwrap();
        });
        assert!(most <= BUDGET + BUDGET / 50, "{sizes:?}: {most} of {BUDGET}");
        assert!(most >= BUDGET - BUDGET / 20, "{sizes:?}: the budget is used: {most}");
        let totals = store.figures().totals();
        assert!(totals.evicted > 10_000 && totals.revivified > 10_000, "{totals:?}");
        wait_until("the background rests", || store.figures().memory().used_bytes() <= BUDGET - BUDGET / 256);
        std::thread::sleep(Duration::from_millis(20));
        let mut session = store.session().unwrap();
        session.enter(1_000);
        let (mut cursor, mut seen) = (0, 0);
        loop {
            cursor = session.keys(namespace).scan(cursor, 1_000, |_, _| seen += 1).cursor;
            if cursor == 0 {
                break;
            }
        }
        session.leave();
        assert_eq!(store.figures().namespace_len(namespace).0, seen, "{sizes:?}: counts are exact");
        wait_until("free space is within its bound", || {
            let memory = store.figures().memory();
            let log = memory.log_live_bytes;
            memory.log_resident_bytes <= log + log / 5 + 16 * MIB
        });
    }
}

/// A chunk of the log is more than such a budget leaves: only what is used of it may count.
#[test]
fn a_budget_just_above_the_empty_store_is_kept_closely_and_evicts_before_it_refuses() {
    for order in [EvictionOrder::Recency, EvictionOrder::Frequency, EvictionOrder::Random, EvictionOrder::Expiry] {
        let volatile_only = order == EvictionOrder::Expiry;
        let (store, namespace) = store_with(order, volatile_only, 0, false);
        let mut session = store.session().unwrap();
        let budget = store.figures().memory().used_bytes() + 100 * 1024;
        store.settings().set_budget(budget);
        for number in 0..20_000 {
            put(&mut session, namespace, number, &[1; 100], volatile_only.then_some(1_000_000 + number as i64));
            if number % 10 == 0 {
                store.maintain(1_000);
            }
            let used = store.figures().memory().used_bytes();
            assert!(used <= budget + 4 * 1024, "{order:?}: {used} used of {budget} after {number}");
            assert!(!store.is_over_limit(), "{order:?}: refused after {number}");
        }
        assert!(store.figures().namespace_len(namespace).0 > 200, "{order:?}");
    }
}

/// By the session that exceeds the budget, before its next command.
#[test]
fn the_only_key_that_may_go_is_found_at_once() {
    for order in [EvictionOrder::Recency, EvictionOrder::Frequency, EvictionOrder::Random, EvictionOrder::Expiry] {
        // A search in random buckets alone misses it in one round of fifty.
        for round in 0..if order == EvictionOrder::Random { 300 } else { 20 } {
            let options = Options { background: false, keys_expected: 100_000, ..Options::default() };
            let store = Store::open(options).unwrap();
            let namespace = store.allocate_namespace().unwrap();
            store.settings().set_eviction(EvictionPolicy { order, volatile_only: true });
            let mut session = store.session().unwrap();
            put(&mut session, namespace, round, b"x", Some(1_000_000));
            store.settings().set_budget(store.figures().memory().used_bytes() + 100 * 1024);
            put(&mut session, namespace, 1_000, &[1; 200 * 1024], None);
            assert!(!has(&mut session, namespace, round), "{order:?}, round {round}");
        }
    }
}

#[test]
fn what_is_counted_beside_the_store_makes_room_for_itself() {
    let (store, namespace) = store_with(EvictionOrder::Recency, false, 8 * MIB, false);
    static BESIDE: AtomicU64 = AtomicU64::new(0);
    store.settings().count_external_bytes(|| BESIDE.load(Ordering::Relaxed));
    let mut session = store.session().unwrap();
    (0..50).for_each(|number| put(&mut session, namespace, number, &[1; 100_000], None));
    for _ in 0..40 {
        BESIDE.fetch_add(100_000, Ordering::Relaxed);
        session.enter(1_000);
        session.count_growth(100_000);
        session.leave();
        // Large values are freed by the background.
        store.maintain(1_000);
        let used = store.figures().memory().used_bytes();
        assert!(used <= 8 * MIB, "{used}");
    }
    assert!(store.figures().totals().evicted > 0 && !store.is_over_limit());
}

#[test]
fn nothing_goes_without_a_policy() {
    let (store, namespace) = store_with(EvictionOrder::Never, false, 4 * MIB, true);
    std::thread::scope(|scope| {
        for part in 0..3u64 {
            let store = &store;
            scope.spawn(move || {
                let mut session = store.session().unwrap();
                for number in 0..20_000 {
                    put(&mut session, namespace, part << 32 | number, &[1; 100], None);
                }
            });
        }
    });
    assert!(store.is_over_limit());
    assert_eq!((store.figures().namespace_len(namespace).0, store.figures().totals().evicted), (60_000, 0));
}

#[test]
fn a_lower_budget_and_a_large_value_take_effect_quickly() {
    let (store, namespace) = store_with(EvictionOrder::Recency, false, 64 * MIB, true);
    let mut session = store.session().unwrap();
    for number in 0..150_000 {
        put(&mut session, namespace, number, &[1; 200], None);
    }
    store.settings().set_budget(16 * MIB);
    wait_until("the lower budget holds", || store.figures().memory().used_bytes() <= 16 * MIB);
    assert!(store.figures().namespace_len(namespace).0 > 20_000, "no more goes than must");
    put(&mut session, namespace, 1 << 40, &vec![1; 12 << 20], None);
    wait_until("small ones are evicted to the large value", || store.figures().memory().used_bytes() <= 16 * MIB);
    // One that can never fit: it goes, as everything does, and the store goes on.
    put(&mut session, namespace, 1 << 41, &vec![1; 20 << 20], None);
    wait_until("the impossible is gone", || store.figures().memory().used_bytes() <= 16 * MIB);
    assert!(!has(&mut session, namespace, 1 << 41));
    put(&mut session, namespace, 1, &[1; 200], None);
    assert!(has(&mut session, namespace, 1) && !store.is_over_limit());
}

#[test]
fn idle_times_and_frequencies_follow_use() {
    let (store, namespace) = store_with(EvictionOrder::Recency, false, 0, true);
    let mut session = store.session().unwrap();
    put(&mut session, namespace, 1, b"v", None);
    put(&mut session, namespace, 2, b"v", None);
    let idle =
        |session: &Session, number: u64| session.heat().idle_ms(session.key(namespace, &number.to_le_bytes())).unwrap().unwrap();
    assert_eq!((idle(&session, 1), idle(&session, 2)), (0, 0));
    wait_until("time makes keys idle", || idle(&session, 1) >= 4_000);
    session.enter(1_000);
    assert!(session.heat().quietly(|session| session.read(session.key(namespace, &1u64.to_le_bytes()), |_| ()).unwrap()).is_some());
    session.leave();
    assert!(idle(&session, 1) >= 4_000, "a quiet look is no use");
    assert!(has(&mut session, namespace, 1));
    assert_eq!(idle(&session, 1), 0);
    assert!(idle(&session, 2) >= 4_000);
    let (store, namespace) = store_with(EvictionOrder::Frequency, false, 0, false);
    let mut session = store.session().unwrap();
    put(&mut session, namespace, 1, b"v", None);
    let heat = |session: &Session| session.heat().of(session.key(namespace, &1u64.to_le_bytes())).unwrap();
    let before = heat(&session);
    assert!(has(&mut session, namespace, 1) && has(&mut session, namespace, 1));
    assert!(heat(&session) > before);
}
