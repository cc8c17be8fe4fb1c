//! What the clients of each proof do, and what is checked afterwards.

use std::io;
use std::time::Duration;

use almandine_io::sim::turn::{Policy, Schedule};
use almandine_testkit::history::faults::{final_read, with_faults_of, with_lost, with_resizing_of, without_refused};
use almandine_testkit::history::units::{self, Features};
use almandine_testkit::history::{self, History};
use almandine_testkit::promises::{channels, claims, computations, events, eviction, moves, rights, suspended, tracking};
use almandine_testkit::storage::{self, Figures};
use almandine_testkit::{Client, blocking, transactions};

use super::durable::{self, Harm};
use super::{Check, Proof, crashing, snapshots, told};
use crate::runtime::Simulated;
use crate::scenario::{Medium, Scenario};
use crate::witness::Order;

/// Lets clients load the server, in a thread of the clients' machine.
///
/// # Errors
/// When the server does not answer.
pub(super) fn record(scenario: &Scenario, server: &Simulated) -> io::Result<Check> {
    let Scenario { seed, millis, .. } = *scenario;
    let rounds = usize::try_from(millis).unwrap_or(usize::MAX);
    match scenario.proof {
        Proof::Histories => histories(scenario, server),
        Proof::Units => units_of(scenario, server, None),
        Proof::Collections => {
            let kinds = units::Kind::ALL;
            units_of(scenario, server, Some(kinds[(seed % kinds.len() as u64) as usize]))
        }
        Proof::Transactions => transactions(scenario, server),
        Proof::Blocking => blocking(scenario, server),
        Proof::Moves => Ok(moves(scenario, server, rounds.div_ceil(5))),
        Proof::Channels => {
            channels::hear_one_order(server, rounds);
            done(4 * rounds)
        }
        Proof::Tracking => {
            tracking::is_told(server, millis);
            tracking::is_told_of_what_scripts_have_read(server, millis / 4);
            done(2 * rounds + rounds / 4)
        }
        Proof::Events => {
            events::come_in_order(server, 3 * rounds.max(100));
            done(12 * rounds)
        }
        Proof::Rights => {
            match seed % 3 {
                0 => rights::deny_in_every_place(server),
                1 => rights::are_cut_off(server),
                _ => rights::hold_for_all_workers(server, rounds / 4),
            }
            done(rounds)
        }
        Proof::Claims => {
            match seed % 3 {
                0 => claims::is_claimed_by_who_came_before(server),
                1 => claims::are_served_of_several(server, || make_cold(scenario, server)),
                _ => claims::are_told(server, || make_cold(scenario, server)),
            }
            done(8)
        }
        Proof::Computations => {
            let pauses = [Duration::from_micros(30), Duration::from_millis(2)];
            computations::lose_no_write(server, 700_000, rounds / 5, pauses);
            done(rounds / 5)
        }
        Proof::Eviction => {
            let (clients, duration) = (clients(scenario, 4), duration(scenario));
            let is_volatile = eviction_settings(seed).contains("volatile");
            let settings = eviction::Settings { clients, keys: 700, duration, is_volatile, seed };
            done(eviction::keeps_its_word(server, settings).0)
        }
        Proof::Suspended => {
            make_cold(scenario, server);
            let report = suspended::hold(server, duration(scenario), 70_000, seed);
            done((report.returned + report.killed + report.served + report.answered) as usize)
        }
        Proof::Crashes => Ok(crashing::record(scenario, server)),
        Proof::Snapshots => {
            let Scenario { medium, .. } = *scenario;
            let (clients, settings) = (clients(scenario, 3), super::server_settings(scenario));
            let (faults, evicts) = (scenario.disk_faults(), medium == Medium::Memory);
            let result = snapshots::record(&snapshots::Plan { seed, millis, clients, settings, faults, evicts }, server);
            Ok(Box::new(move || result))
        }
        Proof::Told => {
            let (writers, settings) = (clients(scenario, 3), super::server_settings(scenario));
            let result = told::record(&told::Plan { seed, millis, writers, settings }, server);
            Ok(Box::new(move || result))
        }
        Proof::Durability => {
            let result = durable::record(durable_plan(scenario), server);
            Ok(Box::new(move || result))
        }
    }
}

/// A proof that was checked while it ran.
#[expect(clippy::unnecessary_wraps, reason = "what a load ends with")]
fn done(checked: usize) -> io::Result<Check> {
    Ok(Box::new(move || Ok(checked)))
}

fn duration(scenario: &Scenario) -> Duration {
    Duration::from_millis(scenario.millis)
}

fn clients(scenario: &Scenario, usual: usize) -> usize {
    if scenario.clients == 0 { usual } else { scenario.clients }
}

/// What an eviction policy is tried with, by seed. The tables of a small server take a part of it.
pub(super) fn eviction_settings(seed: u64) -> &'static str {
    const SETTINGS: [&str; 5] = [
        " --maxmemory 4mb --maxmemory-policy allkeys-lru",
        " --maxmemory 4mb --maxmemory-policy volatile-ttl",
        " --maxmemory 4mb --maxmemory-policy allkeys-lfu",
        " --maxmemory 4mb --maxmemory-policy volatile-lru",
        " --maxmemory 4mb --maxmemory-policy allkeys-random",
    ];
    SETTINGS[(seed % SETTINGS.len() as u64) as usize]
}

/// What a scenario means for a server with a log.
fn durable_plan(scenario: &Scenario) -> durable::Plan {
    let Scenario { seed, millis, .. } = *scenario;
    let Schedule { policy, stalls_per_million, .. } = &scenario.schedule;
    let harm = match scenario.medium {
        Medium::Memory | Medium::Device => Harm::None,
        Medium::Failing => Harm::Said,
        Medium::Lying => Harm::Hidden,
    };
    let (writers, settings) = (clients(scenario, 4), super::server_settings(scenario));
    let is_prompt = *policy == Policy::Random && *stalls_per_million == 0;
    let device = super::has_device(scenario).then(|| scenario.page_faults());
    durable::Plan { seed, millis, writers, settings, harm, faults: scenario.disk_faults(), device, is_prompt }
}

/// Runs `work` beside clients that make all keys cold and make garbage, where there is a device; on every third seed without one
/// beside clients that have the index grow and shrink.
fn beside_pressure<T>(scenario: &Scenario, server: &Simulated, work: impl FnOnce() -> T) -> T {
    match scenario.medium {
        Medium::Memory if scenario.seed.is_multiple_of(3) => with_resizing_of(server.clone(), scenario.flood, work),
        Medium::Memory => work(),
        _ => with_faults_of(server.clone(), scenario.flood, work).0,
    }
}

fn make_cold(scenario: &Scenario, server: &Simulated) {
    if scenario.medium != Medium::Memory {
        storage::make_cold(&mut Client::of(server).expect("a connection"));
    }
}

/// How contended histories are, by seed.
pub(super) fn history_settings(scenario: &Scenario) -> history::Settings {
    let (groups, pipeline) = if scenario.seed.is_multiple_of(2) { (1, 1) } else { (4, 4) };
    // A record that is lost for good goes with the command that replaces a key with the same tag: amid a script.
    let scripts = scenario.medium != Medium::Lying;
    let (clients, duration, seed) = (clients(scenario, 6), duration(scenario), scenario.seed);
    history::Settings { clients, groups, pipeline, duration, scripts, seed }
}

fn histories(scenario: &Scenario, server: &Simulated) -> io::Result<Check> {
    let settings = history_settings(scenario);
    let mut recorded: Vec<History> = beside_pressure(scenario, server, || history::record(server.clone(), settings))?;
    Order::take().explain(&mut recorded);
    if scenario.medium != Medium::Memory {
        without_refused(&mut recorded);
        let read = |history: &mut History| history.entries.extend(final_read(server, &history.keys, 0).into_iter().flatten());
        recorded.iter_mut().for_each(read);
    }
    if scenario.medium == Medium::Lying {
        let figures = Figures::read(&mut Client::of(server)?);
        with_lost(&mut recorded, figures.get("storage_records_lost"));
    }
    Ok(Box::new(move || recorded.iter().map(history::check).sum()))
}

fn units_of(scenario: &Scenario, server: &Simulated, collections: Option<units::Kind>) -> io::Result<Check> {
    let features = Features { hashes: true, expiry: true, collections };
    let (clients, duration) = (clients(scenario, 5), duration(scenario));
    let settings = units::Settings { clients, groups: 2, duration, features, seed: scenario.seed };
    let mut recorded = beside_pressure(scenario, server, || units::record(server.clone(), settings))?;
    Order::take().explain_units(&mut recorded);
    Ok(Box::new(move || recorded.iter().map(units::check).sum()))
}

fn transactions(scenario: &Scenario, server: &Simulated) -> io::Result<Check> {
    let churn_bytes = if scenario.medium == Medium::Memory { 0 } else { 400_000 };
    let settings = transactions::Settings { duration: duration(scenario), threads: 1, churn_bytes, seed: scenario.seed };
    let report = beside_pressure(scenario, server, || transactions::run(server.clone(), settings))?;
    Ok(Box::new(move || if report.breaches.is_empty() { Ok(report.executed as usize) } else { Err(report.to_string()) }))
}

fn blocking(scenario: &Scenario, server: &Simulated) -> io::Result<Check> {
    let (clients, duration, aligned) = (clients(scenario, 5), duration(scenario), scenario.seed % 2 == 1);
    let settings = blocking::Settings { clients, groups: 2, duration, aligned, moves: true, seed: scenario.seed };
    let mut recorded = beside_pressure(scenario, server, || blocking::record(server.clone(), settings))?;
    Order::take().explain_waits(&mut recorded);
    Ok(Box::new(move || recorded.iter().map(|entries| blocking::check(entries)).sum()))
}

fn moves(scenario: &Scenario, server: &Simulated, rounds: usize) -> Check {
    let (seed, is_cold) = (scenario.seed, scenario.medium != Medium::Memory);
    let breach = match seed % 3 {
        _ if is_cold && seed % 2 == 0 => match moves::moves_to_cold_keys(server, rounds) {
            Ok(0) => None,
            Ok(stolen) => Some(format!("{stolen} elements went to others while their destination was read")),
            Err(breach) => Some(breach),
        },
        0 => (moves::served_together(server, rounds) > 0).then(|| "a client was answered before the rest was served".to_owned()),
        1 => (moves::reads_and_moves(server, rounds) > 0).then(|| "others came between a transaction and its move".to_owned()),
        _ => {
            moves::move_in_circles(server, seed, rounds);
            None
        }
    };
    Box::new(move || breach.map_or(Ok(rounds), Err))
}
