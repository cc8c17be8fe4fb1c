//! `compare`: the same loads on every server, alternating, with medians and ratios.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::servers::{FLOOR, LabOptions, Subject, describe};
use super::statistics::{Spread, ratio};
use super::teach::teach;
use crate::cli::options::{OutputOptions, ShapeOptions, positive, seconds};
use crate::load::{Load, Pace, Preload, Progress, preload, run};
use crate::report::progress::Bar;
use crate::report::sample::{Sample, write_values};
use crate::report::table::{Table, count, small};
use crate::system::machine::Machine;
use crate::workload::{Operation, Workload};

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

/// What a comparison came to.
pub(super) struct Outcome {
    /// Whether a limit of --require was missed.
    pub(super) missed: bool,
    /// The first server's CPU time per command in the last scenario.
    pub(super) cpu_us: Option<f64>,
}

/// One load and all its repeats on all servers.
struct Scenario {
    workload: Arc<Workload>,
    pipeline: usize,
    connections: usize,
    /// Per server.
    samples: Vec<Vec<Sample>>,
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

        let memory = self.fill(&subjects, &scenarios)?;
        self.measure(&subjects, &mut scenarios)?;

        let mut missed = Vec::new();
        for scenario in &scenarios {
            println!("{}", scenario.table(&names, baseline));
            scenario.warnings().iter().for_each(|warning| println!("{warning}"));
            missed.extend(limits.iter().filter_map(|limit| scenario.check(limit, baseline)));
        }
        missed.iter().for_each(|line| println!("MISSED  {line}"));
        if missed.is_empty() && !limits.is_empty() {
            println!("all {} limits hold", limits.len());
        }
        let runs = scenarios.iter().flat_map(|s| s.samples.iter().flatten()).map(Sample::json).collect();
        let memory: Vec<_> =
            names.iter().zip(memory).map(|(name, bytes)| json!({"server": name, "bytes_per_key": bytes})).collect();
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

    /// Loads every server with the keys of all scenarios and prints what a key costs.
    fn fill(&self, subjects: &[Subject], scenarios: &[Scenario]) -> Result<Vec<Option<f64>>, String> {
        let operations = scenarios.iter().flat_map(|s| s.workload.operations.clone()).collect();
        let workload = Workload::new(operations, self.shape.shape()?)?;
        let mut table = Table::new(&["server", "empty MiB", "keys", "filled MiB", "bytes/key"]);
        let mut result = Vec::new();
        subjects.iter().for_each(Subject::pause);
        for subject in subjects {
            subject.resume();
            if subject.key_count() > Some(0) {
                subject.target.control()?.ask(&["FLUSHALL"])?;
            }
            thread::sleep(Duration::from_millis(300));
            let empty = subject.resident_bytes();
            let bar = Bar::new(&format!("loading {}", subject.name), self.output.quiet);
            let plan = Preload { cores: self.lab.load_cores()?, ..Preload::new(subject.target.clone(), &workload) };
            let sent = preload(&plan, &|share| bar.show_loading(share, plan.range.1 - plan.range.0))?;
            bar.finish();
            thread::sleep(Duration::from_millis(500));
            let (filled, keys) = (subject.resident_bytes(), subject.key_count().unwrap_or(sent));
            let per_key = empty.zip(filled).map(|(empty, filled)| (filled as f64 - empty as f64) / keys.max(1) as f64);
            let mib = |bytes: Option<u64>| bytes.map_or("–".into(), |b| format!("{:.1}", b as f64 / f64::from(1 << 20)));
            let shown = per_key.map_or("–".into(), |b| format!("{b:.1}"));
            table.row([subject.name.clone(), mib(empty), count(keys as f64), mib(filled), shown]);
            result.push(per_key);
            subject.pause();
        }
        println!("{table}");
        self.teach(subjects, &workload)?;
        Ok(result)
    }

    /// Has canned replies be those of the first server that is none of them.
    fn teach(&self, subjects: &[Subject], workload: &Workload) -> Result<(), String> {
        let (floors, others): (Vec<&Subject>, Vec<&Subject>) = subjects.iter().partition(|subject| subject.name == FLOOR);
        for (floor, model) in floors.into_iter().filter(|_| self.lab.floor).zip(others) {
            model.resume();
            floor.resume();
            teach(floor, model, workload)?;
            model.pause();
            floor.pause();
        }
        Ok(())
    }

    fn measure(&self, subjects: &[Subject], scenarios: &mut [Scenario]) -> Result<(), String> {
        let cores = self.lab.load_cores()?;
        let bar = Bar::new("comparing", self.output.quiet);
        let total = (scenarios.len() * self.repeats * subjects.len()).max(1);
        let mut done = 0;
        for scenario in scenarios {
            scenario.samples = vec![Vec::new(); subjects.len()];
            for repeat in 0..self.repeats {
                for (index, subject) in subjects.iter().enumerate() {
                    let load = Load {
                        connections: scenario.connections,
                        threads: self.threads.unwrap_or(cores.len()),
                        pipeline: scenario.pipeline,
                        pace: Pace::Closed { in_flight: 1, spin: self.spin },
                        time: seconds("time", self.time)?,
                        warm_up: seconds("warm-up", self.warm_up)?,
                        cores: cores.clone(),
                        seed: repeat as u64 + 1,
                        server_pid: subject.pid,
                        ..Load::new(subject.target.clone(), scenario.workload.clone())
                    };
                    subject.resume();
                    let note = format!("{} {} P={}", subject.name, scenario.workload.name(), scenario.pipeline);
                    let show = &mut |p: Progress| bar.show_rate((done as f64 + p.share) / total as f64, &note, p.rate);
                    let measurement = run(&load, show).map_err(|e| format!("{note}: {e}"))?;
                    subject.pause();
                    scenario.samples[index].push(Sample::new(&subject.name, &load, measurement));
                    done += 1;
                }
            }
        }
        bar.finish();
        Ok(())
    }
}

impl Scenario {
    fn spread(&self, server: usize, of: impl Fn(&Sample) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.samples[server].iter().filter_map(of))
    }

    fn cpu(&self, server: usize) -> Option<Spread> {
        self.spread(server, |s| s.measurement.server_cpu_us())
    }

    fn table(&self, names: &[&str], baseline: usize) -> Table {
        let title = format!("{} P={} c={}", self.workload.name().to_uppercase(), self.pipeline, self.connections);
        let mut table = Table::new(&[&title, "CPU µs/op", "× CPU", "ops/s", "× ops", "p50 µs", "p99 µs", "p99.9 µs", "client µs"]);
        let rate = |server| self.spread(server, |s| Some(s.measurement.throughput()));
        for (server, name) in names.iter().enumerate() {
            let latency =
                |q: f64| self.spread(server, |s| Some(s.measurement.latency_us(q))).map_or("–".into(), |s| small(s.median));
            let (cpu, ops) = (self.cpu(server), rate(server));
            table.row([
                (*name).to_owned(),
                cpu.map_or("–".into(), |s| s.show(small)),
                ratio(cpu.map(|s| s.median), self.cpu(baseline).map(|s| s.median)),
                ops.map_or("–".into(), |s| s.show(count)),
                ratio(ops.map(|s| s.median), rate(baseline).map(|s| s.median)),
                latency(0.5),
                latency(0.99),
                latency(0.999),
                self.spread(server, |s| Some(s.measurement.client_cpu_us())).map_or("–".into(), |s| small(s.median)),
            ]);
        }
        table
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
            .samples
            .iter()
            .flatten()
            .flat_map(|sample| sample.warnings().into_iter().map(|warning| format!("{}: {warning}", sample.server)))
            .collect();
        warnings.sort();
        warnings.dedup();
        warnings
    }

    /// What to say if this scenario misses the limit; `None` if it holds or does not apply.
    fn check(&self, limit: &Requirement, baseline: usize) -> Option<String> {
        if self.workload.name() != limit.operation || self.pipeline != limit.pipeline {
            return None;
        }
        let (ours, theirs) = (self.cpu(0)?.median, self.cpu(baseline)?.median);
        let ratio = ours / theirs;
        (ratio > limit.ratio).then(|| {
            format!("{} P={}: {ratio:.3} of the baseline's CPU, allowed are {}", limit.operation, limit.pipeline, limit.ratio)
        })
    }
}

/// `get@16=0.25`
#[derive(Debug, PartialEq)]
struct Requirement {
    operation: String,
    pipeline: usize,
    ratio: f64,
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
