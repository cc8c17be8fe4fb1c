//! What is told of all runs, and of one that failed.

use std::fs;
use std::time::Duration;

use almandine_sim::coverage::{self, Counts};
use almandine_sim::proofs::Recorded;
use almandine_sim::scenario::Scenario;
use almandine_sim::shrink::Failing;

use super::Total;
use super::options::Options;

/// Where the last failure is saved.
const SAVED: &str = "target/sim-failure.txt";

fn list(counts: &Counts) -> String {
    let words: Vec<String> = counts.iter().map(|(what, times)| format!("{what}: {times}")).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

/// Tells of one run what the options ask for.
pub(crate) fn show_run(options: &Options, scenario: &Scenario, recorded: &Recorded) {
    let (name, seed, (hash, events)) = (scenario.proof.name(), scenario.seed, recorded.outcome.trace_hash);
    if options.tells_hashes {
        println!("Hash: {name} {seed}: {hash:016x} of {events} events");
    }
    if options.traces {
        write(&format!("target/sim-{name}-{seed}.txt"), &recorded.outcome.last);
    }
}

/// Tells what came of all runs. Whether it is what was expected.
pub(crate) fn show(options: &Options, total: &Total, took: Duration) -> bool {
    let runs: u64 = total.runs.values().sum();
    println!("{runs} runs, {} operations checked in {:.1} s", total.checked, took.as_secs_f64());
    println!("Runs: {}; a thread was stalled in {}", list(&total.runs), total.stalled);
    println!("Faults: {}", list(&total.faults));
    println!("Happened: {}", list(&total.happened));
    let never: Vec<String> =
        coverage::named_in_sources().into_iter().filter(|name| !total.happened.contains_key(name.as_str())).collect();
    if !never.is_empty() {
        println!("Never happened: {}", never.join("; "));
    }
    println!("Points: {}", list(&total.points));
    for (proof, seed, what) in &total.first {
        println!("First: {} {seed} {what}", proof.name());
    }
    for (scenario, text) in &total.failures {
        println!("\n{} fails with seed {}: cargo xtask sim {}\n{text}", scenario.proof.name(), scenario.seed, scenario.options());
    }
    if let Some((scenario, _)) = total.failures.first() {
        save(&scenario.to_text());
    } else {
        println!("Nothing failed");
    }
    total.failures.is_empty() != options.must_fail
}

/// Tells what a failure was made to.
pub(crate) fn show_small(small: &Failing) {
    let Failing { scenario, report, operations, runs } = small;
    println!("{report}\n\nSmallest of {runs} runs, with {} operations: {scenario}", operations.len());
    save(&scenario.to_text());
    println!("To run it again: cargo xtask sim --replay {SAVED}");
}

fn save(text: &str) {
    write(SAVED, text);
}

fn write(path: &str, text: &str) {
    if let Err(error) = fs::create_dir_all("target").and_then(|()| fs::write(path, text)) {
        eprintln!("{path}: {error}");
    }
}
