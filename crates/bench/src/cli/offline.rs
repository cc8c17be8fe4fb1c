//! `offline`, `online` and `load`: one run against one server.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::options::{LoadOptions, OperationOptions, OutputOptions, PreloadWhen, ServerOptions, ShapeOptions, positive};
use crate::generate::table;
use crate::load::{Arrivals, Load, Pace, run};
use crate::report::progress::Bar;
use crate::report::sample::{Sample, write_all};
use crate::report::table::Table;
use crate::system::machine::Machine;
use crate::workload::Workload;

#[derive(Debug, Args)]
pub(super) struct Common {
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    operations: OperationOptions,
    #[command(flatten)]
    shape: ShapeOptions,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    output: OutputOptions,
}

#[derive(Debug, Args)]
pub(super) struct Offline {
    #[command(flatten)]
    common: Common,
    /// Measure this many commands instead of a time (of at most an hour).
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Batches in flight per connection.
    #[arg(long, default_value_t = 1, value_parser = positive())]
    in_flight: usize,
    /// Poll instead of sleeping, so that the server never pays for waking the client; takes whole cores.
    #[arg(long)]
    spin: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ArrivalName {
    Even,
    Poisson,
}

impl From<ArrivalName> for Arrivals {
    fn from(name: ArrivalName) -> Self {
        match name {
            ArrivalName::Even => Self::Even,
            ArrivalName::Poisson => Self::Poisson,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Online {
    #[command(flatten)]
    common: Common,
    /// Commands per second over all threads.
    #[arg(short = 'r', long)]
    rate: f64,
    /// Spacing of the requests.
    #[arg(long, value_enum, default_value_t = ArrivalName::Even)]
    arrivals: ArrivalName,
    /// Poll instead of sleeping, for exact send times; takes whole cores.
    #[arg(long)]
    spin: bool,
}

#[derive(Debug, Args)]
pub(super) struct LoadOnly {
    #[command(flatten)]
    common: Common,
}

impl Offline {
    pub(super) fn run(self) -> Result<ExitCode, String> {
        self.common.run(Pace::Closed { in_flight: self.in_flight, spin: self.spin }, self.count)
    }
}

impl Online {
    pub(super) fn run(self) -> Result<ExitCode, String> {
        if self.rate <= 0.0 || !self.rate.is_finite() {
            return Err("--rate must be above 0".into());
        }
        self.common.run(Pace::Open { rate: self.rate, arrivals: self.arrivals.into(), spin: self.spin }, None)
    }
}

impl LoadOnly {
    pub(super) fn run(mut self) -> Result<ExitCode, String> {
        if self.common.load.preload == PreloadWhen::No {
            self.common.load.preload = PreloadWhen::Missing;
        }
        let workload = self.common.workload()?;
        let target = self.common.server.target()?;
        self.common.load.prepare(&target, &workload, self.common.output.quiet)?;
        let keys = target.control()?.integer(&["DBSIZE"])?;
        let loaded = workload.shape.keys * workload.data_types().count() as u64;
        println!("{loaded} keys are loaded; {} holds {keys}, those of other programs among them", self.common.server.address());
        Ok(ExitCode::SUCCESS)
    }
}

impl Common {
    fn workload(&self) -> Result<Arc<Workload>, String> {
        Ok(Arc::new(Workload::new(self.operations.operations()?, self.shape.shape()?)?))
    }

    fn run(self, pace: Pace, operations: Option<u64>) -> Result<ExitCode, String> {
        let (target, workload) = (self.server.target()?, self.workload()?);
        self.load.prepare(&target, &workload, self.output.quiet)?;
        let pid = self.server.pid(&target)?;
        let mut load = self.load.load(target, workload, pace)?;
        load.server_pid = pid;
        if let Some(count) = operations {
            load = Load {
                operations: Some(count),
                warm_up: std::time::Duration::ZERO,
                time: std::time::Duration::from_secs(3600),
                ..load
            };
        }
        let sample = measure(&load, &self.server.address().to_string(), self.output.quiet)?;
        let machine = Machine::inspect();
        println!("{}", machine.line());
        println!("{}", Table::of_samples(std::slice::from_ref(&sample)));
        sample.warnings().iter().for_each(|warning| println!("{warning}"));
        write_all(&self.output, "run", &machine, std::slice::from_ref(&sample))?;
        let failed = sample.measurement.tally.errors + sample.measurement.tally.mismatches > 0;
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// One run with a progress bar.
pub(super) fn measure(load: &Load, server: &str, quiet: bool) -> Result<Sample, String> {
    let bar = Bar::new(&format!("{server} {}", load.workload.name()), quiet);
    let measurement = run(load, &mut |progress| bar.show_rate(progress.share, "", progress.rate))?;
    bar.finish();
    Ok(Sample::new(server, load, measurement))
}

pub(super) fn list() {
    let mut table = Table::new(&["workload", "keys", "command"]);
    for entry in table::TABLE {
        table.row([entry.name, entry.data.name(), entry.template]);
    }
    // A reader that has seen enough closes the pipe.
    let _ = writeln!(std::io::stdout(), "{table}");
}
