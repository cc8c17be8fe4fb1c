//! Runs seeds: the proofs of testkit against a whole server in the simulation, until one fails, which is then made small.

mod options;
mod report;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use almandine_io::sim::turn::STALLED;
use almandine_sim::coverage::{self, Counts};
use almandine_sim::proofs::{self, Proof};
use almandine_sim::scenario::Scenario;
use almandine_sim::shrink::{self, Bound};

use self::options::Options;

/// What all runs have come to.
#[derive(Default)]
struct Total {
    runs: BTreeMap<&'static str, u64>,
    /// Those in which a thread was stalled.
    stalled: u64,
    checked: usize,
    /// By name, what the network and the disks did.
    faults: Counts,
    happened: Counts,
    points: Counts,
    /// The first run of each proof in which something happened for the first time.
    first: Vec<(Proof, u64, &'static str)>,
    failures: Vec<(Scenario, String)>,
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--help" || word == "-h") {
        print!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprint!("{problem}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    if !options.is_single() {
        almandine_sim::run::quiet();
    }
    let (started, next, total) = (Instant::now(), AtomicU64::new(0), Mutex::new(Total::default()));
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| work(&options, &next, &total));
        }
    });
    let total = total.into_inner().expect("no panic under the lock");
    let is_right = report::show(&options, &total, started.elapsed());
    if options.shrinks
        && let Some((scenario, _)) = total.failures.first()
    {
        println!("\nMaking it small ...");
        if let Some(small) = shrink::shrink(scenario, Bound::Time(Duration::from_secs(60))) {
            report::show_small(&small);
        }
    }
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn work(options: &Options, next: &AtomicU64, total: &Mutex<Total>) {
    let goes_on = || options.goes_on || total.lock().expect("no panic under the lock").failures.is_empty();
    while goes_on()
        && let Some(scenario) = options.run(next.fetch_add(1, Ordering::Relaxed))
    {
        one(options, scenario, total);
    }
}

fn one(options: &Options, scenario: Scenario, total: &Mutex<Total>) {
    let recorded = if options.traces { proofs::trace(&scenario) } else { proofs::run(&scenario) };
    report::show_run(options, &scenario, &recorded);
    let (faults, outcome) = (recorded.faults.clone(), recorded.outcome.clone());
    // A hundredth of all runs is repeated in any case.
    let twice = options.twice || scenario.seed % 100 == 17;
    let result =
        recorded.check().and_then(|checked| if twice { proofs::repeats(&scenario).map(|()| checked) } else { Ok(checked) });
    let mut total = total.lock().expect("no panic under the lock");
    let total = &mut *total;
    *total.runs.entry(scenario.proof.name()).or_default() += 1;
    total.stalled += u64::from(outcome.counts.points.contains_key(STALLED));
    for what in outcome.counts.happened.keys().filter(|what| !total.happened.contains_key(*what)) {
        total.first.push((scenario.proof, scenario.seed, what));
    }
    coverage::add(&mut total.faults, &faults);
    coverage::add(&mut total.happened, &outcome.counts.happened);
    coverage::add(&mut total.points, &outcome.counts.points);
    match result {
        Ok(checked) => total.checked += checked,
        Err(text) => total.failures.push((scenario, text)),
    }
}
