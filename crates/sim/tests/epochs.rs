//! The protocols of the epochs: what one unlinks is not reused under a reader, actions run when their epoch is safe, phases settle,
//! and a thread that is alone meets no other one. Under any schedule; loom adds the orders of memory that a simulation does not
//! have.
#![cfg(feature = "sim")]
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use almandine_base::mutants::Mutant;
use almandine_base::points::point;
use almandine_epoch::{Epoch, Machine, Participant, Phase, Progress, Step};
use almandine_io::sim::turn::{Policy, Schedule};
use almandine_io::thread;
use almandine_sim::run::{Plan, run};

const LIVE: u64 = 1;
const REUSED: u64 = 2;

/// A cell that a link leads to.
struct Shared {
    is_linked: AtomicU64,
    cell: AtomicU64,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { is_linked: AtomicU64::new(1), cell: AtomicU64::new(LIVE) })
    }

    /// Follows the link inside an epoch, and takes its time.
    fn read(&self, reader: &Participant, meanwhile: impl FnOnce()) {
        reader.enter();
        let is_linked = self.is_linked.load(Relaxed) == 1;
        point("has followed the link");
        meanwhile();
        assert!(!is_linked || self.cell.load(Relaxed) == LIVE, "reused under a reader");
        reader.leave();
    }

    fn reuse(&self) {
        self.cell.store(REUSED, Relaxed);
    }

    fn add(&self) {
        let before = self.cell.load(Relaxed);
        point("has read the cell");
        self.cell.store(before + 1, Relaxed);
    }
}

/// Two threads drain at once, one of them from inside an epoch that an earlier action does not wait for.
fn actions() {
    let (epoch, shared, runs) = (Arc::new(Epoch::new(4)), Shared::new(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&runs);
    epoch.bump_with(Box::new(move || _ = counted.fetch_add(1, Relaxed)));
    let reader = epoch.register().unwrap();
    let (theirs, drains) = (Arc::clone(&shared), Arc::clone(&epoch));
    let drainer = thread::spawn("drainer", move || theirs.read(&reader, || _ = drains.drain())).unwrap();
    shared.is_linked.store(0, Relaxed);
    let (mine, counted) = (Arc::clone(&shared), Arc::clone(&runs));
    epoch.bump_with(Box::new(move || {
        counted.fetch_add(1, Relaxed);
        mine.reuse();
    }));
    epoch.drain();
    drainer.join().unwrap();
    epoch.drain();
    assert_eq!(runs.load(Relaxed), 2, "each action runs exactly once");
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

/// In phase 0 a worker uses the cell; the step of phase 1 may therefore reuse it.
fn machine() {
    let (epoch, shared) = (Arc::new(Epoch::new(4)), Shared::new());
    let worker = epoch.register().unwrap();
    let machine = Machine::new(Arc::clone(&epoch), Number(0));
    let (theirs, phases) = (Arc::clone(&shared), Arc::clone(&machine));
    let work = move || {
        for _ in 0..3 {
            worker.enter();
            if phases.phase().0 == 0 {
                point("is in phase 0");
                assert_eq!(theirs.cell.load(Relaxed), LIVE, "reused under a worker");
            }
            worker.leave();
        }
    };
    let worker = thread::spawn("worker", work).unwrap();
    let written = Arc::clone(&shared);
    let step = move |_: Number| {
        written.reuse();
        Step::Done
    };
    let mut run = machine.start(Number(1), step).unwrap();
    while run.poll() != Progress::Finished {
        thread::yield_now();
    }
    worker.join().unwrap();
}

/// One works alone on a cell that others use in every visit.
fn alone() {
    let (epoch, shared) = (Arc::new(Epoch::new(4)), Shared::new());
    let (sole, visitor) = (epoch.register_gated().unwrap(), epoch.register_gated().unwrap());
    let theirs = Arc::clone(&shared);
    let visit = move || {
        visitor.enter_gated();
        theirs.add();
        visitor.leave();
    };
    let visitor = thread::spawn("visitor", visit).unwrap();
    sole.ask_alone();
    while !sole.is_alone() {
        thread::yield_now();
    }
    sole.enter_gated();
    shared.add();
    sole.leave();
    sole.end_alone();
    visitor.join().unwrap();
    assert_eq!(shared.cell.load(Relaxed), LIVE + 2, "the other one came between");
}

/// The first of some seeds whose run fails without these steps.
fn failing(left_out: &[Mutant], body: fn()) -> Option<u64> {
    let fails = |seed: &u64| {
        let policy = if seed.is_multiple_of(2) { Policy::Random } else { Policy::Pct { changes: 2, steps: 20 } };
        let schedule = Schedule { policy, inner_per_million: 300_000, stalls_per_million: 0 };
        let plan = Plan::new(*seed, schedule).without(left_out);
        run(&plan, |world| drop(world.spawn(world.node(), "main", body))).failure.is_some()
    };
    (0..300).find(fails)
}

#[test]
fn epochs_keep_what_is_read_and_a_thread_alone_meets_no_other() {
    for body in [actions, machine, alone] {
        assert_eq!(failing(&[], body), None);
    }
}

#[test]
fn a_missing_step_is_noticed() {
    let missing: [(Mutant, fn()); 3] =
        [(Mutant::OneLock, actions), (Mutant::PublishBeforeBump, machine), (Mutant::GateWait, alone)];
    for (mutant, body) in missing {
        let found = failing(&[mutant], body);
        println!("{mutant:?}: found with seed {found:?}");
        assert!(found.is_some(), "{mutant:?} is not noticed");
    }
}
