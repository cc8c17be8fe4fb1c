//! `churn`: overwrites with changing sizes; what stays resident against what is live.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::servers::{Candidate, LabOptions, Subject, describe};
use almandine_bench::cli::options::{OutputOptions, seconds};
use almandine_bench::control::{Reply, Target};
use almandine_bench::generate::value::Lengths;
use almandine_bench::load::{Load, Preload, preload, run};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::report::table::{Table, bytes, count};
use almandine_bench::system::machine::Machine;
use almandine_bench::workload::{Operation, Shape, Workload};

/// What may stay resident: this multiple of the live bytes, and a constant.
const ALLOWED_RATIO: f64 = 1.25;
const ALLOWED_BYTES: f64 = (64 << 20) as f64;

/// Options of `churn`.
#[derive(Debug, Args)]
pub struct Churn {
    #[command(flatten)]
    lab: LabOptions,
    /// Number of keys.
    #[arg(short = 'k', long, default_value_t = 200_000)]
    keys: u64,
    /// Value lengths.
    #[arg(short = 'v', long, default_value = "1-2000", value_parser = Lengths::parse)]
    value: Lengths,
    /// What is done; for example set=80,del=10,setex=10.
    #[arg(short = 'm', long, default_value = "set")]
    mix: String,
    /// Length in seconds per server.
    #[arg(short = 's', long, default_value_t = 30.0)]
    time: f64,
    /// Commands per batch.
    #[arg(short = 'P', long, default_value_t = 16)]
    pipeline: usize,
    /// 50,000 keys, 5 s.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: OutputOptions,
}

struct Outcome {
    operations: u64,
    written: f64,
    empty: u64,
    loaded: u64,
    series: Vec<(f64, u64)>,
    settled: u64,
    live: u64,
    keys: u64,
}

impl Churn {
    /// Churns every server.
    pub fn run(mut self) -> Result<ExitCode, String> {
        if self.quick {
            (self.keys, self.time) = (50_000, 5.0);
        }
        let machine = Machine::inspect();
        println!(
            "{}\n{} keys, values of {} B, {} for {} s",
            machine.line(),
            count(self.keys as f64),
            self.value,
            self.mix,
            self.time
        );
        let mut table = Table::new(&[
            "server",
            "commands",
            "written",
            "empty",
            "loaded",
            "peak",
            "settled",
            "keys",
            "live",
            "(settled − empty)/live",
            "bound 1.25 × live + 64 MiB",
        ]);
        let (mut rows, mut failures) = (Vec::new(), Vec::new());
        for candidate in self.lab.candidates()?.iter().filter(|c| c.is_started_here()) {
            let outcome = match self.measure(candidate) {
                Ok(outcome) => outcome,
                Err(error) => {
                    failures.push(format!("{}: {error}", candidate.name));
                    continue;
                }
            };
            let peak = outcome.series.iter().map(|s| s.1).max().unwrap_or(0);
            let resident = outcome.settled as f64 - outcome.empty as f64;
            let live = outcome.live as f64;
            // The bound is the issue's: the whole process against its live data.
            let holds = outcome.settled as f64 <= ALLOWED_RATIO * live + ALLOWED_BYTES;
            table.row([
                candidate.name.clone(),
                count(outcome.operations as f64),
                bytes(outcome.written),
                bytes(outcome.empty as f64),
                bytes(outcome.loaded as f64),
                bytes(peak as f64),
                bytes(outcome.settled as f64),
                count(outcome.keys as f64),
                bytes(live),
                format!("{:.3}", resident / live.max(1.0)),
                if holds { "held".into() } else { "exceeded".to_owned() },
            ]);
            rows.push(json!({
                "server": candidate.name, "operations": outcome.operations, "empty_bytes": outcome.empty,
                "loaded_bytes": outcome.loaded, "settled_bytes": outcome.settled, "live_bytes": outcome.live,
                "keys": outcome.keys, "held": holds, "resident_bytes_over_seconds": outcome.series,
            }));
        }
        println!("\n{table}live counts key and value bytes of every key that is left, nothing else");
        write_values(&self.output, "churn", &machine, rows, json!({}))?;
        failures.iter().for_each(|failure| println!("not measured: {failure}"));
        Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn measure(&self, candidate: &Candidate) -> Result<Outcome, String> {
        let subject = candidate.start(self.lab.server_threads)?;
        println!("{}", describe(std::slice::from_ref(&subject), &self.lab)?);
        let resident = |subject: &Subject| subject.resident_bytes().ok_or("the memory of the server cannot be read");
        thread::sleep(Duration::from_millis(500));
        let empty = resident(&subject)?;
        let shape = Shape { keys: self.keys, lengths: self.value.clone(), ..Shape::default() };
        let workload = Arc::new(Workload::new(Operation::mix(&self.mix)?, shape)?);
        let bar = Bar::new(&format!("churning {}", subject.name), self.output.quiet);
        let cores = self.lab.load_cores()?;
        preload(&Preload { cores: cores.clone(), ..Preload::new(subject.target.clone(), &workload) }, &|s| bar.show(s, "loading"))?;
        let loaded = resident(&subject)?;
        let load = Load {
            pipeline: self.pipeline,
            connections: 16,
            time: seconds("time", self.time)?,
            warm_up: Duration::ZERO,
            cores,
            server_pid: subject.pid,
            ..Load::new(subject.target.clone(), workload.clone())
        };
        let (start, mut series) = (Instant::now(), Vec::new());
        let measurement = run(&load, &mut |progress| {
            let now = start.elapsed().as_secs_f64();
            if series.last().is_none_or(|last: &(f64, u64)| now - last.0 >= 0.9)
                && let Some(bytes) = subject.resident_bytes()
            {
                series.push((now, bytes));
            }
            bar.show(progress.share, &format!("{:.0} ops/s", progress.rate));
        })?;
        bar.finish();
        if let Some(error) = &measurement.tally.first_error {
            return Err(format!("{} failed during the churn: {error}", subject.name));
        }
        // Reclaiming may end shortly after the writes do.
        thread::sleep(Duration::from_secs(2));
        let settled = resident(&subject)?;
        let (keys, live) = survey(&subject.target, &workload)?;
        let mean = self.value.mean() + 16.0;
        Ok(Outcome {
            operations: measurement.operations,
            written: measurement.operations as f64 * mean,
            empty,
            loaded,
            series,
            settled,
            live,
            keys,
        })
    }
}

/// Counts the keys that are left and the bytes of keys and values, with STRLEN on every key.
fn survey(target: &Target, workload: &Workload) -> Result<(u64, u64), String> {
    const WINDOW: u64 = 512;
    let mut control = target.control()?;
    let scope = workload.scope(almandine_bench::generate::table::DataType::String, 0, 1);
    let (mut keys, mut live) = (0, 0);
    let (mut request, mut key) = (Vec::new(), Vec::new());
    let mut from = 0;
    while from < workload.shape.keys {
        let to = (from + WINDOW).min(workload.shape.keys);
        request.clear();
        for number in from..to {
            key.clear();
            scope.format.write(number, &mut key);
            request.extend_from_slice(format!("*2\r\n$6\r\nSTRLEN\r\n${}\r\n", key.len()).as_bytes());
            request.extend_from_slice(&key);
            request.extend_from_slice(b"\r\n");
        }
        control.send_raw(&request)?;
        for _ in from..to {
            // Values have at least one byte, so that 0 means the key is gone.
            if let Reply::Integer(len @ 1..) = control.next_reply()? {
                keys += 1;
                live += len as u64 + scope.format.len() as u64;
            }
        }
        from = to;
    }
    Ok((keys, live))
}
