//! Test programs: cargo builds those of a package selection and says where they are; the run starts them itself.
//!
//! So each is a job of its own beside the others, where `cargo test` takes one after another. What cargo gives to a test program
//! is what this gives: the directory of its package.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::beside::Kind;
use super::step::{self, Ended, Step, cargo};

/// A test program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Binary {
    /// The directory of its crate in `crates`, and the name of what is tested: of a file in `tests`, or of the library.
    pub(super) package: String,
    pub(super) target: String,
    /// It has the tests within the library.
    pub(super) is_library: bool,
    program: PathBuf,
    directory: PathBuf,
}

impl Binary {
    /// What runs it, with arguments, as a part of the step `name`.
    pub(super) fn step(&self, name: &str, arguments: &[&str]) -> Step {
        let mut step = step::program(name, &self.program, arguments);
        step.part = format!("{} {} {}", self.package, self.target, arguments.join(" ")).trim_end().to_owned();
        step.directory = Some(self.directory.clone());
        step.environment.push(("CARGO_MANIFEST_DIR", self.directory.display().to_string()));
        step
    }
}

/// Builds the test programs of a selection of packages. None of them when that fails.
pub(super) fn build(root: &Path, name: &str, selection: &[&str], environment: &[(&'static str, String)]) -> (Ended, Vec<Binary>) {
    let mut build = cargo(name, &[&["test", "--no-run", "--message-format", "json-render-diagnostics"], selection].concat());
    build.environment.extend_from_slice(environment);
    let (mut ended, messages) = step::listen(root, &build);
    let binaries = if ended.failed == 0 { read(&messages) } else { Vec::new() };
    if ended.failed == 0 && binaries.is_empty() {
        ended.failed = 1;
        ended.problems.push("cargo names no test program".to_owned());
    }
    (ended, binaries)
}

/// The test programs that cargo's messages name.
fn read(messages: &[String]) -> Vec<Binary> {
    messages.iter().filter_map(|line| of_message(&serde_json::from_str(line).ok()?)).collect()
}

fn of_message(message: &Value) -> Option<Binary> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    Some(Binary {
        package: directory.file_name()?.to_str()?.to_owned(),
        target: message["target"]["name"].as_str()?.to_owned(),
        is_library: message["target"]["kind"].as_array()?.iter().any(|kind| kind == "lib"),
        program: PathBuf::from(message["executable"].as_str()?),
        directory,
    })
}

/// Programs that take long, by package and name.
const LONG: &[(&str, &str)] = &[
    ("sim", "proofs"),
    ("session", "effects"),
    ("server", "backup"),
    ("testkit", "golden"),
    ("testkit", "power"),
    ("testkit", "storage"),
    ("testkit", "acl"),
    ("store", "space"),
];

/// Programs that measure time, or hold something to it.
const TIMED: &[(&str, &str)] = &[("lab", "redis"), ("net", "suite"), ("server", "metrics")];

/// Crates whose tests start servers and wait for them, on processors that they share with other tests.
const WITH_SERVERS: &[&str] = &["bench", "check", "lab", "net", "server", "testkit"];

/// Programs of theirs that judge what was answered, whenever it was, or what outlived a crash: none may ever fail.
const PROOFS: &[(&str, &str)] = &[
    ("server", "crash"),
    ("testkit", "crash"),
    ("testkit", "effects"),
    ("testkit", "histories"),
    ("testkit", "log_replies"),
    ("testkit", "moment"),
    ("testkit", "moving_head"),
    ("testkit", "oracle"),
    ("testkit", "power"),
    ("testkit", "storage"),
    ("testkit", "transactions"),
    ("testkit", "units"),
    ("testkit", "whole"),
];

/// Whether a test of a program that failed may be tried again.
pub(super) fn may_try_again(binary: &Binary) -> bool {
    let is_proof = PROOFS.contains(&(binary.package.as_str(), binary.target.as_str()));
    WITH_SERVERS.contains(&binary.package.as_str()) && !binary.is_library && !is_proof
}

/// How a program runs beside others.
pub(super) fn kind(binary: &Binary) -> Kind {
    let is_in = |table: &[(&str, &str)]| table.contains(&(binary.package.as_str(), binary.target.as_str()));
    match (is_in(TIMED), is_in(LONG)) {
        (true, _) => Kind::Timed,
        (false, true) => Kind::Long,
        (false, false) => Kind::Short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_read_from_messages() {
        let message = |test: bool, kind: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/acl/Cargo.toml","target":{{"kind":["{kind}"],
                "name":"a"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let lines = [
            message(true, "lib", r#""/t/a-1""#),
            message(true, "test", r#""/t/a-2""#),
            // A library, a server that tests start, and what is no artifact.
            message(false, "lib", "null"),
            message(false, "bin", r#""/t/a""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "no JSON".to_owned(),
        ];
        let binaries = read(&lines);
        let told: Vec<_> = binaries.iter().map(|b| (b.package.as_str(), b.target.as_str(), b.is_library)).collect();
        assert_eq!(told, [("acl", "a", true), ("acl", "a", false)]);
        let step = binaries[1].step("unit", &["model"]);
        assert_eq!((step.program, step.directory), (PathBuf::from("/t/a-2"), Some(PathBuf::from("/r/crates/acl"))));
        assert_eq!(step.part, "acl a model");
    }

    #[test]
    fn what_is_listed_exists() {
        let root = crate::root::root();
        for (package, target) in LONG.iter().chain(TIMED).chain(PROOFS) {
            let tests = root.join("crates").join(package).join("tests");
            let files = [tests.join(target).with_extension("rs"), tests.join(target).join("main.rs")];
            assert!(files.iter().any(|file| file.is_file()), "{package} has no test {target}");
        }
    }
}
