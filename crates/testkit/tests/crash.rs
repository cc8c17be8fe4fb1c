//! Kill -9 in the modes of the log: what was acknowledged is there after the restart.
//!
//! With `ALMANDINE_GOLDEN_SERVER=redis` the proof runs against redis-server.

use almandine_testkit::crash::{Plan, prove};
use almandine_testkit::{Program, full, seed};

fn program() -> Program {
    match std::env::var("ALMANDINE_GOLDEN_SERVER").as_deref() {
        Ok("redis") => Program::Redis,
        _ => Program::Almandine,
    }
}

fn survives(flags: &[&str], rings: &[&str]) {
    let program = program();
    let rounds = if full() { 200 } else { 8 };
    // Rings end with the server's directory, and the machine's memory is not filled by servers that are killed.
    let rings: &[&str] = if program == Program::Redis { &[] } else { rings };
    let flags = &[flags, rings].concat()[..];
    let plan = Plan { program: &program, flags, clients: 4, rounds, seed: seed() };
    match prove(plan) {
        Ok(seen) => {
            println!("{flags:?}: {seen:?}");
            assert!(seen.acknowledged > 1_000, "the proof has seen too little: {seen:?}");
        }
        Err(report) => panic!("{flags:?}: {report}"),
    }
}

#[test]
fn what_is_acknowledged_after_the_sync_survives_kills() {
    survives(&["--appendonly", "yes", "--appendfsync", "always"], &["--ring-dir", "{dir}"]);
}

#[test]
fn what_is_acknowledged_survives_kills_with_a_sync_each_second() {
    survives(&["--appendonly", "yes", "--appendfsync", "everysec"], &["--ring-dir", "{dir}"]);
}

#[test]
fn what_is_acknowledged_survives_kills_without_a_sync() {
    survives(&["--appendonly", "yes", "--appendfsync", "no"], &["--ring-dir", "{dir}"]);
}

#[test]
fn what_is_acknowledged_survives_kills_where_rings_do_not() {
    survives(&["--appendonly", "yes", "--appendfsync", "everysec"], &["--ring-dir", "none"]);
}

/// The proof notices what it is for.
#[test]
fn a_server_without_a_log_is_noticed() {
    let program = program();
    let report = prove(Plan { program: &program, flags: &[], clients: 2, rounds: 2, seed: seed() });
    assert!(report.is_err_and(|report| report.contains("no number between")), "a server that loses everything passes");
}
