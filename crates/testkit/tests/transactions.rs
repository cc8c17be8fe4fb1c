//! Transactions of many clients: atomic, and never on what has changed since it was watched. `ALMANDINE_GOLDEN_SERVER=redis`
//! shows that the test is fair.

use std::sync::Mutex;
use std::time::Duration;

use almandine_testkit::transactions::{Report, Settings, run};
use almandine_testkit::{Program, Server, full, mutants, seed};

/// One at a time: each takes the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

fn settings(seconds: u64, churn_bytes: usize) -> Settings {
    let seconds = if full() { seconds * 10 } else { seconds };
    Settings { duration: Duration::from_secs(seconds), threads: 2, churn_bytes, seed: seed() }
}

fn load(server: &Server, settings: Settings) -> Report {
    run(server.address(), settings).unwrap_or_else(|e| panic!("{e}\nserver log:\n{}", server.log()))
}

fn holds(name: &str, flags: &[&str], settings: Settings) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|s| s == "redis");
    let server = if redis { Server::start(&Program::Redis, &[]) } else { Server::start(&Program::Almandine, flags) };
    let report = load(&server, settings);
    println!("transactions, {name}: {report}");
    assert!(report.breaches.is_empty(), "{report}\nserver log:\n{}", server.log());
    assert!(report.executed > 1000 && report.aborted > 10 && report.sums > 500 && report.compared > 100, "too little: {report}");
}

#[test]
fn transactions_hold_in_memory() {
    holds("4 workers", &["--workers", "4"], settings(4, 0));
}

/// Each unit takes its number under all of its latches, those of keys that show while it runs among them.
#[test]
fn transactions_hold_while_they_are_logged() {
    holds("logged", &["--workers", "4", "--appendonly", "yes", "--dir", "{dir}"], settings(3, 0));
}

#[test]
fn transactions_hold_on_cold_keys() {
    holds("cold", &["--workers", "3", "--storage-dir", "{dir}/s", "--maxmemory", "32mb"], settings(5, 64_000_000));
}

#[test]
fn redis_holds_them_too() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let report = load(&Server::start(&Program::Redis, &[]), settings(1, 0));
    assert!(report.breaches.is_empty() && report.executed > 500, "{report}");
}

/// Each step that a mutant leaves out is missed.
#[test]
fn every_missing_step_is_noticed() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for fault in ["WatchUnderLatch", "PlanKeys", "KeepOthersOut", "LatchFurther"] {
        let server = mutants::start(fault, &["--workers", "4"]);
        let mut breaches = 0;
        for round in 0..6 {
            breaches += match run(server.address(), Settings { seed: seed() + round, ..settings(2, 0) }) {
                Ok(report) => {
                    println!("transactions, {fault}: {report}");
                    report.breaches.len()
                }
                // An assertion has noticed it.
                Err(error) => {
                    println!("transactions, {fault}: the server has stopped: {error}");
                    1
                }
            };
            if breaches > 0 {
                break;
            }
        }
        assert!(breaches > 0, "{fault} was not noticed");
    }
}
