//! `cargo xtask clients [NAME …]`: other people's clients, tools and frameworks, each a program of its own against a server of
//! its own.
//!
//! A program is a directory of `tests/clients` with the versions that it needs. Its language's packages come from their registry
//! into `target/clients` ([`environment`]). It is told the ports, one of them with TLS, and the unix socket of the server in its
//! environment, and closes with the line `N passed, N failed`. What cannot be run here, because its language is not installed, is
//! named in the table.

mod environment;
mod suites;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use environment::{Kind, Unready};
use suites::SUITES;

use almandine_testkit::server::free_port;

use crate::root::{root, target};
use crate::server::{self, Server};

/// A program of `tests/clients`.
struct Program {
    name: &'static str,
    kind: Kind,
    /// It is part of every test run: it takes seconds, and little has to be fetched.
    quick: bool,
}

const PROGRAMS: &[Program] = &[
    Program { name: "redis-cli", kind: Kind::Python, quick: true },
    Program { name: "redis-benchmark", kind: Kind::Python, quick: true },
    Program { name: "iredis", kind: Kind::Python, quick: false },
    Program { name: "redis-py", kind: Kind::Python, quick: true },
    Program { name: "redis-rs", kind: Kind::Cargo, quick: true },
    Program { name: "go-redis", kind: Kind::Go, quick: true },
    Program { name: "jedis", kind: Kind::Maven, quick: false },
    Program { name: "lettuce", kind: Kind::Maven, quick: false },
    Program { name: "ioredis", kind: Kind::Node, quick: true },
    Program { name: "node-redis", kind: Kind::Node, quick: true },
    Program { name: "prometheus", kind: Kind::Python, quick: true },
    Program { name: "redis-exporter", kind: Kind::PythonAnd(EXPORTERS), quick: false },
    Program { name: "django", kind: Kind::Python, quick: false },
    Program { name: "rq", kind: Kind::Python, quick: false },
    Program { name: "celery", kind: Kind::Python, quick: false },
    Program { name: "channels", kind: Kind::Python, quick: false },
    Program { name: "bullmq", kind: Kind::Node, quick: true },
    Program { name: "python-locks", kind: Kind::Python, quick: true },
    Program { name: "go-locks", kind: Kind::Go, quick: false },
    Program { name: "rueidis", kind: Kind::Go, quick: false },
    Program { name: "rslock", kind: Kind::Cargo, quick: false },
    Program { name: "arq", kind: Kind::Python, quick: false },
    Program { name: "flask", kind: Kind::Python, quick: false },
    Program { name: "express-session", kind: Kind::Node, quick: false },
    Program { name: "socket-io", kind: Kind::Node, quick: false },
    Program { name: "spring-data-redis", kind: Kind::Maven, quick: false },
];

/// The system's redis_exporter, and the newest that Debian has.
const EXPORTERS: &[&str] = &["prometheus-redis-exporter", "prometheus-redis-exporter/sid"];

/// Seconds that a program may take.
const LIMIT_S: &str = "150";

const USAGE: &str = "usage: cargo xtask clients [--quick | --own-suites | --release | --redis | --verbose]... [NAME]...

  --quick      only those that are part of every test run
  --own-suites the suites that libraries bring in their packages
  --release    against the release build instead of the debug build; ALMANDINE_SERVER names another server
  --redis      against redis-server, to see that the programs are fair
  --verbose    show what they print";

/// What was asked for.
#[derive(Default)]
struct Options<'a> {
    quick: bool,
    own_suites: bool,
    release: bool,
    redis: bool,
    verbose: bool,
    names: Vec<&'a str>,
}

/// What became of a program, or of all of them.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// The programs that were not run, each with the reason.
    pub(crate) left_out: Vec<String>,
    /// The programs that failed, and how much in each.
    pub(crate) failing: Vec<(&'static str, usize)>,
    /// Why no second try could mend it.
    pub(crate) broken: Option<String>,
}

/// Runs programs; true when nothing failed.
pub(crate) fn run(words: &[&str]) -> bool {
    let Some(options) = parse(words) else {
        let (programs, suites) = (PROGRAMS.iter().map(|program| program.name), SUITES.iter().map(|suite| suite.name));
        let [programs, suites] = [programs.collect::<Vec<_>>(), suites.collect()].map(|names| names.join(", "));
        eprintln!("{USAGE}\n\nThe programs: {programs}\nThe suites: {suites}");
        return false;
    };
    match run_all(&root(), &options, false) {
        Ok(told) => told.failed == 0,
        Err(e) => {
            eprintln!("clients: {e}");
            false
        }
    }
}

/// Runs the quick programs, or all, or those with these names; those whose packages cannot be fetched are left out with a notice.
pub(crate) fn run_for_tests(root: &Path, full: bool, names: &[&str]) -> Told {
    let options = Options { quick: !full, names: names.to_vec(), ..Options::default() };
    run_all(root, &options, true).unwrap_or_else(|e| {
        eprintln!("clients: {e}");
        Told { failed: 1, broken: Some(e), ..Told::default() }
    })
}

fn parse<'a>(words: &[&'a str]) -> Option<Options<'a>> {
    let mut options = Options::default();
    for word in words {
        match *word {
            "--quick" => options.quick = true,
            "--own-suites" => options.own_suites = true,
            "--release" => options.release = true,
            "--redis" => options.redis = true,
            "--verbose" => options.verbose = true,
            name => options.names.push(name),
        }
    }
    let is_known = |name: &&str| entries(&options).any(|entry| entry.name() == *name);
    options.names.iter().all(is_known).then_some(options)
}

/// What is run.
#[derive(Clone, Copy)]
enum Entry {
    Program(&'static Program),
    Suite(&'static suites::Suite),
}

impl Entry {
    fn name(self) -> &'static str {
        match self {
            Self::Program(program) => program.name,
            Self::Suite(suite) => suite.name,
        }
    }
}

/// What there is of the kind that was asked for.
fn entries(options: &Options<'_>) -> impl Iterator<Item = Entry> {
    let (quick, own_suites) = (options.quick, options.own_suites);
    let programs = PROGRAMS.iter().filter(move |program| !own_suites && (program.quick || !quick)).map(Entry::Program);
    programs.chain(SUITES.iter().filter(move |_| own_suites).map(Entry::Suite))
}

fn run_all(root: &Path, options: &Options<'_>, tolerant: bool) -> Result<Told, String> {
    let server = if options.redis { "/usr/bin/redis-server".into() } else { server::build(root, options.release)? };
    let mut told = Told::default();
    println!("{:<18} {:>7} {:>7} {:>8}", "program", "passed", "failed", "seconds");
    let named = |entry: &Entry| options.names.is_empty() || options.names.contains(&entry.name());
    for entry in entries(options).filter(named) {
        let (started, name) = (Instant::now(), entry.name());
        let one = match entry {
            Entry::Program(program) => run_one(root, program, &server, options),
            Entry::Suite(suite) => suites::run(root, suite, &server, options),
        };
        let seconds = started.elapsed().as_secs_f64();
        let one = match one {
            Ok(one) => {
                println!("{:<18} {:>7} {:>7} {seconds:>8.1}", name, one.passed, one.failed);
                one
            }
            Err(Unready::NoToolchain(why)) => left_out(name, &why),
            Err(Unready::NotFetched(why)) if tolerant => left_out(name, &why),
            Err(Unready::NotFetched(why) | Unready::Broken(why)) => {
                println!("{:<18} {:>7} {:>7} {seconds:>8.1}   {why}", name, 0, 1);
                Told { failed: 1, ..Told::default() }
            }
        };
        told.passed += one.passed;
        told.failed += one.failed;
        told.left_out.extend(one.left_out);
        if one.failed > 0 {
            told.failing.push((name, one.failed));
        }
        told.broken = told.broken.or(one.broken);
    }
    println!("{} passed, {} failed; {} programs were left out", told.passed, told.failed, told.left_out.len());
    Ok(told)
}

fn left_out(name: &str, why: &str) -> Told {
    println!("{:<18} left out: {why}", name);
    Told { left_out: vec![format!("{}: {why}", name)], ..Told::default() }
}

/// Runs a program against a server of its own.
fn run_one(root: &Path, program: &Program, server: &Path, options: &Options<'_>) -> Result<Told, Unready> {
    let (source, place) = (root.join("tests/clients").join(program.name), target(root).join("clients").join(program.name));
    fs::create_dir_all(&place).map_err(|e| Unready::Broken(format!("{}: {e}", place.display())))?;
    let command = environment::prepare(program.kind, &source, &place)?;
    let directory = place.with_file_name(format!("server-{}", std::process::id()));
    let socket = directory.join("socket").display().to_string();
    let (certificates, secure_port) = (root.join("tests/tls"), free_port().to_string());
    let file = |name: &str| certificates.join(name).display().to_string();
    let (certificate, key, authority) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let plain = ["--save", "", "--enable-debug-command", "yes", "--unixsocket", &socket];
    let tls =
        ["--tls-port", &secure_port, "--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
    let mut server = Server::start(server, &[&plain[..], &tls].concat(), &directory).map_err(Unready::Broken)?;
    let mut timed = Command::new("timeout");
    timed.args(["--kill-after=5", LIMIT_S]).arg(command.get_program()).args(command.get_args());
    timed.current_dir(command.get_current_dir().unwrap_or(&source));
    timed.env("ALMANDINE_PORT", server.port().to_string()).env("ALMANDINE_SOCKET", socket).env("ALMANDINE_TOOLS", &place);
    timed.env("ALMANDINE_TLS_PORT", secure_port).env("ALMANDINE_CERTIFICATES", certificates);
    timed.env("ALMANDINE_REFERENCE", if options.redis { "1" } else { "0" });
    timed.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = timed.output().map_err(|e| Unready::Broken(format!("timeout: {e}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let mut told = read(&text, output.status.success());
    if !server.lives() {
        told.failed += 1;
        told.broken = Some(format!("{}: the server ended", program.name));
        println!("the server ended:\n{}", server.log());
    }
    if options.verbose || told.failed > 0 {
        println!("{text}");
    }
    Ok(told)
}

/// The closing line. A program that fails without one, or counts nothing, is one failure.
fn read(text: &str, success: bool) -> Told {
    let count = |line: &str| {
        let (passed, rest) = line.trim().split_once(" passed, ")?;
        Some((passed.parse().ok()?, rest.strip_suffix(" failed")?.parse().ok()?))
    };
    match text.lines().rev().find_map(count) {
        Some((passed, failed)) if passed + failed > 0 && success == (failed == 0) => Told { passed, failed, ..Told::default() },
        Some((passed, failed)) => Told { passed, failed: failed + 1, ..Told::default() },
        None => Told { failed: 1, ..Told::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_counts() {
        assert_eq!(read("ok: a\n3 passed, 0 failed\n", true), Told { passed: 3, failed: 0, ..Told::default() });
        assert_eq!(read("3 passed, 2 failed\na remark\n", false), Told { passed: 3, failed: 2, ..Told::default() });
        // It says that all is well, and does not end so; or it is cut off; or it has tried nothing.
        assert_eq!(read("3 passed, 0 failed", false).failed, 1);
        assert_eq!(read("ok: a", true).failed, 1);
        assert_eq!(read("0 passed, 0 failed", true).failed, 1);
    }

    #[test]
    fn words_are_options_or_programs() {
        let options = parse(&["--quick", "redis-py"]).unwrap();
        assert!(options.quick && !options.redis && options.names == ["redis-py"]);
        assert!(parse(&["no-such"]).is_none() && parse(&["--no-such"]).is_none());
    }

    #[test]
    fn every_directory_is_a_program_with_a_page() {
        let place = root().join("tests/clients");
        let directories = fs::read_dir(&place).unwrap().filter_map(|entry| {
            let entry = entry.unwrap();
            entry.file_type().unwrap().is_dir().then(|| entry.file_name().into_string().unwrap())
        });
        // What the programs in Go share is a module, which needs a directory.
        let is_program = |name: &String| !name.starts_with("__") && name != "go-checks";
        let mut directories: Vec<String> = directories.filter(is_program).collect();
        let mut names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        directories.sort_unstable();
        names.sort_unstable();
        assert_eq!(directories, names);
        names.iter().for_each(|name| assert!(place.join(name).join("README.md").is_file(), "{name} has no README.md"));
    }
}
