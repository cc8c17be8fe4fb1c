//! `cargo xtask test`: every check there is, one after another, with a summary and a closing line of counts.
//!
//! A failed step does not stop the ones after it, except that nothing runs against a server that was not built. The proofs run
//! against a build with debug assertions, so that the invariants are checked under load; the full run repeats them with the
//! release build, which is what users get.

mod output;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::output::{Counts, Output, Stream};

use crate::root::target;
use crate::{clients, prerequisites, redis_suite, tidy};

/// A command of the run.
struct Step {
    name: String,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

/// How a step ended.
struct Ended {
    name: String,
    passed: usize,
    failed: usize,
    skipped: usize,
    took: Duration,
    /// What failed in it, and why where that is known: told once more at the very end.
    problems: Vec<String>,
    /// What of it could not be run on this machine, by name and with the reason: told at the very end.
    left_out: Vec<String>,
}

impl Ended {
    fn new(name: &str, took: Duration) -> Self {
        Self { name: name.to_owned(), passed: 0, failed: 0, skipped: 0, took, problems: Vec::new(), left_out: Vec::new() }
    }
}

/// Problems that a failed step may have at the end; the whole is above.
const PROBLEMS_MAX: usize = 12;
/// Lines that one problem may have, and characters that such a line may have.
const PROBLEM_LINES_MAX: usize = 32;
const PROBLEM_CHARS_MAX: usize = 300;

/// Proofs of the test kit, each a test binary: all that there are.
fn proof_names(root: &Path) -> Vec<String> {
    let files =
        fs::read_dir(root.join("crates/testkit/tests")).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<_> = sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort_unstable();
    names
}

/// Crates with tests under loom, and the arguments that select them.
const LOOM: &[(&str, &[&str])] =
    &[("almandine-io", &["--lib", "model"]), ("almandine-epoch", &["--test", "loom"]), ("almandine-store", &["--lib", "model"])];

/// The simulation of `io`, and what runs in it.
#[rustfmt::skip]
const SIM: &[&str] = &[
    "--package", "almandine-io", "--package", "almandine-net", "--package", "almandine-oplog", "--package", "almandine-sim",
    "--features", "almandine-io/sim,almandine-net/sim,almandine-oplog/sim,almandine-sim/sim",
];

/// What is built anew for mutants: the crates that have steps and those above them, once for the server and a proof of `session`.
const MUTANTS: &[&str] =
    &["--package", "almandine-server", "--package", "almandine-session", "--features", "almandine-server/mutants"];

/// Runs everything; true when all passed.
pub(crate) fn run(full: bool) -> bool {
    let root = crate::root::root();
    let started = Instant::now();
    let mut ended = Vec::new();
    let python = timed(&mut ended, "prerequisites", || match prerequisites::install(&root) {
        Ok(python) => Some(python),
        Err(e) => {
            eprintln!("{e}");
            None
        }
    });
    ended.push(execute(&root, &step("format", &["fmt", "--all", "--check"])));
    ended.push(execute(&root, &step("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])));
    // They are no part of the workspace, and nothing else would say that they are out of date.
    ended.push(execute(&root, &step("fuzz targets", &["check", "--manifest-path", "fuzz/Cargo.toml", "--bins", "--locked"])));
    timed(&mut ended, "tidy", || tidy::run().then_some(()));
    ended.push(execute(&root, &step("unit", &["test", "--workspace", "--exclude", "almandine-testkit", "--no-fail-fast"])));
    ended.push(execute(&root, &step("simulation", &[&["test", "--no-fail-fast"][..], SIM].concat())));
    ended.push(execute(
        &root,
        &step("clippy simulation", &[&["clippy", "--all-targets"][..], SIM, &["--", "-D", "warnings"]].concat()),
    ));
    for (package, selection) in LOOM {
        let mut loom = step(&format!("loom {package}"), &["test", "--profile", "fast", "--package", package]);
        loom.arguments.extend(selection.iter().map(|s| (*s).to_owned()));
        loom.arguments.extend(["--target-dir".to_owned(), target(&root).join("loom").display().to_string()]);
        loom.environment.push(("RUSTFLAGS", "--cfg loom".to_owned()));
        // The models' stacks are too small for a panic that prints its own, as those of the mutants would.
        loom.environment.push(("RUST_BACKTRACE", "0".to_owned()));
        ended.push(execute(&root, &loom));
    }
    ended.push(execute(&root, &step("testkit", &["test", "--package", "almandine-testkit", "--lib"])));
    ended.push(execute(&root, &step("build mutants", &[&["build"][..], MUTANTS, &["--bin", "almandine-mutants"]].concat())));
    let engine = ["--package", "almandine-oplog", "--package", "almandine-store", "--lib", "--test", "kept", "--test", "log"];
    let features = ["--features", "almandine-oplog/mutants,almandine-store/mutants", "mutants"];
    ended.push(execute(&root, &step("engine mutants", &[&["test"][..], &engine, &features].concat())));
    ended.push(execute(&root, &step("effects mutants", &[&["test"][..], MUTANTS, &["--test", "effects", "mutants"]].concat())));
    proofs(&root, "debug", "dev", full, python.as_deref(), &mut ended);
    let files: &[&str] = if full { &[] } else { &["--fast-part"] };
    match redis_suite::fetch() {
        Err(e) if !full => {
            println!("\n=== redis suite: left out. {e}");
            let left_out = vec![format!("Redis' own tests cannot be fetched: {e}")];
            ended.push(Ended { skipped: 1, left_out, ..Ended::new("redis suite", Duration::ZERO) });
        }
        _ => {
            for (name, mode) in [("redis suite", "--tolerant"), ("redis suite, files", "--own-server")] {
                let told = timed(&mut ended, name, || Some(redis_suite::tell(&[&[mode], files].concat())));
                if let (Some(told), Some(last)) = (told, ended.last_mut()) {
                    (last.passed, last.failed, last.skipped) = (told.passed, told.problems.len(), told.skipped);
                    last.problems = told.problems;
                }
            }
        }
    }
    let told = timed(&mut ended, "clients", || Some(clients::run_for_tests(&root, full)));
    if let (Some(told), Some(last)) = (told, ended.last_mut()) {
        (last.passed, last.failed, last.skipped) = (told.passed, told.failed, told.left_out.len());
        (last.problems, last.left_out) = (told.failing, told.left_out);
    }
    if full {
        object_storage(&root, &mut ended);
        proofs(&root, "release", "release", full, python.as_deref(), &mut ended);
    }
    summary(&ended, started.elapsed())
}

/// Builds the server in one profile and runs the proofs against it.
fn proofs(root: &Path, directory: &str, profile: &str, full: bool, python: Option<&Path>, ended: &mut Vec<Ended>) {
    let build =
        execute(root, &step(&format!("build {profile}"), &["build", "--package", "almandine-server", "--profile", profile]));
    let built = build.failed == 0;
    ended.push(build);
    if !built {
        return;
    }
    for proof in proof_names(root) {
        if let Some(reason) = reason_against_power_cuts().filter(|_| proof == "power") {
            println!("\n=== {proof} {profile}: left out. {reason}");
            let left_out = vec![format!("Power cuts on real file systems: {reason}")];
            ended.push(Ended { skipped: 1, left_out, ..Ended::new(&proof, Duration::ZERO) });
            continue;
        }
        let mut step =
            step(&format!("{proof} {profile}"), &["test", "--package", "almandine-testkit", "--test", &proof, "--", "--nocapture"]);
        step.environment.push(("ALMANDINE_SERVER", target(root).join(directory).join("almandine-server").display().to_string()));
        step.environment.push(("ALMANDINE_TEST_FULL", u8::from(full).to_string()));
        if let Some(python) = python {
            step.environment.push(("ALMANDINE_PYTHON", python.display().to_string()));
        }
        ended.push(execute(root, &step));
    }
    ended.push(execute(root, &soak(root, directory, profile, full && profile == "release")));
}

/// Why no image of a file system can be mounted here: containers may neither mount nor have loop devices.
fn reason_against_power_cuts() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root mounts file systems");
    }
    if !prerequisites::FILE_SYSTEMS.iter().all(|(program, _)| prerequisites::present(program)) {
        return Some("mkfs.ext4, mkfs.xfs, xfs_io or unshare is missing");
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.contains("\text4\n") || !known.contains("\txfs\n") {
        return Some("the kernel has not both ext4 and XFS");
    }
    let mut find = Command::new("unshare");
    find.args(["--mount", "losetup", "--find"]).stdout(Stdio::null()).stderr(Stdio::null());
    let can = find.status().is_ok_and(|status| status.success());
    (!can).then_some("there are no loop devices, or nothing may be mounted")
}

/// What the feature `object-store` brings: the device, the server above an S3 server, and the storage proofs above objects. From
/// here on the debug build has the feature.
fn object_storage(root: &Path, ended: &mut Vec<Ended>) {
    let crates = ["--package", "almandine-device", "--package", "almandine-server", "--features", "almandine-server/object-store"];
    ended.push(execute(
        root,
        &step("clippy objects", &[&["clippy", "--all-targets"][..], &crates, &["--", "-D", "warnings"]].concat()),
    ));
    ended.push(execute(root, &step("object storage", &[&["test"][..], &crates].concat())));
    let fetch = ["test", "--package", "almandine-check", "--features", "almandine-check/object-store", "--test", "fetch"];
    ended.push(execute(root, &step("an archive that is fetched", &fetch)));
    let mut proof =
        step("storage on objects", &["test", "--package", "almandine-testkit", "--test", "storage", "--", "--nocapture"]);
    proof.environment.push(("ALMANDINE_SERVER", target(root).join("debug").join("almandine-server").display().to_string()));
    proof.environment.push(("ALMANDINE_STORAGE_MODE", "directory above objects".to_owned()));
    proof.environment.push(("ALMANDINE_TEST_FULL", "1".to_owned()));
    ended.push(execute(root, &proof));
}

/// Churn beyond memory with every reply checked: three minutes, or the whole hour.
fn soak(root: &Path, directory: &str, profile: &str, whole: bool) -> Step {
    let target = target(root);
    let server = target.join(directory).join("almandine-server").display().to_string();
    let storage = target.display().to_string();
    let mut step =
        step(&format!("soak {profile}"), &["run", "--package", "almandine-lab", "--profile", profile, "--", "soak", "--quiet"]);
    let place = ["--server-binary", &server, "--storage-dir", &storage];
    let size: &[&str] = if whole { &[] } else { &["--minutes", "3", "--maxmemory", "64mb", "--rate", "20000", "--settle", "30"] };
    step.arguments.extend(place.iter().chain(size).map(|&argument| argument.to_owned()));
    step
}

fn step(name: &str, arguments: &[&str]) -> Step {
    Step { name: name.to_owned(), arguments: arguments.iter().map(|a| (*a).to_owned()).collect(), environment: Vec::new() }
}

fn timed<T>(ended: &mut Vec<Ended>, name: &str, work: impl FnOnce() -> Option<T>) -> Option<T> {
    println!("\n=== {name}");
    let started = Instant::now();
    let result = work();
    let failed = usize::from(result.is_none());
    ended.push(Ended { passed: 1 - failed, failed, ..Ended::new(name, started.elapsed()) });
    result
}

/// Runs a step, shows its output as it comes, and counts what it reports.
fn execute(root: &Path, step: &Step) -> Ended {
    println!("\n=== {}: cargo {}", step.name, step.arguments.join(" "));
    let started = Instant::now();
    let mut command = Command::new("cargo");
    command.args(&step.arguments).current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Cargo says RUSTFLAGS and the like to its children; a step decides for itself.
    command.env_remove("RUSTFLAGS");
    for (name, value) in &step.environment {
        command.env(name, value);
    }
    let output = Mutex::new(Output::default());
    let status = command.spawn().and_then(|mut child| {
        thread::scope(|scope| {
            if let Some(stderr) = child.stderr.take() {
                scope.spawn(|| output::read(stderr, Stream::Stderr, &output));
            }
            if let Some(stdout) = child.stdout.take() {
                output::read(stdout, Stream::Stdout, &output);
            }
        });
        child.wait()
    });
    let output = output.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut counts = output.counts;
    let ok = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    if let Err(e) = status {
        eprintln!("cargo: {e}");
    }
    // A step that counts nothing is one check; one that fails without a failed test failed to build.
    if !ok && counts.failed == 0 {
        counts.failed = 1;
    } else if ok && counts.passed == 0 {
        counts.passed = 1;
    }
    let Counts { passed, failed, ignored } = counts;
    Ended { passed, failed, skipped: ignored, problems: output.problems(), ..Ended::new(&step.name, started.elapsed()) }
}

fn summary(ended: &[Ended], took: Duration) -> bool {
    println!("\n{:<28} {:>7} {:>7} {:>7} {:>9}", "step", "passed", "failed", "skipped", "seconds");
    for e in ended {
        println!("{:<28} {:>7} {:>7} {:>7} {:>9.1}", e.name, e.passed, e.failed, e.skipped, e.took.as_secs_f64());
    }
    println!("in {:.0} s", took.as_secs_f64());
    print!("{}", told_again(ended));
    println!("{}", closing_line(ended));
    ended.iter().all(|e| e.failed == 0)
}

/// `N passed, N failed, N skipped`, alone on the last line: what other programs read.
fn closing_line(ended: &[Ended]) -> String {
    let sum = |count: fn(&Ended) -> usize| ended.iter().map(count).sum::<usize>();
    format!("{} passed, {} failed, {} skipped", sum(|e| e.passed), sum(|e| e.failed), sum(|e| e.skipped))
}

/// What could not be run and what failed, short: a log that was cut off at its beginning still has it.
fn told_again(ended: &[Ended]) -> String {
    let mut text: String = ended.iter().flat_map(|e| &e.left_out).map(|what| format!("LEFT OUT: {what}\n")).collect();
    for e in ended.iter().filter(|e| e.failed > 0) {
        text += &format!("FAILED: {}\n", e.name);
        for problem in e.problems.iter().take(PROBLEMS_MAX) {
            for line in problem.lines().filter(|line| !line.trim().is_empty()).take(PROBLEM_LINES_MAX) {
                let short: String = line.chars().take(PROBLEM_CHARS_MAX).collect();
                text += &format!("    {short}{}\n", if short.len() < line.len() { " …" } else { "" });
            }
        }
        if e.problems.len() > PROBLEMS_MAX {
            text += &format!("    and {} more\n", e.problems.len() - PROBLEMS_MAX);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_names_what_failed() {
        let mut problems = vec!["unit/a: failed: one\n    Expected '1'".to_owned(), "x".repeat(2 * PROBLEM_CHARS_MAX)];
        problems.extend((0..PROBLEMS_MAX).map(|n| n.to_string()));
        let ended = |name: &str, failed, problems| Ended { failed, problems, ..Ended::new(name, Duration::ZERO) };
        let told = told_again(&[ended("fine", 0, Vec::new()), ended("suite", 1, problems), ended("build", 1, Vec::new())]);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[..3], ["FAILED: suite", "    unit/a: failed: one", "        Expected '1'"]);
        assert!(lines[3].ends_with("x …") && lines[3].len() < PROBLEM_CHARS_MAX + 10);
        assert_eq!(lines[PROBLEMS_MAX + 1..], ["    9", "    and 2 more", "FAILED: build"]);
    }

    #[test]
    fn what_is_left_out_is_counted_and_named_at_the_end() {
        let left_out = vec!["clients: no Go".to_owned()];
        let steps = [
            Ended { passed: 2, ..Ended::new("unit", Duration::ZERO) },
            Ended { skipped: 1, left_out, ..Ended::new("clients", Duration::ZERO) },
        ];
        assert_eq!(told_again(&steps), "LEFT OUT: clients: no Go\n");
        assert_eq!(closing_line(&steps), "2 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn no_proof_is_left_out() {
        let names = proof_names(&crate::root::root());
        assert!(["acl_bypass", "golden", "whole"].iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
    }

    #[test]
    fn a_failed_step_fails_the_run() {
        let ended = |failed| Ended { passed: 1, failed, ..Ended::new("a", Duration::ZERO) };
        assert!(summary(&[ended(0)], Duration::ZERO));
        assert!(!summary(&[ended(0), ended(1)], Duration::ZERO));
    }

    #[test]
    fn a_command_that_fails_or_is_missing_counts_as_failed() {
        let root = crate::root::root();
        assert_eq!(execute(&root, &step("nonsense", &["no-such-command"])).failed, 1);
        assert_eq!(execute(&root, &step("version", &["--version"])).passed, 1);
    }
}
