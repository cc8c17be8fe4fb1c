//! Random commands to our server and to redis-server. `ALMANDINE_TEST_SEED=n` repeats a run; `ALMANDINE_ORACLE_ONLY=GET,SET` and
//! `ALMANDINE_ORACLE_SKIP=LCS` choose commands while working on them.

use std::time::Instant;

use almandine_testkit::oracle::streams::STREAMS;
use almandine_testkit::oracle::table::{HASHES, Line, SETS, TABLE};
use almandine_testkit::oracle::{Settings, run};
use almandine_testkit::{Program, Server, full, seed};

fn listed(variable: &str, name: &str) -> Option<bool> {
    std::env::var(variable).ok().map(|list| list.split(',').any(|n| n.eq_ignore_ascii_case(name)))
}

fn wanted(name: &str) -> bool {
    listed("ALMANDINE_ORACLE_ONLY", name).unwrap_or(true) && !listed("ALMANDINE_ORACLE_SKIP", name).unwrap_or(false)
}

#[test]
fn our_server_answers_random_commands_as_redis_does() {
    compare(TABLE, if full() { 2500 } else { 100 }, 2000);
}

#[test]
fn large_hashes_are_what_they_are_in_redis() {
    compare(HASHES, if full() { 500 } else { 12 }, 1500);
}

#[test]
fn large_sets_are_what_they_are_in_redis() {
    compare(SETS, if full() { 500 } else { 12 }, 1500);
}

#[test]
fn streams_are_what_they_are_in_redis() {
    compare(STREAMS, if full() { 500 } else { 15 }, 2000);
}

/// What makes ours name the encodings of Redis 7.0, which has no listpacks of sets and lists.
const AS_7_0: &[&str] = &["--object-encoding-names", "7.0"];

fn compare(table: &'static [Line], episodes: u64, commands: usize) {
    let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|s| s == "redis");
    let ours = if redis { Server::start(&Program::Redis, &[]) } else { Server::start(&Program::Almandine, AS_7_0) };
    let oracle = Server::start(&Program::Redis, &[]);
    let started = Instant::now();
    let settings = Settings { table, seed: seed(), episodes, commands, cold_percent: 0 };
    let report = run(&ours, &oracle, settings, &wanted).unwrap_or_else(|e| panic!("{e}\nour log:\n{}", ours.log()));
    println!(
        "oracle: {} commands of {} names compared ({} answered with an error), {} replies of final keyspaces, seeds {}..{}, in \
         {:.1?}",
        report.commands,
        report.names.len(),
        report.errors,
        report.keyspace,
        settings.seed,
        settings.seed + episodes,
        started.elapsed()
    );
    if let Some(difference) = report.difference {
        panic!("{difference}");
    }
}

/// The control: a server that differs in one corner is caught, and the report is short.
#[test]
fn a_server_that_differs_is_caught_and_the_report_is_short() {
    let mutant = Server::start(&Program::Redis, &["--proto-max-bulk-len", "1048576", "--rename-command", "GETDEL", "GETDEL_"]);
    let oracle = Server::start(&Program::Redis, &[]);
    let settings = Settings { table: TABLE, seed: 1, episodes: 5, commands: 2000, cold_percent: 0 };
    let difference = run(&mutant, &oracle, settings, &|_| true).expect("both run").difference.expect("the mutant is caught");
    let last = difference.commands.last().expect("a command");
    assert!(last[0].eq_ignore_ascii_case(b"GETDEL"), "{difference}");
    assert!(difference.commands.len() <= 3, "not shrunk: {difference}");
}
