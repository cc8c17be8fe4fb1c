//! `cargo xtask clients --own-suites [NAME …]`: test suites that libraries bring in their packages, as their authors run them.
//!
//! A suite is a row of [`table`]: its package, which comes from its registry by its language's own tool into
//! `target/clients/suites`, and the words of its runner. Many look for a server on a port of their own, so that must be free;
//! others start `redis-server`, and find ours by that name. What fails without being ours to mend is listed with the reason.

mod table;

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::environment::{Unready, build, contents_are, fetch, needs, note_contents};
use super::{Options, Told};
use crate::root::target;
use crate::server::Server;
use table::Source::{Cargo, Go, Python};
pub(super) use table::{SUITES, Suite};

/// Seconds that a suite may take.
const LIMIT_S: &str = "1200";

/// Stands in for what starts containers: the server is there.
const STAND_INS: &[(&str, &str)] = &[
    ("testcontainers/__init__.py", ""),
    ("testcontainers/redis.py", include_str!("../own/testcontainers_redis.py")),
    ("stands_in.py", include_str!("../own/stands_in.py")),
    ("testcontainers/Cargo.toml", "[package]\nname = \"testcontainers\"\nversion = \"0.28.0\"\nedition = \"2024\"\n[workspace]\n"),
    ("testcontainers/src/lib.rs", include_str!("../own/testcontainers.rs")),
];

/// Runs a suite against a server of its own.
pub(super) fn run(root: &Path, suite: &Suite, server: &Path, options: &Options<'_>) -> Result<Told, Unready> {
    let place = target(root).join("clients/suites").join(suite.name);
    fs::create_dir_all(&place).map_err(broken(&place))?;
    let command = prepare(suite, &place)?;
    let bin = place.join("bin");
    stand_in_for_redis(server, &bin)?;
    let directory = place.join(format!("server-{}", std::process::id()));
    let mut started = None;
    if suite.port != 0 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, suite.port)).is_ok() {
            return Err(Unready::Broken(format!("port {} is taken, which the suite needs", suite.port)));
        }
        let flags = ["--save", "", "--enable-debug-command", "yes"];
        started = Some(Server::start_at(server, &flags, &directory, suite.port).map_err(Unready::Broken)?);
    }
    // Commands that a package brings are called by their names.
    let installed = place.join("environment/bin");
    let path = format!("{}:{}:{}", bin.display(), installed.display(), std::env::var("PATH").unwrap_or_default());
    let mut timed = Command::new("timeout");
    timed.args(["--kill-after=5", LIMIT_S]).arg(command.get_program()).args(command.get_args());
    timed.current_dir(command.get_current_dir().unwrap_or(&place)).env("PATH", path).env_remove("RUSTFLAGS");
    timed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).envs(suite.environment.iter().copied());
    let output = timed.output().map_err(|e| Unready::Broken(format!("timeout: {e}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let mut told = judge(suite, &text, output.status.success());
    if let Some(server) = &mut started
        && !server.lives()
    {
        told.failed += 1;
        println!("the server ended:\n{}", server.log());
    }
    if options.verbose || told.failed > 0 {
        println!("{text}");
    }
    Ok(told)
}

fn broken(path: &Path) -> impl Fn(std::io::Error) -> Unready {
    let path = path.display().to_string();
    move |error| Unready::Broken(format!("{path}: {error}"))
}

/// `redis-server` and what it says of itself.
fn stand_in_for_redis(server: &Path, bin: &Path) -> Result<(), Unready> {
    fs::create_dir_all(bin).map_err(broken(bin))?;
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'Redis server v=7.4.0 sha=00000000:0 malloc=own bits=64'; exit; fi\n\
         cd \"$(mktemp -d)\" && exec '{}' \"$@\"\n",
        server.display()
    );
    let path = bin.join("redis-server");
    fs::write(&path, script).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755))).map_err(broken(&path))
}

/// Fetches a suite's package, unless it is there, and says how its tests are run.
fn prepare(suite: &Suite, place: &Path) -> Result<Command, Unready> {
    let source = place.join("source");
    match suite.source {
        Go(module, words) => {
            needs("go", "version")?;
            if !contents_are(place, module) {
                let found = fetch(Command::new("go").args(["mod", "download", "-json", module]))?;
                let line = found.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
                let Some(directory) = line else { return Err(Unready::NotFetched(format!("{module}: {found}"))) };
                copy(Path::new(directory), &source)?;
                fetch(Command::new("go").args(["mod", "download"]).current_dir(&source))?;
                note_contents(place, module);
            }
            let mut go = Command::new("go");
            go.args(["test", "-count=1", "-v"]).args(words).current_dir(&source);
            Ok(go)
        }
        Python(package, beside, words) => {
            needs("python3", "--version")?;
            let (python, wanted) = (place.join("environment/bin/python"), format!("{package} {}", beside.join(" ")));
            if !contents_are(place, &wanted) {
                fetch(Command::new("python3").args(["-m", "venv", "--clear"]).arg(place.join("environment")))?;
                let pip = || {
                    let mut pip = Command::new(&python);
                    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).current_dir(place);
                    pip
                };
                fetch(pip().args(["install", "pytest", package]).args(beside))?;
                fetch(pip().args(["download", "--no-deps", "--no-binary", ":all:", "--dest", "archive", package]))?;
                let _ = fs::remove_dir_all(&source);
                fs::create_dir_all(&source).map_err(broken(&source))?;
                build(Command::new("sh").args(["-c", "tar -xzf ../archive/*.tar.gz --strip-components=1"]).current_dir(&source))?;
                note_contents(place, &wanted);
            }
            let beside = stand_ins(place)?;
            let mut pytest = Command::new(python);
            pytest.args(["-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider"]).args(words);
            pytest.current_dir(&source).env("PYTHONPATH", beside).env("PYTHONDONTWRITEBYTECODE", "1");
            Ok(pytest)
        }
        Cargo([name, version], lacks, words) => {
            stand_ins(place)?;
            let wanted = format!("{name} {version} {lacks}");
            if !contents_are(place, &wanted) {
                copy(&fetch_crate(name, version, &place.join("fetch"))?, &source)?;
                let manifest = source.join("Cargo.toml");
                let text = fs::read_to_string(&manifest).map_err(broken(&manifest))?;
                // It is no part of the workspace that it lies in.
                fs::write(&manifest, format!("{text}{lacks}\n[workspace]\n")).map_err(broken(&manifest))?;
                fetch(Command::new("cargo").args(["fetch", "--quiet"]).current_dir(&source))?;
                note_contents(place, &wanted);
            }
            let target = place.join("target");
            // What does not compile is told as that, and takes none of the time of the tests.
            let cargo = |more: &[&str]| {
                let mut cargo = Command::new("cargo");
                cargo.args(["test", "--no-fail-fast"]).args(words).args(more).env_remove("RUSTFLAGS").current_dir(&source);
                cargo.env("CARGO_TARGET_DIR", &target);
                cargo
            };
            build(&mut cargo(&["--no-run", "--quiet"]))?;
            Ok(cargo(&[]))
        }
    }
}

/// Fetches a crate as a package that depends on it does. Where its source is.
fn fetch_crate(name: &str, version: &str, place: &Path) -> Result<PathBuf, Unready> {
    fs::create_dir_all(place.join("src")).map_err(broken(place))?;
    let manifest = place.join("Cargo.toml");
    let text = format!("[package]\nname = \"fetch\"\nedition = \"2024\"\n[dependencies]\n{name} = \"={version}\"\n[workspace]\n");
    fs::write(&manifest, text).map_err(broken(&manifest))?;
    fs::write(place.join("src/lib.rs"), "").map_err(broken(place))?;
    let found = fetch(Command::new("cargo").args(["metadata", "--format-version=1", "--manifest-path"]).arg(&manifest))?;
    let metadata: serde_json::Value = serde_json::from_str(&found).map_err(|e| Unready::Broken(format!("cargo metadata: {e}")))?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let manifest = packages.iter().find(|package| package["name"] == name).and_then(|package| package["manifest_path"].as_str());
    let source = manifest.and_then(|manifest| Path::new(manifest).parent());
    source.map(Path::to_path_buf).ok_or_else(|| Unready::NotFetched(format!("{name} is not among what cargo has fetched")))
}

/// Writes what stands in for what is not there, and says where.
fn stand_ins(place: &Path) -> Result<PathBuf, Unready> {
    let beside = place.join("beside");
    for (name, text) in STAND_INS {
        let path = beside.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&beside)).map_err(broken(&path))?;
        fs::write(&path, text).map_err(broken(&path))?;
    }
    Ok(beside)
}

/// A copy that may be written to.
fn copy(from: &Path, to: &PathBuf) -> Result<(), Unready> {
    let _ = fs::remove_dir_all(to);
    build(Command::new("cp").arg("-r").arg(from).arg(to))?;
    build(Command::new("chmod").args(["-R", "u+w"]).arg(to)).map(drop)
}

/// What passed, and what failed that is not listed.
fn judge(suite: &Suite, text: &str, success: bool) -> Told {
    let (passed, failing) = match suite.source {
        Go(..) => (text.lines().filter(|line| line.starts_with("--- PASS: ")).count(), names(text, "--- FAIL: ")),
        Python(..) => {
            let counts = text.lines().rev().find(|line| line.contains(" passed") && line.contains(" in "));
            let passed = counts.and_then(|line| line.split(" passed").next()?.rsplit([' ', '=']).next()?.parse().ok());
            let failing = names(text, "FAILED ").into_iter().chain(names(text, "ERROR ")).collect();
            (passed.unwrap_or(0), failing)
        }
        Cargo(..) => {
            let ended =
                |how: &str| text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(how)).collect::<Vec<_>>();
            (ended(" ... ok").len(), ended(" ... FAILED").into_iter().map(str::to_owned).collect())
        }
    };
    let mut told = Told { passed, ..Told::default() };
    let mut listed = 0;
    for name in &failing {
        match suite.fails.iter().find(|(part, _)| name.contains(part)) {
            Some((_, why)) => {
                listed += 1;
                println!("{:<18} {name} fails: {why}", suite.name);
            }
            None => {
                told.failed += 1;
                println!("{:<18} {name} fails", suite.name);
            }
        }
    }
    // It did not come to its tests, or ended before its end.
    if told.failed == 0 && (passed == 0 || !success && listed == 0) {
        told.failed = 1;
    }
    told
}

/// The names in the lines that begin so.
fn names(text: &str, begin: &str) -> Vec<String> {
    // A line of a log has more spaces there.
    let name = |line: &str| line.strip_prefix(begin)?.split(' ').next().filter(|name| !name.is_empty()).map(str::to_owned);
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::table::{NO_ENVIRONMENT, Source};
    use super::*;

    fn suite(source: Source) -> Suite {
        Suite { name: "suite", source, port: 0, environment: NO_ENVIRONMENT, fails: &[("Listed", "why")] }
    }

    #[test]
    fn what_fails_is_told_by_each_runner() {
        let counts = |source, text: &str, success| {
            let told = judge(&suite(source), text, success);
            (told.passed, told.failed)
        };
        let go = || Go("", &[]);
        assert_eq!(counts(go(), "=== RUN TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/one (0.00s)\nok", true), (1, 0));
        assert_eq!(counts(go(), "--- PASS: TestA (0.00s)\n--- FAIL: TestListed (0.00s)\nFAIL", false), (1, 0));
        assert_eq!(counts(go(), "--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL", false), (1, 1));
        assert_eq!(counts(go(), "FAIL suite [build failed]", false), (0, 1));
        assert_eq!(counts(go(), "--- PASS: TestA (0.00s)\npanic: it ends", false), (1, 1));
        let python = || Python("", &[], &[]);
        assert_eq!(counts(python(), "....\n43 passed, 2 xfailed in 3.10s", true), (43, 0));
        let text = "FAILED tests/test_a.py::test_b - why\nERROR tests/test_c.py\n=== 2 failed, 7 passed in 3.10s ===";
        assert_eq!(counts(python(), text, false), (7, 2));
        let text = "ERROR    worker:trace.py:267 a line of a log\nFAILED t/test_a.py::Listed\n=== 1 failed, 7 passed in 3.10s ===";
        assert_eq!(counts(python(), text, false), (7, 0));
        assert_eq!(counts(python(), "collected nothing", true), (0, 1));
        let cargo = || Cargo([""; 2], "", &[]);
        assert_eq!(
            counts(cargo(), "test a::b ... ok\ntest c ... ignored\ntest Listed ... FAILED\ntest result: FAILED.", false),
            (1, 0)
        );
        assert_eq!(counts(cargo(), "test a ... ok\ntest b ... FAILED\n", false), (1, 1));
        assert_eq!(counts(cargo(), "error: it does not compile", false), (0, 1));
    }
}
