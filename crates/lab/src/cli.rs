//! The command line: a subcommand for each procedure.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use almandine_bench::plot::Plot;

use crate::{
    canned, churn, cold, compare, connections, expire, floor, folder, grid, handover, hits, latency, launch, logs, memory, pubsub,
    scripts, soak,
};

/// Compares servers that speak RESP: starts them alike and loads them in turn.
///
/// `almandine-bench` measures a single server that is running.
#[derive(Debug, Parser)]
#[command(name = "almandine-lab", version, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start our server and its peers, alternate loads between them, print medians and ratios.
    Compare(compare::Compare),
    /// Compare workloads of every data type within a given time, and write Markdown tables.
    Grid(grid::Grid),
    /// Measure what connecting costs, with full and resumed handshakes of TLS, and the memory of idle connections.
    Connections(connections::Connections),
    /// Measure resident bytes per object for several shapes.
    Memory(memory::Memory),
    /// Measure the latency tail at a share of saturation, also while the keys double.
    Latency(latency::Latency),
    /// Measure what a log of writes costs in each of its modes.
    Logs(logs::Logs),
    /// Overwrite values with changing sizes and compare resident with live bytes.
    Churn(churn::Churn),
    /// Let many keys fall due and measure how late they go.
    Expire(expire::Expire),
    /// Load more than fits into memory, read it back, and compare with what the device gives to fio.
    Cold(cold::Cold),
    /// Churn for an hour with every reply checked, and watch memory, device and key count.
    Soak(soak::Soak),
    /// Bound the memory of several servers to the same number of keys and compare how often a cache hits.
    Hits(hits::Hits),
    /// Measure what publishing costs by subscribers, publishers and batch size, every message counted.
    #[command(name = "pubsub")]
    PubSub(pubsub::PubSub),
    /// Measure what handing elements to waiting connections costs, and how late timeouts are.
    #[command(name = "handover")]
    HandOver(handover::HandOver),
    /// Measure what scripts and functions cost.
    Scripts(scripts::Scripts),
    /// Measure our server against canned replies, the kernel's floor, under the same load.
    Floor(floor::Floor),
    /// Draw JSON results as SVG and PNG.
    Plot(Plot),
    /// Become a pinned server.
    #[command(hide = true)]
    Launch(launch::Launch),
    /// Answer everything with canned replies.
    #[command(hide = true)]
    Canned(canned::Canned),
    /// Wait for the end of standard input and remove a folder.
    #[command(hide = true)]
    RemoveAfterwards(folder::RemoveAfterwards),
}

impl Cli {
    /// Runs what was asked for.
    pub fn run(self) -> Result<ExitCode, String> {
        match self.command {
            Command::Compare(command) => command.run(),
            Command::Grid(command) => command.run(),
            Command::Connections(command) => command.run(),
            Command::Memory(command) => command.run(),
            Command::Latency(command) => command.run(),
            Command::Logs(command) => command.run(),
            Command::Churn(command) => command.run(),
            Command::Expire(command) => command.run(),
            Command::Cold(command) => command.run(),
            Command::Soak(command) => command.run(),
            Command::Hits(command) => command.run(),
            Command::PubSub(command) => command.run(),
            Command::HandOver(command) => command.run(),
            Command::Scripts(command) => command.run(),
            Command::Floor(command) => command.run(),
            Command::Canned(command) => command.run(),
            Command::RemoveAfterwards(command) => command.run(),
            Command::Launch(command) => command.run(),
            Command::Plot(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn options_do_not_collide() {
        Cli::command().debug_assert();
    }
}
