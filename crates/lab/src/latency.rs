//! `latency`: the tail at a share of saturation, quiet, while the key space grows, beside scripts, and beside other operations.
//!
//! Every server is first saturated to learn its throughput, then loaded in open loop at a share of it. The second phase
//! repeats that while one more connection adds as many new keys as there are, so that every hash index doubles at least once.
//! Operations beside have connections and a thread of their own: what they wait for, those that are measured do not.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread::spawn;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::scripts::beside::Beside;
use super::scripts::load::Load as ScriptLoad;
use super::servers::{LabOptions, Subject, describe};
use almandine_bench::cli::options::{OutputOptions, ShapeOptions, seconds};
use almandine_bench::load::{Arrivals, Filling, Load, Measurement, Pace, Preload, preload, run};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::{Sample, write_values};
use almandine_bench::report::statistics::Spread;
use almandine_bench::report::table::{Table, count, or_dash, small};
use almandine_bench::system::machine::Machine;
use almandine_bench::workload::{Operation, Shape, Workload};

/// Keys per batch of the connection that adds keys: small, so that it does not queue ahead of what is measured.
const GROW_BATCH: u64 = 16;
/// The phases beside something else.
const BESIDE_SCRIPTS: &str = "beside scripts";
const BESIDE: &str = "beside operations";

/// Options of `latency`.
#[derive(Debug, Args)]
pub struct Latency {
    #[command(flatten)]
    lab: LabOptions,
    /// Operation or mix.
    #[arg(short = 'o', long, default_value = "get=50,set=50")]
    operations: String,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 50)]
    connections: usize,
    /// Commands per batch.
    #[arg(short = 'P', long, default_value_t = 1)]
    pipeline: usize,
    /// Share of the measured saturation.
    #[arg(long, default_value_t = 0.5)]
    share: f64,
    /// Commands per second for every server, instead of a share of its saturation.
    #[arg(short = 'r', long)]
    rate: Option<f64>,
    /// Length of each phase in seconds.
    #[arg(short = 's', long, default_value_t = 10.0)]
    time: f64,
    /// Repeats of each phase, alternating between the servers; medians are printed.
    #[arg(short = 'n', long, default_value_t = 3)]
    repeats: usize,
    /// Also measure while the number of keys doubles.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    grow: bool,
    #[command(flatten)]
    beside: BesideOptions,
    /// Sleep between sends instead of polling.
    #[arg(long)]
    no_spin: bool,
    /// One repeat of 3 s.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    shape: ShapeOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// What goes on beside what is measured.
#[derive(Debug, Args)]
struct BesideOptions {
    /// Also measure while this script is called.
    #[arg(long, value_enum)]
    beside: Option<ScriptLoad>,
    /// Also measure while this operation or mix is sent, over as many connections of its own.
    #[arg(long, value_name = "OPERATIONS")]
    beside_operations: Option<String>,
    /// Calls of the script per second, and commands of these operations.
    #[arg(long, default_value_t = 2000.0)]
    beside_rate: f64,
    /// Commands of these operations per second, if not as many as calls of the script.
    #[arg(long)]
    beside_operations_rate: Option<f64>,
    /// Calls per batch, and commands of these operations.
    #[arg(long, default_value_t = 1)]
    beside_pipeline: usize,
}

impl Latency {
    /// Measures every server.
    pub fn run(mut self) -> Result<ExitCode, String> {
        if self.quick {
            (self.repeats, self.time) = (1, 3.0);
        }
        let workload = Arc::new(Workload::new(Operation::mix(&self.operations)?, self.shape.shape()?)?);
        let machine = Machine::inspect();
        println!("{}", machine.line());
        let phases = [
            ("steady", true),
            ("growing", self.grow),
            (BESIDE_SCRIPTS, self.beside.beside.is_some()),
            (BESIDE, self.beside.beside_operations.is_some()),
        ];
        let phases: Vec<&'static str> = phases.into_iter().filter(|(_, is_asked)| *is_asked).map(|(name, _)| name).collect();
        let candidates = self.lab.candidates()?;
        let mut rows: Vec<(String, f64, &str, Vec<Sample>)> = Vec::new();
        for repeat in 0..self.repeats {
            for candidate in &candidates {
                let subject = candidate.start(self.lab.server_threads)?;
                if repeat == 0 {
                    println!("{}", describe(std::slice::from_ref(&subject), &self.lab)?);
                }
                let (rate, samples) = self.measure(&subject, &workload, &phases)?;
                for (phase, sample) in phases.iter().zip(samples) {
                    match rows.iter_mut().find(|row| row.0 == subject.name && row.2 == *phase) {
                        Some(row) => row.3.push(sample),
                        None => rows.push((subject.name.clone(), rate, phase, vec![sample])),
                    }
                }
            }
        }
        self.print(&rows);
        let runs = rows.iter().flat_map(|(_, _, phase, samples)| {
            samples.iter().map(move |sample| {
                let mut value = sample.json();
                value["phase"] = json!(phase);
                value
            })
        });
        write_values(&self.output, "latency", &machine, runs.collect(), json!({}))?;
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, rows: &[(String, f64, &str, Vec<Sample>)]) {
        let mut table = Table::new(&[
            "server",
            "phase",
            "rate",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "p99/steady",
            "p99.9/p50",
            "max µs",
            "longest stall µs",
            "keys added",
            "sent late p99.9 µs",
            "server CPU %",
            "all CPU %",
        ]);
        let median_of = |samples: &[Sample], of: &dyn Fn(&Measurement) -> Option<f64>| {
            Spread::of(samples.iter().filter_map(|s| of(&s.measurement))).map(|spread| spread.median)
        };
        for (server, _, phase, samples) in rows {
            let median = |of: &dyn Fn(&Measurement) -> Option<f64>| median_of(samples, of);
            let steady = rows.iter().find(|row| row.0 == *server && row.2 == "steady");
            let p99 = |samples: &[Sample]| median_of(samples, &|m| m.latency_us(0.99));
            let steady = steady.and_then(|row| p99(&row.3));
            let worst = |of: &dyn Fn(&Measurement) -> f64| samples.iter().map(|s| of(&s.measurement)).fold(0.0, f64::max);
            let (p50, p999) = (median(&|m| m.latency_us(0.5)), median(&|m| m.latency_us(0.999)));
            table.row([
                server.clone(),
                (*phase).to_owned(),
                or_dash(median(&Measurement::throughput), count),
                or_dash(p50, small),
                or_dash(median(&|m| m.latency_us(0.99)), small),
                or_dash(p999, small),
                or_dash(p99(samples).zip(steady).map(|(p99, steady)| p99 / steady), small),
                or_dash(p999.zip(p50).map(|(p999, p50)| p999 / p50), small),
                small(worst(&|m| m.latency.max() as f64 / 1e3)),
                small(worst(&|m| m.stall_ns as f64 / 1e3)),
                or_dash(median(&|m| Some(m.added as f64)), count),
                or_dash(median(&|m| Some(m.lateness.value_at_quantile(0.999) as f64 / 1e3)), small),
                or_dash(median(&|m| Some(m.server_cpu? * 100.0 / m.seconds)), count),
                or_dash(median(&|m| Some(m.machine_cpu? * 100.0 / m.seconds)), count),
            ]);
        }
        println!("\n{table}medians of {} repeats; max and stall are the worst of them; 100 % are one core", self.repeats);
        let mut warnings: Vec<String> = rows
            .iter()
            .flat_map(|row| row.3.iter().flat_map(Sample::warnings).map(|w| format!("{} {}: {w}", row.0, row.2)))
            .collect();
        warnings.sort();
        warnings.dedup();
        warnings.iter().for_each(|warning| println!("{warning}"));
    }

    fn measure(&self, subject: &Subject, workload: &Arc<Workload>, phases: &[&str]) -> Result<(f64, Vec<Sample>), String> {
        let cores = self.lab.load_cores()?;
        let bar = Bar::new(&format!("latency of {}", subject.name), self.output.quiet);
        let fill = Preload { cores: cores.clone(), ..Preload::new(subject.target.clone(), workload) };
        preload(&fill, &|share| bar.show(share, "loading"))?;
        let closed = Load {
            connections: self.connections,
            pipeline: self.pipeline,
            time: Duration::from_secs(2),
            cores: cores.clone(),
            server_pid: subject.pid,
            ..Load::new(subject.target.clone(), workload.clone())
        };
        let rate = match self.rate {
            Some(rate) => rate,
            None => {
                let most = run(&closed, &mut |p| bar.show(p.share, "saturating"))?.throughput();
                most.ok_or("no command was answered at saturation: give a rate by --rate")? * self.share
            }
        };
        let pace = Pace::Open { rate, arrivals: Arrivals::Even, spin: !self.no_spin };
        let open = Load { pace, time: seconds("time", self.time)?, ..closed };
        let mut samples = Vec::new();
        for phase in phases {
            let mut note = |p: almandine_bench::load::Progress| bar.show(p.share, &format!("{phase}, {:.0} ops/s", p.rate));
            let filling = if *phase == "growing" { Some(self.filling()?) } else { None };
            let beside = match self.beside.beside {
                Some(load) if *phase == BESIDE_SCRIPTS => {
                    let BesideOptions { beside_rate, beside_pipeline, .. } = self.beside;
                    Some(Beside::begin(&subject.target, load, beside_rate, beside_pipeline)?)
                }
                _ => None,
            };
            let operations = self.beside.beside_operations.as_ref().filter(|_| *phase == BESIDE);
            let others =
                operations.map(|mix| self.others(mix, &open)).transpose()?.map(|load| spawn(move || run(&load, &mut |_| ())));
            let measurement = run(&Load { filling, ..open.clone() }, &mut note)?;
            if let Some(others) = others {
                let others = others.join().map_err(|_| "the load beside has panicked")??;
                let of = |quantile| or_dash(others.latency_us(quantile), small);
                let rate = or_dash(others.throughput(), count);
                println!("{}: {rate} commands per second beside, p50 {} µs, p99 {} µs", subject.name, of(0.5), of(0.99));
            }
            if let Some(beside) = beside {
                let latency = beside.end()?;
                let of = |quantile| small(latency.value_at_quantile(quantile) as f64 / 1e3);
                let rate = latency.len() as f64 * self.beside.beside_pipeline as f64 / self.time;
                println!("{}: {rate:.0} calls of scripts per second beside, p50 {} µs, p99 {} µs", subject.name, of(0.5), of(0.99));
            }
            samples.push(Sample::new(&subject.name, &open, measurement));
        }
        bar.finish();
        Ok((rate, samples))
    }

    /// What is sent beside what is measured, for as long. It never spins: on one core with it, it would take turns with it.
    fn others(&self, mix: &str, measured: &Load) -> Result<Load, String> {
        let workload = Arc::new(Workload::new(Operation::mix(mix)?, self.shape.shape()?)?);
        let rate = self.beside.beside_operations_rate.unwrap_or(self.beside.beside_rate);
        let pace = Pace::Open { rate, arrivals: Arrivals::Even, spin: false };
        let mut cores = measured.cores.clone();
        cores.reverse();
        Ok(Load { workload, pace, cores, pipeline: self.beside.beside_pipeline, seed: measured.seed + 1, ..measured.clone() })
    }

    /// As many new keys as there are, spread over the phase.
    fn filling(&self) -> Result<Filling, String> {
        let shape = self.shape.shape()?;
        let keys = shape.keys;
        let wider = Workload::new(Operation::mix("set")?, Shape { keys: keys * 2, ..shape })?;
        // A little faster than the phase is long, so that the last keys are in when it ends.
        let rate = keys as f64 / self.time * 1.03;
        Ok(Filling { workload: Arc::new(wider), range: (keys, keys * 2), rate, batch: GROW_BATCH })
    }
}
