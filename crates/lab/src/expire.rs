//! `expire`: many keys due over a short time; how long they outlive their time, and what reclaiming them costs.
//!
//! Due times are spread evenly, so the number of keys that should be left is known at every instant. By Little's law the
//! mean lag per key is the area between the keys that are there and the keys that should be, divided by the number of keys.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::json;

use super::servers::{LabOptions, Subject, describe};
use almandine_bench::cli::options::OutputOptions;
use almandine_bench::generate::template::Template;
use almandine_bench::load::{Preload, preload};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::report::table::{Table, bytes, count};
use almandine_bench::system::machine::Machine;
use almandine_bench::system::process;
use almandine_bench::workload::{Operation, Shape, Workload};

/// Options of `expire`.
#[derive(Debug, Args)]
pub struct Expire {
    #[command(flatten)]
    lab: LabOptions,
    /// Number of keys.
    #[arg(short = 'k', long, default_value_t = 1_000_000)]
    keys: u64,
    /// Seconds over which they fall due.
    #[arg(long, default_value_t = 10)]
    over: u64,
    /// Seconds from the start of loading to the first due time.
    #[arg(long, default_value_t = 8)]
    lead: u64,
    /// Give up this many seconds after the last key was due.
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// 100,000 keys over 3 s.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: OutputOptions,
}

struct Outcome {
    lag_mean: f64,
    lag_median: f64,
    lag_last: f64,
    left: u64,
    cpu_share: Option<f64>,
    before: Option<u64>,
    after: Option<u64>,
    series: Vec<(f64, u64)>,
}

impl Expire {
    /// Measures every server.
    pub fn run(mut self) -> Result<ExitCode, String> {
        if self.quick {
            (self.keys, self.over, self.lead, self.patience) = (100_000, 3, 2, 30);
        }
        let machine = Machine::inspect();
        println!("{}\n{} keys due over {} s", machine.line(), count(self.keys as f64), self.over);
        let mut table = Table::new(&[
            "server",
            "mean lag s",
            "median key s",
            "last key s",
            "left",
            "CPU while due, % of a core",
            "loaded",
            "afterwards",
        ]);
        let (mut rows, mut failures) = (Vec::new(), Vec::new());
        for candidate in self.lab.candidates()? {
            let subject = candidate.start(self.lab.server_threads)?;
            println!("{}", describe(std::slice::from_ref(&subject), &self.lab)?);
            let outcome = match self.measure(&subject) {
                Ok(outcome) => outcome,
                Err(error) => {
                    failures.push(format!("{}: {error}", subject.name));
                    continue;
                }
            };
            let memory = |b: Option<u64>| b.map_or("–".into(), |b| bytes(b as f64));
            table.row([
                subject.name.clone(),
                format!("{:.3}", outcome.lag_mean),
                format!("{:.3}", outcome.lag_median),
                format!("{:.3}", outcome.lag_last),
                count(outcome.left as f64),
                outcome.cpu_share.map_or("–".into(), |share| format!("{:.1}", share * 100.0)),
                memory(outcome.before),
                memory(outcome.after),
            ]);
            rows.push(json!({
                "server": subject.name, "keys": self.keys, "lag_mean_s": outcome.lag_mean, "lag_median_s": outcome.lag_median,
                "lag_last_s": outcome.lag_last, "left": outcome.left, "cpu_share": outcome.cpu_share,
                "loaded_bytes": outcome.before, "after_bytes": outcome.after, "keys_over_seconds": outcome.series,
            }));
        }
        println!("\n{table}lag: from a key's due time until DBSIZE no longer counts it");
        write_values(&self.output, "expire", &machine, rows, json!({}))?;
        failures.iter().for_each(|failure| println!("not measured: {failure}"));
        Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn measure(&self, subject: &Subject) -> Result<Outcome, String> {
        let due = unix_ms() + self.lead * 1000;
        let mut workload = Workload::new(Operation::mix("set")?, Shape { keys: self.keys, ..Shape::default() })?;
        workload.due = (due, self.over * 1000);
        let bar = Bar::new(&format!("expiry of {}", subject.name), self.output.quiet);
        let plan = Preload {
            template: Some(Template::parse("SET __key__ __value__ PXAT __due__")?),
            cores: self.lab.load_cores()?,
            ..Preload::new(subject.target.clone(), &workload)
        };
        preload(&plan, &|share| bar.show(share, "loading"))?;
        let Some(wait) = due.checked_sub(unix_ms()) else {
            return Err(format!("{} took longer than {} s to load; raise --lead", subject.name, self.lead));
        };
        let before = subject.resident_bytes();
        thread::sleep(Duration::from_millis(wait));
        let cpu_before = subject.pid.and_then(process::cpu_seconds);
        let series = self.watch(subject, &bar)?;
        bar.finish();
        let cpu = cpu_before.zip(subject.pid.and_then(process::cpu_seconds)).map(|(before, after)| after - before);
        let watched = series.last().map_or(1.0, |last| last.0).max(0.001);
        thread::sleep(Duration::from_secs(1));
        let (over, keys) = (self.over as f64, self.keys as f64);
        let fell_below = |left: f64| series.iter().find(|s| (s.1 as f64) <= left).map_or(watched, |s| s.0);
        Ok(Outcome {
            lag_mean: mean_lag(&series, keys, over),
            lag_median: (fell_below(keys / 2.0) - over / 2.0).max(0.0),
            lag_last: (fell_below(0.0) - over).max(0.0),
            left: series.last().map_or(0, |s| s.1),
            cpu_share: cpu.map(|cpu| cpu / watched),
            before,
            after: subject.resident_bytes(),
            series,
        })
    }

    /// Samples DBSIZE from the first due time until nothing is left: seconds and keys.
    fn watch(&self, subject: &Subject, bar: &Bar) -> Result<Vec<(f64, u64)>, String> {
        let mut control = subject.target.control()?;
        let (start, mut series) = (Instant::now(), Vec::new());
        loop {
            let left = control.integer(&["DBSIZE"])?.max(0) as u64;
            let now = start.elapsed().as_secs_f64();
            series.push((now, left));
            bar.show(1.0 - left as f64 / self.keys as f64, &format!("{left} keys left"));
            if left == 0 || now > (self.over + self.patience) as f64 {
                return Ok(series);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The area between the keys that are there and the keys that should be, per key.
fn mean_lag(series: &[(f64, u64)], keys: f64, over: f64) -> f64 {
    let overdue = |&(at, left): &(f64, u64)| (left as f64 - keys * (1.0 - at / over).max(0.0)).max(0.0);
    let area: f64 = series.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (overdue(&pair[0]) + overdue(&pair[1])) / 2.0).sum();
    area / keys
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_the_area_over_the_ideal() {
        let ideal: Vec<(f64, u64)> = (0..=100).map(|i| (f64::from(i) / 10.0, 1000 - i as u64 * 10)).collect();
        assert!(mean_lag(&ideal, 1000.0, 10.0).abs() < 1e-9);
        // Everything stays until 12 s: the keys are due at 5 s on average, so the mean lag is 7 s.
        let late: Vec<(f64, u64)> = (0..=1200).map(|i| (f64::from(i) / 100.0, if i < 1200 { 1000 } else { 0 })).collect();
        assert!((mean_lag(&late, 1000.0, 10.0) - 7.0).abs() < 0.02);
    }
}
