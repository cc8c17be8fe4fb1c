//! Concurrent clients: every answer must be explained by some order of the operations, for single keys and for groups of keys.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use almandine_testkit::history::mock::{self, Bug};
use almandine_testkit::history::{History, Settings, check, record};
use almandine_testkit::mutants::must_notice;
use almandine_testkit::{Program, Server, full, seed};

fn settings(pipeline: usize, groups: usize, millis: u64) -> Settings {
    Settings { clients: 8, groups, pipeline, duration: Duration::from_millis(millis), scripts: true, seed: seed() }
}

fn run(name: &str, address: SocketAddr, settings: Settings) -> Result<usize, String> {
    let histories: Vec<History> = record(address, settings).map_err(|e| e.to_string())?;
    let started = Instant::now();
    let checked: usize = histories.iter().map(check).sum::<Result<usize, String>>()?;
    let unknown = histories.iter().flat_map(|h| &h.entries).filter(|e| e.reply.is_none()).count();
    println!(
        "histories {name}: {checked} operations on {} groups by {} clients, {unknown} unanswered, checked in {:.1?}",
        histories.len(),
        settings.clients,
        started.elapsed()
    );
    if unknown == 0 { Ok(checked) } else { Err(format!("{unknown} operations were not answered")) }
}

#[test]
fn our_server_is_linearizable() {
    let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|s| s == "redis");
    let server = Server::start(&if redis { Program::Redis } else { Program::Almandine }, &[]);
    let millis = if full() { 20_000 } else { 2_500 };
    for (name, settings) in [
        ("one at a time, contended", settings(1, 1, millis)),
        ("one at a time, spread", settings(1, 20, millis)),
        ("pipelined", settings(6, 8, millis / 3)),
    ] {
        let checked =
            run(name, server.address(), settings).unwrap_or_else(|e| panic!("{name}: {e}\nserver log:\n{}", server.log()));
        assert!(checked > 1000, "{name}: only {checked} operations");
    }
}

#[test]
fn redis_and_the_right_mock_are_linearizable() {
    let redis = Server::start(&Program::Redis, &[]);
    for (address, scripts) in [(redis.address(), true), (mock::start(Bug::None), false)] {
        for settings in [settings(1, 1, 500), settings(6, 4, 500)] {
            let checked = run("control", address, Settings { scripts, ..settings }).unwrap_or_else(|e| panic!("{e}"));
            assert!(checked > 300, "only {checked} operations");
        }
    }
}

/// The controls: each bug is found.
#[test]
fn every_mutant_is_caught() {
    for bug in [Bug::StaleRead, Bug::LostUpdate, Bug::LostWrite, Bug::TornMset, Bug::TornMget, Bug::TornRename] {
        let address = mock::start(bug);
        let settings = Settings { scripts: false, ..settings(1, 2, 1000) };
        let found = run(&format!("mutant {bug:?}"), address, settings);
        assert!(found.as_ref().is_err_and(|e| e.contains("no order")), "{bug:?} was not caught: {found:?}");
    }
}

/// A server that lets a suspended script go on over changes of its keys is noticed.
#[test]
fn scripts_that_are_not_of_one_moment_are_noticed() {
    for mutant in ["WatchScript", "CompareScript"] {
        must_notice(mutant, &["--workers", "4"], 20, |server| {
            run(mutant, server.address(), settings(1, 1, 2_000)).unwrap();
        });
    }
}
