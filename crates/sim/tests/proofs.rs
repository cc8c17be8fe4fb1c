//! Proofs of testkit against a whole server in the simulation.
#![cfg(feature = "sim")]

use std::time::Duration;

use almandine_io::sim::net::NetOptions;
use almandine_sim::proofs::{Proof, run};
use almandine_sim::run::Plan;
use almandine_sim::schedules::schedule;

const SETTINGS: &[&str] = &["--workers", "3"];
const THREADS: &[&str] = &["store", "worker-0", "worker-1", "worker-2"];

/// The virtual time for which clients load the server.
const DURATION: Duration = Duration::from_millis(300);

fn plan(seed: u64) -> (Plan, NetOptions) {
    let net = if seed.is_multiple_of(2) { NetOptions::default() } else { NetOptions::rough() };
    (Plan::new(seed, schedule(seed, THREADS)), net)
}

fn holds(proof: Proof, seeds: u64) {
    let mut checked = 0;
    for seed in 0..seeds {
        let (plan, net) = plan(seed);
        let recorded = run(proof, &plan, SETTINGS, net, DURATION);
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
            run(proof, &plan, SETTINGS, net, Duration::from_millis(100)).outcome
        };
        let (first, second) = (run(), run());
        assert!(first == second, "{} seed {seed} does not repeat:\n{first}\n\n{second}", proof.name());
    }
}
