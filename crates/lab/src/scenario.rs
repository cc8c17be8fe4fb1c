//! Loads that are measured on several servers in turn: filling the servers, measuring, and what came of it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::servers::{FLOOR, LabOptions, Subject};
use super::teach::teach;
use almandine_bench::load::{Load, Pace, Preload, Progress, preload, run};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::Sample;
use almandine_bench::report::statistics::{Spread, ratio};
use almandine_bench::report::table::{Table, count, small};
use almandine_bench::workload::Workload;

/// One load and all its repeats on all servers.
#[derive(Debug)]
pub struct Scenario {
    /// What is sent.
    pub workload: Arc<Workload>,
    /// Commands per batch.
    pub pipeline: usize,
    /// Connections over all threads.
    pub connections: usize,
    /// Per server.
    pub samples: Vec<Vec<Sample>>,
}

/// How scenarios are measured.
#[derive(Debug)]
pub struct Runner<'l> {
    /// The servers' cores and the load's.
    pub lab: &'l LabOptions,
    /// Client threads; `None`: one per load core.
    pub threads: Option<usize>,
    /// Length of one measurement.
    pub time: Duration,
    /// Load before it.
    pub warm_up: Duration,
    /// Measurements per server and scenario.
    pub repeats: usize,
    /// Poll instead of sleeping.
    pub spin: bool,
    /// Prepared requests per thread in bytes.
    pub pool_bytes: usize,
    /// No progress bar.
    pub quiet: bool,
}

/// Memory of the servers before and after they were filled.
#[derive(Debug)]
pub struct Filled {
    /// A row per server.
    pub table: Table,
    /// Per server.
    pub bytes_per_key: Vec<Option<f64>>,
}

impl Runner<'_> {
    /// Empties every server and loads it with the keys of all scenarios, which have one shape.
    pub fn fill(&self, subjects: &[Subject], scenarios: &[Scenario]) -> Result<Filled, String> {
        let operations = scenarios.iter().flat_map(|s| s.workload.operations.clone()).collect();
        let shape = scenarios.first().ok_or("there is nothing to measure")?.workload.shape.clone();
        let workload = Workload::new(operations, shape)?;
        let mut table = Table::new(&["server", "empty MiB", "keys", "filled MiB", "bytes/key"]);
        let mut bytes_per_key = Vec::new();
        subjects.iter().for_each(Subject::pause);
        for subject in subjects {
            subject.resume();
            if subject.key_count() > Some(0) {
                subject.target.control()?.ask(&["FLUSHALL"])?;
            }
            thread::sleep(Duration::from_millis(300));
            let empty = subject.resident_bytes();
            let bar = Bar::new(&format!("loading {}", subject.name), self.quiet);
            let plan = Preload { cores: self.lab.load_cores()?, ..Preload::new(subject.target.clone(), &workload) };
            let sent = preload(&plan, &|share| bar.show_loading(share, plan.range.1 - plan.range.0))
                .map_err(|e| format!("{}: {e}", subject.name))?;
            bar.finish();
            thread::sleep(Duration::from_millis(500));
            let (filled, keys) = (subject.resident_bytes(), subject.key_count().unwrap_or(sent));
            let per_key = empty.zip(filled).map(|(empty, filled)| (filled as f64 - empty as f64) / keys.max(1) as f64);
            let mib = |bytes: Option<u64>| bytes.map_or("–".into(), |b| format!("{:.1}", b as f64 / f64::from(1 << 20)));
            let shown = per_key.map_or("–".into(), |b| format!("{b:.1}"));
            table.row([subject.name.clone(), mib(empty), count(keys as f64), mib(filled), shown]);
            bytes_per_key.push(per_key);
            subject.pause();
        }
        self.teach(subjects, &workload)?;
        Ok(Filled { table, bytes_per_key })
    }

    /// Has canned replies be those of the first server that is none of them.
    fn teach(&self, subjects: &[Subject], workload: &Workload) -> Result<(), String> {
        let (floors, others): (Vec<&Subject>, Vec<&Subject>) = subjects.iter().partition(|subject| subject.name == FLOOR);
        for (floor, model) in floors.into_iter().filter(|_| self.lab.floor).zip(others) {
            model.resume();
            floor.resume();
            teach(floor, model, workload)?;
            model.pause();
            floor.pause();
        }
        Ok(())
    }

    /// Measures every scenario, the servers taking turns.
    pub fn measure(&self, subjects: &[Subject], scenarios: &mut [Scenario]) -> Result<(), String> {
        let cores = self.lab.load_cores()?;
        let bar = Bar::new("comparing", self.quiet);
        let total = (scenarios.len() * self.repeats * subjects.len()).max(1);
        let mut done = 0;
        for scenario in scenarios {
            scenario.samples = vec![Vec::new(); subjects.len()];
            for repeat in 0..self.repeats {
                for (index, subject) in subjects.iter().enumerate() {
                    let load = Load {
                        connections: scenario.connections,
                        threads: self.threads.unwrap_or(cores.len()),
                        pipeline: scenario.pipeline,
                        pace: Pace::Closed { in_flight: 1, spin: self.spin },
                        time: self.time,
                        warm_up: self.warm_up,
                        cores: cores.clone(),
                        seed: repeat as u64 + 1,
                        server_pid: subject.pid,
                        pool_bytes: self.pool_bytes,
                        ..Load::new(subject.target.clone(), scenario.workload.clone())
                    };
                    subject.resume();
                    let note = format!("{} {} P={}", subject.name, scenario.workload.name(), scenario.pipeline);
                    let show = &mut |p: Progress| bar.show_rate((done as f64 + p.share) / total as f64, &note, p.rate);
                    let measurement = run(&load, show).map_err(|e| format!("{note}: {e}"))?;
                    subject.pause();
                    scenario.samples[index].push(Sample::new(&subject.name, &load, measurement));
                    done += 1;
                }
            }
        }
        bar.finish();
        Ok(())
    }
}

impl Scenario {
    fn spread(&self, server: usize, of: impl Fn(&Sample) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.samples[server].iter().filter_map(of))
    }

    /// Of the server's time per command.
    pub fn cpu(&self, server: usize) -> Option<Spread> {
        self.spread(server, |s| s.measurement.server_cpu_us())
    }

    /// A row per server.
    pub fn table(&self, names: &[&str], baseline: usize) -> Table {
        let title = format!("{} P={} c={}", self.workload.name().to_uppercase(), self.pipeline, self.connections);
        let mut table = Table::new(&[&title, "CPU µs/op", "× CPU", "ops/s", "× ops", "p50 µs", "p99 µs", "p99.9 µs", "client µs"]);
        let rate = |server| self.spread(server, |s| s.measurement.throughput());
        for (server, name) in names.iter().enumerate() {
            let latency = |q: f64| self.spread(server, |s| s.measurement.latency_us(q)).map_or("–".into(), |s| small(s.median));
            let (cpu, ops) = (self.cpu(server), rate(server));
            table.row([
                (*name).to_owned(),
                cpu.map_or("–".into(), |s| s.show(small)),
                ratio(cpu.map(|s| s.median), self.cpu(baseline).map(|s| s.median)),
                ops.map_or("–".into(), |s| s.show(count)),
                ratio(ops.map(|s| s.median), rate(baseline).map(|s| s.median)),
                latency(0.5),
                latency(0.99),
                latency(0.999),
                self.spread(server, |s| s.measurement.client_cpu_us()).map_or("–".into(), |s| small(s.median)),
            ]);
        }
        table
    }

    /// What a reader must know before using the numbers.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
            .samples
            .iter()
            .flatten()
            .flat_map(|sample| sample.warnings().into_iter().map(|warning| format!("{}: {warning}", sample.server)))
            .collect();
        warnings.sort();
        warnings.dedup();
        warnings
    }
}
