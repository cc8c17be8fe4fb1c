//! Every interleaving, and every value that a weak memory model lets a load return, for the three invariants of this crate.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p almandine-epoch --test loom`
//!
//! Each test has twins that leave one step of the protocol out ([`Mutant`]) and must fail: a checker that accepts a
//! broken protocol proves nothing.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "the models are tests, but not #[test] functions")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use almandine_base::mutants::{self, Mutant};
use almandine_epoch::{Deferred, Epoch, Machine, Participant, Phase, Progress, Step};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use loom::thread;

fn check(mutant: Option<Mutant>, model: fn(Epoch)) {
    mutants::choose(mutant);
    loom::model(move || model(Epoch::new(2)));
}

fn check_fails(mutant: Mutant, model: fn(Epoch)) {
    let outcome = catch_unwind(AssertUnwindSafe(|| check(Some(mutant), model)));
    let report = outcome.expect_err("the model does not notice the missing step");
    let report = report.downcast_ref::<String>().map_or("", String::as_str);
    assert!(
        ["Causality violation", "reclaimed under a reader"].iter().any(|text| report.contains(text)),
        "the model fails without {mutant:?}, but for another reason: {report}"
    );
}

/// A link to a cell, and the cell: readers follow the link; the writer cuts it and then overwrites the cell.
struct Shared {
    link: AtomicU64,
    cell: UnsafeCell<u64>,
}

// SAFETY: loom checks that accesses to the cell are ordered; that they are is what these tests are about.
unsafe impl Sync for Shared {}

const LINKED: u64 = 1;
const CUT: u64 = 0;
const LIVE: u64 = 7;
const REUSED: u64 = 9;

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { link: AtomicU64::new(LINKED), cell: UnsafeCell::new(LIVE) })
    }

    /// Relaxed on purpose: the epoch alone must give the order.
    fn read(&self, reader: &Participant) {
        reader.enter();
        if self.link.load(Relaxed) == LINKED {
            // SAFETY: inside an epoch, and the link was there; loom reports it if a write can be concurrent.
            self.cell.with(|cell| assert_eq!(unsafe { *cell }, LIVE, "reclaimed under a reader"));
        }
        reader.leave();
    }

    fn reuse(&self) {
        // SAFETY: called when the retiring epoch is safe; loom reports it if a read can be concurrent.
        self.cell.with_mut(|cell| unsafe { *cell = REUSED });
    }
}

/// E1, with a bump as the tag. The reader visits twice, so that a scan can meet a reservation that was left or reentered.
fn retired_by_bump(epoch: Epoch) {
    let (epoch, shared) = (Arc::new(epoch), Shared::new());
    let reader = epoch.register().unwrap();
    let theirs = Arc::clone(&shared);
    let thread = thread::spawn(move || {
        theirs.read(&reader);
        theirs.read(&reader);
    });
    shared.link.store(CUT, Relaxed);
    let retired = epoch.bump();
    if epoch.safe() >= retired {
        shared.reuse();
    }
    thread.join().unwrap();
}

/// E1, when the retirer tags with `current` and another thread bumps and scans.
fn retired_by_tag(epoch: Epoch) {
    let (epoch, shared) = (Arc::new(epoch), Shared::new());
    let reader = epoch.register().unwrap();
    let (theirs, bumped) = (Arc::clone(&shared), Arc::clone(&epoch));
    let thread = thread::spawn(move || {
        bumped.bump();
        theirs.read(&reader);
    });
    shared.link.store(CUT, Relaxed);
    let retired = epoch.current();
    if epoch.safe() >= retired {
        shared.reuse();
    }
    thread.join().unwrap();
}

/// E1, when the reader refreshes in between, and the retirer learns of the safe epoch from the cache.
fn retired_under_refresh(epoch: Epoch) {
    let (epoch, shared) = (Arc::new(epoch), Shared::new());
    let reader = epoch.register().unwrap();
    let (theirs, scanner) = (Arc::clone(&shared), Arc::clone(&epoch));
    let thread = thread::spawn(move || {
        reader.enter();
        for _ in 0..2 {
            if theirs.link.load(Relaxed) == LINKED {
                // SAFETY: as in `Shared::read`.
                theirs.cell.with(|cell| assert_eq!(unsafe { *cell }, LIVE, "reclaimed under a reader"));
            }
            reader.refresh();
        }
        reader.leave();
        scanner.safe();
    });
    shared.link.store(CUT, Relaxed);
    let retired = epoch.bump();
    if epoch.safe_cached() >= retired || epoch.safe() >= retired {
        shared.reuse();
    }
    thread.join().unwrap();
}

/// E1, when everything that a batch has unlinked is tagged at its end, and the owner looks for what is due by itself.
fn deferred_by_batch(epoch: Epoch) {
    let (epoch, shared) = (Arc::new(epoch), Shared::new());
    let reader = epoch.register().unwrap();
    let (theirs, bumped) = (Arc::clone(&shared), Arc::clone(&epoch));
    let thread = thread::spawn(move || {
        bumped.bump();
        theirs.read(&reader);
    });
    let mut deferred = Deferred::default();
    shared.link.store(CUT, Relaxed);
    deferred.push(());
    deferred.tag(epoch.current());
    if deferred.oldest_epoch().is_some_and(|oldest| epoch.is_over(oldest)) && deferred.pop_due(epoch.safe()).is_some() {
        shared.reuse();
    }
    thread.join().unwrap();
}

/// E2: two threads drain at once, one of them from inside an epoch that an earlier action does not wait for.
fn actions(epoch: Epoch) {
    let (epoch, shared) = (Arc::new(epoch), Shared::new());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    epoch.bump_with(Box::new(move || {
        counted.fetch_add(1, Relaxed);
    }));
    let reader = epoch.register().unwrap();
    let (theirs, drains) = (Arc::clone(&shared), Arc::clone(&epoch));
    let thread = thread::spawn(move || {
        reader.enter();
        let linked = theirs.link.load(Relaxed) == LINKED;
        let ran = drains.drain();
        if linked {
            // SAFETY: as in `Shared::read`.
            theirs.cell.with(|cell| assert_eq!(unsafe { *cell }, LIVE, "reclaimed under a reader"));
        }
        reader.leave();
        ran
    });
    shared.link.store(CUT, Relaxed);
    let (mine, counted) = (Arc::clone(&shared), Arc::clone(&runs));
    epoch.bump_with(Box::new(move || {
        counted.fetch_add(1, Relaxed);
        mine.reuse();
    }));
    let ran = epoch.drain() + thread.join().unwrap() + epoch.drain();
    assert_eq!((ran, runs.load(Relaxed)), (2, 2), "each action runs exactly once");
}

#[derive(Clone, Copy)]
struct Number(u64);

impl Phase for Number {
    fn to_word(self) -> u64 {
        self.0
    }
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

/// E3: in phase 0 a worker reads the cell without further protection; the step of phase 1 may therefore write it.
fn machine(epoch: Epoch) {
    let (epoch, shared) = (Arc::new(epoch), Shared::new());
    let worker = epoch.register().unwrap();
    let machine = Machine::new(Arc::clone(&epoch), Number(0));
    let (theirs, phases) = (Arc::clone(&shared), Arc::clone(&machine));
    let thread = thread::spawn(move || {
        for _ in 0..2 {
            worker.enter();
            if phases.phase().0 == 0 {
                // SAFETY: the step that writes runs when no worker is in phase 0; loom reports it if one is.
                theirs.cell.with(|cell| assert_eq!(unsafe { *cell }, LIVE, "reclaimed under a reader"));
            }
            worker.leave();
        }
    });
    let written = Arc::clone(&shared);
    let mut run = machine
        .start(Number(1), move |_| {
            written.reuse();
            Step::Done
        })
        .unwrap();
    let first = run.poll();
    thread.join().unwrap();
    assert!(first == Progress::Finished || run.poll() == Progress::Finished, "it settles once everyone has left");
}

#[test]
fn retired_memory_is_not_reclaimed_under_a_reader() {
    check(None, retired_by_bump);
    check(None, retired_by_tag);
    check(None, retired_under_refresh);
    check(None, deferred_by_batch);
}

#[test]
fn reclaiming_needs_each_fence() {
    check_fails(Mutant::EnterFence, retired_by_bump);
    check_fails(Mutant::ScanFence, retired_by_bump);
    check_fails(Mutant::LeaveRelease, retired_by_bump);
    check_fails(Mutant::TagFence, retired_by_tag);
    check_fails(Mutant::EnterFence, retired_under_refresh);
    check_fails(Mutant::TagFence, deferred_by_batch);
    check_fails(Mutant::EnterFence, deferred_by_batch);
}

#[test]
fn actions_run_once_and_only_when_safe() {
    check(None, actions);
}

#[test]
fn actions_need_each_step() {
    check_fails(Mutant::EnterFence, actions);
    check_fails(Mutant::ScanFence, actions);
    check_fails(Mutant::OneLock, actions);
}

#[test]
fn no_worker_is_in_an_earlier_phase_when_a_step_runs() {
    check(None, machine);
}

#[test]
fn the_machine_needs_each_step() {
    check_fails(Mutant::PublishBeforeBump, machine);
    check_fails(Mutant::EnterFence, machine);
    check_fails(Mutant::ScanFence, machine);
    check_fails(Mutant::LeaveRelease, machine);
}

/// E4: one works alone, on a cell that the other one uses in every visit.
fn alone(epoch: Epoch) {
    let (epoch, shared) = (Arc::new(epoch), Shared::new());
    let (sole, visitor) = (epoch.register_gated().unwrap(), epoch.register_gated().unwrap());
    let theirs = Arc::clone(&shared);
    let thread = thread::spawn(move || {
        visitor.enter_gated();
        // SAFETY: loom reports it if the other one's access can be concurrent.
        theirs.cell.with_mut(|cell| unsafe { *cell += 1 });
        visitor.leave();
    });
    sole.ask_alone();
    while !sole.is_alone() {
        thread::yield_now();
    }
    sole.enter_gated();
    // SAFETY: as above.
    shared.cell.with_mut(|cell| unsafe { *cell += 1 });
    sole.leave();
    sole.end_alone();
    thread.join().unwrap();
    // SAFETY: the other thread has ended.
    shared.cell.with(|cell| assert_eq!(unsafe { *cell }, LIVE + 2, "reclaimed under a reader"));
}

/// E4, when both want to be alone.
fn alone_in_turns(epoch: Epoch) {
    let (epoch, shared) = (Arc::new(epoch), Shared::new());
    let work = |participant: Participant, shared: Arc<Shared>| {
        participant.ask_alone();
        while !participant.is_alone() {
            thread::yield_now();
        }
        participant.enter_gated();
        // SAFETY: loom reports it if the other one's access can be concurrent.
        shared.cell.with_mut(|cell| unsafe { *cell += 1 });
        participant.leave();
        participant.end_alone();
    };
    let (first, second) = (epoch.register_gated().unwrap(), epoch.register_gated().unwrap());
    let theirs = Arc::clone(&shared);
    let thread = thread::spawn(move || work(second, theirs));
    work(first, Arc::clone(&shared));
    thread.join().unwrap();
    // SAFETY: the other thread has ended.
    shared.cell.with(|cell| assert_eq!(unsafe { *cell }, LIVE + 2, "reclaimed under a reader"));
}

#[test]
fn who_is_alone_meets_nobody() {
    check(None, alone);
    check(None, alone_in_turns);
}

#[test]
fn being_alone_needs_each_step() {
    check_fails(Mutant::GateFence, alone);
    check_fails(Mutant::EnterFence, alone);
    check_fails(Mutant::GateWait, alone);
    check_fails(Mutant::LeaveRelease, alone);
}
