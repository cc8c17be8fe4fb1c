//! `cargo xtask test`: every check there is, with a summary and a closing line of counts.
//!
//! First what looks at the sources, and all builds, one after another; then what they have built, as jobs beside each other
//! ([`beside`]). A failed step does not stop the others, except that nothing runs that was not built. A test with a server that
//! failed is tried again when all has ended, and is told as unsteady when it passes then ([`summary`] says how many may be). The
//! proofs run against a build with debug assertions, so that the invariants are checked under load; the full run repeats them with
//! the release build, which is what users get.

mod beside;
mod binaries;
mod output;
mod step;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use self::beside::{Job, Kind};
use self::binaries::Binary;
use self::step::{Ended, Step, cargo, execute, execute_beside, execute_twice, program};
use self::summary::summary;

use crate::root::target;
use crate::{clients, prerequisites, redis_suite, tidy};

/// What has tests under loom.
#[rustfmt::skip]
const LOOM: &[&str] = &[
    "--profile", "fast", "--package", "almandine-io", "--package", "almandine-epoch", "--package", "almandine-store",
    "--lib", "--test", "loom",
];

/// Crates whose docs have examples that run. Of the others, cargo would have each read for nothing.
const WITH_EXAMPLES: &[&str] = &["--package", "almandine-epoch", "--package", "almandine-store"];

/// The simulation of `io`, and what runs in it.
#[rustfmt::skip]
const SIM: &[&str] = &[
    "--package", "almandine-io", "--package", "almandine-net", "--package", "almandine-oplog", "--package", "almandine-sim",
    "--features", "almandine-io/sim,almandine-net/sim,almandine-oplog/sim,almandine-sim/sim",
];

/// What is built anew for mutants: the crates that have steps and those above them, once for the server and a proof of `session`.
const MUTANTS: &[&str] =
    &["--package", "almandine-server", "--package", "almandine-session", "--features", "almandine-server/mutants"];

/// Mutants in the engine. The feature of `io` is what the server has, so that nothing below is built anew.
#[rustfmt::skip]
const ENGINE: &[&str] = &[
    "--package", "almandine-oplog", "--package", "almandine-store", "--lib", "--test", "kept", "--test", "log",
    "--features", "almandine-oplog/mutants,almandine-store/mutants,almandine-io/mimalloc",
];

/// Runs everything; true when all passed.
pub(crate) fn run(full: bool) -> bool {
    let root = crate::root::root();
    let started = Instant::now();
    let mut ended = Vec::new();
    // What is fetched is not needed before programs run.
    let python = thread::scope(|scope| {
        let fetching = scope.spawn(|| {
            let mut ended = Vec::new();
            let python = timed(&mut ended, "prerequisites", || prerequisites::install(&root).map_err(|e| eprintln!("{e}")).ok());
            (python, ended)
        });
        sources(&root, &mut ended);
        let (python, fetched) = fetching.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        ended.extend(fetched);
        python
    });

    let mut run = Run { root: &root, full, python, ended, jobs: Vec::new() };
    run.units();
    run.simulation();
    run.loom();
    run.mutants();
    run.proofs("debug", "dev");
    run.others();
    run.jobs();
    if full {
        object_storage(&root, &mut run.ended);
        run.proofs("release", "release");
        run.jobs();
    }
    summary(run.ended, started.elapsed())
}

/// What looks at the sources alone.
fn sources(root: &Path, ended: &mut Vec<Ended>) {
    ended.push(execute(root, &cargo("format", &["fmt", "--all", "--check"])));
    timed(ended, "tidy", || tidy::run().then_some(()));
    ended.push(execute(root, &cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])));
    let simulation = [&["clippy", "--all-targets"][..], SIM, &["--", "-D", "warnings"]].concat();
    ended.push(execute(root, &cargo("clippy simulation", &simulation)));
    // They are no part of the workspace, and nothing else would say that they are out of date.
    let mut fuzz = cargo("fuzz targets", &["check", "--manifest-path", "fuzz/Cargo.toml", "--bins", "--locked"]);
    // Crates of others are checked as above.
    fuzz.environment.push(("CARGO_TARGET_DIR", target(root).display().to_string()));
    ended.push(execute(root, &fuzz));
}

/// What there is to run, and what has been.
struct Run<'a> {
    root: &'a Path,
    full: bool,
    python: Option<PathBuf>,
    ended: Vec<Ended>,
    jobs: Vec<Job<'a>>,
}

impl<'a> Run<'a> {
    /// Runs the jobs that there are.
    fn jobs(&mut self) {
        let jobs = std::mem::take(&mut self.jobs);
        self.ended.extend(beside::run(jobs));
    }

    /// Builds test programs.
    fn build(&mut self, name: &str, selection: &[&str]) -> Vec<Binary> {
        let (ended, binaries) = binaries::build(self.root, name, selection, &[]);
        self.ended.push(ended);
        binaries
    }

    /// Runs a test program as a part of a step.
    fn job(&mut self, name: &str, binary: &Binary, arguments: &[&str], environment: &[(&'static str, String)]) {
        let (root, mut step) = (self.root, binary.step(name, arguments));
        step.environment.extend_from_slice(environment);
        let work: Box<dyn FnOnce() -> Ended + Send + 'a> = if binaries::may_try_again(binary) {
            Box::new(move || execute_twice(root, step))
        } else {
            Box::new(move || execute_beside(root, &step))
        };
        self.jobs.push(Job { kind: binaries::kind(binary), work });
    }

    fn units(&mut self) {
        let workspace = ["--workspace", "--exclude", "almandine-testkit"];
        for binary in self.build("build unit", &workspace) {
            self.job("unit", &binary, &[], &[]);
        }
        self.ended.push(execute(self.root, &cargo("examples in docs", &[&["test", "--doc"][..], WITH_EXAMPLES].concat())));
    }

    fn simulation(&mut self) {
        for binary in self.build("build simulation", SIM) {
            self.job("simulation", &binary, &[], &[]);
        }
    }

    fn loom(&mut self) {
        let environment =
            [("RUSTFLAGS", "--cfg loom".to_owned()), ("CARGO_TARGET_DIR", target(self.root).join("loom").display().to_string())];
        let (ended, binaries) = binaries::build(self.root, "build loom", LOOM, &environment);
        self.ended.push(ended);
        for binary in binaries {
            let name = format!("loom {}", binary.package);
            let models: &[&str] = if binary.is_library { &["model"] } else { &[] };
            // The models' stacks are too small for a panic that prints its own, as those of the mutants would.
            self.job(&name, &binary, models, &[("RUST_BACKTRACE", "0".to_owned())]);
        }
    }

    fn mutants(&mut self) {
        let server = [&["build"][..], MUTANTS, &["--bin", "almandine-mutants"]].concat();
        self.ended.push(execute(self.root, &cargo("build mutants", &server)));
        let effects = [MUTANTS, &["--test", "effects"]].concat();
        for (name, selection) in [("effects mutants", &effects[..]), ("engine mutants", ENGINE)] {
            for binary in self.build(&format!("build {name}"), selection) {
                self.job(name, &binary, &["mutants"], &[]);
            }
        }
    }

    /// Builds the server in one profile, and has the proofs and the soak run against it.
    fn proofs(&mut self, directory: &str, profile: &str) {
        let packages = ["build", "--package", "almandine-server", "--package", "almandine-lab", "--profile", profile];
        let build = execute(self.root, &cargo(&format!("build {profile}"), &packages));
        let built = build.failed == 0;
        self.ended.push(build);
        if !built {
            return;
        }
        let built = target(self.root).join(directory);
        let mut environment = vec![
            ("ALMANDINE_SERVER", built.join("almandine-server").display().to_string()),
            ("ALMANDINE_TEST_FULL", u8::from(self.full).to_string()),
        ];
        environment.extend(self.python.as_ref().map(|python| ("ALMANDINE_PYTHON", python.display().to_string())));
        let soak = soak(self.root, &built, profile, self.full && profile == "release");
        let root = self.root;
        self.jobs.push(Job { kind: Kind::Waiting, work: Box::new(move || execute_beside(root, &soak)) });
        for proof in self.build(&format!("build proofs {profile}"), &["--package", "almandine-testkit"]) {
            let name = format!("{} {profile}", proof.target);
            if proof.is_library {
                // The tests of the kit itself know no server.
                if profile == "dev" {
                    self.job("testkit", &proof, &[], &[]);
                }
            } else if let Some(reason) = reason_against_power_cuts().filter(|_| proof.target == "power") {
                println!("\n=== {name}: left out. {reason}");
                let left_out = vec![format!("Power cuts on real file systems: {reason}")];
                self.ended.push(Ended { skipped: 1, left_out, ..Ended::new(&name, Duration::ZERO) });
            } else {
                self.job(&name, &proof, &["--nocapture"], &environment);
            }
        }
    }

    /// Redis' own tests, and other people's clients.
    fn others(&mut self) {
        let (root, full) = (self.root, self.full);
        match redis_suite::fetch() {
            Err(e) if !full => {
                println!("\n=== redis suite: left out. {e}");
                let left_out = vec![format!("Redis' own tests cannot be fetched: {e}")];
                self.ended.push(Ended { skipped: 1, left_out, ..Ended::new("redis suite", Duration::ZERO) });
            }
            _ => {
                for (name, mode) in [("redis suite, files", "--own-server"), ("redis suite", "--tolerant")] {
                    let files: &[&str] = if full { &[] } else { &["--fast-part"] };
                    self.jobs.push(Job { kind: Kind::Waiting, work: Box::new(move || suite(name, mode, files)) });
                }
            }
        }
        self.jobs.push(Job { kind: Kind::Waiting, work: Box::new(move || clients(root, full, &[])) });
    }
}

/// Redis' own tests in one of their modes. Files in which something failed may be tried again.
fn suite(name: &'static str, mode: &'static str, files: &[&str]) -> Ended {
    let started = Instant::now();
    let told = redis_suite::tell(&[&[mode], files].concat());
    let (passed, failed, skipped) = (told.passed, told.problems.len(), told.skipped);
    let mut ended = Ended { passed, failed, skipped, problems: told.problems, ..Ended::new(name, started.elapsed()) };
    if !told.failing.is_empty() {
        let files = told.failing;
        ended.again = Some(Box::new(move || suite(name, mode, &files.iter().map(String::as_str).collect::<Vec<_>>())));
    }
    ended
}

/// Other people's clients: all of a run, or those with these names. Those that failed may be tried again.
fn clients(root: &Path, full: bool, names: &[&'static str]) -> Ended {
    let started = Instant::now();
    let told = clients::run_for_tests(root, full, names);
    let (passed, failed, skipped) = (told.passed, told.failed, told.left_out.len());
    let may_try_again = told.broken.is_none() && !told.failing.is_empty();
    let problems = told.failing.iter().map(|(name, count)| format!("{name}: {count} failed")).chain(told.broken).collect();
    let mut ended =
        Ended { passed, failed, skipped, problems, left_out: told.left_out, ..Ended::new("clients", started.elapsed()) };
    if may_try_again {
        let (root, names): (_, Vec<_>) = (root.to_owned(), told.failing.iter().map(|(name, _)| *name).collect());
        ended.again = Some(Box::new(move || clients(&root, full, &names)));
    }
    ended
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
        &cargo("clippy objects", &[&["clippy", "--all-targets"][..], &crates, &["--", "-D", "warnings"]].concat()),
    ));
    ended.push(execute(root, &cargo("object storage", &[&["test"][..], &crates].concat())));
    let fetch = ["test", "--package", "almandine-check", "--features", "almandine-check/object-store", "--test", "fetch"];
    ended.push(execute(root, &cargo("an archive that is fetched", &fetch)));
    let mut proof =
        cargo("storage on objects", &["test", "--package", "almandine-testkit", "--test", "storage", "--", "--nocapture"]);
    proof.environment.push(("ALMANDINE_SERVER", target(root).join("debug").join("almandine-server").display().to_string()));
    proof.environment.push(("ALMANDINE_STORAGE_MODE", "directory above objects".to_owned()));
    proof.environment.push(("ALMANDINE_TEST_FULL", "1".to_owned()));
    ended.push(execute(root, &proof));
}

/// Churn beyond memory with every reply checked: three minutes, or the whole hour.
fn soak(root: &Path, built: &Path, profile: &str, whole: bool) -> Step {
    let server = built.join("almandine-server").display().to_string();
    let storage = target(root).display().to_string();
    let place = ["soak", "--quiet", "--server-binary", &server, "--storage-dir", &storage];
    let size: &[&str] = if whole { &[] } else { &["--minutes", "3", "--maxmemory", "64mb", "--rate", "20000", "--settle", "30"] };
    program(&format!("soak {profile}"), &built.join("almandine-lab"), &[&place, size].concat())
}

fn timed<T>(ended: &mut Vec<Ended>, name: &str, work: impl FnOnce() -> Option<T>) -> Option<T> {
    println!("\n=== {name}");
    let started = Instant::now();
    let result = work();
    let failed = usize::from(result.is_none());
    ended.push(Ended { passed: 1 - failed, failed, ..Ended::new(name, started.elapsed()) });
    result
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whether a source has an example that rustdoc runs: a block of its docs that is not said to be something else.
    fn has_example(source: &str) -> bool {
        let mut is_within = false;
        let mut fences = source.lines().filter_map(|line| {
            let line = line.trim_start();
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim_start().strip_prefix("```")
        });
        fences.any(|language| {
            is_within = !is_within;
            is_within && !["text", "ignore"].contains(&language)
        })
    }

    #[test]
    fn examples_are_told_from_drawings() {
        assert!(has_example("/// Words.\n/// ```\n/// assert!(true);\n/// ```\nfn f() {}"));
        assert!(has_example("//! ```text\n//! a\n//! ```\n//! ```no_run\n//! b\n//! ```"));
        assert!(!has_example("    /// ```text\n    /// a\n    /// ```\n/// ```ignore\n/// b\n/// ```\nlet a = \"```\";"));
    }

    #[test]
    fn crates_whose_docs_have_examples_are_listed() {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(crate::root::root().join("crates")).unwrap() {
            let directory = entry.unwrap().path();
            if sources_of(&directory.join("src")).iter().any(|file| has_example(&fs::read_to_string(file).unwrap())) {
                found.insert(format!("almandine-{}", directory.file_name().unwrap().to_str().unwrap()));
            }
        }
        let listed = WITH_EXAMPLES.iter().filter(|word| !word.starts_with("--")).map(|name| (*name).to_owned()).collect();
        assert_eq!(found, listed);
    }

    fn sources_of(directory: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files.extend(sources_of(&path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
        files
    }
}
