//! `cargo xtask redis-suite [FILE …]`: Redis' own tests, unmodified, against our server.
//!
//! Debian's source package of Redis 7.0 is fetched once ([`source`]). Each named file of its `tests` (`unit/geo`) runs in the
//! suite's external mode against a server of its own ([`unit`]). What fails there must be listed in `tests/redis-suite.txt` with
//! its reason, and what is listed must fail ([`expected`]): the list says exactly what of the suite does not hold. With
//! `--own-server` the suite starts the servers itself ([`own`]); with `--tls` its clients speak TLS ([`tls`]).

mod expected;
mod own;
mod ports;
mod source;
mod tls;
mod unit;

use std::path::PathBuf;
use std::time::Instant;

use almandine_testkit::server::free_port;
use expected::Expected;
use ports::Ports;
use unit::{Results, Run};

use crate::server::{self, Server};

/// What runs when nothing is named.
const FILES: &[&str] = &[
    "unit/keyspace",
    "unit/scan",
    "unit/sort",
    "unit/expire",
    "unit/dump",
    "unit/type/string",
    "unit/type/incr",
    "unit/type/hash",
    "unit/type/list",
    "unit/type/list-2",
    "unit/type/list-3",
    "unit/type/set",
    "unit/type/zset",
    "unit/type/stream",
    "unit/type/stream-cgroups",
    "unit/hyperloglog",
    "unit/geo",
    "unit/bitops",
    "unit/bitfield",
    "unit/other",
    "unit/multi",
    "unit/introspection",
    "unit/introspection-2",
    "unit/latency-monitor",
    "unit/pause",
    "unit/scripting",
    "unit/functions",
    "unit/slowlog",
    "unit/tracking",
];

/// How Redis' own CI starts a server for the external mode.
const FLAGS: &[&str] =
    &["--save", "", "--enable-protected-configs", "yes", "--enable-debug-command", "yes", "--enable-module-command", "yes"];

/// What makes ours name the encodings of Redis 7.0, which has no listpacks of sets; one worker, since tests do not wait for the
/// replies of one client before they ask by another; replies that pile up until a limit closes the client, which is what some
/// tests wait for; and all clients hear of a script that runs for long.
const AS_7_0: &[&str] =
    &["--object-encoding-names", "7.0", "--workers", "1", "--client-output-pause", "0", "--busy-reply-scope", "node"];

/// Those of them that take seconds, for every test run.
pub(crate) const FAST: &[&str] = &[
    "unit/keyspace",
    "unit/scan",
    "unit/sort",
    "unit/type/incr",
    "unit/type/string",
    "unit/type/hash",
    "unit/type/set",
    "unit/bitfield",
    "unit/multi",
    "unit/scripting",
    "unit/functions",
    "unit/tracking",
];

const USAGE: &str = "usage: cargo xtask redis-suite [OPTION]... [unit/FILE]...

  --own-server the suite starts the servers itself, as it needs them: what it cannot try in its external mode
  --tls        its clients, and the tools that it starts, speak TLS
  --release    against the release build instead of the debug build; ALMANDINE_SERVER names another server
  --fast-part  only the files that take seconds
  --tolerant   what is listed as failing may pass
  --redis      against redis-server, to see what it fails itself; nothing is compared
  --verbose    show the suite's output";

/// What was asked for.
#[derive(Default)]
struct Options<'a> {
    release: bool,
    tolerant: bool,
    redis: bool,
    verbose: bool,
    own_server: bool,
    tls: bool,
    files: Vec<&'a str>,
}

/// Fetches the suite, unless it is there.
///
/// # Errors
/// When it cannot be had; what to do instead.
pub(crate) fn fetch() -> Result<(), String> {
    source::prepare(&crate::root::root()).map(drop)
}

/// What became of a run.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) passed: usize,
    /// Tests that were not run, or fail as the list says.
    pub(crate) skipped: usize,
    /// What was not as the list says.
    pub(crate) problems: Vec<String>,
    /// The files in which it was, unless one of them did not come to its end.
    pub(crate) failing: Vec<String>,
}

/// Runs the files; true when everything was as the list says.
pub(crate) fn run(words: &[&str]) -> bool {
    tell(words).problems.is_empty()
}

/// Runs the files, and tells what became of them.
pub(crate) fn tell(words: &[&str]) -> Told {
    let problem = |text: String| Told { problems: vec![text], ..Told::default() };
    let Some(options) = parse(words) else {
        eprintln!("{USAGE}");
        return problem("usage".to_owned());
    };
    run_files(&options).unwrap_or_else(|e| {
        eprintln!("redis-suite: {e}");
        problem(e)
    })
}

fn parse<'a>(words: &[&'a str]) -> Option<Options<'a>> {
    let (mut options, mut fast_part) = (Options::default(), false);
    for word in words {
        match *word {
            "--own-server" => options.own_server = true,
            "--tls" => options.tls = true,
            "--release" => options.release = true,
            "--tolerant" => options.tolerant = true,
            "--redis" => options.redis = true,
            "--verbose" => options.verbose = true,
            "--fast-part" => fast_part = true,
            file if !file.starts_with('-') => options.files.push(file),
            _ => return None,
        }
    }
    if fast_part {
        options.files.extend(if options.own_server { own::FAST } else { FAST });
    }
    if options.files.is_empty() {
        options.files.extend(if options.own_server { own::FILES } else { FILES });
        options.files.extend((options.own_server && options.tls).then_some(tls::FILE));
    }
    Some(options)
}

fn run_files(options: &Options<'_>) -> Result<Told, String> {
    let root = crate::root::root();
    let suite = source::prepare(&root)?;
    if options.tls {
        tls::prepare(&root, &suite)?;
    }
    let program = if options.redis { PathBuf::from("/usr/bin/redis-server") } else { server::build(&root, options.release)? };
    let expected = if options.redis { Expected::default() } else { Expected::read(&root.join("tests/redis-suite.txt"))? };
    let flags: &[&str] = if options.redis { &[] } else { AS_7_0 };
    let expected = if options.own_server { expected.of_own_servers() } else { expected };
    let tree = if options.own_server { Some(own::Tree::new(&suite, &program, flags)?) } else { None };
    let ports = Ports::claim()?;
    let (mut told, mut complete) = (Told::default(), true);
    println!("{:<26} {:>6} {:>6} {:>7} {:>8}", "file", "passed", "failed", "skipped", "seconds");
    for file in &options.files {
        if !suite.join("tests").join(file).with_extension("tcl").is_file() {
            return Err(format!("the suite has no {file}"));
        }
        let started = Instant::now();
        let results = if let Some(tree) = &tree {
            tree.run(file, &Run { ports: &ports, expected: &expected, tls: options.tls, verbose: options.verbose })?
        } else {
            let secure = options.tls.then(|| free_port().to_string());
            let own = secure.as_ref().map(|port| tls::flags(&root, port)).unwrap_or_default();
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            let directory = suite.with_file_name(format!("server-{}", std::process::id()));
            let server = Server::start(&program, &[FLAGS, flags, &own].concat(), &directory)?;
            let port = secure.unwrap_or_else(|| server.port().to_string());
            unit::run(
                &suite,
                file,
                (server, &port),
                &Run { ports: &ports, expected: &expected, tls: options.tls, verbose: options.verbose },
            )?
        };
        let Results { passed, failed, .. } = &results;
        let skipped = results.skipped.len() + results.ignored;
        let seconds = started.elapsed().as_secs_f64();
        println!("{file:<26} {:>6} {:>6} {skipped:>7} {seconds:>8.1}", passed.len(), failed.len());
        if options.redis {
            failed.iter().for_each(|failure| println!("    {}", failure.text));
        }
        let unlisted = expected.compare(file, &results);
        told.passed += passed.len();
        told.skipped += skipped + failed.len().saturating_sub(unlisted.len());
        told.failing.extend((!unlisted.is_empty()).then(|| (*file).to_owned()));
        complete &= results.complete;
        told.problems.extend(unlisted);
        let stale = expected.stale(file, &results);
        if options.tolerant {
            stale.iter().for_each(|line| println!("    {line}"));
        } else {
            told.problems.extend(stale);
        }
    }
    if options.redis {
        return Ok(Told::default());
    }
    if !complete {
        told.failing.clear();
    }
    told.problems.iter().for_each(|problem| println!("\n{problem}"));
    println!("\n{} problems beside what tests/redis-suite.txt lists", told.problems.len());
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options_or_files() {
        let options = parse(&["--release", "unit/geo"]).unwrap();
        assert!(options.release && !options.redis && options.files == ["unit/geo"]);
        assert_eq!(parse(&[]).unwrap().files, FILES);
        assert_eq!(parse(&["--own-server"]).unwrap().files, own::FILES);
        assert_eq!(parse(&["--own-server", "--tls"]).unwrap().files, [own::FILES, &[tls::FILE]].concat());
        assert!(parse(&["--fast"]).is_none());
        assert_eq!(parse(&["--fast-part", "--own-server"]).unwrap().files, own::FAST);
        assert_eq!(parse(&["--fast-part"]).unwrap().files, FAST);
        assert!(FAST.iter().all(|file| FILES.contains(file)) && own::FAST.iter().all(|file| own::FILES.contains(file)));
    }
}
