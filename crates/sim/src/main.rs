//! Runs seeds: the proofs of testkit against a whole server in the simulation, until one fails.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almandine_base::mutants::Mutant;
use almandine_io::sim::net::NetOptions;
use almandine_sim::proofs::{self, Proof};
use almandine_sim::run::Plan;
use almandine_sim::schedules::schedule;

const USAGE: &str = "usage: cargo xtask sim [options]

Runs proofs against a whole server in a deterministic simulation. A run follows from its proof and its seed.

  --proof NAME     histories, units, collections, transactions or blocking; all of them by default
  --seed S         this seed only; a failure is shown with its last events
  --seeds N        so many seeds of each proof (200)
  --from S         the first of them (0)
  --minutes M      as many seeds as that takes
  --millis T       virtual milliseconds for which clients load the server (300; 60 for blocking)
  --mutant NAME    leave a step out: then a run has to fail, and the first seed is told that does
  --twice          run each seed twice: both must be the same to the last event

The exit status is 0 when nothing failed; with --mutant, when a seed failed.
";

const SETTINGS: &[&str] = &["--workers", "3"];
const THREADS: &[&str] = &["store", "worker-0", "worker-1", "worker-2"];

#[derive(Clone, Debug)]
struct Options {
    proofs: Vec<Proof>,
    seeds: std::ops::Range<u64>,
    until: Option<Instant>,
    duration: Option<Duration>,
    left_out: Vec<Mutant>,
    twice: bool,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options =
            Self { proofs: Proof::ALL.to_vec(), seeds: 0..200, until: None, duration: None, left_out: Vec::new(), twice: false };
        let (mut from, mut count) = (0, None);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--proof" => options.proofs = vec![proof(&value()?)?],
                "--seed" => (from, count) = (number(&value()?)?, Some(1)),
                "--seeds" => count = Some(number(&value()?)?),
                "--from" => from = number(&value()?)?,
                "--minutes" => {
                    options.until = Some(Instant::now() + Duration::from_secs(60 * number(&value()?)?));
                    count = count.or(Some(u64::MAX));
                }
                "--millis" => options.duration = Some(Duration::from_millis(number(&value()?)?)),
                "--mutant" => options.left_out = Mutant::parse(&value()?)?,
                "--twice" => options.twice = true,
                _ => return Err(format!("{word} is no option")),
            }
        }
        options.seeds = from..from.saturating_add(count.unwrap_or(200));
        Ok(options)
    }

    /// The run of a number: each seed of each proof in turn.
    fn run(&self, number: u64) -> Option<(Proof, u64)> {
        let proofs = self.proofs.len() as u64;
        let seed = self.seeds.start + number / proofs;
        let in_time = self.until.is_none_or(|until| Instant::now() < until);
        (in_time && self.seeds.contains(&seed)).then(|| (self.proofs[(number % proofs) as usize], seed))
    }
}

fn proof(name: &str) -> Result<Proof, String> {
    Proof::ALL.into_iter().find(|proof| proof.name() == name).ok_or_else(|| format!("no proof is named '{name}'"))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is no number"))
}

/// What all runs have come to.
#[derive(Default)]
struct Total {
    runs: u64,
    checked: usize,
    /// By name, what the network and the disks did.
    happened: BTreeMap<&'static str, u64>,
    failure: Option<(Proof, u64, String)>,
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprint!("{problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (started, next, total) = (Instant::now(), AtomicU64::new(0), Mutex::new(Total::default()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| work(&options, &next, &total));
        }
    });
    let total = total.into_inner().expect("no panic under the lock");
    report(&options, &total, started.elapsed())
}

fn work(options: &Options, next: &AtomicU64, total: &Mutex<Total>) {
    while total.lock().expect("no panic under the lock").failure.is_none()
        && let Some((proof, seed)) = options.run(next.fetch_add(1, Ordering::Relaxed))
    {
        let (happened, result) = one(options, proof, seed);
        let mut total = total.lock().expect("no panic under the lock");
        total.runs += 1;
        for (what, times) in happened {
            *total.happened.entry(what).or_default() += times;
        }
        match result {
            Ok(checked) => total.checked += checked,
            Err(text) => {
                total.failure.get_or_insert((proof, seed, text));
            }
        }
    }
}

fn one(options: &Options, proof: Proof, seed: u64) -> (BTreeMap<&'static str, u64>, Result<usize, String>) {
    let plan = Plan::new(seed, schedule(seed, THREADS)).without(&options.left_out);
    let net = || if seed.is_multiple_of(2) { NetOptions::default() } else { NetOptions::rough() };
    let duration = options.duration.unwrap_or(proof.duration());
    let recorded = proofs::run(proof, &plan, SETTINGS, net(), duration);
    let (happened, outcome) = (recorded.happened.clone(), recorded.outcome.clone());
    let checked = recorded.check().and_then(|checked| {
        let again = options.twice.then(|| proofs::run(proof, &plan, SETTINGS, net(), duration).outcome);
        match again.filter(|again| *again != outcome) {
            Some(again) => Err(format!("does not repeat:\n{outcome}\n\n{again}")),
            None => Ok(checked),
        }
    });
    (happened, checked)
}

fn report(options: &Options, total: &Total, took: Duration) -> ExitCode {
    let Total { runs, checked, happened, failure } = total;
    println!("{runs} runs, {checked} operations checked in {:.1} s", took.as_secs_f64());
    let words: Vec<String> = happened.iter().map(|(what, times)| format!("{what}: {times}")).collect();
    println!("What happened: {}", if words.is_empty() { "nothing bad".to_owned() } else { words.join(", ") });
    match failure {
        Some((proof, seed, text)) => {
            println!("{} fails with seed {seed}: cargo xtask sim --proof {} --seed {seed}\n{text}", proof.name(), proof.name());
        }
        None => println!("Nothing failed"),
    }
    let expected = !options.left_out.is_empty();
    if failure.is_some() == expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
