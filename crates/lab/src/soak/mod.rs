//! `soak`: churn for a long time, with every reply checked and memory, device and key count watched.
//!
//! The exit status is the result: a wrong, lost or resurrected value, memory beyond the budget, or space on the device
//! that is not given back makes it fail. What grows slowly without exceeding anything is printed as drift.

mod driver;
mod gauge;
mod model;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use self::driver::Driver;
use self::gauge::{BEYOND_BYTES, Sample, drift_per_hour};
use super::folder::Folder;
use super::info::Info;
use super::servers::{Candidate, LabOptions, OURS, Subject, describe};
use super::size::byte_size;
use super::watch::Watch;
use almandine_bench::cli::options::OutputOptions;
use almandine_bench::generate::value::Lengths;
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::report::table::{Table, bytes, count};
use almandine_bench::system::affinity::pin_this_thread;
use almandine_bench::system::machine::Machine;

/// Share of the keys that are there on average under this churn.
const PRESENT: f64 = 0.75;
/// After this many wrong replies the rest would say nothing new.
const VIOLATIONS_MAX: u64 = 1000;
/// Minutes from which on a run says whether memory drifts.
const DRIFT_MINUTES: f64 = 20.0;
/// Resident memory may grow by one part in this many of the budget per hour.
const DRIFT_SHARE: u64 = 20;

/// Options of `soak`.
#[derive(Debug, Args)]
pub struct Soak {
    #[command(flatten)]
    lab: LabOptions,
    /// Length in minutes, loading and settling not counted.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Keep what does not fit into memory on a device, in a folder below this one (default: the system's temporary directory)
    /// that is removed afterwards. Without this option all data stays in memory.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = "")]
    storage_dir: Option<PathBuf>,
    /// Memory budget.
    #[arg(long, default_value = "256mb", value_parser = byte_size)]
    maxmemory: u64,
    /// Live data in multiples of the memory budget.
    #[arg(long, default_value_t = 4.0)]
    ratio: f64,
    /// Value lengths.
    #[arg(short = 'v', long, default_value = "16-200:60,200-2000:34,2000-16000:5,16400-100000:1", value_parser = Lengths::parse)]
    value: Lengths,
    /// Commands per second; 0 for as many as go, which writes terabytes in an hour.
    #[arg(short = 'r', long, default_value_t = 100_000)]
    rate: u64,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 16)]
    connections: u64,
    /// Seconds between two samples.
    #[arg(long, default_value_t = 5.0)]
    every: f64,
    /// Seconds that background work has to give space back at the end.
    #[arg(long, default_value_t = 120.0)]
    settle: f64,
    /// What the device may take beyond 1.5 × live.
    #[arg(long, default_value = "64mb", value_parser = byte_size)]
    device_slack: u64,
    /// Seed of all choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputOptions,
}

/// Notes a bound that does not hold.
fn exceeds(problems: &mut Vec<String>, what: &str, value: Option<u64>, bound: u64) {
    if let Some(value) = value.filter(|&value| value > bound) {
        problems.push(format!("{what}: {}, allowed are {}", bytes(value as f64), bytes(bound as f64)));
    }
}

/// What one server showed.
struct Outcome {
    samples: Vec<Sample>,
    /// After the churn, with background work done.
    settled: Sample,
    resident_most: u64,
    operations: u64,
    problems: Vec<String>,
}

impl Soak {
    /// Soaks every server that was chosen; ours by default.
    pub fn run(mut self) -> Result<ExitCode, String> {
        if self.lab.only.is_empty() && self.lab.peers.is_empty() {
            self.lab.only = vec![OURS.into()];
        }
        let machine = Machine::inspect();
        let place = if self.storage_dir.is_some() { "on a device" } else { "in memory" };
        println!(
            "{}\n{:.3} minutes of churn {place}: {} live, values of {} B, {} connections",
            machine.line(),
            self.minutes,
            bytes(self.ratio * self.maxmemory as f64),
            self.value,
            self.connections
        );
        self.lab.fix_cores()?;
        pin_this_thread(&self.lab.load_cores()?)?;
        let (mut rows, mut failed) = (Vec::new(), false);
        for candidate in self.lab.candidates()?.iter().filter(|c| self.storage_dir.is_none() || c.is_ours()) {
            let outcome = self.soak(candidate)?;
            self.report(&candidate.name, &outcome);
            failed |= !outcome.problems.is_empty();
            rows.push(self.json(&candidate.name, &outcome));
        }
        if rows.is_empty() {
            return Err("our server was not found: build it (cargo build --release) or give --server-binary".into());
        }
        write_values(&self.output, "soak", &machine, rows, json!({}))?;
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Keys such that the wanted amount is live.
    fn keys(&self) -> u64 {
        let record = (self.value.mean() + 16.0) * PRESENT;
        (self.ratio * self.maxmemory as f64 / record).max(1.0) as u64
    }

    fn start(&self, candidate: &Candidate) -> Result<(Option<Folder>, Subject), String> {
        let Some(parent) = &self.storage_dir else { return Ok((None, candidate.start(self.lab.server_threads)?)) };
        let folder = Folder::new(Some(parent.as_path()).filter(|path| !path.as_os_str().is_empty()))?;
        let store = folder.path().to_string_lossy().into_owned();
        let arguments = ["--storage-dir", &store, "--maxmemory", &self.maxmemory.to_string()].map(str::to_owned);
        let subject = candidate.start_with(self.lab.server_threads, &arguments)?;
        Ok((Some(folder), subject))
    }

    fn soak(&self, candidate: &Candidate) -> Result<Outcome, String> {
        // Dropped in reverse: the server has ended when its folder is removed.
        let (_folder, subject) = self.start(candidate)?;
        println!("{}", describe(std::slice::from_ref(&subject), &self.lab)?);
        let watch = subject.pid.map(Watch::start);
        let bar = Bar::new(&format!("soaking {}", subject.name), self.output.quiet);
        let mut driver = Driver::connect(&subject.target, self.keys(), self.value.clone(), self.connections, self.seed)?;
        driver.sweep(true, &mut |share| bar.show(share, "loading"))?;
        let samples = self.churn(&subject, &mut driver, &bar)?;
        let settled = self.settle(&subject, &driver, &samples)?;
        driver.sweep(false, &mut |share| bar.show(share, "reading everything"))?;
        bar.finish();
        let resident_most = watch.map_or(0, |watch| watch.most());
        let mut problems = self.judge_churn(&samples, resident_most);
        problems.append(&mut self.judge_settled(&settled));
        problems.extend(self.count_keys(&subject, &driver)?);
        if driver.violations > 0 {
            problems.push(format!("{} wrong replies; the first of them:", driver.violations));
            problems.append(&mut driver.shown);
        }
        Ok(Outcome { samples, settled, resident_most, operations: driver.operations, problems })
    }

    fn churn(&self, subject: &Subject, driver: &mut Driver, bar: &Bar) -> Result<Vec<Sample>, String> {
        let length = Duration::try_from_secs_f64(self.minutes * 60.0).map_err(|_| "--minutes must be a number of minutes")?;
        let (start, first) = (Instant::now(), driver.operations);
        let (mut samples, mut next) = (Vec::new(), 0.0);
        while start.elapsed() < length && driver.violations < VIOLATIONS_MAX {
            if self.rate > 0 {
                let due = Duration::from_secs_f64((driver.operations - first) as f64 / self.rate as f64);
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
            driver.churn()?;
            let now = start.elapsed().as_secs_f64();
            if now >= next {
                next = now + self.every.max(0.1);
                let sample = self.sample(subject, driver, now)?;
                bar.show(now / length.as_secs_f64(), &format!("{} wrong", driver.violations));
                samples.push(sample);
            }
        }
        Ok(samples)
    }

    fn sample(&self, subject: &Subject, driver: &Driver, seconds: f64) -> Result<Sample, String> {
        let mut control = subject.target.control()?;
        let info = Info::read(&mut control)?;
        let live = driver.model.live(driver.now());
        Ok(Sample {
            seconds,
            resident: subject.resident_bytes(),
            used: info.number("used_memory"),
            device: info.number("storage_device_bytes").filter(|_| self.storage_dir.is_some()),
            storage_live: info.number("storage_live_bytes").filter(|_| self.storage_dir.is_some()),
            index: info.number("storage_index_bytes"),
            dbsize: control.integer(&["DBSIZE"])?.max(0) as u64,
            keys: live.keys,
            live: live.value_bytes + live.keys * driver.key_len(),
            operations: driver.operations,
        })
    }

    /// Waits until the bounds hold, or the time for that is over.
    fn settle(&self, subject: &Subject, driver: &Driver, samples: &[Sample]) -> Result<Sample, String> {
        let start = Instant::now();
        let offset = samples.last().map_or(0.0, |s| s.seconds);
        loop {
            let sample = self.sample(subject, driver, offset + start.elapsed().as_secs_f64())?;
            let late = start.elapsed().as_secs_f64() > self.settle;
            if late || (start.elapsed() > Duration::from_secs(2) && self.judge_settled(&sample).is_empty()) {
                return Ok(sample);
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Bounds that did not hold while it churned.
    fn judge_churn(&self, samples: &[Sample], resident_most: u64) -> Vec<String> {
        let mut problems = Vec::new();
        if self.storage_dir.is_none() {
            return problems;
        }
        exceeds(&mut problems, "resident at most", Some(resident_most), self.maxmemory + BEYOND_BYTES);
        let excess = |sample: &&Sample| sample.device.unwrap_or(0).saturating_sub(sample.device_bound(self.device_slack));
        if let Some(worst) = samples.iter().max_by_key(excess) {
            let when = format!("on the device after {:.0} s", worst.seconds);
            exceeds(&mut problems, &when, worst.device, worst.device_bound(self.device_slack));
        }
        // In a shorter run what is live still finds its level.
        if self.minutes >= DRIFT_MINUTES
            && let Some(drift) = drift_per_hour(samples, |sample| sample.resident.map(|bytes| bytes as f64))
        {
            exceeds(&mut problems, "resident memory grows per hour by", Some(drift.max(0.0) as u64), self.maxmemory / DRIFT_SHARE);
        }
        problems
    }

    /// Bounds that do not hold when it has come to rest.
    fn judge_settled(&self, settled: &Sample) -> Vec<String> {
        let mut problems = Vec::new();
        match self.storage_dir.is_some() {
            true => exceeds(&mut problems, "on the device after settling", settled.device, settled.device_bound(self.device_slack)),
            false => exceeds(&mut problems, "resident after settling", settled.resident, settled.memory_bound()),
        }
        problems
    }

    /// Whether DBSIZE agrees with what must be there, once every key has been asked for.
    fn count_keys(&self, subject: &Subject, driver: &Driver) -> Result<Option<String>, String> {
        let mut control = subject.target.control()?;
        let before = driver.model.live(driver.now());
        let dbsize = control.integer(&["DBSIZE"])?.max(0) as u64;
        let after = driver.model.live(driver.now());
        if driver.violations > 0 {
            return Ok(None);
        }
        // Keys that are due may be counted until they are reclaimed; those that have just been asked for are not.
        let (least, most) = (after.keys, before.keys + before.uncertain + driver.model.keys() / 50);
        let wrong = !(least..=most).contains(&dbsize);
        Ok(wrong.then(|| format!("DBSIZE is {dbsize}, but there must be {least} to {most} keys")))
    }

    fn report(&self, name: &str, outcome: &Outcome) {
        let mut table = Table::new(&[name, "first", "greatest", "last", "settled", "drift per hour"]);
        let size = |b: Option<f64>| b.map_or("–".into(), bytes);
        let mut row = |about: &str, show: &dyn Fn(Option<f64>) -> String, of: &dyn Fn(&Sample) -> Option<f64>| {
            let values = || outcome.samples.iter().filter_map(of);
            let drift = drift_per_hour(&outcome.samples, of).map_or("–".into(), |drift| {
                let sign = if drift < 0.0 { "-" } else { "+" };
                format!("{sign}{}", show(Some(drift.abs())))
            });
            let (first, last) = (outcome.samples.first().and_then(of), outcome.samples.last().and_then(of));
            table.row([about.into(), show(first), show(values().reduce(f64::max)), show(last), show(of(&outcome.settled)), drift]);
        };
        let float = |b: Option<u64>| b.map(|b| b as f64);
        row("resident", &size, &|s| float(s.resident));
        row("used_memory", &size, &|s| float(s.used));
        row("index", &size, &|s| float(s.index));
        row("on the device", &size, &|s| float(s.device));
        row("live, by the server", &size, &|s| float(s.storage_live));
        row("live, by the model", &size, &|s| Some(s.live as f64));
        let number = |n: Option<f64>| n.map_or("–".into(), count);
        row("keys, by the server", &number, &|s| Some(s.dbsize as f64));
        row("keys, by the model", &number, &|s| Some(s.keys as f64));
        println!("\n{table}{} commands, every reply checked; resident at most {}", count(outcome.operations as f64), {
            let most = outcome.resident_most as f64;
            let budget = if self.storage_dir.is_some() { format!(" of {}", bytes(self.maxmemory as f64)) } else { String::new() };
            format!("{}{budget}", bytes(most))
        });
        match outcome.problems.is_empty() {
            true => println!("no violations"),
            false => outcome.problems.iter().for_each(|problem| println!("VIOLATION  {problem}")),
        }
    }

    fn json(&self, name: &str, outcome: &Outcome) -> Value {
        let resident: Vec<(f64, Option<u64>)> = outcome.samples.iter().map(|s| (s.seconds, s.resident)).collect();
        json!({
            "server": name, "minutes": self.minutes, "storage": self.storage_dir.is_some(), "maxmemory": self.maxmemory,
            "operations": outcome.operations, "resident_bytes_max": outcome.resident_most, "problems": outcome.problems,
            "settled": outcome.settled.json(), "samples": outcome.samples.iter().map(Sample::json).collect::<Vec<_>>(),
            "resident_bytes_over_seconds": resident,
        })
    }
}
