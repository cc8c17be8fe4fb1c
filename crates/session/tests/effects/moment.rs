//! INV-COPY-1: a copy of one moment has what was there at that moment, whatever clients do before its walk comes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almandine_io::clock;
use almandine_keyspace::{Accessor, Copying, Put};

use almandine_base::Output;
use almandine_net::Service;
use almandine_testkit::random::Random;

use crate::commands::push;
use crate::rig::{DATABASES, Rig, WORKERS};
use crate::seen::{Contents, Seen, contents, copied};
use crate::{Stopping, compare};

/// Room for what is saved: so that it is used up now and then.
const SAVED_BYTES_MAX: u64 = 1 << 20;

/// Copies that are taken while clients write, each beside what its moment showed.
pub(crate) fn copies_are_of_their_moments(seed: u64, copies: usize) {
    let rig = Rig::new();
    let (stop, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| rig.maintain(&stop));
        for worker in 0..WORKERS {
            let (rig, stop, batches) = (&rig, &stop, &batches);
            scope.spawn(move || {
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    rig.run(worker, 2, seed * 1_000_000 + round * 10 + worker as u64, stop);
                    batches.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stopping = Stopping(&stop);
        let mut accessor = rig.keyspace.accessor().unwrap();
        let dbs: Vec<u16> = (0..DATABASES).collect();
        for _ in 0..copies {
            await_batches(&batches, 10);
            let (copying, expected) = {
                let _alone = rig.between_batches.write().unwrap();
                let now_ms = clock::unix_ms();
                accessor.begin_batch(now_ms);
                let copying = accessor.unit().begin_copying(SAVED_BYTES_MAX).unwrap();
                accessor.end_batch();
                let mut expected = contents(&mut accessor, &dbs, now_ms);
                expected.values_mut().for_each(Seen::without_packed);
                (copying, expected)
            };
            let found = walk(copying, &mut accessor, || await_batches(&batches, 2));
            compare(&expected, &found);
        }
    });
}

/// Copies beside transactions that move amounts from one key to another: the sum stays in each copy, since no transaction is on
/// both sides of a moment.
pub(crate) fn copies_are_between_transactions(seed: u64, copies: usize) {
    let rig = Rig::new();
    let (stop, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (rig, stop, batches) = (&rig, &stop, &batches);
            scope.spawn(move || transfer(rig, worker, seed * 10 + worker as u64, stop, batches));
        }
        let _stopping = Stopping(&stop);
        let mut accessor = rig.keyspace.accessor().unwrap();
        // Most accounts are there then, however busy the machine is.
        while batches.load(Ordering::Relaxed) < 20 {
            await_batches(&batches, 1);
        }
        for _ in 0..copies {
            accessor.begin_batch(clock::unix_ms());
            let copying = accessor.unit().begin_copying(SAVED_BYTES_MAX).unwrap();
            accessor.end_batch();
            let found = walk(copying, &mut accessor, || await_batches(&batches, 1));
            let sum: i64 = found.values().map(Seen::number).sum();
            assert_eq!((sum, found.len() > ACCOUNTS / 2), (0, true));
        }
    });
}

/// What expires behind the moment of a copy is in it, whether a look-up removes it or the background.
pub(crate) fn copies_have_what_expires_behind_their_moment() {
    const KEYS: usize = 200;
    let rig = Rig::new();
    let mut accessor = rig.keyspace.accessor().unwrap();
    let now_ms = clock::unix_ms();
    let later_ms = now_ms + 60_000;
    let name = |key: usize| format!("expires{key}").into_bytes();
    accessor.begin_batch(now_ms);
    for key in 0..KEYS {
        let mut writer = accessor.writer(0);
        let (name, put) = (name(key), Put { expiry_ms: Some(later_ms), ..Put::default() });
        let key = writer.key(&name);
        writer.upsert(key, b"value", put).unwrap();
    }
    let copying = accessor.unit().begin_copying(SAVED_BYTES_MAX).unwrap();
    accessor.end_batch();
    accessor.begin_batch(later_ms);
    for key in (0..KEYS).step_by(2) {
        let mut writer = accessor.writer(0);
        let name = name(key);
        let key = writer.key(&name);
        assert_eq!(writer.delete(key), Ok(false), "it has expired");
    }
    accessor.end_batch();
    let begun = Instant::now();
    while rig.keyspace.dbsize(0) > 0 {
        rig.keyspace.maintain(later_ms + 1000);
        assert!(begun.elapsed() < Duration::from_secs(20), "{} keys past their time stay", rig.keyspace.dbsize(0));
    }
    assert_eq!(walk(copying, &mut accessor, || ()).len(), KEYS);
}

/// Keys between which amounts are moved.
const ACCOUNTS: usize = 300;

fn transfer(rig: &Rig, worker: usize, seed: u64, stop: &AtomicBool, batches: &AtomicUsize) {
    let ((mut sessions, mut connection), mut random, mut out) = (rig.open(worker), Random::new(seed), Output::new());
    while !stop.load(Ordering::Relaxed) {
        let mut input = Vec::new();
        for _ in 0..50 {
            let (from, to, amount) = (random.below(ACCOUNTS), random.below(ACCOUNTS), random.below(100));
            push(&format!("MULTI\nDECRBY account{from} {amount}\nINCRBY account{to} {amount}\nEXEC"), &mut input);
        }
        let mut input = &input[..];
        while !input.is_empty() {
            out.clear();
            input = &input[sessions.receive(&mut connection, input, &mut out).consumed..];
        }
        batches.fetch_add(1, Ordering::Relaxed);
    }
    sessions.close(connection);
}

/// All of a copy; `rest` between its slices.
fn walk(mut copying: Copying, accessor: &mut Accessor, mut rest: impl FnMut()) -> Contents {
    let (mut found, now_ms) = (Contents::new(), copying.now_ms());
    loop {
        rest();
        let more = copying.next(accessor, |key| {
            if let Some(seen) = copied(&key, now_ms) {
                let before = found.insert((key.db, key.key.to_vec()), seen);
                assert!(before.is_none(), "{} is there twice", String::from_utf8_lossy(key.key));
            }
        });
        if !more.unwrap() {
            return found;
        }
    }
}

/// Waits until workers have done some more, unless they wait for the copy.
fn await_batches(batches: &AtomicUsize, more: usize) {
    let (before, begun) = (batches.load(Ordering::Relaxed), Instant::now());
    while batches.load(Ordering::Relaxed) < before + more && begun.elapsed() < Duration::from_millis(50) {
        thread::yield_now();
    }
}
