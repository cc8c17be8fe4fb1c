//! `cold`: data larger than memory. What loading and reading it costs, beside what the device gives to fio.
//!
//! Our servers only: no other server takes the same options. Loads run in memory first, so that the price of the device is a ratio
//! within one run; reads alternate with fio, while the server is stopped.

mod fio;
mod limits;
mod phase;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use self::fio::{Fio, FioRun};
use self::limits::{Depth, Limits};
use self::phase::{Form, Loading, Reading, load, read};
use super::folder::Folder;
use super::servers::{Candidate, LabOptions, Subject, describe};
use super::size::byte_size;
use almandine_bench::cli::options::{OutputOptions, seconds};
use almandine_bench::generate::key::Distribution;
use almandine_bench::load::Load;
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::write_values;
use almandine_bench::report::statistics::{Spread, ratio};
use almandine_bench::report::table::{Table, bytes, count, or_dash, small};
use almandine_bench::system::machine::Machine;

/// From this batch size on fewer connections are enough.
const DEEP_PIPELINE: usize = 256;
/// Depths of fio: that of 50 connections without pipelining, and one that saturates.
const FIO_DEPTHS: [u64; 2] = [50, 256];

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KeysName {
    /// Every key equally often.
    Uniform,
    /// Few keys very often.
    Zipf,
}

/// Whether records that were read are kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReadCache {
    /// As the server does by default.
    On,
    /// `storage-copy-reads none`.
    Off,
}

/// Options of `cold`.
#[derive(Debug, Args)]
pub struct Cold {
    #[command(flatten)]
    lab: LabOptions,
    /// Data sets: number of keys x bytes per value.
    #[arg(long, value_delimiter = ',', default_value = "20000000x100,5000000x1000", value_parser = Form::parse)]
    shapes: Vec<Form>,
    /// Memory budget of the server.
    #[arg(long, default_value = "512mb", value_parser = byte_size)]
    maxmemory: u64,
    /// Multiplies the number of keys and the memory budget.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Where the data goes, in a folder of its own that is removed afterwards; default: the system's temporary directory.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Batch sizes.
    #[arg(short = 'P', long, value_delimiter = ',', default_value = "1,16,64,256")]
    pipeline: Vec<usize>,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 50)]
    connections: usize,
    /// Connections for batches of 256 and more.
    #[arg(long, default_value_t = 16)]
    connections_deep: usize,
    /// Choice of the keys that are read.
    #[arg(long, value_enum, default_value_t = KeysName::Uniform)]
    keys: KeysName,
    /// Exponent of the Zipf distribution, above 0 and below 1.
    #[arg(long, default_value_t = 0.99)]
    zipf_theta: f64,
    /// Keep records that were read in memory.
    #[arg(long, value_enum, default_value_t = ReadCache::On)]
    read_cache: ReadCache,
    /// Instead of all that: device reads per GET by Zipf, with the default settings and with --read-cache off.
    #[arg(long)]
    compare_caching: bool,
    /// With --compare-caching: GETs per key before the measurement.
    #[arg(long, default_value_t = 1.0)]
    caching_warm_up: f64,
    /// Length of one measurement in seconds.
    #[arg(short = 's', long, default_value_t = 5.0)]
    time: f64,
    /// Load before each measurement in seconds.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Measurements per batch size.
    #[arg(short = 'n', long, default_value_t = 3)]
    repeats: usize,
    /// Commands per batch while loading.
    #[arg(long, default_value_t = 64)]
    load_pipeline: usize,
    /// Connections while loading: few, so that a batch does not queue behind the others and a stall is the server's.
    #[arg(long, default_value_t = 4)]
    load_connections: usize,
    /// Do not load in memory first.
    #[arg(long)]
    skip_in_memory: bool,
    /// Do not measure the device with fio.
    #[arg(long)]
    no_fio: bool,
    /// No device for the server: what it, the client and the network cost without one. Any server; fio still runs.
    #[arg(long)]
    in_memory: bool,
    /// Check every value that is read; costs the client more.
    #[arg(long)]
    verify: bool,
    /// Fail when a limit is missed.
    #[arg(long)]
    check: bool,
    /// A fiftieth of the data, one repeat of a second.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: OutputOptions,
}

/// Everything measured at one batch size, by repeat.
struct Row {
    pipeline: usize,
    connections: usize,
    readings: Vec<Reading>,
}

impl Cold {
    /// Measures every data set on every server of ours.
    pub fn run(mut self) -> Result<ExitCode, String> {
        if self.quick {
            (self.scale, self.repeats, self.time, self.warm_up) = (self.scale * 0.02, 1, 1.0, 0.3);
        }
        let scaled = |number: u64| (number as f64 * self.scale).max(1.0) as u64;
        let forms: Vec<Form> = self.shapes.iter().map(|form| Form { keys: scaled(form.keys), ..*form }).collect();
        self.maxmemory = scaled(self.maxmemory);
        let machine = Machine::inspect();
        println!("{}", machine.line());
        machine.advice().iter().for_each(|advice| println!("note: {advice}"));
        let mut candidates = self.lab.candidates()?;
        candidates.retain(|c| c.is_ours() || (self.in_memory && c.is_started_here()));
        if candidates.is_empty() {
            return Err("our server was not found: build it (cargo build --release) or give --server-binary".into());
        }
        let (mut rows, mut limits) = (Vec::new(), Limits::default());
        for candidate in &candidates {
            for &form in &forms {
                match self.compare_caching {
                    true => self.caching(candidate, form, &mut limits, &mut rows)?,
                    false => self.measure(candidate, form, &mut limits, &mut rows)?,
                }
            }
        }
        println!("{} of {} limits held", limits.checked - limits.missed.len(), limits.checked);
        limits.missed.iter().for_each(|line| println!("MISSED  {line}"));
        let extra = json!({"maxmemory": self.maxmemory, "missed": limits.missed});
        write_values(&self.output, "cold", &machine, rows, extra)?;
        Ok(if self.check && !limits.missed.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// One data set: load in memory, load with the device, read.
    fn measure(&self, candidate: &Candidate, form: Form, limits: &mut Limits, rows: &mut Vec<Value>) -> Result<(), String> {
        let title = self.title(candidate, form);
        let bar = Bar::new(&title, self.output.quiet);
        let mut loads = Table::new(&[
            &format!("load {title}"),
            "keys/s",
            "CPU µs/SET",
            "CPU ratio",
            "resident max",
            "longest stall ms",
            "slowest batch ms",
            "settled after s",
            "device",
            "index",
        ]);
        let mut in_memory = None;
        if !self.skip_in_memory && !self.in_memory {
            let subject = candidate.start(self.lab.server_threads)?;
            println!("{}", describe(std::slice::from_ref(&subject), &self.lab)?);
            let loading = load(&subject, form, &self.load_for_loading(&subject)?, &bar)?;
            loads.row(load_row("memory", &loading, None));
            rows.push(loading.json(&candidate.name, form, "memory"));
            in_memory = loading.cpu_us;
        }
        let folder = Folder::new(self.dir.as_deref())?;
        let subject = self.start(candidate, &folder, self.read_cache)?;
        let loading = load(&subject, form, &self.load_for_loading(&subject)?, &bar)?;
        bar.finish();
        let place = if self.in_memory { "memory" } else { "device" };
        loads.row(load_row(place, &loading, in_memory));
        rows.push(loading.json(&candidate.name, form, place));
        println!("\n{loads}");
        if !self.in_memory {
            let cpu_ratio = in_memory.zip(loading.cpu_us).map(|(memory, cpu)| cpu / memory.max(1e-9));
            limits.load(&title, loading.stall_ms, cpu_ratio, loading.resident_most, self.maxmemory);
        }
        let fio = match self.no_fio {
            true => None,
            false => {
                subject.pause();
                bar.show(0.0, "writing fio's file");
                let device = loading.info.number("storage_device_bytes").unwrap_or(form.keys * form.value as u64);
                let fio = Fio::new(folder.path(), device, self.lab.server_cores()?.first().copied());
                subject.resume();
                fio.map_err(|error| println!("the device is not measured: {error}")).ok()
            }
        };
        let (measured, fio_runs) = self.read_all(&subject, form, fio.as_ref(), &bar)?;
        bar.finish();
        self.report(&title, &measured, &fio_runs, limits);
        for row in &measured {
            rows.extend(row.readings.iter().map(|reading| row.json(reading)));
        }
        let engine = fio.as_ref().map(Fio::engine);
        rows.extend(fio_runs.iter().map(|run| {
            json!({
                "server": "fio", "phase": "fio", "engine": engine, "keys": form.keys, "value": form.value.to_string(),
                "depth": run.depth, "device_reads_per_second": run.reads_per_second, "cpu_us_per_read": run.cpu_us,
                "latency_us": [[0.5, run.p50_us], [0.99, run.p99_us], [0.999, run.p999_us], [1.0, run.max_us]],
            })
        }));
        Ok(())
    }

    fn title(&self, candidate: &Candidate, form: Form) -> String {
        format!("{} {} × {} B", candidate.name, count(form.keys as f64), form.value)
    }

    fn start(&self, candidate: &Candidate, folder: &Folder, cache: ReadCache) -> Result<Subject, String> {
        if self.in_memory {
            return candidate.start(self.lab.server_threads);
        }
        let store = folder.path().join("store").to_string_lossy().into_owned();
        let mut arguments = ["--storage-dir", &store, "--maxmemory", &self.maxmemory.to_string()].map(str::to_owned).to_vec();
        if cache == ReadCache::Off {
            arguments.extend(["--storage-copy-reads", "none"].map(str::to_owned));
        }
        std::fs::create_dir_all(&store).map_err(|e| format!("cannot create {store}: {e}"))?;
        let subject = candidate.start_with(self.lab.server_threads, &arguments)?;
        println!("{}, maxmemory {}", describe(std::slice::from_ref(&subject), &self.lab)?, bytes(self.maxmemory as f64));
        Ok(subject)
    }

    fn base(&self, subject: &Subject) -> Result<Load, String> {
        let cores = self.lab.load_cores()?;
        let workload = Form { keys: 1, value: 1 }.workload("ping", Distribution::Uniform)?;
        Ok(Load {
            threads: cores.len().max(1),
            cores,
            server_pid: subject.pid,
            // A cycled pool would name a small part of the keys, and a cache would hold them.
            fresh: true,
            ..Load::new(subject.target.clone(), workload)
        })
    }

    fn load_for_loading(&self, subject: &Subject) -> Result<Load, String> {
        Ok(Load { connections: self.load_connections, pipeline: self.load_pipeline, ..self.base(subject)? })
    }

    fn load_for_reading(&self, subject: &Subject, form: Form, mix: &str, pipeline: usize, seed: u64) -> Result<Load, String> {
        let distribution = match self.keys == KeysName::Zipf || self.compare_caching {
            true if self.zipf_theta > 0.0 && self.zipf_theta < 1.0 => Distribution::Zipf(self.zipf_theta),
            true => return Err("--zipf-theta must be above 0 and below 1".into()),
            false => Distribution::Uniform,
        };
        Ok(Load {
            workload: form.workload(mix, distribution)?,
            connections: if pipeline >= DEEP_PIPELINE { self.connections_deep } else { self.connections },
            pipeline,
            time: seconds("time", self.time)?,
            warm_up: seconds("warm-up", self.warm_up)?,
            verify: self.verify,
            seed,
            ..self.base(subject)?
        })
    }

    /// Every batch size and every depth of fio, in turn, repeated.
    fn read_all(&self, subject: &Subject, form: Form, fio: Option<&Fio>, bar: &Bar) -> Result<(Vec<Row>, Vec<FioRun>), String> {
        let row = |&pipeline| Row { pipeline, connections: 0, readings: Vec::new() };
        let mut rows: Vec<Row> = self.pipeline.iter().map(row).collect();
        let (mut runs, total) = (Vec::new(), (self.repeats * self.pipeline.len()).max(1));
        for repeat in 0..self.repeats {
            for (number, row) in rows.iter_mut().enumerate() {
                bar.show((repeat * self.pipeline.len() + number) as f64 / total as f64, &format!("reading P={}", row.pipeline));
                if let (Some(fio), Some(&depth)) = (fio, FIO_DEPTHS.get(number)) {
                    subject.pause();
                    runs.push(fio.read(depth, self.time)?);
                    subject.resume();
                }
                let load = self.load_for_reading(subject, form, "get", row.pipeline, repeat as u64 + 1)?;
                row.connections = load.connections;
                row.readings.push(read(subject, &load, 1.0).map_err(|error| format!("GET P={}: {error}", row.pipeline))?);
            }
            // Fewer batch sizes than depths: what has not been read yet.
            for &depth in FIO_DEPTHS.iter().skip(rows.len()) {
                if let Some(fio) = fio {
                    subject.pause();
                    runs.push(fio.read(depth, self.time)?);
                    subject.resume();
                }
            }
        }
        Ok((rows, runs))
    }

    fn report(&self, title: &str, rows: &[Row], runs: &[FioRun], limits: &mut Limits) {
        let keys = if self.keys == KeysName::Zipf { "Zipf" } else { "uniform" };
        let mut table = Table::new(&[
            &format!("GET {title}, {keys}"),
            "GET/s",
            "device reads/s",
            "of fio",
            "reads/GET",
            "CPU µs/GET",
            "CPU µs/read",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "max µs",
            "slowest conn",
        ]);
        let at = |depth: u64| Spread::of(runs.iter().filter(|r| r.depth == depth).map(|r| r.reads_per_second)).map(|s| s.median);
        let best = FIO_DEPTHS.iter().filter_map(|&depth| at(depth)).reduce(f64::max);
        let fio = at(FIO_DEPTHS[0]).zip(best);
        for row in rows {
            let depth = row.depth(fio, self.keys == KeysName::Uniform);
            let reference = if row.pipeline == 1 { fio.map(|f| f.0) } else { fio.map(|f| f.1) };
            let median = |of: &dyn Fn(&Reading) -> f64| row.median(|r| Some(of(r))).unwrap_or(0.0);
            let dash = |value: Option<f64>| value.map_or("–".into(), small);
            table.row([
                format!("P={} c={}", row.pipeline, row.connections),
                or_dash(row.median(|r| r.measurement.throughput()), count),
                depth.reads_per_second.map_or("–".into(), count),
                ratio(depth.reads_per_second, reference),
                depth.reads_per_get.map_or("–".into(), |r| format!("{r:.4}")),
                dash(row.median(|r| r.measurement.server_cpu_us())),
                dash(depth.cpu_us_per_read),
                small(depth.p50_us),
                small(depth.p99_us),
                dash(row.median(|r| r.measurement.latency_us(0.999))),
                small(median(&|r| r.measurement.latency.max() as f64 / 1e3)),
                format!("{:.2}", depth.slowest_share),
            ]);
            if !self.in_memory {
                limits.read(title, &depth);
            }
        }
        for depth in FIO_DEPTHS {
            let median = |of: fn(&FioRun) -> f64| Spread::of(runs.iter().filter(|r| r.depth == depth).map(of)).map(|s| s.median);
            let Some(reads) = median(|r| r.reads_per_second) else { continue };
            let cell = |of: fn(&FioRun) -> f64| median(of).map_or("–".into(), small);
            let none = || "–".to_owned();
            table.row([
                format!("fio, depth {depth}"),
                none(),
                count(reads),
                ratio(Some(reads), best),
                none(),
                none(),
                cell(|r| r.cpu_us),
                cell(|r| r.p50_us),
                cell(|r| r.p99_us),
                cell(|r| r.p999_us),
                cell(|r| r.max_us),
                none(),
            ]);
        }
        println!("\n{table}of fio: P=1 against depth 50, others against its best; slowest conn: its commands against the mean\n");
    }

    /// Device reads per GET with the default settings and without caching.
    fn caching(&self, candidate: &Candidate, form: Form, limits: &mut Limits, rows: &mut Vec<Value>) -> Result<(), String> {
        let title = self.title(candidate, form);
        let bar = Bar::new(&title, self.output.quiet);
        let mixes = [("get", "reads 100 %", 1.0), ("get=95,set=5", "reads 95 %", 0.95)];
        let mut found = Vec::new();
        for cache in [ReadCache::On, ReadCache::Off] {
            let folder = Folder::new(self.dir.as_deref())?;
            let subject = self.start(candidate, &folder, cache)?;
            load(&subject, form, &self.load_for_loading(&subject)?, &bar)?;
            for (mix, _, gets) in mixes {
                let load = self.load_for_reading(&subject, form, mix, self.load_pipeline, 1)?;
                let warm_up = Load {
                    operations: Some(((form.keys as f64 * self.caching_warm_up) as u64).max(1)),
                    time: Duration::from_secs(3600),
                    warm_up: Duration::ZERO,
                    seed: 7,
                    ..load.clone()
                };
                bar.show(0.5, &format!("{mix}, warming up"));
                read(&subject, &warm_up, gets).map_err(|error| format!("{mix}: {error}"))?;
                let reading = read(&subject, &load, gets).map_err(|error| format!("{mix}: {error}"))?;
                let mut sample = reading.sample.clone();
                sample["phase"] = json!(if cache == ReadCache::On { "default" } else { "off" });
                sample["device_reads_per_get"] = json!(reading.reads_per_get);
                rows.push(sample);
                found.push(reading);
            }
        }
        bar.finish();
        let heading = format!("{title}, Zipf {}", self.zipf_theta);
        let mut table = Table::new(&[
            &heading,
            "reads/GET default",
            "reads/GET off",
            "ratio",
            "ops/s default",
            "ops/s off",
            "CPU default",
            "CPU off",
        ]);
        for (number, (_, about, _)) in mixes.into_iter().enumerate() {
            let (with, without) = (&found[number], &found[number + mixes.len()]);
            let reads = |r: &Reading| r.reads_per_get.map_or("–".into(), |r| format!("{r:.4}"));
            let rate = |r: &Reading| or_dash(r.measurement.throughput(), count);
            let cpu = |r: &Reading| r.measurement.server_cpu_us().map_or("–".into(), small);
            table.row([
                about.to_owned(),
                reads(with),
                reads(without),
                ratio(with.reads_per_get, without.reads_per_get),
                rate(with),
                rate(without),
                cpu(with),
                cpu(without),
            ]);
            if let Some((with, without)) = with.reads_per_get.zip(without.reads_per_get) {
                limits.caching(&format!("{title} {about}"), with, without);
            }
        }
        println!("\n{table}");
        Ok(())
    }
}

impl Row {
    fn median(&self, of: impl Fn(&Reading) -> Option<f64>) -> Option<f64> {
        Spread::of(self.readings.iter().filter_map(of)).map(|s| s.median)
    }

    fn depth(&self, fio: Option<(f64, f64)>, uniform: bool) -> Depth {
        Depth {
            pipeline: self.pipeline,
            reads_per_second: self.median(|r| r.reads_per_second(1.0)),
            fio,
            reads_per_get: self.median(|r| r.reads_per_get),
            cpu_us_per_read: self.median(Reading::cpu_us_per_read),
            p50_us: self.median(|r| r.measurement.latency_us(0.5)).unwrap_or(0.0),
            p99_us: self.median(|r| r.measurement.latency_us(0.99)).unwrap_or(0.0),
            slowest_share: self.median(|r| Some(r.measurement.slowest_share())).unwrap_or(0.0),
            uniform,
        }
    }

    fn json(&self, reading: &Reading) -> Value {
        let mut sample = reading.sample.clone();
        sample["phase"] = json!("read");
        sample["device_reads_per_get"] = json!(reading.reads_per_get);
        sample["device_reads_per_second"] = json!(reading.reads_per_second(1.0));
        sample["server_cpu_us_per_device_read"] = json!(reading.cpu_us_per_read());
        sample
    }
}

fn load_row(place: &str, loading: &Loading, in_memory: Option<f64>) -> [String; 10] {
    let size = |name: &str| loading.info.number(name).map_or("–".into(), |b| bytes(b as f64));
    [
        place.into(),
        count(loading.keys_per_second),
        loading.cpu_us.map_or("–".into(), small),
        ratio(loading.cpu_us, in_memory),
        bytes(loading.resident_most as f64),
        small(loading.stall_ms),
        small(loading.batch_max_ms),
        small(loading.settled_s),
        size("storage_device_bytes"),
        size("index_bytes"),
    ]
}
