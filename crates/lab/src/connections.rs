//! `connections`: what a connection costs servers to begin, with a full or a resumed handshake where TLS is spoken, and the memory
//! that an idle one takes.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::cost::{Costs, Limit, Meter, print_misses};
use super::servers::{Candidate, LabOptions, Subject, describe};
use super::turns::{Turns, on_load_core};
use almandine_bench::cli::options::{OutputOptions, positive};
use almandine_bench::load::Connecting;
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::report::statistics::{Spread, ratio};
use almandine_bench::report::table::{Table, small};
use almandine_bench::system::affinity::raise_descriptor_limit;
use almandine_bench::system::machine::Machine;

/// Our share of the baseline's time per handshake that is allowed: as many per second and core.
const HANDSHAKE: f64 = 1.0;
/// Bytes that are allowed for an idle connection with TLS.
const IDLE_BYTES: f64 = 25_000.0;
/// Until a server has come to rest.
const REST: Duration = Duration::from_millis(500);

/// Options of `connections`.
#[derive(Debug, Args)]
pub struct Connections {
    #[command(flatten)]
    lab: LabOptions,
    /// Connections at a time while connecting is measured.
    #[arg(short = 'c', long, default_value_t = 8, value_parser = positive())]
    connections: usize,
    /// Idle connections whose memory is measured.
    #[arg(long, default_value_t = 3000, value_parser = positive())]
    idle: usize,
    #[command(flatten)]
    turns: Turns,
    #[command(flatten)]
    output: OutputOptions,
}

impl Connections {
    /// Measures every server.
    pub fn run(mut self) -> Result<ExitCode, String> {
        self.turns.settle();
        self.lab.fix_cores()?;
        raise_descriptor_limit(self.idle as u64 + 64)?;
        let candidates = self.lab.candidates()?;
        let subjects = candidates.iter().map(|c| c.start(self.lab.server_threads)).collect::<Result<Vec<_>, String>>()?;
        subjects.iter().for_each(Subject::pause);
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
        let baseline = self.lab.baseline(&names)?;
        let machine = Machine::inspect();
        println!("{}\n{}", machine.line(), describe(&subjects, &self.lab)?);
        machine.advice().iter().for_each(|advice| println!("note: {advice}"));
        println!("{}\n", self.turns.line("connection", names[baseline]));
        let costs = self.connect_all(&subjects, &names, baseline)?;
        let mut missed = Vec::new();
        for costs in &costs {
            println!("{}\n{}", costs.title, costs.table("connections"));
            costs.warning().iter().for_each(|warning| println!("{warning}"));
            missed.extend(costs.misses(Limit { total: HANDSHAKE, user: f64::INFINITY }));
        }
        let idle = self.idle_bytes(&candidates)?;
        println!("{}", self.idle_table(&names, &idle, baseline));
        if let Some(ours) = idle.first().and_then(|bytes| Spread::of(bytes.iter().copied())).filter(|_| self.lab.tls)
            && ours.median > IDLE_BYTES
        {
            missed.push(format!("an idle connection takes {:.0} bytes, allowed are {IDLE_BYTES}", ours.median));
        }
        let missed = print_misses(costs.len() + 1, &missed);
        let begun = costs.iter().flat_map(|costs| costs.each().map(|(name, cost)| row(name, &costs.title, cost.json())));
        let kept =
            names.iter().zip(&idle).flat_map(|(name, bytes)| bytes.iter().map(|bytes| row(name, "idle", json!({"bytes": bytes}))));
        let runs = begun.chain(kept).collect();
        let versions: Vec<_> = subjects.iter().map(|s| json!({"name": s.name, "version": s.version})).collect();
        let extra = json!({"servers": versions, "baseline": names[baseline], "idle_connections": self.idle});
        write_values(&self.output, "connections", &machine, runs, extra)?;
        Ok(if missed && self.turns.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Each kind of connecting on every server, which take turns.
    fn connect_all<'n>(&self, subjects: &[Subject], names: &'n [&'n str], baseline: usize) -> Result<Vec<Costs<'n>>, String> {
        let [warm_up, time] = self.turns.phases()?;
        let kinds: &[bool] = if self.lab.tls { &[false, true] } else { &[false] };
        let bar = Bar::new("connecting", self.output.quiet);
        let (mut done, total) = (0, kinds.len() * self.turns.repeats * subjects.len());
        let mut all = Vec::new();
        for &resume in kinds {
            let connecting = |subject: &Subject, time| Connecting {
                target: subject.target.clone(),
                connections: self.connections,
                time,
                cores: Vec::new(),
                resume,
                server_pid: subject.pid,
            };
            let title = connecting(&subjects[0], time).name();
            let mut costs = Costs::new(title.to_owned(), names, baseline);
            for _ in 0..self.turns.repeats {
                for (index, subject) in subjects.iter().enumerate() {
                    let cost = on_load_core(&self.lab, subject, || {
                        connecting(subject, warm_up).run(&mut |_| {})?;
                        let meter = Meter::start(subject)?;
                        let measured = connecting(subject, time).run(&mut |_| {})?;
                        // Each thread's first connection, which is not measured there, is paid for here.
                        meter.stop(measured.operations + self.connections as u64)
                    })?;
                    costs.runs[index].push(cost);
                    done += 1;
                    bar.show(done as f64 / total as f64, title);
                }
            }
            all.push(costs);
        }
        bar.finish();
        Ok(all)
    }

    /// Bytes per idle connection, of each server; a process of its own for each measurement, so that no allocator keeps anything.
    fn idle_bytes(&self, candidates: &[Candidate]) -> Result<Vec<Vec<f64>>, String> {
        let bar = Bar::new("idle connections", self.output.quiet);
        let mut all = vec![Vec::new(); candidates.len()];
        for repeat in 0..self.turns.repeats {
            for (index, candidate) in candidates.iter().enumerate() {
                let subject = candidate.start_with(self.lab.server_threads, &candidate.clients(self.idle + 64))?;
                let bytes = self.idle_once(&subject).map_err(|error| format!("{}: {error}", subject.name))?;
                all[index].push(bytes);
                bar.show(repeat as f64 / self.turns.repeats as f64, &subject.name);
            }
        }
        bar.finish();
        Ok(all)
    }

    fn idle_once(&self, subject: &Subject) -> Result<f64, String> {
        let resident = || subject.resident_bytes().ok_or("its memory cannot be read".to_owned());
        // What the first connections make the server allocate is no connection's.
        for _ in 0..64 {
            subject.target.control()?.ask(&["PING"])?;
        }
        subject.wait_for_clients_to_go()?;
        thread::sleep(REST);
        let before = resident()?;
        let connect = || {
            let mut control = subject.target.control()?;
            control.ask(&["PING"])?;
            Ok(control.into_link())
        };
        let links = (0..self.idle).map(|_| connect()).collect::<Result<Vec<_>, String>>()?;
        thread::sleep(REST);
        let after = resident()?;
        Ok((after as f64 - before as f64) / links.len() as f64)
    }

    fn idle_table(&self, names: &[&str], idle: &[Vec<f64>], baseline: usize) -> Table {
        let spread = |server: usize| Spread::of(idle[server].iter().copied());
        let title = format!("{} idle connections", self.idle);
        let mut table = Table::new(&[&title, "bytes each", "× bytes"]);
        for (server, name) in names.iter().enumerate() {
            let shown = spread(server).map_or("–".into(), |spread| spread.show(small));
            let times = ratio(spread(server).map(|s| s.median), spread(baseline).map(|s| s.median));
            table.row([(*name).to_owned(), shown, times]);
        }
        table
    }
}

fn row(server: &str, what: &str, mut measured: Value) -> Value {
    measured["server"] = server.into();
    measured["what"] = what.into();
    measured
}
