//! `connect`: how many connections a server takes.

use std::process::ExitCode;

use clap::Args;

use super::options::{OutputOptions, ServerOptions, positive, seconds};
use crate::load::Connecting;
use crate::report::progress::Bar;
use crate::report::sample::{Sample, write_all};
use crate::report::table::Table;
use crate::system::affinity::parse_cores;
use crate::system::machine::Machine;

/// Options of `connect`.
#[derive(Debug, Args)]
pub(super) struct Connect {
    #[command(flatten)]
    server: ServerOptions,
    /// Connections at a time, each with a thread of its own.
    #[arg(short = 'c', long, default_value_t = 8, value_parser = positive())]
    connections: usize,
    /// Length of the measurement in seconds.
    #[arg(short = 's', long, default_value_t = 5.0)]
    time: f64,
    /// Resume TLS sessions instead of beginning each anew.
    #[arg(long, requires = "tls")]
    resume: bool,
    /// Pin client threads to these cores, as in 1 or 2-3.
    #[arg(long, default_value = "")]
    pin: String,
    #[command(flatten)]
    output: OutputOptions,
}

impl Connect {
    pub(super) fn run(self) -> Result<ExitCode, String> {
        let target = self.server.target()?;
        let connecting = Connecting {
            server_pid: self.server.pid(&target)?,
            target,
            connections: self.connections,
            time: seconds("time", self.time)?,
            cores: parse_cores(&self.pin)?,
            resume: self.resume,
        };
        let server = self.server.address().to_string();
        let bar = Bar::new(&format!("{server} {}", connecting.name()), self.output.quiet);
        let measurement = connecting.run(&mut |progress| bar.show_rate(progress.share, "", progress.rate))?;
        bar.finish();
        let samples = [Sample::of_connections(&server, &connecting, measurement)];
        let machine = Machine::inspect();
        println!("{}\n{}", machine.line(), Table::of_samples(&samples));
        samples[0].warnings().iter().for_each(|warning| println!("{warning}"));
        write_all(&self.output, "run", &machine, &samples)?;
        Ok(ExitCode::SUCCESS)
    }
}
