//! `grid`: workloads of every data type beside all peers in one run of a given length, as Markdown, and as JSON for `plot`.
//!
//! Groups are measured one after the other, each over keys of its own: the servers are emptied and filled in between. How long
//! one measurement is follows from the time that is left and from what filling and preparing have taken so far.

mod groups;
mod markdown;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use self::groups::{GROUPS, Group};
use self::markdown::{Part, report};
use super::scenario::{Runner, Scenario};
use super::servers::{LabOptions, Subject, describe};
use almandine_bench::cli::options::{OutputOptions, positive};
use almandine_bench::report::sample::{Sample, write_values};
use almandine_bench::system::machine::Machine;

/// Load before each measurement.
const WARM_UP: Duration = Duration::from_millis(100);
/// What preparing a measurement takes, and filling an element of one server, in seconds, until it is known.
const OVERHEAD: f64 = 0.4;
const ELEMENT: f64 = 2e-6;
/// A measurement is at least and at most so long, in seconds.
const TIME: (f64, f64) = (0.2, 3.0);
/// Prepared requests per thread: making more takes longer than they are used.
const POOL_BYTES: usize = 8 << 20;

/// Options of `grid`.
#[derive(Debug, Args)]
pub struct Grid {
    #[command(flatten)]
    lab: LabOptions,
    /// How long all of it may take.
    #[arg(long, default_value_t = 20.0)]
    minutes: f64,
    /// Measurements per server and load.
    #[arg(short = 'n', long, default_value_t = 3, value_parser = positive())]
    repeats: usize,
    /// Only these groups: strings,values,small-hashes,hashes,lists,sets,sorted-sets,streams,geo,hyperloglogs.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    groups: Vec<String>,
    /// Only these batch sizes; otherwise 1, 16, 64 and 256 as suits the command.
    #[arg(short = 'P', long, value_delimiter = ',', value_parser = positive())]
    pipeline: Vec<usize>,
    /// Share of the usual numbers of keys.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Two minutes, one measurement each at P=16, a tenth of the keys.
    #[arg(long)]
    quick: bool,
    /// Where the tables go besides the terminal.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    output: OutputOptions,
}

/// What has been spent and what is left.
struct Budget {
    begin: Instant,
    minutes: f64,
    /// Measurements done, and their length without overhead.
    done: usize,
    measuring: f64,
    /// Everything that measuring took.
    measured: f64,
    elements: f64,
    filled: f64,
}

impl Grid {
    /// Measures all groups.
    pub fn run(mut self) -> Result<ExitCode, String> {
        if self.quick {
            (self.minutes, self.repeats, self.scale) = (2.0, 1, 0.1);
            if self.pipeline.is_empty() {
                self.pipeline = vec![16];
            }
        }
        if !(self.scale > 0.0 && self.minutes > 0.0) {
            return Err("--scale and --minutes must be above 0".into());
        }
        let mut plan = self.plan()?;
        let candidates = self.lab.candidates()?;
        let subjects = candidates.iter().map(|c| c.start(self.lab.server_threads)).collect::<Result<Vec<_>, String>>()?;
        let names: Vec<String> = subjects.iter().map(|s| format!("{} {}", s.name, s.version).trim().to_owned()).collect();
        let machine = Machine::inspect();
        let head = format!("{}\n{}", machine.line(), describe(&subjects, &self.lab)?);
        println!("{head}");
        machine.advice().iter().for_each(|advice| println!("note: {advice}"));
        let loads: usize = plan.iter().map(|part| part.scenarios.len()).sum();
        println!(
            "{loads} loads, {} repeats, {} servers taking turns: about {:.0} minutes\n",
            self.repeats,
            subjects.len(),
            self.minutes.max(Budget::least(loads * self.repeats * subjects.len()))
        );
        let mut budget = Budget::new(self.minutes);
        for at in 0..plan.len() {
            self.measure(&subjects, &mut plan, at, &mut budget)?;
        }
        let about = format!(
            "{head}\n\nServer CPU in µs per command, 50 connections; medians (least–greatest) of {} measurements; ratio: {}'s \
             to the other's.",
            self.repeats, names[0]
        );
        let text = format!("{about}\n\n{}", report(&plan, &names));
        println!("\n{text}\ntook {:.0} minutes", budget.begin.elapsed().as_secs_f64() / 60.0);
        let mut warnings: Vec<String> = plan.iter().flat_map(|part| part.scenarios.iter().flat_map(Scenario::warnings)).collect();
        warnings.retain(|warning| !warning.contains("client was busier"));
        warnings.sort();
        warnings.dedup();
        warnings.iter().for_each(|warning| println!("{warning}"));
        if let Some(path) = &self.markdown {
            fs::write(path, &text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        }
        let runs = plan.iter().flat_map(|part| part.scenarios.iter().map(move |scenario| (part, scenario)));
        let runs = runs.flat_map(|(part, scenario)| {
            scenario.samples.iter().flatten().map(|sample| {
                let mut value = Sample::json(sample);
                value["group"] = json!(part.group.name);
                value
            })
        });
        let versions: Vec<_> = subjects.iter().map(|s| json!({"name": s.name, "version": s.version})).collect();
        write_values(&self.output, "grid", &machine, runs.collect(), json!({"servers": versions}))?;
        Ok(if warnings.iter().any(|warning| warning.contains("error replies")) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// The groups that are wanted, with their loads.
    fn plan(&self) -> Result<Vec<Part>, String> {
        if let Some(wrong) = self.groups.iter().find(|name| !GROUPS.iter().any(|group| group.name == name.as_str())) {
            let known: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
            return Err(format!("--groups {wrong}: there is no such group; known are {}", known.join(",")));
        }
        let wanted = GROUPS.iter().filter(|group| self.groups.is_empty() || self.groups.iter().any(|name| name == group.name));
        let part = |group: &'static Group| {
            let scenarios = group.scenarios(self.scale, &self.pipeline)?;
            Ok(Part { group, keys: group.keys(self.scale), scenarios })
        };
        let parts = wanted.map(part).collect::<Result<Vec<_>, String>>()?;
        let parts: Vec<Part> = parts.into_iter().filter(|part| !part.scenarios.is_empty()).collect();
        if parts.is_empty() { Err("no load has one of these batch sizes: 1, 16, 64 and 256 are used".into()) } else { Ok(parts) }
    }

    /// Fills the servers for one group and measures it.
    fn measure(&self, subjects: &[Subject], plan: &mut [Part], at: usize, budget: &mut Budget) -> Result<(), String> {
        let per_load = self.repeats * subjects.len();
        let left: usize = plan[at..].iter().map(|part| part.scenarios.len() * per_load).sum();
        let elements = |part: &Part| part.group.elements(self.scale) * subjects.len() as f64;
        let time = budget.time(left, plan[at..].iter().map(elements).sum());
        let minutes = budget.minutes_left(left, time);
        let (total, part) = (plan.len(), &mut plan[at]);
        println!(
            "[{}/{total}] {}: {} measurements of {time:.2} s; about {minutes:.0} minutes left",
            at + 1,
            part.group.name,
            part.scenarios.len() * per_load
        );
        let runner = Runner {
            lab: &self.lab,
            threads: None,
            time: Duration::from_secs_f64(time),
            warm_up: WARM_UP,
            repeats: self.repeats,
            spin: false,
            pool_bytes: POOL_BYTES,
            quiet: self.output.quiet,
        };
        let begin = Instant::now();
        runner.fill(subjects, &part.scenarios)?;
        budget.filled += begin.elapsed().as_secs_f64();
        budget.elements += elements(part);
        let begin = Instant::now();
        runner.measure(subjects, &mut part.scenarios)?;
        let done = part.scenarios.len() * per_load;
        budget.measured += begin.elapsed().as_secs_f64();
        budget.measuring += done as f64 * time;
        budget.done += done;
        Ok(())
    }
}

impl Budget {
    fn new(minutes: f64) -> Self {
        Self { begin: Instant::now(), minutes, done: 0, measuring: 0.0, measured: 0.0, elements: 0.0, filled: 0.0 }
    }

    /// Minutes that this many measurements take at least, as far as is known before the first.
    fn least(measurements: usize) -> f64 {
        measurements as f64 * (TIME.0 + OVERHEAD) / 60.0
    }

    fn overhead(&self) -> f64 {
        if self.done == 0 { OVERHEAD } else { (self.measured - self.measuring) / self.done as f64 }
    }

    /// The length of a measurement, so that all, and filling all elements, end in time.
    fn time(&self, measurements: usize, elements: f64) -> f64 {
        let element = if self.elements == 0.0 { ELEMENT } else { self.filled / self.elements };
        let left = self.minutes * 60.0 - self.begin.elapsed().as_secs_f64() - elements * element;
        (left / measurements.max(1) as f64 - self.overhead()).clamp(TIME.0, TIME.1)
    }

    fn minutes_left(&self, measurements: usize, time: f64) -> f64 {
        let least = measurements as f64 * (time + self.overhead()) / 60.0;
        least.max(self.minutes - self.begin.elapsed().as_secs_f64() / 60.0).min(least * 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_share_what_is_left() {
        let mut budget = Budget::new(10.0);
        assert!((budget.time(500, 0.0) - 0.8).abs() < 0.01);
        assert!((budget.time(500, 50e6) - 0.6).abs() < 0.01, "filling takes a hundred seconds");
        (budget.done, budget.measured, budget.measuring) = (10, 20.0, 10.0);
        assert_eq!(budget.time(500, 0.0), TIME.0, "preparing takes a second each");
        (budget.done, budget.measured, budget.measuring) = (10, 9.0, 8.0);
        assert!((budget.time(500, 0.0) - 1.1).abs() < 0.01);
    }
}
