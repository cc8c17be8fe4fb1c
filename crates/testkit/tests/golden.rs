//! Runs the golden sessions of `tests/golden` against our server. `ALMANDINE_GOLDEN=part-of-a-path` runs some of them;
//! `ALMANDINE_GOLDEN_SERVER=redis` runs them against redis-server; `ALMANDINE_BLESS=1` rewrites them from redis-server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use almandine_testkit::golden::{Manner, Outcome, bless_file, run_file, run_file_with};
use almandine_testkit::{Program, Server};

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let filter = std::env::var("ALMANDINE_GOLDEN").unwrap_or_default();
    let mut files: Vec<PathBuf> = Vec::new();
    for family in fs::read_dir(&root).expect("a folder of families").flatten() {
        files.extend(fs::read_dir(family.path()).expect("a family").flatten().map(|f| f.path()));
    }
    files.retain(|f| f.extension().is_some_and(|e| e == "golden") && f.to_string_lossy().contains(&filter));
    files.sort();
    assert!(!files.is_empty() || !filter.is_empty(), "no golden files");
    files
}

fn run(program: &Program, files: &[PathBuf]) {
    let server = Server::start(program, &[]);
    let mut outcome = Outcome::default();
    for file in files {
        run_file(file, &server, &mut outcome);
    }
    println!(
        "golden: {} sessions in {} files, {} replies compared, {} sessions of the other server only, {} failed",
        outcome.sessions,
        files.len(),
        outcome.replies,
        outcome.other_server,
        outcome.failures.len()
    );
    assert!(outcome.failures.is_empty(), "{}", outcome.failures.join("\n\n"));
}

#[test]
fn our_server_answers_as_the_golden_sessions_say() {
    if std::env::var_os("ALMANDINE_BLESS").is_some() {
        let oracle = Server::start(&Program::Redis, &[]);
        for file in files() {
            let changed = bless_file(&file, &oracle).expect("bless");
            if changed > 0 {
                println!("blessed {changed} steps of {}", file.display());
            }
        }
        return;
    }
    let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|s| s == "redis");
    run(&if redis { Program::Redis } else { Program::Almandine }, &files());
}

/// The texts are redis-server's, not ours: what is not marked `@only almandine` must hold there too.
#[test]
fn redis_answers_as_the_golden_sessions_say() {
    run(&Program::Redis, &files());
}

/// Sessions that show another reply inside a transaction, there as here.
fn differ_in_transaction(program: &Program, manner: Manner) -> (BTreeSet<String>, usize) {
    let server = Server::start(program, &[]);
    let mut outcome = Outcome::default();
    files()
        .iter()
        .for_each(|file| run_file_with(file, &server, manner, &|file, _| !file.starts_with("transactions/"), &mut outcome));
    assert!(outcome.sessions > 200 || std::env::var_os("ALMANDINE_GOLDEN").is_some(), "{} sessions", outcome.sessions);
    let title = |report: &String| report.lines().next().unwrap_or_default().to_owned();
    if *program == Program::Almandine {
        outcome.failures.iter().for_each(|report| println!("{report}\n"));
    }
    (outcome.failures.iter().map(title).collect(), outcome.sessions)
}

/// Sessions whose commands answer something else inside a transaction, which redis-server does not have or shows otherwise,
/// each with its reason.
const OTHERWISE_IN_TRANSACTION: &[(&str, &str)] = &[
    (
        "blocking/stream.golden: who waits for several streams gets what one step has added to each, as by Redis 7.2",
        "a transaction of its own is in it",
    ),
    ("server/acl.golden: databases are refused", "a transaction of its own is in it"),
    ("server/acl.golden: the log", "the log says that it was in a transaction"),
    ("server/backup.golden: none is in progress", "a backup may not be begun or ended in a transaction"),
    ("server/commandlog.golden: the slow log by its newer name", "MULTI is logged, too"),
    ("server/debug.golden: STORAGE EVICT makes all keys cold", "the pages that other workers fill stay, while they are kept out"),
    ("server/persistence.golden: there is no log to be committed, or no such database", "COMMITAOF may not be in a transaction"),
    ("server/persistence.golden: in the background, until it is cancelled", "BGSAVE is scheduled in a transaction, as by Redis"),
    ("server/slowlog.golden: without room nothing is counted", "EXEC is logged, too"),
    ("server/slowlog.golden: as many words as slowlog-max-argc allows, and how many there were", "EXEC is logged, too"),
    ("hash/keys.golden: DEBUG knows hashes", "DEBUG RELOAD may not be in a transaction"),
    ("hash/keys.golden: payloads with the times of fields", "DEBUG RELOAD may not be in a transaction"),
    ("sorted_set/dump.golden: a payload of a skip list", "DEBUG RELOAD may not be in a transaction"),
    ("sorted_set/zexpire.golden: payloads keep the times of members", "DEBUG RELOAD may not be in a transaction"),
    ("stream/payload.golden: a debugger's reload", "DEBUG RELOAD may not be in a transaction"),
];

#[test]
fn each_command_answers_the_same_inside_a_transaction() {
    let (theirs, _) = differ_in_transaction(&Program::Redis, Manner::InTransaction);
    for manner in [Manner::InTransaction, Manner::Queued] {
        let (ours, sessions) = differ_in_transaction(&Program::Almandine, manner);
        println!("golden, {manner:?}: {sessions} sessions, {} differ, with redis-server {}", ours.len(), theirs.len());
        let known: BTreeSet<String> = OTHERWISE_IN_TRANSACTION.iter().map(|(session, _)| (*session).to_owned()).collect();
        let unexplained: Vec<_> = ours.iter().filter(|session| !theirs.contains(*session) && !known.contains(*session)).collect();
        assert!(unexplained.is_empty(), "{unexplained:#?}");
        let all = std::env::var_os("ALMANDINE_GOLDEN").is_none();
        assert!(!all || known.is_subset(&ours), "stale: {:?}", known.difference(&ours));
    }
}
