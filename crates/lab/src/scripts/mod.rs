//! `scripts`: what scripts and functions cost servers, from one GET to a hundred calls and work on strings.
//!
//! Each load is sent by connections on the load's core, in batches, a new one when the replies to the last one are there.

pub(crate) mod beside;
pub(crate) mod load;
mod rig;

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use self::load::Load;
use self::rig::Rig;
use super::cost::{Cost, Costs, Limit, print_misses};
use super::servers::{LabOptions, Subject, describe};
use super::turns::{Turns, on_load_core};
use almandine_bench::cli::options::{OutputOptions, positive};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::system::machine::Machine;

/// Options of `scripts`.
#[derive(Debug, Clone, Args)]
pub struct Scripts {
    #[command(flatten)]
    lab: LabOptions,
    /// Loads.
    #[arg(short = 'o', long, value_enum, value_delimiter = ',', default_values_t = Load::ALL)]
    operations: Vec<Load>,
    /// Commands per batch.
    #[arg(short = 'P', long, default_value_t = 64, value_parser = positive())]
    pipeline: usize,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 50, value_parser = positive())]
    connections: usize,
    /// Keys.
    #[arg(short = 'k', long, default_value_t = 10_000, value_parser = positive())]
    keys: usize,
    #[command(flatten)]
    turns: Turns,
    #[command(flatten)]
    output: OutputOptions,
}

impl Scripts {
    /// Measures every server.
    pub fn run(mut self) -> Result<ExitCode, String> {
        self.turns.settle();
        self.lab.fix_cores()?;
        let subjects =
            self.lab.candidates()?.iter().map(|c| c.start(self.lab.server_threads)).collect::<Result<Vec<_>, String>>()?;
        subjects.iter().for_each(Subject::pause);
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
        let baseline = self.lab.baseline(&names)?;
        let machine = Machine::inspect();
        println!("{}\n{}", machine.line(), describe(&subjects, &self.lab)?);
        machine.advice().iter().for_each(|advice| println!("note: {advice}"));
        println!("{}\n", self.turns.line("call", names[baseline]));
        let costs = self.measure_all(&subjects, &names, baseline)?;
        let (mut limits, mut missed) = (0, Vec::new());
        for (load, costs) in self.operations.iter().zip(&costs) {
            println!("{}\n{}", costs.title, costs.table("calls"));
            costs.warning().iter().for_each(|warning| println!("{warning}"));
            if let Some(total) = load.limit().filter(|_| subjects.len() > 1) {
                limits += 1;
                missed.extend(costs.misses(Limit { total, user: f64::INFINITY }));
            }
        }
        let missed = print_misses(limits, &missed);
        let runs = self.operations.iter().zip(&costs).flat_map(|(load, costs)| self.json(*load, costs)).collect();
        let versions: Vec<_> = subjects.iter().map(|s| json!({"name": s.name, "version": s.version})).collect();
        write_values(&self.output, "scripts", &machine, runs, json!({"servers": versions, "baseline": names[baseline]}))?;
        Ok(if missed && self.turns.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Every load on every server, which take turns.
    fn measure_all<'n>(&self, subjects: &[Subject], names: &'n [&'n str], baseline: usize) -> Result<Vec<Costs<'n>>, String> {
        let phases = self.turns.phases()?;
        let bar = Bar::new("running scripts", self.output.quiet);
        let total = (self.operations.len() * self.turns.repeats * subjects.len()).max(1);
        let (mut done, mut all) = (0, Vec::new());
        for &load in &self.operations {
            let mut costs = Costs::new(format!("{}, P={}", load.title(), self.pipeline), names, baseline);
            for repeat in 0..self.turns.repeats {
                for (index, subject) in subjects.iter().enumerate() {
                    bar.show(done as f64 / total as f64, &format!("{}, {}", subject.name, load.title()));
                    done += 1;
                    let measured: Result<Cost, String> = on_load_core(&self.lab, subject, || {
                        let requests = load.prepare(&subject.target, self.keys, repeat == 0)?;
                        let mut rig = Rig::new(subject, &requests, (self.connections, self.pipeline), self.turns.spin)?;
                        rig.measure(phases)
                    });
                    costs.runs[index].push(measured.map_err(|error| format!("{}, {error}", load.title()))?);
                }
            }
            all.push(costs);
        }
        bar.finish();
        Ok(all)
    }

    fn json(&self, load: Load, costs: &Costs<'_>) -> Vec<Value> {
        let run = |(server, cost): (&str, &Cost)| {
            let mut value = cost.json();
            value["server"] = json!(server);
            value["operation"] = json!(load.name());
            value["pipeline"] = json!(self.pipeline);
            value
        };
        costs.each().map(run).collect()
    }
}
