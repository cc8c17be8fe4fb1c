//! Transactions and commands of several keys among others, from many clients at once: every answer must be explained by one
//! order of whole units. `ALMANDINE_GOLDEN_SERVER=redis` shows that the test is fair. `ALMANDINE_TEST_FULL=1` runs ten times as
//! long.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use almandine_testkit::history::faults::{with_faults, with_resizing};
use almandine_testkit::history::units::{Entry, Features, History, Kind, Settings, Unit, check, is_refused, record};
use almandine_testkit::{Program, Server, Value, full, mutants, seed};

/// One at a time: each takes the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

fn program() -> Program {
    let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|server| server == "redis");
    if redis { Program::Redis } else { Program::Almandine }
}

fn settings(server: &Server, millis: u64, expiry: bool) -> Settings {
    let hashes = server.client().line("HGET no hash").is_null();
    let millis = if full() { millis * 10 } else { millis };
    Settings {
        clients: 6,
        groups: 3,
        duration: Duration::from_millis(millis),
        features: Features { hashes, expiry, collections: None },
        seed: seed(),
    }
}

/// Whether EXEC answered what it does when a watched key has changed.
fn is_aborted(entry: &Entry) -> bool {
    matches!(entry.unit, Unit::Exec(_) | Unit::Mixed(..)) && entry.reply == Some(Value::NullArray)
}

/// How much histories held.
#[derive(Clone, Copy, Default)]
struct Held {
    units: usize,
    aborted: usize,
}

fn checked(name: &str, histories: &[History]) -> Result<Held, String> {
    let started = Instant::now();
    let units: usize = histories.iter().map(check).sum::<Result<usize, String>>()?;
    let entries = || histories.iter().flat_map(|history| &history.entries);
    let unanswered = entries().filter(|entry| entry.reply.is_none()).count();
    let aborted = entries().filter(|entry| is_aborted(entry)).count();
    let refused = entries().filter(|entry| is_refused(entry)).count();
    println!(
        "units {name}: {units} units, {aborted} of them aborted, {refused} refused, {unanswered} unanswered, checked in {:.1?}",
        started.elapsed()
    );
    if unanswered == 0 { Ok(Held { units, aborted }) } else { Err(format!("{unanswered} units were not answered")) }
}

/// Checks histories until enough has happened in them, which takes a machine that is busy with something else more than one.
fn holds(name: &str, server: &Server, record: impl Fn() -> Vec<History>) {
    holds_cold(name, server, 0, || (record(), 0));
}

/// As [`holds`], and until memory was emptied so often; `record` says how often it was.
fn holds_cold(name: &str, server: &Server, emptied_min: usize, record: impl Fn() -> (Vec<History>, usize)) {
    let (mut all, mut emptied) = (Held::default(), 0);
    for _ in 0..10 {
        let (histories, times) = record();
        let held = checked(name, &histories).unwrap_or_else(|e| panic!("{name}: {e}\nserver log:\n{}", server.log()));
        all = Held { units: all.units + held.units, aborted: all.aborted + held.aborted };
        emptied += times;
        if all.units > 1000 && all.aborted > 20 && emptied >= emptied_min {
            return;
        }
    }
    panic!("{name}: only {} units, {} aborted, memory was emptied {emptied} times", all.units, all.aborted);
}

fn alone() -> impl Drop {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn workers() -> &'static [&'static str] {
    if program() == Program::Redis { &[] } else { &["--workers", "4"] }
}

#[test]
fn units_are_serializable_in_memory() {
    let _alone = alone();
    let server = Server::start(&program(), workers());
    holds("in memory", &server, || record(server.address(), settings(&server, 1000, false)).expect("a history"));
}

#[test]
fn units_are_serializable_while_keys_expire() {
    let _alone = alone();
    let server = Server::start(&program(), workers());
    holds("expiring", &server, || record(server.address(), settings(&server, 1000, true)).expect("a history"));
}

#[test]
fn units_are_serializable_while_the_index_resizes() {
    let _alone = alone();
    let server = Server::start(&program(), workers());
    let settings = settings(&server, 1000, false);
    holds("resizing", &server, || with_resizing(server.address(), || record(server.address(), settings)).expect("a history"));
}

/// Sets, lists, sorted sets and streams, one after the other. Redis does not count a change of a group as one of its key, which
/// the model does.
fn of_collections(settings: Settings) -> impl Iterator<Item = Settings> {
    let of = move |kind| Settings { features: Features { collections: Some(kind), ..settings.features }, ..settings };
    Kind::ALL.into_iter().filter(|kind| *kind != Kind::Stream || program() == Program::Almandine).map(of)
}

#[test]
fn units_on_collections_are_serializable_in_memory() {
    let _alone = alone();
    let server = Server::start(&program(), workers());
    for settings in of_collections(settings(&server, 800, true)) {
        let name = format!("{:?}", settings.features.collections);
        holds(&name, &server, || record(server.address(), settings).expect("a history"));
    }
}

#[test]
fn units_on_collections_are_serializable_on_cold_keys() {
    let _alone = alone();
    let flags = [&DEBUG[..], &["--workers", "4", "--maxmemory", "16mb", "--storage-dir", "{dir}/s"]].concat();
    let server = Server::start(&Program::Almandine, &flags);
    for settings in of_collections(settings(&server, 1500, true)) {
        let name = format!("cold {:?}", settings.features.collections);
        holds_cold(&name, &server, 4, || {
            let (histories, emptied) = with_faults(server.address(), || record(server.address(), settings));
            (histories.expect("a history"), emptied)
        });
    }
}

#[test]
fn units_are_serializable_on_cold_keys() {
    let _alone = alone();
    let flags = [&DEBUG[..], &["--workers", "4", "--maxmemory", "16mb", "--storage-dir", "{dir}/s"]].concat();
    let server = Server::start(&Program::Almandine, &flags);
    let settings = settings(&server, 2000, true);
    holds_cold("cold", &server, 6, || {
        let recorded = catch_unwind(AssertUnwindSafe(|| with_faults(server.address(), || record(server.address(), settings))));
        let (histories, emptied) =
            recorded.unwrap_or_else(|_| panic!("a fault's client was not answered; server log:\n{}", server.log()));
        let histories = histories.expect("a history");
        let refused = histories.iter().flat_map(|history| &history.entries).filter(|entry| is_refused(entry)).count();
        assert_eq!(refused, 0, "writers wait for a working device, they are not refused");
        (histories, emptied)
    });
}

/// Each step that a mutant leaves out is missed.
#[test]
fn every_missing_step_is_noticed() {
    let _alone = alone();
    let faults = [
        ("WatchUnderLatch", None),
        ("PlanKeys", None),
        ("KeepOthersOut", None),
        ("PlanKeys", Some(Kind::Set)),
        ("PlanKeys", Some(Kind::List)),
    ];
    for (fault, collections) in faults {
        let noticed = (0..20).find_map(|round| {
            let server = mutants::start(fault, &["--workers", "4"]);
            let mut contended = Settings { groups: 1, seed: seed() + round, ..settings(&server, 700, false) };
            contended.features.collections = collections;
            match record(server.address(), contended) {
                Ok(histories) => checked(fault, &histories).err(),
                // An assertion has noticed it.
                Err(error) => Some(format!("the server has stopped: {error}")),
            }
        });
        println!("units, {fault}: {}", noticed.as_deref().and_then(|report| report.lines().next()).unwrap_or("not noticed"));
        assert!(noticed.is_some(), "{fault} was not noticed");
    }
}
