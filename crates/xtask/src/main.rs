//! `cargo xtask …`: the repository's chores, in Rust, so that a fresh machine needs nothing else.
//!
//! `test` installs what the tests need and runs everything; `tidy` checks what compilers do not; `docs` refreshes generated documents.

mod generated;
mod prerequisites;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  test [--full]   install what the tests need, then run all of them; --full adds the heavy sets
  tidy            check layers, headers, unsafe fences, invariants, lengths, paths, licences, generated documents
  docs            write the generated documents of docs/reference again
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ok = match words.as_slice() {
        ["test"] => test::run(false),
        ["test", "--full"] => test::run(true),
        ["tidy"] => tidy::run(),
        ["docs"] => generated::refresh(&root()),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
}
