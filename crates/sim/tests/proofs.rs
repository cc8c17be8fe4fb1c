//! Proofs of testkit against a whole server in the simulation.
#![cfg(feature = "sim")]

use std::time::Duration;

use almandine_base::mutants::Mutant;
use almandine_io::sim::net::NetOptions;
use almandine_sim::proofs::{Proof, run};
use almandine_sim::run::Plan;
use almandine_sim::schedules::schedule;

const SETTINGS: &[&str] = &["--workers", "3"];
const THREADS: &[&str] = &["store", "worker-0", "worker-1", "worker-2"];

fn plan(seed: u64) -> (Plan, NetOptions) {
    let net = if seed.is_multiple_of(2) { NetOptions::default() } else { NetOptions::rough() };
    (Plan::new(seed, schedule(seed, THREADS)), net)
}

fn holds(proof: Proof, seeds: u64) {
    let mut checked = 0;
    for seed in 0..seeds {
        let (plan, net) = plan(seed);
        let recorded = run(proof, &plan, SETTINGS, net, proof.duration());
        checked += recorded.check().unwrap_or_else(|report| panic!("{} seed {seed}: {report}", proof.name()));
    }
    println!("{}: {checked} operations in {seeds} worlds", proof.name());
}

#[test]
fn histories_are_linearizable() {
    holds(Proof::Histories, 12);
}

#[test]
fn units_are_serializable() {
    holds(Proof::Units, 8);
    holds(Proof::Collections, 8);
}

#[test]
fn transactions_hold() {
    holds(Proof::Transactions, 8);
}

#[test]
fn waiters_are_served_in_their_order() {
    holds(Proof::Blocking, 8);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for (seed, proof) in (0..).zip(Proof::ALL) {
        let run = || {
            let (plan, net) = plan(seed);
            run(proof, &plan, SETTINGS, net, Duration::from_millis(50)).outcome
        };
        let (first, second) = (run(), run());
        assert!(first == second, "{} seed {seed} does not repeat:\n{first}\n\n{second}", proof.name());
    }
}

/// Each step that one of the proofs guards, and a number of seeds within which a run without it fails.
#[test]
fn a_missing_step_is_noticed() {
    let missing = [
        (Proof::Blocking, Mutant::OldestFirst),
        (Proof::Blocking, Mutant::KeepLatches),
        (Proof::Blocking, Mutant::ClaimWaiter),
        (Proof::Blocking, Mutant::ServeEveryKey),
        (Proof::Transactions, Mutant::WatchUnderLatch),
        (Proof::Units, Mutant::PlanKeys),
        (Proof::Units, Mutant::KeepOthersOut),
        (Proof::Histories, Mutant::LookUnderLatch),
    ];
    for (proof, mutant) in missing {
        let fails = |seed: &u64| {
            let (plan, net) = plan(*seed);
            run(proof, &plan.without(&[mutant]), SETTINGS, net, proof.duration()).check().is_err()
        };
        let found = (0..100).find(fails);
        println!("{mutant:?}: found by {} with seed {found:?}", proof.name());
        assert!(found.is_some(), "{mutant:?} is not noticed by {} in 100 worlds", proof.name());
    }
}
