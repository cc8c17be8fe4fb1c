//! Effects, replayed: whatever clients do on several workers, its effects in any interleaving of their keys give the same keys
//! again; and so do a copy that was taken while they wrote and the effects behind it. Mutants are noticed by the same.
//!
//! Commands run as in the server, without sockets.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod commands;
mod copied;
mod copy;
#[cfg(debug_assertions)]
mod failing;
mod kept;
mod logged;
mod moment;
mod rig;
mod seen;
mod told;

use std::collections::BTreeMap;
#[cfg(feature = "mutants")]
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
#[cfg(feature = "mutants")]
use std::time::{Duration, Instant};

use almandine_testkit::random::Random;

use copy::{Copy, copy_base, copy_keys};
use kept::{Kept, Owned, OwnedBody};
use rig::{Rig, WORKERS};
use seen::{Contents, Seen};

/// How long a proof may take beside mutants: one takes seconds.
#[cfg(feature = "mutants")]
const PROOF_TIMEOUT: Duration = Duration::from_secs(90);

/// INV-EFFECT-1: effects of all keys from the beginning, in several interleavings.
fn effects_lead_to_the_same_keys(seed: u64) {
    let rig = Rig::new();
    rig.keyspace.listeners().note_effects(true);
    let before = rig.generations();
    let (never, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let run = &|worker: usize| rig.run(worker, 400, seed * 100 + worker as u64, &never);
    thread::scope(|scope| {
        scope.spawn(|| rig.maintain(&stop));
        let stopping = Stopping(&stop);
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || run(worker))).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        drop(stopping);
    });
    let (len, now_ms, expected) = rig.cut();
    let kept = rig.kept()[..len].to_vec();
    check_groups(&kept);
    assert!(kept.len() > 5_000, "{} effects", kept.len());
    for round in 0..2 {
        let mut copy = Copy::new(before.clone());
        copy.replay_all(&kept, &mut Random::new(seed + round));
        compare(&expected, &copy.contents(now_ms));
    }
}

/// INV-ORDER-1: the operation log from the beginning, in several interleavings: what the rings have, in closed cuts that are taken
/// while clients write, and behind them.
fn the_log_leads_to_the_same_keys(seed: u64) {
    let rig = Rig::new();
    let mut source = rig.keyspace.log().install(logged::options(), 0).unwrap();
    rig.keyspace.log().turn(true).unwrap();
    let before = rig.generations();
    let (never, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let run = &|worker: usize| rig.run(worker, 400, seed * 100 + worker as u64, &never);
    let mut units = thread::scope(|scope| {
        scope.spawn(|| rig.maintain(&stop));
        let stopping = Stopping(&stop);
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || run(worker))).collect();
        let mut units = Vec::new();
        while !workers.iter().all(|worker| worker.is_finished()) {
            units.extend(logged::cut(&mut source));
            thread::yield_now();
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        drop(stopping);
        units
    });
    let (_, now_ms, expected) = rig.cut();
    units.extend(logged::cut(&mut source));
    assert!(units.len() > 5_000 && units.is_sorted_by_key(|unit| unit.number >> 18), "{} units", units.len());
    for round in 0..2 {
        let mut copy = Copy::new(before.clone());
        copy.redo_all(&units, &mut Random::new(seed + round));
        compare(&expected, &copy.contents(now_ms));
    }
}

/// What a transaction sets is in one group.
fn check_groups(kept: &[Kept]) {
    let (mut group, mut groups) = (0, BTreeMap::new());
    for kept in kept {
        // Nothing else sets these keys.
        if let Owned::Set(_, OwnedBody::Bytes(bytes), _) = &kept.effect
            && kept.key.starts_with(b"t")
        {
            assert_eq!(*groups.entry(bytes.clone()).or_insert(group), group, "a transaction in two groups");
        }
        group += usize::from(kept.ends_group);
    }
    assert!(groups.len() > 20, "only {} transactions", groups.len());
    assert!(kept.last().is_none_or(|last| last.ends_group), "the last unit of work has ended");
}

fn compare(expected: &Contents, found: &Contents) {
    for (key, value) in expected {
        assert_eq!(Some(value), found.get(key), "{} {}", key.0, String::from_utf8_lossy(&key.1));
    }
    let more: Vec<_> = found.keys().filter(|key| !expected.contains_key(*key)).collect();
    assert!(more.is_empty(), "too much: {more:?}");
}

/// INV-EFFECT-1: a copy that is taken key by key while clients write, and the effects from then on up to a moment between two
/// units of work.
fn a_copy_and_later_effects_are_the_keys(seed: u64, copy_all: impl Fn(&Rig, &mut Copy)) {
    let rig = Rig::new();
    let (stop, started) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| rig.maintain(&stop));
        for worker in 0..WORKERS {
            let (rig, stop, started) = (&rig, &stop, &started);
            scope.spawn(move || {
                rig.run(worker, 20, seed * 100 + worker as u64, stop);
                started.fetch_add(1, Ordering::Relaxed);
                rig.run(worker, usize::MAX, seed * 100 + 50 + worker as u64, stop);
            });
        }
        let stopping = Stopping(&stop);
        while started.load(Ordering::Relaxed) < WORKERS {
            thread::yield_now();
        }
        let mut random = Random::new(seed);
        let before = {
            let _alone = rig.between_batches.write().unwrap();
            rig.keyspace.listeners().note_effects(true);
            rig.generations()
        };
        let mut copy = Copy::new(before);
        copy_all(&rig, &mut copy);
        // Many, because the threads have just met.
        let cuts: Vec<_> = (0..60)
            .map(|_| {
                let effects = rig.kept().len();
                while rig.kept().len() < effects + 200 {
                    thread::yield_now();
                }
                rig.cut()
            })
            .collect();
        drop(stopping);
        let kept = rig.kept().clone();
        let mut done = 0;
        for (len, now_ms, expected) in cuts {
            copy.replay_all(&kept[done..len], &mut random);
            compare(&unnamed(expected), &unnamed(copy.contents(now_ms)));
            done = len;
        }
    });
}

/// Without forms and names of encodings, which a copy that is filled member by member finds anew.
fn unnamed(mut contents: Contents) -> Contents {
    contents.values_mut().for_each(Seen::without_form);
    contents
}

/// Lets workers end, also when a proof fails.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn seed() -> u64 {
    std::env::var("ALMANDINE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

#[test]
fn effects_are_replayed() {
    effects_lead_to_the_same_keys(seed());
}

#[test]
fn the_log_is_done_again() {
    the_log_leads_to_the_same_keys(seed());
}

#[test]
fn a_copy_is_completed_by_effects() {
    a_copy_and_later_effects_are_the_keys(seed(), copy_keys);
}

/// INV-BASE-1
#[test]
fn a_base_is_completed_by_effects() {
    a_copy_and_later_effects_are_the_keys(seed(), |rig, copy| {
        copy_base(rig, copy, || {
            let effects = rig.kept().len();
            while rig.kept().len() < effects + 50 {
                thread::yield_now();
            }
        });
    });
}

#[test]
fn a_copy_is_of_one_moment() {
    moment::copies_are_of_their_moments(seed(), 15);
}

#[test]
fn a_copy_has_what_expires_behind_its_moment() {
    moment::copies_have_what_expires_behind_their_moment();
}

#[test]
fn a_copy_is_between_transactions() {
    moment::copies_are_between_transactions(seed(), 30);
}

/// Whether a proof passes. One that does not end has not passed: what a step leaves out may be a wake-up.
#[cfg(feature = "mutants")]
fn ends_well(child: &mut Child) -> bool {
    let deadline = Instant::now() + PROOF_TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

/// The control: processes that leave a step out fail.
#[cfg(feature = "mutants")]
#[test]
fn mutants_are_noticed() {
    for (mutant, proof) in [
        ("NumberUnderLatch", "a_copy_is_completed_by_effects"),
        ("AskStripes", "effects_are_replayed"),
        ("AskStripes", "the_log_is_done_again"),
        ("NoteExpiry", "effects_are_replayed"),
        ("OneGroup", "effects_are_replayed"),
        ("NoteExpiry", "a_copy_is_completed_by_effects"),
        ("SaveAbsence", "a_copy_is_of_one_moment"),
        ("SaveRemoved", "a_copy_has_what_expires_behind_its_moment"),
        ("KeepSaved", "a_copy_is_of_one_moment"),
        ("DumpedNumber", "a_base_is_completed_by_effects"),
        ("RaiseAlone", "a_copy_is_between_transactions"),
    ] {
        // More than are needed on a machine that lets threads meet.
        let found = (1..=40).any(|seed| {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", proof])
                .env("ALMANDINE_MUTANT", mutant)
                .env("ALMANDINE_SEED", seed.to_string())
                .env("RUST_BACKTRACE", "0")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            !ends_well(&mut child)
        });
        assert!(found, "{mutant} is not noticed by {proof}");
    }
}
