//! `sweep`: one server over a grid of operations, keys, connections and batch sizes.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use crate::cli::options::{LoadOptions, OutputOptions, ServerOptions, ShapeOptions, positive};
use crate::load::{Load, Pace, Progress, run};
use crate::report::progress::Bar;
use crate::report::sample::{Sample, write_all};
use crate::report::table::Table;
use crate::system::machine::Machine;
use crate::workload::{Operation, Workload};

/// Options of `sweep`.
#[derive(Debug, Args)]
pub(super) struct Sweep {
    #[command(flatten)]
    server: ServerOptions,
    /// Operations; a mix is written with plus signs: get=80+set=20.
    #[arg(short = 'o', long, value_delimiter = ',', default_value = "get,set")]
    operations: Vec<String>,
    /// Values of --pipeline to visit.
    #[arg(long, value_delimiter = ',', default_value = "1,16,256", value_parser = positive())]
    pipelines: Vec<usize>,
    /// Values of --connections to visit.
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,200", value_parser = positive())]
    connection_counts: Vec<usize>,
    /// Values of --keys to visit, in rising order so that --preload only adds.
    #[arg(long, value_delimiter = ',', default_value = "1000000", value_parser = clap::value_parser!(u64).range(1..))]
    key_counts: Vec<u64>,
    #[command(flatten)]
    shape: ShapeOptions,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    output: OutputOptions,
}

impl Sweep {
    /// Visits the grid.
    pub(super) fn run(self) -> Result<ExitCode, String> {
        let target = self.server.target()?;
        let pid = self.server.pid(&target)?;
        let machine = Machine::inspect();
        let points = self.key_counts.len() * self.operations.len() * self.pipelines.len() * self.connection_counts.len();
        let bar = Bar::new("sweeping", self.output.quiet);
        let mut samples: Vec<Sample> = Vec::new();
        for &keys in &self.key_counts {
            for operation in &self.operations {
                let shape = crate::workload::Shape { keys, ..self.shape.shape()? };
                let workload = Arc::new(Workload::new(Operation::mix(&operation.replace('+', ","))?, shape)?);
                let first = samples.is_empty();
                LoadOptions { flush: self.load.flush && first, ..self.load.clone() }.prepare(
                    &target,
                    &workload,
                    self.output.quiet,
                )?;
                for &pipeline in &self.pipelines {
                    for &connections in &self.connection_counts {
                        let base = self.load.load(target.clone(), workload.clone(), Pace::Closed { in_flight: 1, spin: false })?;
                        let load = Load { pipeline, connections, server_pid: pid, ..base };
                        let note = format!("{operation} keys {keys} P={pipeline} c={connections}");
                        let done = samples.len() as f64;
                        let show = &mut |p: Progress| bar.show_rate((done + p.share) / points as f64, &note, p.rate);
                        let measurement = run(&load, show).map_err(|e| format!("{note}: {e}"))?;
                        samples.push(Sample::new(&self.server.address().to_string(), &load, measurement));
                    }
                }
            }
        }
        bar.finish();
        println!("{}\n{}", machine.line(), Table::of_samples(&samples));
        let mut warnings: Vec<String> = samples.iter().flat_map(Sample::warnings).collect();
        warnings.sort();
        warnings.dedup();
        warnings.iter().for_each(|warning| println!("{warning}"));
        write_all(&self.output, "sweep", &machine, &samples)?;
        Ok(ExitCode::SUCCESS)
    }
}
