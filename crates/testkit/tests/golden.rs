//! Runs the golden sessions of `tests/golden` against our server. `ALMANDINE_GOLDEN=part-of-a-path` runs some of them;
//! `ALMANDINE_GOLDEN_SERVER=redis` runs them against redis-server; `ALMANDINE_BLESS=1` rewrites them from redis-server.

use std::fs;
use std::path::{Path, PathBuf};

use almandine_testkit::golden::{Outcome, bless_file, run_file};
use almandine_testkit::{Program, Server};

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let filter = std::env::var("ALMANDINE_GOLDEN").unwrap_or_default();
    let mut files: Vec<PathBuf> = Vec::new();
    for family in fs::read_dir(&root).expect("tests/golden").flatten() {
        files.extend(fs::read_dir(family.path()).expect("a family").flatten().map(|f| f.path()));
    }
    files.retain(|f| f.extension().is_some_and(|e| e == "golden") && f.to_string_lossy().contains(&filter));
    files.sort();
    assert!(!files.is_empty(), "no golden files match {filter:?}");
    files
}

fn run(program: &Program) {
    let server = Server::start(program, &[]);
    let mut outcome = Outcome::default();
    let files = files();
    for file in &files {
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
    run(&if redis { Program::Redis } else { Program::Almandine });
}

/// The texts are redis-server's, not ours: what is not marked `@only almandine` must hold there too.
#[test]
fn redis_answers_as_the_golden_sessions_say() {
    run(&Program::Redis);
}
