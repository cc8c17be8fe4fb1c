//! The proofs again, with 16 MB of memory above a storage device and all keys cold: golden sessions, the oracle, histories.
//!
//! The fast set runs each proof in some of the modes of `storage::MODES`; the full one (`ALMANDINE_TEST_FULL=1`) runs all in all.
//! `ALMANDINE_STORAGE_MODE` names one mode instead, which may also be `storage::OBJECTS`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use almandine_testkit::golden::{Manner, Outcome, run_file_with};
use almandine_testkit::history::faults::{final_read, with_faults, without_refused};
use almandine_testkit::history::mock::{self, Bug};
use almandine_testkit::history::{self, History, check, record};
use almandine_testkit::oracle;
use almandine_testkit::oracle::streams::STREAMS;
use almandine_testkit::oracle::table::{HASHES, Line, SETS, TABLE};
use almandine_testkit::storage::{FAULTY, Figures, MODES, Mode, OBJECTS};
use almandine_testkit::{Program, Server, full, seed};

/// Sessions that show something else than replies about keys, or that cannot hold beside a device, each with its reason.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("bitfield.golden", "errors", "it makes a value larger than the memory, so what follows is refused"),
    ("config.golden", "a parameter of ours that only a restart changes may be set to what it is", "io-backend is another"),
    ("config.golden", "GET", "maxmemory is another"),
    ("config.golden", "GET in RESP3 is a map", "maxmemory is another"),
    ("debug.golden", "DEBUG is off unless enabled", "it is enabled, to make keys cold"),
    ("commandlog.golden", "the slow log by its newer name", "it shows the command that makes keys cold"),
    ("slowlog.golden", "with a threshold of zero everything is logged", "it shows the command that makes keys cold"),
    ("slowlog.golden", "long arguments are cut", "it shows the command that makes keys cold"),
    ("slowlog.golden", "without room nothing is counted", "it shows the command that makes keys cold"),
    (
        "slowlog.golden",
        "as many words as slowlog-max-argc allows, and how many there were",
        "it shows the command that makes keys cold",
    ),
    ("object.golden", "RESTORE says how often a key was used", "with a device uses are counted for the read cache only"),
    ("object.golden", "RESTORE says how long a key has been idle", "as below"),
    ("object.golden", "IDLETIME, REFCOUNT, FREQ", "the age of a key that comes back from the device is an estimate"),
];

fn wanted(file: &str, session: &str) -> bool {
    !LEFT_OUT
        .iter()
        .any(|(left_file, left_session, _)| file.ends_with(left_file) && (left_session.is_empty() || session == *left_session))
}

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let filter = std::env::var("ALMANDINE_GOLDEN").unwrap_or_default();
    let families = fs::read_dir(&root).expect("tests/golden").flatten();
    let mut files: Vec<PathBuf> =
        families.flat_map(|family| fs::read_dir(family.path()).expect("a family").flatten()).map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "golden") && file.to_string_lossy().contains(&filter));
    files.sort();
    files
}

fn golden(mode: &Mode) {
    let server = mode.start();
    let mut outcome = Outcome::default();
    files().iter().for_each(|file| run_file_with(file, &server, Manner::Cold, &wanted, &mut outcome));
    let figures = Figures::of(&server);
    let (reads, evicted) = (figures.get("storage_reads"), figures.get("storage_pages_evicted"));
    println!(
        "golden on {}: {} sessions, {} replies compared, {} sessions left out, {reads} reads, {evicted} pages evicted, {} failed",
        mode.name,
        outcome.sessions,
        outcome.replies,
        outcome.left_out,
        outcome.failures.len()
    );
    assert!(outcome.failures.is_empty(), "on {}:\n{}", mode.name, outcome.failures.join("\n\n"));
    assert!(std::env::var_os("ALMANDINE_GOLDEN").is_some() || reads > 300, "the sessions met no cold keys: {figures:?}");
}

/// The modes of a run: the one that was named, all, or these.
fn modes(fast: &'static [&'static str]) -> impl Iterator<Item = &'static Mode> {
    let named = std::env::var("ALMANDINE_STORAGE_MODE").ok();
    let wanted = move |mode: &&Mode| match &named {
        Some(name) => mode.name == name,
        None => full() && mode.name != OBJECTS.name || fast.contains(&mode.name),
    };
    MODES.iter().chain([&OBJECTS]).filter(wanted)
}

#[test]
fn golden_sessions_hold_with_cold_keys() {
    for mode in modes(&["files", "memory"]) {
        golden(mode);
    }
}

#[test]
fn random_commands_on_cold_keys_are_answered_as_redis_does() {
    compare(TABLE, if full() { 60 } else { 12 });
}

#[test]
fn large_hashes_that_are_cold_are_what_they_are_in_redis() {
    compare(HASHES, if full() { 30 } else { 4 });
}

#[test]
fn large_sets_that_are_cold_are_what_they_are_in_redis() {
    compare(SETS, if full() { 30 } else { 4 });
}

#[test]
fn streams_that_are_cold_are_what_they_are_in_redis() {
    compare(STREAMS, if full() { 30 } else { 4 });
}

fn compare(table: &'static [Line], episodes: u64) {
    for mode in modes(&["files", "files, copies to the tail", "three directories"]) {
        let (ours, redis) = (mode.start(), Server::start(&Program::Redis, &[]));
        // Redis 7.0 has no listpacks of sets, and other names for encodings of lists.
        let as_7_0 = ["CONFIG", "SET", "set-max-listpack-entries", "0", "object-encoding-names", "7.0"];
        assert!(ours.client().call(&as_7_0).is_ok_and(|reply| !reply.is_error()), "the server does not know the parameters");
        // CONFIG GET maxmemory is not the same here.
        let settings = oracle::Settings { table, seed: seed(), episodes, commands: 2000, cold_percent: 30 };
        let report = oracle::run(&ours, &redis, settings, &|name| name != "CONFIG")
            .unwrap_or_else(|e| panic!("{}: {e}\nour log:\n{}", mode.name, ours.log()));
        let figures = Figures::of(&ours);
        println!(
            "oracle on {}: {} commands ({} errors), {} replies of final keyspaces, cold {} times, {} reads, {} pages collected",
            mode.name,
            report.commands,
            report.errors,
            report.keyspace,
            report.cold,
            figures.get("storage_reads"),
            figures.get("storage_pages_compacted")
        );
        if let Some(difference) = report.difference {
            panic!("on {}: {difference}\nour log:\n{}", mode.name, ours.log());
        }
        assert!(figures.get("storage_reads") > report.commands as u64 / 50, "the commands met no cold keys: {figures:?}");
    }
}

fn settings(groups: usize, pipeline: usize, millis: u64) -> history::Settings {
    history::Settings { clients: 6, groups, pipeline, duration: Duration::from_millis(millis), scripts: true, seed: seed() }
}

/// Records with faults; what its device refused has changed nothing, and what is left at the end is what was written.
fn run_with_faults(address: std::net::SocketAddr, settings: history::Settings) -> Result<(usize, usize, usize), String> {
    let (recorded, cold) = with_faults(address, || record(address, settings));
    let mut histories: Vec<History> = recorded.map_err(|e| e.to_string())?;
    for history in &mut histories {
        let last = final_read(&address, &history.keys, settings.clients);
        history.entries.extend(last.ok_or_else(|| format!("{:?} cannot be read any more", history.keys))?);
    }
    let refused = without_refused(&mut histories);
    let unanswered = histories.iter().flat_map(|history| &history.entries).filter(|entry| entry.reply.is_none()).count();
    let checked = histories.iter().map(check).sum::<Result<usize, String>>()?;
    if unanswered == 0 { Ok((checked, refused, cold)) } else { Err(format!("{unanswered} operations were not answered")) }
}

#[test]
fn histories_are_linearizable_while_keys_leave_memory() {
    let millis = if full() { 15_000 } else { 4_000 };
    for mode in modes(&["files", "files, copies to the tail"]) {
        for (name, settings) in [("contended", settings(1, 1, millis)), ("pipelined", settings(8, 6, millis))] {
            let server = mode.start();
            let (mut checked, mut cold) = (0, 0);
            // A machine that is busy with something else does less in a round.
            for _ in 0..10 {
                let (more, _, times) = run_with_faults(server.address(), settings)
                    .unwrap_or_else(|e| panic!("{name} on {}: {e}\nserver log:\n{}", mode.name, server.log()));
                (checked, cold) = (checked + more, cold + times);
                if checked > 300 && cold > 10 && Figures::of(&server).get("storage_pages_compacted") > 0 {
                    break;
                }
            }
            let figures = Figures::of(&server);
            let count = |name: &str| figures.get(name);
            println!(
                "histories {name} on {}: {checked} operations, cold {cold} times, {} reads, {} pages collected, {} copies, {} \
                 buckets split, {} merged",
                mode.name,
                count("storage_reads"),
                count("storage_pages_compacted"),
                count("storage_cached_records"),
                count("storage_index_buckets_split"),
                count("storage_index_buckets_merged")
            );
            assert!(count("storage_index_buckets_split") > 0, "the index did not grow: {figures:?}");
            assert!(checked > 300 && cold > 10, "only {checked} operations, cold {cold} times");
            assert!(
                count("storage_reads") > 50 && count("storage_pages_compacted") > 0,
                "nothing was cold or collected: {figures:?}"
            );
        }
    }
}

#[test]
fn a_faulty_device_gives_errors_and_never_a_wrong_answer() {
    let millis = if full() { 20_000 } else { 5_000 };
    for (name, settings) in [("contended", settings(1, 1, millis)), ("pipelined", settings(8, 6, millis))] {
        let server = FAULTY.start();
        let (checked, refused, cold) =
            run_with_faults(server.address(), settings).unwrap_or_else(|e| panic!("{name}: {e}\nserver log:\n{}", server.log()));
        let figures = Figures::of(&server);
        let count = |name: &str| figures.get(name);
        println!(
            "histories {name} on a faulty device: {checked} operations, {refused} refused, cold {cold} times, {} reads, {} \
             failed, {} corrupt blocks, {} writes failed",
            count("storage_reads"),
            count("storage_read_errors"),
            count("storage_corrupt_blocks"),
            count("storage_write_errors")
        );
        assert!(checked > 300, "only {checked} operations");
        assert!(
            count("storage_read_errors") + count("storage_corrupt_blocks") + count("storage_write_errors") > 0,
            "no fault: {figures:?}"
        );
    }
}

/// The mock runs no scripts.
fn plain(millis: u64) -> history::Settings {
    history::Settings { scripts: false, ..settings(2, 1, millis) }
}

/// The controls: each bug of a device's kind is found.
#[test]
fn every_mutant_is_caught() {
    for bug in [Bug::StaleWhenCold, Bug::LostWhenCold, Bug::ErrorThatWrote] {
        let found = run_with_faults(mock::start(bug), plain(1000));
        assert!(found.as_ref().is_err_and(|e| e.contains("no order")), "{bug:?} was not caught: {found:?}");
    }
    run_with_faults(mock::start(Bug::None), plain(500)).expect("the right mock is right");
}

/// The other control: without a device nothing can be made cold, and the proofs above fail instead of passing for nothing.
#[test]
#[should_panic(expected = "There is no storage device")]
fn without_a_device_nothing_is_cold() {
    Server::start(&Program::Almandine, &["--enable-debug-command", "yes"]).make_cold();
}
