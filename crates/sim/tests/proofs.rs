//! Proofs of testkit against a whole server in the simulation.
#![cfg(feature = "sim")]

use almandine_base::mutants::Mutant;
use almandine_sim::coverage::{self, Counts};
use almandine_sim::proofs::{Proof, repeats, run};
use almandine_sim::run::quiet;
use almandine_sim::scenario::{Medium, Scenario};
use almandine_sim::shrink::{Bound, shrink};

/// Some seeds hold.
fn holds(proof: Proof, seeds: u64) {
    let mut checked = 0;
    for seed in 0..seeds {
        let scenario = Scenario::of(proof, seed);
        checked += run(&scenario).check().unwrap_or_else(|report| panic!("cargo xtask sim {}: {report}", scenario.options()));
    }
    println!("{}: {checked} operations in {seeds} worlds", proof.name());
}

#[test]
fn histories_are_linearizable() {
    holds(Proof::Histories, 20);
    holds(Proof::Crashes, 6);
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
    holds(Proof::Moves, 9);
    // The seed 13 has a waiter read a record between two holds of its latches.
    holds(Proof::Claims, 14);
}

#[test]
fn listeners_hear_and_users_are_held_to_their_rights() {
    for proof in [Proof::Channels, Proof::Tracking, Proof::Events, Proof::Rights] {
        holds(proof, 6);
    }
}

#[test]
fn suspended_scripts_see_one_moment_and_are_killed_whole() {
    // The seeds 13 and 14 have a script end while another one has all clients hear BUSY.
    holds(Proof::Suspended, 16);
}

#[test]
fn memory_is_kept_and_results_are_of_one_moment() {
    holds(Proof::Eviction, 5);
    holds(Proof::Computations, 3);
}

#[test]
fn what_was_acknowledged_outlives_crashes() {
    holds(Proof::Durability, 24);
    holds(Proof::Snapshots, 12);
}

/// A device on a disk of its own that fails and lies: each kind of fault happens, and what the server is to do then.
#[test]
fn a_device_that_fails_or_lies_loses_nothing() {
    let (mut faults, mut happened, mut checked) = (Counts::default(), Counts::default(), 0);
    let mut seeds = 0;
    let lacks = |faults: &Counts, happened: &Counts| -> Vec<&str> {
        let missing = |all: &[&'static str], met: &Counts| all.iter().copied().filter(|what| !met.contains_key(*what)).collect();
        let (faults, answers): (Vec<&str>, Vec<&str>) = (missing(&FAULTS, faults), missing(&ANSWERS, happened));
        [faults, answers].concat()
    };
    while seeds < DEVICE_SEEDS || seeds < DEVICE_SEEDS_MAX && !lacks(&faults, &happened).is_empty() {
        let seed = seeds;
        seeds += 1;
        let mut scenario = Scenario::of(Proof::Durability, seed);
        scenario.set_medium(Medium::Device);
        let recorded = run(&scenario);
        coverage::add(&mut faults, &recorded.faults);
        coverage::add(&mut happened, &recorded.outcome.counts.happened);
        checked += recorded.check().unwrap_or_else(|report| panic!("cargo xtask sim {}: {report}", scenario.options()));
    }
    println!("durability with a device: {checked} units and values in {seeds} worlds; {faults:?}; {happened:?}");
    let missing = lacks(&faults, &happened);
    assert!(missing.is_empty(), "{missing:?} in {seeds} worlds: {faults:?}; {happened:?}");
}

/// At least these, and further ones until all has happened that is named below: some of it is rare.
const DEVICE_SEEDS: u64 = 40;
const DEVICE_SEEDS_MAX: u64 = 120;
/// What goes wrong with the device.
const FAULTS: [&str; 9] = [
    "apart: a read fails",
    "apart: a write fails",
    "apart: a sync fails",
    "apart: a hole fails",
    "apart: the disk is full",
    "apart: a write is lost",
    "apart: a write is misdirected",
    "apart: a bit is flipped",
    "apart: a page becomes unreadable",
];
/// What the server does of it; starts that meet damage are rarer (`storage_errors` of the server has them).
const ANSWERS: [&str; 6] = [
    "a page is not written",
    "the device does not give a record",
    "a record of the device is damaged",
    "the compactor finds a damaged page",
    "the device is not made durable for a base",
    "a base is given up",
];

#[test]
fn what_was_told_is_so_behind_crashes() {
    holds(Proof::Told, 12);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for (seed, proof) in (0..).zip(Proof::ALL) {
        let mut scenario = Scenario::of(proof, seed);
        scenario.millis = scenario.millis.min(50);
        repeats(&scenario).unwrap_or_else(|report| panic!("{} seed {seed}: {report}", proof.name()));
    }
}

/// The first of some seeds whose run without a step fails.
fn found(proof: Proof, mutant: Mutant, medium: Medium, seeds: u64) -> Option<Scenario> {
    let without = |seed: u64| {
        let mut scenario = Scenario::of(proof, seed);
        if medium != Medium::Memory {
            scenario.set_medium(medium);
        }
        scenario.left_out = vec![mutant];
        if mutant == Mutant::CompareSums {
            // Bytes that are shown, and no error.
            scenario.pages = ["pages-flipped"].into();
        }
        if mutant == Mutant::SkipMapped {
            // A disk that fails keeps bases from being written, during which databases are emptied.
            scenario.set_medium(Medium::Memory);
        }
        if mutant == Mutant::DrainBeforeClose {
            // Short lives among which more end while a unit is between its number and its place.
            (scenario.workers, scenario.millis) = (4, 30);
        }
        scenario
    };
    // What it leaves out matters where replies wait for the log, and are given up as soon as that breaks: one of twelve seeds.
    let matters = |seed: &u64| mutant != Mutant::CloseUnlogged || seed.is_multiple_of(3) && seed / 10 % 4 == 1;
    quiet();
    (0..).filter(matters).take(seeds as usize).map(without).find(|scenario| run(scenario).check().is_err())
}

/// Each step that one of the proofs guards. AwaitServer, HeadInEpoch and RaiseAlone take some hundred worlds, and are left to
/// `cargo xtask sim --mutant`.
#[test]
fn a_missing_step_is_noticed() {
    let missing = [
        (Proof::Blocking, Mutant::OldestFirst, Medium::Memory),
        (Proof::Blocking, Mutant::KeepLatches, Medium::Memory),
        (Proof::Blocking, Mutant::ClaimWaiter, Medium::Memory),
        (Proof::Blocking, Mutant::ServeEveryKey, Medium::Memory),
        (Proof::Transactions, Mutant::WatchUnderLatch, Medium::Memory),
        (Proof::Units, Mutant::PlanKeys, Medium::Memory),
        (Proof::Units, Mutant::PlanScripts, Medium::Device),
        (Proof::Suspended, Mutant::PlanKeys, Medium::Memory),
        (Proof::Units, Mutant::KeepOthersOut, Medium::Memory),
        (Proof::Histories, Mutant::LookUnderLatch, Medium::Memory),
        (Proof::Histories, Mutant::CompareWithAll, Medium::Device),
        (Proof::Histories, Mutant::LatchFurther, Medium::Memory),
        (Proof::Histories, Mutant::WatchScript, Medium::Memory),
        (Proof::Histories, Mutant::CompareScript, Medium::Device),
        (Proof::Moves, Mutant::TakeGiven, Medium::Memory),
        (Proof::Moves, Mutant::OneServer, Medium::Memory),
        (Proof::Moves, Mutant::GiveWay, Medium::Memory),
        (Proof::Moves, Mutant::HoldForWaiters, Medium::Memory),
        (Proof::Moves, Mutant::SecureDestinations, Medium::Device),
        (Proof::Channels, Mutant::PostUnderLock, Medium::Memory),
        (Proof::Channels, Mutant::NoteSeen, Medium::Memory),
        (Proof::Tracking, Mutant::RememberFirst, Medium::Memory),
        (Proof::Tracking, Mutant::KeepRead, Medium::Memory),
        (Proof::Events, Mutant::LatchForEvents, Medium::Memory),
        (Proof::Rights, Mutant::CheckEveryKey, Medium::Memory),
        (Proof::Rights, Mutant::RefreshRights, Medium::Memory),
        (Proof::Rights, Mutant::CutListenersOff, Medium::Memory),
        (Proof::Claims, Mutant::LookSooner, Medium::Memory),
        (Proof::Claims, Mutant::ServeLost, Medium::Memory),
        (Proof::Computations, Mutant::CompareSources, Medium::Memory),
        (Proof::Durability, Mutant::HoldReplies, Medium::Memory),
        (Proof::Durability, Mutant::NumberUnderLatch, Medium::Memory),
        (Proof::Durability, Mutant::AskStripes, Medium::Memory),
        (Proof::Durability, Mutant::NoteExpiry, Medium::Memory),
        (Proof::Durability, Mutant::AppendOnce, Medium::Memory),
        (Proof::Durability, Mutant::SyncFirst, Medium::Memory),
        (Proof::Durability, Mutant::WriteFirst, Medium::Memory),
        (Proof::Durability, Mutant::AskSeen, Medium::Memory),
        (Proof::Durability, Mutant::DeferMessages, Medium::Memory),
        (Proof::Durability, Mutant::HoldMessages, Medium::Memory),
        (Proof::Durability, Mutant::DrainBeforeClose, Medium::Memory),
        (Proof::Told, Mutant::TellPublished, Medium::Memory),
        (Proof::Told, Mutant::HoldMessages, Medium::Memory),
        (Proof::Told, Mutant::DeferMessages, Medium::Memory),
        (Proof::Durability, Mutant::SkipMapped, Medium::Memory),
        (Proof::Durability, Mutant::MatchBoot, Medium::Memory),
        (Proof::Durability, Mutant::CloseUnlogged, Medium::Failing),
        (Proof::Durability, Mutant::RetainPages, Medium::Device),
        (Proof::Durability, Mutant::SyncDevice, Medium::Device),
        (Proof::Durability, Mutant::HeedWrite, Medium::Device),
        (Proof::Durability, Mutant::HeedSync, Medium::Device),
        (Proof::Durability, Mutant::LabelEnded, Medium::Device),
        (Proof::Durability, Mutant::CompareSums, Medium::Device),
        (Proof::Snapshots, Mutant::SaveAbsence, Medium::Memory),
        (Proof::Snapshots, Mutant::SaveRemoved, Medium::Memory),
        (Proof::Snapshots, Mutant::KeepSaved, Medium::Memory),
        (Proof::Transactions, Mutant::WatchScript, Medium::Memory),
        (Proof::Transactions, Mutant::CompareScript, Medium::Memory),
        (Proof::Suspended, Mutant::WatchScript, Medium::Memory),
        (Proof::Suspended, Mutant::CompareScript, Medium::Device),
        (Proof::Suspended, Mutant::RefuseKilled, Medium::Memory),
        (Proof::Suspended, Mutant::EndKilled, Medium::Memory),
    ];
    let mut unnoticed = Vec::new();
    for (proof, mutant, medium) in missing {
        let found = found(proof, mutant, medium, 200);
        println!("{mutant:?}: found by {} with seed {:?}", proof.name(), found.as_ref().map(|scenario| scenario.seed));
        if found.is_none() {
            unnoticed.push((mutant, proof.name()));
        }
    }
    assert!(unnoticed.is_empty(), "not noticed in 200 worlds: {unnoticed:?}");
}

/// A failing run is made small, and the small one fails again when it is read from its text.
#[test]
fn a_failure_is_made_small_and_repeats() {
    let first = found(Proof::Histories, Mutant::LookUnderLatch, Medium::Memory, 100).expect("a run that fails");
    let before = run(&first).operations.len();
    let small = shrink(&first, Bound::Runs(300)).expect("it fails again");
    println!("{} runs, {} of {before} operations: {}", small.runs, small.operations.len(), small.scenario);
    assert!(small.operations.len() * 5 < before, "{} of {before} operations", small.operations.len());
    let again = Scenario::read(&small.scenario.to_text()).expect("a scenario");
    assert_eq!(run(&again).check().err().as_deref(), Some(small.report.as_str()));
}
