//! `logs`: what a log of writes costs, in each of its modes, beside the same server without one and beside the same mode of peers:
//! time of the processor, and bytes of the log.
//!
//! Each measurement has a server of its own with a log of its own, so that no log grows over several, and none is rewritten
//! meanwhile. Servers and modes take turns, so that what else the machine does meets all of them alike.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::info::Info;
use super::servers::{Candidate, LabOptions, OURS, Subject};
use super::turns::Turns;
use almandine_bench::cli::options::{OutputOptions, ShapeOptions, positive};
use almandine_bench::load::{Load, Pace, Preload, preload, run};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::{Sample, write_values};
use almandine_bench::report::statistics::{Spread, ratio};
use almandine_bench::report::table::{Table, count, small};
use almandine_bench::system::machine::Machine;
use almandine_bench::system::process;
use almandine_bench::workload::{Operation, Workload};

/// When the log is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogMode {
    /// There is no log.
    None,
    /// When the system likes to.
    No,
    /// Each second.
    Everysec,
    /// Before replies leave.
    Always,
}

/// What the project holds itself to: the mode, commands per batch, and the allowed share of the time without a log, and of redis'
/// time in the same mode.
const LIMITS: &[(LogMode, usize, Option<f64>, Option<f64>)] = &[
    (LogMode::Everysec, 256, Some(1.25), Some(0.25)),
    (LogMode::Everysec, 16, Some(1.15), Some(0.45)),
    (LogMode::Always, 256, Some(1.3), Some(0.25)),
    (LogMode::Always, 16, Some(1.3), Some(0.45)),
    (LogMode::Always, 1, Some(1.3), None),
];

/// Allowed bytes of our log for each command, as a share of the peer's.
const BYTES_MAX: f64 = 1.2;

/// Options of `logs`.
#[derive(Debug, Clone, Args)]
pub struct Logs {
    #[command(flatten)]
    lab: LabOptions,
    /// Operations, measured one after the other. A mix is written with plus signs: get=80+set=20.
    #[arg(short = 'o', long, value_delimiter = ',', default_value = "set")]
    operations: Vec<String>,
    /// Batch sizes.
    #[arg(short = 'P', long, value_delimiter = ',', default_value = "1,16,256", value_parser = positive())]
    pipeline: Vec<usize>,
    /// Connections over all threads.
    #[arg(short = 'c', long, default_value_t = 50, value_parser = positive())]
    connections: usize,
    /// Modes of the log; ratios refer to none.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none,no,everysec,always")]
    modes: Vec<LogMode>,
    #[command(flatten)]
    turns: Turns,
    #[command(flatten)]
    shape: ShapeOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// One measurement.
struct Run {
    sample: Sample,
    /// The share of the time that threads took which execute commands.
    workers: Option<f64>,
    /// Bytes of the log for each command.
    bytes: Option<f64>,
}

/// A server in a mode.
struct Row<'c> {
    candidate: &'c Candidate,
    mode: LogMode,
    runs: Vec<Run>,
}

impl Logs {
    /// Measures every server in every mode.
    pub fn run(mut self) -> Result<ExitCode, String> {
        self.turns.settle();
        let candidates = self.lab.candidates()?;
        let machine = Machine::inspect();
        println!("{}", machine.line());
        machine.advice().iter().for_each(|advice| println!("note: {advice}"));
        println!("{}\n", self.turns.line("command", "the same server without a log, and to the first peer's time in the mode"));
        let (mut samples, mut missed) = (Vec::new(), Vec::new());
        let each =
            |operation: &String| self.pipeline.iter().map(move |&pipeline| (operation.clone(), pipeline)).collect::<Vec<_>>();
        for (operation, pipeline) in self.operations.iter().flat_map(each) {
            let workload = Arc::new(Workload::new(Operation::mix(&operation.replace('+', ","))?, self.shape.shape()?)?);
            let rows = self.measure(&candidates, &workload, pipeline)?;
            let title = format!("{} P={pipeline} c={}", workload.name().to_uppercase(), self.connections);
            println!("{}", table(&rows, &title));
            warnings(&rows).iter().for_each(|warning| println!("{warning}"));
            missed.extend(misses(&rows, &title, pipeline));
            let json = |row: &Row<'_>, run: &Run| {
                let mut value = run.sample.json();
                value["log"] = json!(word(row.mode));
                value["workers_share"] = json!(run.workers);
                value["log_bytes_per_op"] = json!(run.bytes);
                value
            };
            samples.extend(rows.iter().flat_map(|row| row.runs.iter().map(|run| json(row, run))));
        }
        missed.iter().for_each(|line| println!("MISSED  {line}"));
        write_values(&self.output, "logs", &machine, samples, json!({}))?;
        Ok(if self.turns.strict && !missed.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn measure<'c>(&self, candidates: &'c [Candidate], workload: &Arc<Workload>, pipeline: usize) -> Result<Vec<Row<'c>>, String> {
        let row = |candidate, mode| Row { candidate, mode, runs: Vec::new() };
        let all = candidates.iter().flat_map(|candidate| self.modes.iter().map(move |&mode| row(candidate, mode)));
        let mut rows: Vec<Row<'_>> = all.filter(|row| row.candidate.log(row.mode).is_some()).collect();
        let bar = Bar::new(&format!("P={pipeline}"), self.output.quiet);
        let total = (rows.len() * self.turns.repeats).max(1);
        for repeat in 0..self.turns.repeats {
            let count = rows.len();
            for (index, row) in rows.iter_mut().enumerate() {
                let name = format!("{} {}", row.candidate.name, word(row.mode));
                bar.show((repeat * count + index) as f64 / total as f64, &name);
                let run = self.measure_one(row, workload, pipeline, repeat).map_err(|error| format!("{name}: {error}"))?;
                row.runs.push(run);
            }
        }
        bar.finish();
        Ok(rows)
    }

    fn measure_one(&self, row: &Row<'_>, workload: &Arc<Workload>, pipeline: usize, repeat: usize) -> Result<Run, String> {
        let arguments = row.candidate.log(row.mode).ok_or("it has no such mode")?;
        let subject = row.candidate.start_with(self.lab.server_threads, &arguments)?;
        let cores = self.lab.load_cores()?;
        preload(&Preload { cores: cores.clone(), ..Preload::new(subject.target.clone(), workload) }, &|_| {})?;
        let [warm_up, time] = self.turns.phases()?;
        let load = Load {
            connections: self.connections,
            threads: cores.len(),
            pipeline,
            pace: Pace::Closed { in_flight: 1, spin: self.turns.spin },
            time: warm_up,
            cores,
            seed: repeat as u64 + 1,
            server_pid: subject.pid,
            ..Load::new(subject.target.clone(), workload.clone())
        };
        run(&load, &mut |_| {})?;
        let (before, bytes_before) = (subject.pid.and_then(process::thread_seconds).unwrap_or_default(), log_bytes(&subject)?);
        let load = Load { time, warm_up: std::time::Duration::ZERO, ..load };
        let measurement = run(&load, &mut |_| {})?;
        let (after, bytes_after) = (subject.pid.and_then(process::thread_seconds).unwrap_or_default(), log_bytes(&subject)?);
        let spent = |name: &dyn Fn(&str) -> bool| {
            let sum = |threads: &[(String, f64)]| threads.iter().filter(|(thread, _)| name(thread)).map(|(_, s)| s).sum::<f64>();
            sum(&after) - sum(&before)
        };
        let (workers, all) = (spent(&|thread| thread.starts_with("worker")), spent(&|_| true));
        let workers = (workers > 0.0 && all > 0.0).then(|| workers / all);
        let bytes = bytes_before.zip(bytes_after).filter(|_| measurement.operations > 0);
        let bytes = bytes.map(|(before, after)| after.saturating_sub(before) as f64 / measurement.operations as f64);
        Ok(Run { sample: Sample::new(&row.candidate.name, &load, measurement), workers, bytes })
    }
}

/// Bytes that a server's log has or will have: of ours what is in groups and what is not written yet, without heads and padding;
/// of others the size of their files.
fn log_bytes(subject: &Subject) -> Result<Option<u64>, String> {
    let info = Info::read(&mut subject.target.control()?)?;
    let ours = info.number("oplog_payload_bytes").map(|written| written + info.number("aof_buffer_length").unwrap_or(0));
    Ok(ours.or_else(|| Some(info.number("aof_current_size")? + info.number("aof_buffer_length").unwrap_or(0))))
}

fn word(mode: LogMode) -> &'static str {
    match mode {
        LogMode::None => "none",
        LogMode::No => "no",
        LogMode::Everysec => "everysec",
        LogMode::Always => "always",
    }
}

impl Row<'_> {
    fn cpu(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| run.sample.measurement.server_cpu_us()))
    }

    fn bytes(&self) -> Option<f64> {
        Spread::of(self.runs.iter().filter_map(|run| run.bytes)).map(|spread| spread.median)
    }

    fn workers(&self) -> Option<f64> {
        let times = self.runs.iter().filter_map(|run| Some(run.sample.measurement.server_cpu_us()? * run.workers?));
        Spread::of(times).map(|spread| spread.median)
    }
}

fn median(row: Option<&Row<'_>>) -> Option<f64> {
    row.and_then(Row::cpu).map(|spread| spread.median)
}

fn find<'r, 'c>(rows: &'r [Row<'c>], name: &str, mode: LogMode) -> Option<&'r Row<'c>> {
    rows.iter().find(|row| row.candidate.name == name && row.mode == mode)
}

/// The first server that is not ours, in a mode.
fn peer<'r, 'c>(rows: &'r [Row<'c>], mode: LogMode) -> Option<&'r Row<'c>> {
    rows.iter().find(|row| !row.candidate.is_ours() && row.mode == mode)
}

fn table(rows: &[Row<'_>], title: &str) -> Table {
    let mut table = Table::new(&[
        title,
        "log",
        "CPU µs/op",
        "× none",
        "× peer",
        "workers µs",
        "× none",
        "log B/op",
        "× peer",
        "ops/s",
        "p50 µs",
        "p99 µs",
    ]);
    for row in rows {
        let none = find(rows, &row.candidate.name, LogMode::None);
        let spread = |of: &dyn Fn(&Sample) -> Option<f64>| Spread::of(row.runs.iter().filter_map(|run| of(&run.sample)));
        let latency = |q| spread(&|sample| sample.measurement.latency_us(q)).map_or("–".into(), |s| small(s.median));
        table.row([
            row.candidate.name.clone(),
            word(row.mode).into(),
            row.cpu().map_or("–".into(), |spread| spread.show(small)),
            ratio(median(Some(row)), median(none)),
            ratio(median(Some(row)), median(peer(rows, row.mode))),
            row.workers().map_or("–".into(), small),
            ratio(row.workers(), none.and_then(Row::workers)),
            row.bytes().map_or("–".into(), small),
            ratio(row.bytes(), peer(rows, row.mode).and_then(Row::bytes)),
            spread(&|sample| sample.measurement.throughput()).map_or("–".into(), |s| count(s.median)),
            latency(0.5),
            latency(0.99),
        ]);
    }
    table
}

fn warnings(rows: &[Row<'_>]) -> Vec<String> {
    let of = |row: &Row<'_>, run: &Run| {
        let name = format!("{} {}", row.candidate.name, word(row.mode));
        run.sample.warnings().into_iter().map(move |warning| format!("{name}: {warning}")).collect::<Vec<_>>()
    };
    let mut warnings: Vec<String> = rows.iter().flat_map(|row| row.runs.iter().flat_map(|run| of(row, run))).collect();
    warnings.sort();
    warnings.dedup();
    warnings
}

fn misses(rows: &[Row<'_>], title: &str, pipeline: usize) -> Vec<String> {
    let mut missed = Vec::new();
    for mode in [LogMode::No, LogMode::Everysec, LogMode::Always] {
        let bytes = |row: Option<&Row<'_>>| row.and_then(Row::bytes);
        if let (Some(ours), Some(theirs)) = (bytes(find(rows, OURS, mode)), bytes(peer(rows, mode)))
            && ours / theirs > BYTES_MAX
        {
            missed.push(format!(
                "{title} {}: {} of the bytes of the peer's log, allowed are {BYTES_MAX}",
                word(mode),
                small(ours / theirs)
            ));
        }
    }
    for &(mode, _, of_none, of_peer) in LIMITS.iter().filter(|limit| limit.1 == pipeline) {
        let ours = median(find(rows, OURS, mode));
        let mut check = |of: Option<f64>, allowed: Option<f64>, what: &str| {
            if let (Some(ours), Some(of), Some(allowed)) = (ours, of, allowed)
                && ours / of > allowed
            {
                missed.push(format!("{title} {}: {} of {what}, allowed are {allowed}", word(mode), small(ours / of)));
            }
        };
        check(median(find(rows, OURS, LogMode::None)), of_none, "the time without a log");
        check(median(peer(rows, mode)), of_peer, "the peer's time");
    }
    missed
}
