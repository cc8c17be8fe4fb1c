//! The `almandine-bench` program.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match almandine_bench::cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("almandine-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
