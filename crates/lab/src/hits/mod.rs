//! `hits`: how often a bounded cache has what is asked, at equal numbers of keys.
//!
//! Every run has a fresh process. Its limit is searched such that as many keys fit as into the others; the number that was
//! really held is measured during the run and printed, because it is what makes two hit ratios comparable.

mod cache;
mod calibrate;
mod exact;
mod trace;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use self::cache::{Cache, Count, Holding};
use self::calibrate::{Point, Search, calibrate};
use self::exact::exact_lru;
use super::servers::{Candidate, LabOptions};
use almandine_bench::cli::options::OutputOptions;
use almandine_bench::generate::key::KeyFormat;
use almandine_bench::generate::value::Text;
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::report::statistics::ratio;
use almandine_bench::report::table::{Table, bytes, count};
use almandine_bench::system::affinity::pin_this_thread;
use almandine_bench::system::machine::Machine;
use almandine_bench::system::process;
use trace::{Pattern, Trace};

/// Times a run is repeated with a better limit when the number of keys was off.
const CORRECTIONS_MAX: usize = 3;
/// A cache that is replaced faster than this leaves the clock of Redis behind.
const TURNOVER_S_MIN: f64 = 10.0;
/// Times the server is asked for its keys and its memory during a run.
const LOOKS: u64 = 40;

/// Workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorkloadName {
    /// Few keys very often.
    Zipf,
    /// The same, with scans over keys that are never asked again.
    ZipfScan,
    /// Few keys very often, but not for ever the same ones.
    Shift,
}

/// Options of `hits`.
#[derive(Debug, Args)]
pub struct Hits {
    #[command(flatten)]
    lab: LabOptions,
    /// Number of keys that are asked for.
    #[arg(short = 'k', long, default_value_t = 200_000)]
    keys: u64,
    /// Value length in bytes.
    #[arg(short = 'v', long, default_value_t = 64)]
    value: usize,
    /// Policies, by the names of maxmemory-policy.
    #[arg(long, value_delimiter = ',', default_value = "allkeys-lru,allkeys-lfu")]
    policies: Vec<String>,
    /// Workloads.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "zipf,zipf-scan,shift")]
    workloads: Vec<WorkloadName>,
    /// Percentages of the keys that fit into memory.
    #[arg(long, value_delimiter = ',', default_value = "1,10,50")]
    sizes: Vec<f64>,
    /// Requests that are counted.
    #[arg(short = 'n', long, default_value_t = 2_000_000)]
    requests: u64,
    /// Requests before that.
    #[arg(long, default_value_t = 1_000_000)]
    warm_up: u64,
    /// Exponent of the Zipf distribution, above 0 and below 1.
    #[arg(long, default_value_t = 0.99)]
    zipf_theta: f64,
    /// Requests between two scans.
    #[arg(long, default_value_t = 100_000)]
    scan_every: u64,
    /// Keys per scan, in percent of the keys.
    #[arg(long, default_value_t = 10.0)]
    scan_length: f64,
    /// Requests between two moves of the hot set.
    #[arg(long, default_value_t = 100_000)]
    shift_every: u64,
    /// Ranks per move, in percent of the keys.
    #[arg(long, default_value_t = 5.0)]
    shift_by: f64,
    /// Requests per second; 0 for as many as go. Redis tells ages apart by the second only: see docs/BENCHMARKING.md.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Runs at the same time, for use with --rate.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// How far the number of keys held may be from that of the first server, in percent.
    #[arg(long, default_value_t = 2.0)]
    tolerance: f64,
    /// Seed of the requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// 50,000 keys, 300,000 requests after 150,000.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: OutputOptions,
}

/// One server, policy, workload and size.
struct Outcome {
    point: Point,
    count: Count,
    holding: Holding,
    cpu_us: Option<f64>,
    seconds: f64,
}

/// One size and policy on every server.
struct Cell {
    size: f64,
    policy: String,
    outcomes: Vec<Result<Outcome, String>>,
}

/// Limits that hold a number of keys, by server, policy and number.
type Limits = HashMap<(String, String, u64), Point>;

impl Hits {
    /// Measures every server.
    pub fn run(mut self) -> Result<ExitCode, String> {
        if self.quick {
            (self.keys, self.requests, self.warm_up) = (50_000, 300_000, 150_000);
            (self.scan_every, self.shift_every) = (25_000, 25_000);
        }
        self.check()?;
        let machine = Machine::inspect();
        let candidates: Vec<Candidate> = self.lab.candidates()?.into_iter().filter(Candidate::is_started_here).collect();
        let names: Vec<&str> = candidates.iter().map(|c| c.name.as_str()).collect();
        let baseline = self.lab.baseline(&names)?;
        println!(
            "{}\n{} keys of 16 B with values of {} B, {} requests counted after {}, read through: SET on a miss\n",
            machine.line(),
            count(self.keys as f64),
            self.value,
            count(self.requests as f64),
            count(self.warm_up as f64),
        );
        let cores = self.lab.load_cores()?;
        let bar = Bar::new("counting hits", self.output.quiet);
        let (limits, mut rows, mut failures) = (Mutex::new(Limits::new()), Vec::new(), Vec::new());
        for (number, &workload) in self.workloads.iter().enumerate() {
            let progress = |share: f64, note: &str| bar.show((number as f64 + share) / self.workloads.len() as f64, note);
            let cells = self.cells(&candidates, workload, &cores, &limits, &progress);
            let title = format!("{} {}", workload_name(workload), self.describe(workload));
            let ratio_title = format!("ratio to {}", names[baseline]);
            let mut table = Table::new(&[
                &title,
                "policy",
                "server",
                "keys held",
                "limit",
                "used max",
                "hits %",
                &ratio_title,
                "misses ratio",
                "CPU µs/req",
            ]);
            for cell in &cells {
                let reference = cell.outcomes[baseline].as_ref().ok();
                for (candidate, outcome) in candidates.iter().zip(&cell.outcomes) {
                    match outcome {
                        Ok(outcome) => {
                            table.row(outcome.row(&format!("{} %", cell.size), &cell.policy, &candidate.name, reference));
                            rows.push(outcome.json(&candidate.name, cell, workload_name(workload), self.keys));
                        }
                        Err(error) => failures.push(format!("{} {}: {error}", candidate.name, cell.policy)),
                    }
                }
                if cell.policy == self.policies[self.policies.len() - 1] {
                    let of_lru = |c: &&Cell| c.size == cell.size && c.policy.contains("lru");
                    let lru = cells.iter().find(of_lru).and_then(|c| c.outcomes[baseline].as_ref().ok());
                    self.add_exact(cell, workload, lru.or(reference), &mut table, &mut rows);
                }
            }
            bar.finish();
            println!("{table}");
        }
        if let Some(note) = self.note(&rows) {
            println!("{note}");
        }
        write_values(&self.output, "hits", &machine, rows, json!({"baseline": names[baseline]}))?;
        failures.sort();
        failures.dedup();
        failures.iter().for_each(|failure| println!("not measured: {failure}"));
        Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// What a perfect LRU would have hit with as many keys: the same for every policy, so once per size.
    fn add_exact(
        &self,
        cell: &Cell,
        workload: WorkloadName,
        reference: Option<&Outcome>,
        table: &mut Table,
        rows: &mut Vec<Value>,
    ) {
        let Some(held) = cell.outcomes.iter().flatten().map(|o| o.point.held).next() else { return };
        let trace = Trace::new(self.keys, self.zipf_theta, self.pattern(workload), self.seed);
        let hits = exact_lru(trace, held, self.warm_up, self.requests);
        let baseline = reference.map(|r| r.count.ratio());
        let (hit, miss) = (ratio(Some(hits), baseline), ratio(Some(1.0 - hits), baseline.map(|b| 1.0 - b)));
        let (size, none) = (format!("{} %", cell.size), || "–".to_owned());
        let share = format!("{:.2}", hits * 100.0);
        table.row([size, "lru, exact".into(), "computed".into(), held.to_string(), none(), none(), share, hit, miss, none()]);
        rows.push(json!({
            "server": "computed", "policy": "lru, exact", "workload": workload_name(workload), "size_percent": cell.size,
            "keys": self.keys, "keys_held": held, "hit_ratio": hits,
        }));
    }

    /// What a reader must know about clocks before believing a comparison of recency.
    fn note(&self, rows: &[Value]) -> Option<String> {
        let of_redis = rows.iter().filter(|row| row["server"] == "redis");
        let fastest = of_redis.filter_map(|row| row["turnover_s"].as_f64()).fold(f64::INFINITY, f64::min);
        (fastest < TURNOVER_S_MIN).then(|| {
            format!(
                "note: Redis tells ages apart by the second and lets frequencies decay by the minute, but a cache was replaced \
                 in as little as {fastest:.2} s; compare lru with the exact one too, or take a --rate that makes it \
                 {TURNOVER_S_MIN} s"
            )
        })
    }

    /// Measures every size and policy of one workload, several at a time.
    fn cells(
        &self,
        candidates: &[Candidate],
        workload: WorkloadName,
        cores: &[usize],
        limits: &Mutex<Limits>,
        progress: &(dyn Fn(f64, &str) + Sync),
    ) -> Vec<Cell> {
        let plan: Vec<(f64, &String)> = self.sizes.iter().flat_map(|&size| self.policies.iter().map(move |p| (size, p))).collect();
        let (next, cells) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, plan.len().max(1)) {
                scope.spawn(|| {
                    // Where it may not be pinned, it is still measured.
                    let _ = pin_this_thread(cores);
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&(size, policy)) = plan.get(number) else { break };
                        progress(number as f64 / plan.len() as f64, &format!("{policy} {size} %"));
                        let cell = self.cell(candidates, policy, workload, size, limits);
                        locked(&cells).push((number, cell));
                    }
                });
            }
        });
        let mut cells = std::mem::take(&mut *locked(&cells));
        cells.sort_by_key(|(number, _)| *number);
        cells.into_iter().map(|(_, cell)| cell).collect()
    }

    /// Measures one size and policy on every server.
    fn cell(&self, candidates: &[Candidate], policy: &str, workload: WorkloadName, size: f64, limits: &Mutex<Limits>) -> Cell {
        let mut target = (self.keys as f64 * size / 100.0).max(1.0) as u64;
        let mut outcomes = Vec::new();
        for candidate in candidates {
            let outcome = self.measure(candidate, policy, workload, target, limits);
            // What the first one cannot hold exactly, because it keeps whole pages, the others are given too.
            if let (true, Ok(first)) = (outcomes.is_empty(), &outcome) {
                target = first.point.held.max(1);
            }
            outcomes.push(outcome);
        }
        Cell { size, policy: policy.into(), outcomes }
    }

    fn check(&self) -> Result<(), String> {
        if !(self.zipf_theta > 0.0 && self.zipf_theta < 1.0) {
            return Err("--zipf-theta must be above 0 and below 1".into());
        }
        match self.sizes.iter().all(|&size| size > 0.0 && size <= 100.0) {
            true => Ok(()),
            false => Err("--sizes are percentages above 0 and up to 100".into()),
        }
    }

    fn pattern(&self, workload: WorkloadName) -> Pattern {
        let part = |percent: f64| (self.keys as f64 * percent / 100.0) as u64;
        match workload {
            WorkloadName::Zipf => Pattern::Zipf,
            WorkloadName::ZipfScan => Pattern::Scan { every: self.scan_every, length: part(self.scan_length) },
            WorkloadName::Shift => Pattern::Shift { every: self.shift_every, by: part(self.shift_by) },
        }
    }

    fn describe(&self, workload: WorkloadName) -> String {
        match self.pattern(workload) {
            Pattern::Zipf => format!("{}", self.zipf_theta),
            Pattern::Scan { every, length } => format!("({} keys every {})", count(length as f64), count(every as f64)),
            Pattern::Shift { every, by } => format!("(by {} ranks every {})", count(by as f64), count(every as f64)),
        }
    }

    /// Runs one server until it holds about `target` keys while it serves, or as near as it comes.
    fn measure(
        &self,
        candidate: &Candidate,
        policy: &str,
        workload: WorkloadName,
        target: u64,
        limits: &Mutex<Limits>,
    ) -> Result<Outcome, String> {
        let tolerance = self.tolerance / 100.0;
        let name = (candidate.name.clone(), policy.to_owned(), target);
        let known = locked(limits).get(&name).copied();
        let mut limit = match known {
            Some(point) => point.bytes,
            None => {
                let guess = (2 << 20) + target * (self.value as u64 + 96);
                calibrate(guess, target, tolerance, |bytes| self.probe(candidate, policy, bytes, target))?.bytes
            }
        };
        let (mut search, mut best) = (Search::default(), None::<Outcome>);
        for _ in 0..CORRECTIONS_MAX {
            let outcome = self.serve(candidate, policy, workload, limit)?;
            search.learn(outcome.point, target);
            let (error, full) = (outcome.point.error(target), outcome.is_full());
            if best.as_ref().is_none_or(|b| error < b.point.error(target)) {
                best = Some(outcome);
            }
            // A cache that is still filling would hold no more with more memory.
            if error <= tolerance || !full {
                break;
            }
            let proportional = (limit as f64 * target as f64 / search.best().map_or(target, |p| p.held).max(1) as f64) as u64;
            let Some(next) = search.next(limit, target) else { break };
            let bracketed = search.is_bracketed();
            limit = if bracketed { next } else { proportional.clamp(limit / 2, limit * 2) };
        }
        let best = best.ok_or("nothing was measured")?;
        locked(limits).insert(name, best.point);
        Ok(best)
    }

    fn start(&self, candidate: &Candidate, policy: &str, limit: u64) -> Result<super::servers::Subject, String> {
        let arguments = candidate.limit(limit, policy).ok_or("it has no policies under these names")?;
        candidate.start_with(self.lab.server_threads, &arguments)
    }

    /// How many keys are there after more than fit were stored.
    fn probe(&self, candidate: &Candidate, policy: &str, limit: u64, target: u64) -> Result<u64, String> {
        let subject = self.start(candidate, policy, limit)?;
        let text = Text::new(self.value);
        let mut cache = Cache::connect(&subject.target, self.format()?, text.value(self.value), policy.starts_with("volatile"))?;
        cache.fill(target + target / 2 + 1000)
    }

    fn format(&self) -> Result<KeyFormat, String> {
        KeyFormat::new("key:", 16, self.keys.max(1) + self.requests + self.warm_up)
    }

    fn serve(&self, candidate: &Candidate, policy: &str, workload: WorkloadName, limit: u64) -> Result<Outcome, String> {
        let subject = self.start(candidate, policy, limit)?;
        let text = Text::new(self.value);
        let mut cache = Cache::connect(&subject.target, self.format()?, text.value(self.value), policy.starts_with("volatile"))?;
        cache.limit_rate(self.rate);
        let mut trace = Trace::new(self.keys, self.zipf_theta, self.pattern(workload), self.seed);
        cache.serve(&mut trace, self.warm_up, 0)?;
        let cpu = || subject.pid.and_then(process::cpu_seconds);
        let before = cpu();
        let start = Instant::now();
        let (count, holding) = cache.serve(&mut trace, self.requests, LOOKS)?;
        let seconds = start.elapsed().as_secs_f64();
        let cpu_us = before.zip(cpu()).map(|(before, after)| (after - before) * 1e6 / self.requests.max(1) as f64);
        Ok(Outcome { point: Point { bytes: limit, held: holding.mean() }, count, holding, cpu_us, seconds })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn workload_name(workload: WorkloadName) -> &'static str {
    match workload {
        WorkloadName::Zipf => "zipf",
        WorkloadName::ZipfScan => "zipf-scan",
        WorkloadName::Shift => "shift",
    }
}

impl Outcome {
    /// Whether the limit was felt: something was evicted, or not taken.
    fn is_full(&self) -> bool {
        self.holding.evicted != Some(0) || self.count.refused > 0
    }

    fn row(&self, size: &str, policy: &str, server: &str, baseline: Option<&Self>) -> [String; 10] {
        let hits = self.count.ratio();
        let full = if self.is_full() { "" } else { " (never full)" };
        [
            size.into(),
            policy.into(),
            server.into(),
            format!("{}{full}", self.holding.mean()),
            bytes(self.point.bytes as f64),
            format!("{:.1} %", self.holding.used_most as f64 * 100.0 / self.point.bytes.max(1) as f64),
            format!("{:.2}", hits * 100.0),
            ratio(Some(hits), baseline.map(|b| b.count.ratio())),
            ratio(Some(1.0 - hits), baseline.map(|b| 1.0 - b.count.ratio())),
            self.cpu_us.map_or("–".into(), |us| format!("{us:.2}")),
        ]
    }

    fn json(&self, server: &str, cell: &Cell, workload: &str, keys: u64) -> Value {
        json!({
            "server": server, "policy": cell.policy, "workload": workload, "size_percent": cell.size, "keys": keys,
            "keys_held": self.holding.mean(), "keys_held_min": self.holding.keys.iter().min(),
            "keys_held_max": self.holding.keys.iter().max(), "limit_bytes": self.point.bytes,
            "used_bytes_max": self.holding.used_most, "evicted": self.holding.evicted, "requests": self.count.requests,
            "hits": self.count.hits, "scanned": self.count.scanned, "refused": self.count.refused,
            "hit_ratio": self.count.ratio(), "server_cpu_us_per_request": self.cpu_us, "seconds": self.seconds,
            "turnover_s": self.holding.evicted.map(|n| self.holding.mean() as f64 * self.seconds / n.max(1) as f64),
        })
    }
}
