//! `pubsub`: what a PUBLISH costs servers, by the number of subscribers, publishers and messages per batch.
//!
//! Subscribers are drained by one thread on the load's core, which counts every message: the run fails when one is missing, out
//! of order, or in another order than another subscriber got it.

mod rig;
mod stream;

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use self::rig::{Publishing, Rig};
use super::cost::{Costs, Limit, print_misses};
use super::mark::{MARK_BYTES, SENDERS_MAX};
use super::servers::{LabOptions, Subject, describe};
use super::turns::{Turns, on_load_core};
use almandine_bench::cli::options::{OutputOptions, positive};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::report::table::count;
use almandine_bench::system::affinity::raise_descriptor_limit;
use almandine_bench::system::machine::Machine;

/// What the project holds itself to: subscribers, messages per batch, and the allowed shares of the baseline's time.
const LIMITS: &[(usize, usize, Limit)] = &[
    (1, 64, Limit { total: 0.5, user: 1.0 }),
    (100, 64, Limit { total: 0.5, user: 1.0 }),
    (10_000, 1, Limit { total: 1.0, user: 0.5 }),
];

/// Options of `pubsub`.
#[derive(Debug, Clone, Args)]
pub struct PubSub {
    #[command(flatten)]
    lab: LabOptions,
    /// Numbers of subscribers, all of one channel.
    #[arg(long, value_delimiter = ',', default_value = "1,100,10000", value_name = "NUMBERS")]
    subscribers: Vec<usize>,
    /// Messages per batch.
    #[arg(short = 'P', long, value_delimiter = ',', default_value = "1,64", value_parser = positive())]
    pipeline: Vec<usize>,
    /// Numbers of connections that publish.
    #[arg(long, value_delimiter = ',', default_value = "1,50", value_name = "NUMBERS",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=SENDERS_MAX as u64))]
    publishers: Vec<usize>,
    /// Bytes per message; its number takes 8.
    #[arg(short = 'v', long, value_delimiter = ',', default_value = "8", value_name = "BYTES",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(MARK_BYTES as u64..=1 << 20))]
    payload: Vec<usize>,
    #[command(flatten)]
    turns: Turns,
    #[command(flatten)]
    output: OutputOptions,
}

/// A load and what it cost.
struct Scenario<'n> {
    subscribers: usize,
    publishing: Publishing,
    costs: Costs<'n>,
}

impl PubSub {
    /// Measures every server.
    pub fn run(mut self) -> Result<ExitCode, String> {
        self.turns.settle();
        self.lab.fix_cores()?;
        self.prepare()?;
        let subjects = self.start_servers()?;
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
        let baseline = self.lab.baseline(&names)?;
        let machine = Machine::inspect();
        println!("{}\n{}", machine.line(), describe(&subjects, &self.lab)?);
        machine.advice().iter().for_each(|advice| println!("note: {advice}"));
        println!("{}\n", self.turns.line("PUBLISH", names[baseline]));
        let scenarios = self.measure_all(&subjects, &names, baseline)?;
        let missed = self.report(&subjects, &scenarios);
        let runs = scenarios.iter().flat_map(Scenario::json).collect();
        let versions: Vec<_> = subjects.iter().map(|s| json!({"name": s.name, "version": s.version})).collect();
        write_values(&self.output, "pubsub", &machine, runs, json!({"servers": versions, "baseline": names[baseline]}))?;
        Ok(if missed && self.turns.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Sees to descriptors for all connections of the largest run, here and in the servers that are started from here.
    fn prepare(&self) -> Result<(), String> {
        raise_descriptor_limit(self.connections() as u64 + 200)
    }

    fn connections(&self) -> usize {
        let most = |numbers: &[usize]| numbers.iter().copied().max().unwrap_or(0);
        most(&self.subscribers) + most(&self.publishers)
    }

    /// Starts all servers, with room for all clients.
    fn start_servers(&self) -> Result<Vec<Subject>, String> {
        let clients = self.connections() + 100;
        let candidates = self.lab.candidates()?;
        let start =
            |candidate: &super::servers::Candidate| candidate.start_with(self.lab.server_threads, &candidate.clients(clients));
        let subjects = candidates.iter().map(start).collect::<Result<Vec<_>, String>>()?;
        subjects.iter().for_each(Subject::pause);
        Ok(subjects)
    }

    /// Every load on every server. Only one server has subscribers at a time: sockets are limited.
    fn measure_all<'n>(&self, subjects: &[Subject], names: &'n [&'n str], baseline: usize) -> Result<Vec<Scenario<'n>>, String> {
        let [warm_up, time] = self.turns.phases()?;
        let loads = self.loads();
        let bar = Bar::new("publishing", self.output.quiet);
        let total = (self.subscribers.len() * loads.len() * self.turns.repeats * subjects.len()).max(1);
        let mut done = 0;
        let mut all = Vec::new();
        for &subscribers in &self.subscribers {
            let new = |&publishing: &Publishing| {
                let costs = Costs::new(title(subscribers, publishing), names, baseline);
                Scenario { subscribers, publishing, costs }
            };
            let mut scenarios: Vec<Scenario<'_>> = loads.iter().map(new).collect();
            for _ in 0..self.turns.repeats {
                for (index, subject) in subjects.iter().enumerate() {
                    let measured = on_load_core(&self.lab, subject, || {
                        let mut rig = Rig::new(subject, subscribers)?;
                        let measure = |load: &Publishing| {
                            bar.show(done as f64 / total as f64, &format!("{} {}", subject.name, title(subscribers, *load)));
                            done += 1;
                            rig.measure(*load, warm_up, time)
                        };
                        loads.iter().map(measure).collect::<Result<Vec<_>, String>>()
                    });
                    let costs = measured.map_err(|e| format!("{subscribers} subscribers, {e}"))?;
                    scenarios.iter_mut().zip(costs).for_each(|(scenario, cost)| scenario.costs.runs[index].push(cost));
                }
            }
            all.extend(scenarios);
        }
        bar.finish();
        Ok(all)
    }

    fn loads(&self) -> Vec<Publishing> {
        let mut loads = Vec::new();
        for &payload in &self.payload {
            for &pipeline in &self.pipeline {
                for &publishers in &self.publishers {
                    loads.push(Publishing { publishers, pipeline, payload, spin: self.turns.spin });
                }
            }
        }
        loads
    }

    /// Prints the tables, and whether the limits hold; true when one does not.
    fn report(&self, subjects: &[Subject], scenarios: &[Scenario<'_>]) -> bool {
        let (mut limits, mut missed) = (0, Vec::new());
        for scenario in scenarios {
            println!("{}\n{}", scenario.costs.title, scenario.costs.table("publishes"));
            scenario.costs.warning().iter().for_each(|warning| println!("{warning}"));
            let of = |&&(subscribers, pipeline, _): &&(usize, usize, Limit)| {
                subscribers == scenario.subscribers && pipeline == scenario.publishing.pipeline
            };
            // What servers without a limit of their own cost is no promise of the project.
            for (_, _, limit) in LIMITS.iter().filter(of).filter(|_| subjects.len() > 1) {
                limits += 1;
                missed.extend(scenario.costs.misses(*limit));
            }
        }
        print_misses(limits, &missed)
    }
}

impl Scenario<'_> {
    fn json(&self) -> Vec<Value> {
        let load = self.publishing;
        let run = |(server, cost): (&str, &super::cost::Cost)| {
            let mut value = cost.json();
            value["server"] = json!(server);
            value["operation"] = json!("publish");
            value["subscribers"] = json!(self.subscribers);
            value["publishers"] = json!(load.publishers);
            value["pipeline"] = json!(load.pipeline);
            value["payload"] = json!(load.payload);
            value["deliveries_per_second"] = json!(cost.rate * self.subscribers as f64);
            value
        };
        self.costs.each().map(run).collect()
    }
}

fn title(subscribers: usize, load: Publishing) -> String {
    let plural = |number: usize, word: &str| format!("{} {word}{}", count(number as f64), if number == 1 { "" } else { "s" });
    let (to, by) = (plural(subscribers, "subscriber"), plural(load.publishers, "publisher"));
    format!("{to}, {by}, P={}, {} B", load.pipeline, load.payload)
}
