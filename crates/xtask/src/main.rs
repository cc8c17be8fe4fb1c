//! `cargo xtask …`: the repository's chores, in Rust, so that a fresh machine needs nothing else.
//!
//! `test` installs what the tests need and runs everything; `redis-suite` runs Redis' own tests; `clients` runs other people's
//! clients; `tidy` checks what compilers do not; `docs` refreshes generated documents; `deb` builds the Debian package.

mod clients;
mod deb;
mod generated;
mod prerequisites;
mod redis_suite;
mod root;
mod server;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  test [--full]   install what the tests need, then run all of them; --full adds the heavy sets
  redis-suite [unit/file]...
                  run Redis' own tests against our server; --help shows more
  clients [NAME]...
                  run other people's clients, tools and frameworks against our server; --help shows more
  deb [--profile P]
                  build the Debian package target/deb/almandine_*.deb, of a release build unless told otherwise
  sim [OPTION]... run seeds of the deterministic simulation; --help shows more
  tidy            check layers, headers, unsafe fences, invariants, lengths, paths, licences
  circles [crate] show which files of a crate need each other
  imports [crate] show how many imports there are between the files, and between the folders, of a crate
  prose [crate]   show how many comments hide their subject and how many lines are too wide, and which
  interfaces      show the public types with the most public methods
  lines           show the lines of the product, by crate
  assertions      show how many assertions per function there are
  docs            write docs/reference again, from the tables of the server
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ok = match words.as_slice() {
        ["test"] => test::run(false),
        ["test", "--full"] => test::run(true),
        ["clients", words @ ..] => clients::run(words),
        ["redis-suite", words @ ..] => redis_suite::run(words),
        ["sim", words @ ..] => sim(words),
        ["tidy"] => tidy::run(),
        ["circles", name @ ..] => show(|sources| tidy::circles::print(sources, name.first().unwrap_or(&""))),
        ["imports", name @ ..] => show(|sources| tidy::circles::print_imports(sources, name.first().unwrap_or(&""))),
        ["prose", name @ ..] => show(|sources| tidy::prose::print(sources, name.first().unwrap_or(&""))),
        ["interfaces"] => show(tidy::interfaces::print),
        ["lines"] => show(tidy::lines::print),
        ["assertions"] => show(tidy::assertions::print),
        ["deb"] => deb::run(&root::root(), "release"),
        ["deb", "--profile", profile] => deb::run(&root::root(), profile),
        ["docs"] => generated::refresh(&root::root()),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Hands the sources to a report.
fn show(report: impl FnOnce(&[tidy::source::Source])) -> bool {
    match tidy::sources(&root::root()) {
        Ok(sources) => report(&sources),
        Err(e) => eprintln!("{e}"),
    }
    true
}

/// Builds the simulation and hands it the options.
fn sim(options: &[&str]) -> bool {
    let arguments = ["run", "--quiet", "--package", "almandine-sim", "--features", "sim", "--bin", "sim", "--"];
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args(arguments).args(options).current_dir(root::root());
    cargo.status().is_ok_and(|status| status.success())
}
