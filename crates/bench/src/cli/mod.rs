//! The command line: subcommands and the options they share.

mod connect;
mod offline;
pub mod options;
mod sweep;
pub mod tls;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::plot::Plot;

/// Measures a server that speaks RESP.
///
/// Requests are generated before the clock starts, so that the client is never the limit. Every result comes with the server's
/// CPU time per command when the server runs on this machine.
#[derive(Debug, Parser)]
#[command(name = "almandine-bench", version, disable_help_subcommand = true, after_help = almandine_manual::AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the maximum throughput (closed loop).
    Offline(offline::Offline),
    /// Measure latency at a fixed rate (open loop, from the intended send time).
    Online(offline::Online),
    /// Measure connecting: TLS handshakes, full or resumed; without --tls, plain connections.
    Connect(connect::Connect),
    /// Fill a server with keys and measure nothing.
    Load(offline::LoadOnly),
    /// Measure one server over a grid of loads.
    Sweep(sweep::Sweep),
    /// Draw JSON results as SVG and PNG.
    Plot(Plot),
    /// Show all workloads of --operation and --mix.
    List,
    /// Print the manual page or the completions of a shell.
    #[command(hide = true)]
    PrintReference(almandine_manual::PrintReference),
}

impl Cli {
    /// Runs what was asked for.
    pub fn run(self) -> Result<ExitCode, String> {
        match self.command {
            Command::Offline(command) => command.run(),
            Command::Online(command) => command.run(),
            Command::Connect(command) => command.run(),
            Command::Load(command) => command.run(),
            Command::Sweep(command) => command.run(),
            Command::PrintReference(command) => command.run(Self::command()),
            Command::Plot(command) => command.run(),
            Command::List => {
                offline::list();
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_do_not_collide() {
        Cli::command().debug_assert();
    }
}
