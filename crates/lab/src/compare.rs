//! `compare`: the same loads on every server, alternating, with medians and ratios.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::scenario::{Runner, Scenario};
use super::servers::{LabOptions, describe};
use almandine_bench::cli::options::{OutputOptions, ShapeOptions, positive, seconds};
use almandine_bench::report::sample::{Sample, write_values};
use almandine_bench::system::machine::Machine;
use almandine_bench::workload::{Operation, Workload};

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    #[command(flatten)]
    pub(super) lab: LabOptions,
    /// Operations, measured one after the other. A mix is written with plus signs: get=80+set=20.
    #[arg(short = 'o', long, value_delimiter = ',', default_value = "get,set")]
    pub(super) operations: Vec<String>,
    /// Batch sizes.
    #[arg(short = 'P', long, value_delimiter = ',', default_value = "1,16,256", value_parser = positive())]
    pub(super) pipeline: Vec<usize>,
    /// Connections over all threads.
    #[arg(short = 'c', long, value_delimiter = ',', default_value = "50", value_parser = positive())]
    pub(super) connections: Vec<usize>,
    /// Client threads; default: one per load core.
    #[arg(short = 't', long, value_parser = positive())]
    pub(super) threads: Option<usize>,
    /// Length of one measurement in seconds.
    #[arg(short = 's', long, default_value_t = 3.0)]
    pub(super) time: f64,
    /// Load before each measurement in seconds.
    #[arg(long, default_value_t = 0.5)]
    pub(super) warm_up: f64,
    /// Measurements per server and load.
    #[arg(short = 'n', long, default_value_t = 5, value_parser = positive())]
    pub(super) repeats: usize,
    /// Let the client poll instead of sleep, so that servers never pay for waking it.
    #[arg(long)]
    pub(super) spin: bool,
    /// Three repeats of one second.
    #[arg(long)]
    pub(super) quick: bool,
    /// Fail unless our CPU per command is at most this share of the baseline's: OPERATION@PIPELINE=RATIO, as in get@16=0.25.
    #[arg(long, value_name = "SPEC")]
    pub(super) require: Vec<String>,
    #[command(flatten)]
    pub(super) shape: ShapeOptions,
    #[command(flatten)]
    pub(super) output: OutputOptions,
}

/// Prepared requests per thread.
const POOL_BYTES: usize = 64 << 20;

/// What a comparison came to.
pub(super) struct Outcome {
    /// Whether a limit of --require was missed.
    pub(super) missed: bool,
    /// The first server's CPU time per command in the last scenario.
    pub(super) cpu_us: Option<f64>,
}

impl Compare {
    /// Runs the comparison.
    pub fn run(self) -> Result<ExitCode, String> {
        Ok(if self.measure_all()?.missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Starts the servers, fills and measures them, and prints the tables.
    pub(super) fn measure_all(mut self) -> Result<Outcome, String> {
        if self.quick {
            (self.repeats, self.time, self.warm_up) = (3, 1.0, 0.3);
        }
        let spin = if self.spin { ", client polls" } else { "" };
        let limits = self.require.iter().map(|spec| parse_requirement(spec)).collect::<Result<Vec<_>, _>>()?;
        let mut scenarios = self.scenarios()?;
        let candidates = self.lab.candidates()?;
        let subjects = candidates.iter().map(|c| c.start(self.lab.server_threads)).collect::<Result<Vec<_>, String>>()?;
        let names: Vec<&str> = subjects.iter().map(|s| s.name.as_str()).collect();
        let baseline = self.lab.baseline(&names)?;
        let machine = Machine::inspect();
        println!("{}\n{}", machine.line(), describe(&subjects, &self.lab)?);
        machine.advice().iter().for_each(|advice| println!("note: {advice}"));
        println!(
            "{} repeats of {} s, alternating; median (min–max); ratios to {}; CPU is the server's{spin}\n",
            self.repeats, self.time, names[baseline]
        );

        let runner = Runner {
            lab: &self.lab,
            threads: self.threads,
            time: seconds("time", self.time)?,
            warm_up: seconds("warm-up", self.warm_up)?,
            repeats: self.repeats,
            spin: self.spin,
            pool_bytes: POOL_BYTES,
            quiet: self.output.quiet,
        };
        let filled = runner.fill(&subjects, &scenarios)?;
        println!("{}", filled.table);
        runner.measure(&subjects, &mut scenarios)?;

        let mut missed = Vec::new();
        for scenario in &scenarios {
            println!("{}", scenario.table(&names, baseline));
            scenario.warnings().iter().for_each(|warning| println!("{warning}"));
            missed.extend(limits.iter().filter_map(|limit| limit.check(scenario, baseline)));
        }
        missed.iter().for_each(|line| println!("MISSED  {line}"));
        if missed.is_empty() && !limits.is_empty() {
            println!("all {} limits hold", limits.len());
        }
        let runs = scenarios.iter().flat_map(|s| s.samples.iter().flatten()).map(Sample::json).collect();
        let memory: Vec<_> =
            names.iter().zip(filled.bytes_per_key).map(|(name, bytes)| json!({"server": name, "bytes_per_key": bytes})).collect();
        let versions: Vec<_> = subjects.iter().map(|s| json!({"name": s.name, "version": s.version})).collect();
        let extra = json!({"memory": memory, "servers": versions, "baseline": names[baseline]});
        write_values(&self.output, "compare", &machine, runs, extra)?;
        let cpu_us = scenarios.last().and_then(|scenario| Some(scenario.cpu(0)?.median));
        Ok(Outcome { missed: !missed.is_empty(), cpu_us })
    }

    fn scenarios(&self) -> Result<Vec<Scenario>, String> {
        let mut scenarios = Vec::new();
        for operation in &self.operations {
            let workload = Arc::new(Workload::new(Operation::mix(&operation.replace('+', ","))?, self.shape.shape()?)?);
            for &pipeline in &self.pipeline {
                for &connections in &self.connections {
                    scenarios.push(Scenario { workload: workload.clone(), pipeline, connections, samples: Vec::new() });
                }
            }
        }
        Ok(scenarios)
    }
}

/// `get@16=0.25`
#[derive(Debug, PartialEq)]
struct Requirement {
    operation: String,
    pipeline: usize,
    ratio: f64,
}

impl Requirement {
    /// What to say if a scenario misses the limit; `None` if it holds or does not apply.
    fn check(&self, scenario: &Scenario, baseline: usize) -> Option<String> {
        if scenario.workload.name() != self.operation || scenario.pipeline != self.pipeline {
            return None;
        }
        let ratio = scenario.cpu(0)?.median / scenario.cpu(baseline)?.median;
        (ratio > self.ratio).then(|| {
            format!("{} P={}: {ratio:.3} of the baseline's CPU, allowed are {}", self.operation, self.pipeline, self.ratio)
        })
    }
}

fn parse_requirement(spec: &str) -> Result<Requirement, String> {
    let parse = || {
        let (scenario, ratio) = spec.rsplit_once('=')?;
        let (operation, pipeline) = scenario.split_once('@')?;
        Some(Requirement { operation: operation.into(), pipeline: pipeline.parse().ok()?, ratio: ratio.parse().ok()? })
    };
    parse().ok_or_else(|| format!("{spec:?}: write OPERATION@PIPELINE=RATIO, as in get@16=0.25"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements() {
        let expected = Requirement { operation: "get".into(), pipeline: 16, ratio: 0.25 };
        assert_eq!(parse_requirement("get@16=0.25"), Ok(expected));
        assert!(parse_requirement("get=0.25").is_err());
    }
}
