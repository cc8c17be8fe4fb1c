//! `handover`: what it costs servers to hand elements to connections that wait for them, with how many others waiting, and how
//! late the timeouts of those are that get nothing.

mod lateness;
mod operation;
mod rig;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use self::lateness::Lateness;
use self::operation::Operation;
use self::rig::{Idle, Rig, wait_until_blocked};
use super::cost::{Cost, Costs, Limit, print_misses};
use super::servers::{Candidate, LabOptions, Subject, describe};
use super::turns::{Turns, on_load_core};
use almandine_bench::cli::options::{OutputOptions, positive, seconds};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::report::table::{Table, count, small};
use almandine_bench::system::affinity::raise_descriptor_limit;
use almandine_bench::system::machine::Machine;

/// What the project holds itself to: of the baseline's time for a hand-over, and milliseconds that a timeout may be late.
const LIMIT: Limit = Limit { total: 1.0, user: 0.5 };
const LATE_MS_MAX: f64 = 10.0;

/// The two parts of the procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    HandOvers,
    Timeouts,
}

/// Options of `handover`.
#[derive(Debug, Clone, Args)]
pub struct HandOver {
    #[command(flatten)]
    lab: LabOptions,
    /// Commands that wait.
    #[arg(short = 'o', long, value_enum, value_delimiter = ',', default_value = "blpop")]
    operations: Vec<Operation>,
    /// Connections that wait, each for a key of its own: at least four times as many as are pushed to at once.
    #[arg(short = 'w', long, default_value_t = 1000, value_parser = positive())]
    waiters: usize,
    /// Elements pushed per batch.
    #[arg(short = 'P', long, value_delimiter = ',', default_value = "1,16,64", value_parser = positive())]
    pipeline: Vec<usize>,
    /// Numbers of connections that push.
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "NUMBERS", value_parser = positive())]
    pushers: Vec<usize>,
    /// Numbers of further keys that are waited for meanwhile, and never come: 0,1000000 shows what a million costs the others.
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "KEYS")]
    idle_waiters: Vec<usize>,
    /// Connections that wait for those keys, at most.
    #[arg(long, default_value_t = 10_000, value_parser = positive(), value_name = "NUMBER")]
    idle_connections: usize,
    /// Numbers of connections that time out, after 50 to 1050 ms each, over and over; five times as long as the rest.
    #[arg(long, value_delimiter = ',', default_value = "100,5000", value_name = "NUMBERS", value_parser = positive())]
    timeout_waiters: Vec<usize>,
    /// Only this part.
    #[arg(long, value_enum, value_name = "PART")]
    part: Option<Part>,
    #[command(flatten)]
    turns: Turns,
    #[command(flatten)]
    output: OutputOptions,
}

/// A load and what it cost.
struct Scenario<'n> {
    load: Load,
    costs: Costs<'n>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Load {
    operation: Operation,
    idle: usize,
    pushers: usize,
    pipeline: usize,
}

/// Bytes that servers take for one key that is waited for.
type IdleBytes = Vec<(String, usize, f64)>;

impl HandOver {
    /// Measures every server.
    pub fn run(mut self) -> Result<ExitCode, String> {
        self.turns.settle();
        self.check()?;
        self.lab.fix_cores()?;
        raise_descriptor_limit(self.connections() as u64 + 200)?;
        let start =
            |candidate: &Candidate| candidate.start_with(self.lab.server_threads, &candidate.clients(self.connections() + 100));
        let subjects = self.lab.candidates()?.iter().map(start).collect::<Result<Vec<_>, String>>()?;
        subjects.iter().for_each(Subject::pause);
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
        let baseline = self.lab.baseline(&names)?;
        let machine = Machine::inspect();
        println!("{}\n{}", machine.line(), describe(&subjects, &self.lab)?);
        machine.advice().iter().for_each(|advice| println!("note: {advice}"));
        println!("{}\n", self.turns.line("element", names[baseline]));
        let (mut runs, mut missed, mut limits) = (Vec::new(), Vec::new(), 0);
        if self.part != Some(Part::Timeouts) {
            let (scenarios, idle) = self.hand_over(&subjects, &names, baseline)?;
            for scenario in &scenarios {
                println!("{}\n{}", scenario.costs.title, scenario.costs.table("elements"));
                scenario.costs.warning().iter().for_each(|warning| println!("{warning}"));
                if subjects.len() > 1 {
                    limits += 1;
                    missed.extend(scenario.costs.misses(LIMIT));
                }
            }
            print_idle(&idle);
            runs.extend(scenarios.iter().flat_map(Scenario::json));
        }
        if self.part != Some(Part::HandOvers) {
            let late = self.time_out(&subjects)?;
            print_lateness(&names, &late);
            for (server, waiters, lateness) in &late {
                limits += usize::from(*server == 0);
                if *server == 0 && lateness.at(1.0) > LATE_MS_MAX {
                    let ms = lateness.at(1.0);
                    missed.push(format!("{waiters} timeouts: {ms:.1} ms late at most, allowed are {LATE_MS_MAX}"));
                }
                runs.push(lateness_json(names[*server], *waiters, lateness));
            }
        }
        let missed = print_misses(limits, &missed);
        let versions: Vec<_> = subjects.iter().map(|s| json!({"name": s.name, "version": s.version})).collect();
        write_values(&self.output, "handover", &machine, runs, json!({"servers": versions, "baseline": names[baseline]}))?;
        Ok(if missed && self.turns.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn check(&self) -> Result<(), String> {
        let most = |numbers: &[usize]| numbers.iter().copied().max().unwrap_or(0);
        let at_once = most(&self.pipeline) * most(&self.pushers);
        if self.waiters < at_once * 4 {
            return Err(format!(
                "--waiters {}: {at_once} elements are pushed at once, give at least {}, so that pushes meet connections that wait",
                self.waiters,
                at_once * 4
            ));
        }
        Ok(())
    }

    /// Connections of the largest run.
    fn connections(&self) -> usize {
        let most = |numbers: &[usize]| numbers.iter().copied().max().unwrap_or(0);
        let handing_over = self.waiters + most(&self.pushers) + self.idle_connections.min(most(&self.idle_waiters));
        handing_over.max(most(&self.timeout_waiters))
    }

    fn loads(&self, operation: Operation, idle: usize) -> Vec<Load> {
        let mut loads = Vec::new();
        for &pushers in &self.pushers {
            loads.extend(self.pipeline.iter().map(|&pipeline| Load { operation, idle, pushers, pipeline }));
        }
        loads
    }

    /// Every load on every server. Only one server has clients at a time: sockets are limited.
    fn hand_over<'n>(
        &self,
        subjects: &[Subject],
        names: &'n [&'n str],
        baseline: usize,
    ) -> Result<(Vec<Scenario<'n>>, IdleBytes), String> {
        let phases = self.turns.phases()?;
        let bar = Bar::new("handing over", self.output.quiet);
        let rounds = self.operations.len() * self.idle_waiters.len() * self.turns.repeats * subjects.len();
        let (mut done, mut all, mut idle_bytes) = (0, Vec::new(), Vec::new());
        for &operation in &self.operations {
            for &idle in &self.idle_waiters {
                let loads = self.loads(operation, idle);
                let new = |&load: &Load| Scenario { load, costs: Costs::new(self.title(load), names, baseline) };
                let mut scenarios: Vec<Scenario<'_>> = loads.iter().map(new).collect();
                for repeat in 0..self.turns.repeats {
                    for (index, subject) in subjects.iter().enumerate() {
                        bar.show(done as f64 / rounds as f64, &format!("{}, {}", subject.name, self.title(loads[0])));
                        done += 1;
                        let measured = on_load_core(&self.lab, subject, || self.measure(subject, operation, idle, &loads, phases));
                        let (costs, bytes) = measured?;
                        scenarios.iter_mut().zip(costs).for_each(|(scenario, cost)| scenario.costs.runs[index].push(cost));
                        idle_bytes.extend(
                            bytes
                                .filter(|_| repeat == 0 && operation == self.operations[0])
                                .map(|bytes| (subject.name.clone(), idle, bytes)),
                        );
                    }
                }
                all.extend(scenarios);
            }
        }
        bar.finish();
        Ok((all, idle_bytes))
    }

    /// All loads on one server, and the bytes that a key takes which is only waited for.
    fn measure(
        &self,
        subject: &Subject,
        operation: Operation,
        idle: usize,
        loads: &[Load],
        phases: [Duration; 2],
    ) -> Result<(Vec<Cost>, Option<f64>), String> {
        subject.target.control()?.ask(&["FLUSHALL"])?;
        let before = subject.resident_bytes();
        let idle =
            (idle > 0).then(|| Idle::new(subject, idle, self.idle_connections).map(|sockets| (sockets, idle))).transpose()?;
        let bytes = idle.as_ref().and_then(|(_, keys)| Some((subject.resident_bytes()? as f64 - before? as f64) / *keys as f64));
        let others = idle.as_ref().map_or(0, |(idle, _)| idle.connections());
        let mut rig = Rig::new(subject, operation, self.waiters, others)?;
        let mut costs = Vec::new();
        for load in loads {
            costs.push(rig.measure(load.pushers, load.pipeline, self.turns.spin, phases)?);
            wait_until_blocked(subject, self.waiters + others)?;
        }
        Ok((costs, bytes))
    }

    /// Server, connections and what was seen of their timeouts.
    fn time_out(&self, subjects: &[Subject]) -> Result<Vec<(usize, usize, Lateness)>, String> {
        let time = seconds("time", self.turns.time * 5.0)?;
        let bar = Bar::new("timing out", self.output.quiet);
        let rounds = self.timeout_waiters.len() * self.turns.repeats * subjects.len();
        let (mut done, mut all) = (0, Vec::new());
        for &waiters in &self.timeout_waiters {
            let mut rows: Vec<(usize, usize, Lateness)> = (0..subjects.len()).map(|n| (n, waiters, Lateness::default())).collect();
            for _ in 0..self.turns.repeats {
                for (row, subject) in rows.iter_mut().zip(subjects) {
                    bar.show(done as f64 / rounds as f64, &format!("{}, {waiters} timeouts", subject.name));
                    done += 1;
                    let seen = on_load_core(&self.lab, subject, || lateness::measure(subject, waiters, time))?;
                    row.2.add(seen, self.turns.repeats);
                }
            }
            all.extend(rows);
        }
        bar.finish();
        Ok(all)
    }

    fn title(&self, load: Load) -> String {
        let idle = if load.idle > 0 { format!(", {} keys idle", count(load.idle as f64)) } else { String::new() };
        let pushers = if load.pushers == 1 { String::new() } else { format!(", {} pushers", load.pushers) };
        format!("{} × {}{pushers}, P={}{idle}", load.operation.name(), count(self.waiters as f64), load.pipeline)
    }
}

fn print_idle(idle: &IdleBytes) {
    for (server, keys, bytes) in idle {
        println!(
            "{server}: {} keys that are only waited for take {bytes:.0} bytes each, connections included",
            count(*keys as f64)
        );
    }
    if !idle.is_empty() {
        println!();
    }
}

fn print_lateness(names: &[&str], late: &[(usize, usize, Lateness)]) {
    let mut table =
        Table::new(&["server", "waiting", "timeouts", "late p50 ms", "p99 ms", "p99.9 ms", "max ms", "earliest ms", "CPU %"]);
    for (server, waiters, lateness) in late {
        let cells = [0.5, 0.99, 0.999, 1.0, 0.0].map(|quantile| format!("{:.2}", lateness.at(quantile)));
        let head = [names[*server].to_owned(), waiters.to_string(), count(lateness.count() as f64)];
        table.row(head.into_iter().chain(cells).chain([small(lateness.cpu * 100.0)]));
    }
    println!("{table}");
}

fn lateness_json(server: &str, waiters: usize, lateness: &Lateness) -> Value {
    json!({
        "server": server, "operation": "timeout", "waiters": waiters, "timeouts": lateness.count(), "cpu_share": lateness.cpu,
        "late_ms_p50": lateness.at(0.5), "late_ms_p99": lateness.at(0.99), "late_ms_p999": lateness.at(0.999),
        "late_ms_max": lateness.at(1.0), "late_ms_min": lateness.at(0.0),
    })
}

impl Scenario<'_> {
    fn json(&self) -> Vec<Value> {
        let load = self.load;
        let run = |(server, cost): (&str, &Cost)| {
            let mut value = cost.json();
            value["server"] = json!(server);
            value["operation"] = json!(load.operation.name().to_lowercase());
            value["pushers"] = json!(load.pushers);
            value["pipeline"] = json!(load.pipeline);
            value["idle_keys"] = json!(load.idle);
            value
        };
        self.costs.each().map(run).collect()
    }
}
