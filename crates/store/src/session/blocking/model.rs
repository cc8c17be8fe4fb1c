//! Latches out of order under the model checker (INV-LATCH-3): sessions that serve waiters, and units whose plans grow, beside
//! others that latch several buckets, or resize.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p almandine-store --lib model`
//!
//! Everything here is the real thing: the index and its latches, the plan of latches, the latch coordinator. What a session does
//! with what it holds is to count in its buckets, by a load and a store: two at a time would lose a count.
//!
//! Each mutant leaves out one step of that code ([`Mutant`]) and must fail with the report that belongs to it. One that waits in
//! a circle is reported by the checker as going on for ever.

use crate::index::{Index, Resize};
use crate::record::key::ReadyKey;
use crate::session::blocking::latch_coordinator::{LatchCoordinator, Serving};
use crate::session::plan::held::{Held, Modes};
use crate::sync::{AtomicU64, Backoff, Ordering};
use almandine_base::mutants::{self, Mutant};
use loom::thread;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const UNSERVED: &str = "a unit has ended before its ready key was served";
const LOST: &str = "a ready key was lost or served twice";
const CIRCLE: &str = "Model exceeded maximum number of branches";
const HELD: &str = "INV-LATCH-1";

/// Buckets. A key's hash is the number of its bucket.
const BUCKETS: usize = 3;

struct World {
    index: Index,
    latch_coordinator: LatchCoordinator,
    /// What is in each bucket: how often something was moved from there, and to there.
    moved: [[AtomicU64; 2]; BUCKETS],
    /// How often each key was served, for all threads to see.
    served: [AtomicU64; BUCKETS],
}

impl World {
    fn new() -> Arc<Self> {
        let index = Index::new(BUCKETS as u64, 4).expect("a small index");
        let count = || AtomicU64::new(0);
        let moved = std::array::from_fn(|_| [count(), count()]);
        Arc::new(Self { index, latch_coordinator: LatchCoordinator::default(), moved, served: std::array::from_fn(|_| count()) })
    }

    /// Counts under the bucket's latch: without it a count is lost.
    fn count(&self, bucket: u64, direction: usize) {
        let count = &self.moved[bucket as usize][direction];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn serve(&self, from: u64, to: u64) {
        self.count(from, 0);
        self.count(to, 1);
        self.served[from as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A unit of work that has made the keys of some buckets ready, each for a waiter that moves what is there to the next
    /// bucket, around.
    fn hand_over(&self, ready: &[u64]) {
        let mut held = Held::new();
        held.take(&self.index, ready, Modes::All(true));
        self.serve_all(held, ready.iter().map(ready_key).collect());
        let is_served = |hash: &u64| self.served[*hash as usize].load(Ordering::Relaxed) > 0;
        assert!(ready.iter().all(is_served), "{UNSERVED}");
    }

    /// The end of a unit: what is ready is served under its latches, each by a command of its own.
    fn serve_all(&self, mut held: Held, mut keys: VecDeque<ReadyKey>) {
        let mut serving = Serving { index: &self.index, latch_coordinator: &self.latch_coordinator, held: &mut held };
        'served: loop {
            while let Some(key) = keys.front().map(|ready| ready.hash) {
                let other = (key + 1) % BUCKETS as u64;
                if let Err(server) = serving.secure(other, &mut keys) {
                    self.latch_coordinator.await_end(&server);
                    break 'served;
                }
                self.serve(key, other);
                keys.pop_front();
            }
            if !serving.take_over(&mut keys) {
                break;
            }
        }
        assert!(!held.is_server, "INV-LATCH-3: a unit that has ended is the server no more");
        held.release(&self.index);
    }

    /// A script that moves something from each bucket to the next one of these, which shows only then.
    fn grow(&self, buckets: &[u64]) {
        let mut held = Held::new();
        let mut keys = VecDeque::new();
        let mut serving = Serving { index: &self.index, latch_coordinator: &self.latch_coordinator, held: &mut held };
        let mut backoff = Backoff::new();
        while !serving.begin() {
            backoff.wait();
        }
        serving.grow(buckets[0], &mut keys);
        for pair in buckets.windows(2) {
            self.count(pair[0], 0);
            serving.grow(pair[1], &mut keys);
            self.count(pair[1], 1);
        }
        self.serve_all(held, keys);
    }

    /// A command that moves something between two keys.
    fn transfer(&self, from: u64, to: u64) {
        let mut held = Held::new();
        held.take(&self.index, &[from, to], Modes::All(true));
        self.count(from, 0);
        self.count(to, 1);
        held.release(&self.index);
    }

    /// How often something was moved from each bucket, and to each.
    fn end(&self, expected: [(u64, u64); BUCKETS]) {
        let counts = |[from, to]: &[AtomicU64; 2]| (from.load(Ordering::Relaxed), to.load(Ordering::Relaxed));
        assert_eq!(self.moved.each_ref().map(counts), expected, "{LOST}");
        assert!(!self.index.is_out_of_order(), "INV-LATCH-3: nobody waits out of order");
    }
}

fn ready_key(hash: &u64) -> ReadyKey {
    ReadyKey { namespace: 0, key: hash.to_le_bytes().into(), hash: *hash }
}

type Session = fn(&World);

/// Explores all interleavings of some sessions, the last of them in the main thread.
fn explore(preemptions: usize, sessions: &'static [Session], expected: [(u64, u64); BUCKETS]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 2_000;
    builder.check(move || {
        let world = World::new();
        let (last, others) = sessions.split_last().expect("a session");
        let spawn = |session: &'static Session| {
            let world = Arc::clone(&world);
            thread::spawn(move || session(&world))
        };
        let threads: Vec<_> = others.iter().map(spawn).collect();
        last(&world);
        threads.into_iter().for_each(|thread| thread.join().expect("a session"));
        world.end(expected);
    });
}

/// Two that hold what the other needs.
const CROSSING: &[Session] = &[|world| world.hand_over(&[1, 2]), |world| world.hand_over(&[0])];
const CROSSED: [(u64, u64); BUCKETS] = [(1, 1); 3];
/// One that needs a bucket behind its own and one in front, beside a command of several keys.
const BESIDE_A_PLAN: &[Session] = &[|world| world.transfer(0, 1), |world| world.hand_over(&[1, 2])];
const PLANNED: [(u64, u64); BUCKETS] = [(1, 1), (1, 1), (1, 1)];

#[test]
fn two_hand_overs_that_need_each_others_latches_serve_all() {
    explore(3, CROSSING, CROSSED);
}

#[test]
fn a_hand_over_beside_a_command_of_several_keys_serves_all() {
    explore(3, BESIDE_A_PLAN, PLANNED);
    // The other way around, which the checker sees with other eyes.
    explore(3, &[|world| world.hand_over(&[2]), |world| world.transfer(0, 2)], [(1, 1), (0, 0), (1, 1)]);
}

#[test]
fn three_hand_overs_around_a_circle_serve_all() {
    explore(2, &[|world| world.hand_over(&[0]), |world| world.hand_over(&[1]), |world| world.hand_over(&[2])], CROSSED);
}

#[test]
fn two_hand_overs_beside_a_command_of_several_keys_serve_all() {
    let sessions: &[Session] = &[|world| world.transfer(0, 2), |world| world.hand_over(&[0]), |world| world.hand_over(&[2])];
    explore(1, sessions, [(2, 1), (0, 1), (1, 1)]);
}

#[test]
fn a_hand_over_beside_an_index_that_shrinks_serves_all() {
    fn shrink(world: &World) {
        // It gives way, and comes again when it is its turn.
        let _ = Resize::new().shrink(&world.index);
    }
    explore(3, &[shrink, |world| world.hand_over(&[2])], [(0, 1), (0, 0), (1, 0)]);
}

/// Two scripts that come to each other's first bucket.
const SCRIPTS: &[Session] = &[|world| world.grow(&[1, 0]), |world| world.grow(&[0, 1])];
const BOTH_WAYS: [(u64, u64); BUCKETS] = [(1, 1), (1, 1), (0, 0)];
/// A script that comes to what is promised to a waiter, whose command needs what the script has.
const PROMISED: &[Session] = &[|world| world.grow(&[0, 2]), |world| world.hand_over(&[2])];
const KEPT: [(u64, u64); BUCKETS] = [(1, 1), (0, 0), (1, 1)];
/// A script beside a command of several keys, which it meets from behind.
const GROWS_BESIDE_A_PLAN: &[Session] = &[|world| world.transfer(0, 1), |world| world.grow(&[1, 0])];

#[test]
fn two_scripts_whose_keys_cross_lose_nothing() {
    explore(3, SCRIPTS, BOTH_WAYS);
}

#[test]
fn a_script_beside_a_promise_serves_it() {
    explore(3, PROMISED, KEPT);
    // What is promised is in front of what the script has.
    explore(3, &[|world| world.hand_over(&[0]), |world| world.grow(&[1, 0])], [(1, 1), (1, 1), (0, 0)]);
    explore(2, &[|world| world.hand_over(&[0, 1]), |world| world.grow(&[2, 1])], [(1, 0), (1, 2), (1, 1)]);
}

#[test]
fn a_script_beside_a_command_of_several_keys_loses_nothing() {
    explore(3, GROWS_BESIDE_A_PLAN, BOTH_WAYS);
    explore(3, &[|world| world.grow(&[1, 2, 0]), |world| world.transfer(0, 2)], [(1, 1), (1, 0), (1, 2)]);
}

#[test]
fn two_scripts_beside_a_promise_serve_it() {
    let sessions: &[Session] = &[|world| world.grow(&[0, 2]), |world| world.grow(&[2, 1]), |world| world.hand_over(&[1])];
    explore(1, sessions, [(1, 0), (1, 1), (1, 2)]);
}

#[test]
fn a_script_beside_an_index_that_shrinks_loses_nothing() {
    fn shrink(world: &World) {
        let _ = Resize::new().shrink(&world.index);
    }
    explore(3, &[shrink, |world| world.grow(&[2, 0])], [(0, 1), (0, 0), (1, 0)]);
}

/// The checker finds a mutant of a model by one of these reports.
fn finds(mutant: Mutant, sessions: &'static [Session], expected: [(u64, u64); BUCKETS], reports: &[&str]) {
    mutants::choose(Some(mutant));
    let outcome = catch_unwind(AssertUnwindSafe(|| explore(3, sessions, expected)));
    mutants::choose(None);
    let report = outcome.expect_err("the checker notices what is left out");
    let text = report.downcast_ref::<String>().map(String::as_str).or(report.downcast_ref::<&str>().copied()).unwrap_or_default();
    assert!(reports.iter().any(|known| text.contains(known)), "{mutant:?} was noticed by another report: {text}");
}

#[test]
fn mutant_several_servers_wait_in_a_circle() {
    finds(Mutant::OneServer, CROSSING, CROSSED, &[CIRCLE]);
}

#[test]
fn mutant_who_waits_in_order_does_not_give_way() {
    finds(Mutant::GiveWay, BESIDE_A_PLAN, PLANNED, &[CIRCLE]);
}

#[test]
fn mutant_server_that_leaves_what_it_was_given() {
    finds(Mutant::TakeGiven, CROSSING, CROSSED, &[CIRCLE, HELD, LOST, UNSERVED]);
}

#[test]
fn mutant_giver_that_does_not_wait() {
    finds(Mutant::AwaitServer, CROSSING, CROSSED, &[UNSERVED, LOST]);
}

#[test]
fn mutant_scripts_that_latch_out_of_order_together() {
    finds(Mutant::OneServer, SCRIPTS, BOTH_WAYS, &[CIRCLE, HELD]);
}

#[test]
fn mutant_command_that_gives_no_way_to_a_script() {
    finds(Mutant::GiveWay, GROWS_BESIDE_A_PLAN, BOTH_WAYS, &[CIRCLE]);
}

#[test]
fn mutant_script_that_leaves_what_it_was_given() {
    finds(Mutant::TakeGiven, PROMISED, KEPT, &[CIRCLE, HELD, LOST, UNSERVED]);
}

#[test]
fn mutant_script_without_the_latch_of_what_has_shown() {
    let sessions: &[Session] = &[|world| world.transfer(1, 0), |world| world.grow(&[1, 0])];
    finds(Mutant::LatchFurther, sessions, [(0, 2), (2, 0), (0, 0)], &[LOST]);
}
