//! The `almandine-lab` program.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match almandine_lab::cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("almandine-lab: {error}");
            ExitCode::FAILURE
        }
    }
}
