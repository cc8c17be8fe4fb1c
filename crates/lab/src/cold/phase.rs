//! The two kinds of measurement of `cold`: loading once, and reading for a while. No judgement here.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::info::Info;
use crate::servers::Subject;
use crate::watch::Watch;
use almandine_bench::control::Control;
use almandine_bench::generate::key::Distribution;
use almandine_bench::generate::value::Lengths;
use almandine_bench::load::{Load, Measurement, run};
use almandine_bench::report::progress::Bar;
use almandine_bench::report::sample::Sample;
use almandine_bench::workload::{Operation, Shape, Workload};

/// Longest wait for writes to the device to come to rest.
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// Keys and values of one data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) keys: u64,
    pub(super) value: usize,
}

impl Form {
    /// Parses `20000000x100`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a data set: give KEYSxBYTES, as in 5000000x1000");
        let (keys, value) = text.split_once('x').ok_or_else(wrong)?;
        let (keys, value) = (keys.trim().parse().map_err(|_| wrong())?, value.trim().parse().map_err(|_| wrong())?);
        if keys == 0 || value == 0 { Err(wrong()) } else { Ok(Self { keys, value }) }
    }

    pub(super) fn workload(&self, mix: &str, distribution: Distribution) -> Result<Arc<Workload>, String> {
        let shape = Shape { keys: self.keys, lengths: Lengths::fixed(self.value), distribution, ..Shape::default() };
        Ok(Arc::new(Workload::new(Operation::mix(mix)?, shape)?))
    }
}

/// What loading cost.
#[derive(Debug, Clone)]
pub(super) struct Loading {
    pub(super) keys_per_second: f64,
    pub(super) cpu_us: Option<f64>,
    pub(super) resident_most: u64,
    pub(super) stall_ms: f64,
    pub(super) batch_max_ms: f64,
    /// Seconds after the load until nothing was written any more.
    pub(super) settled_s: f64,
    pub(super) info: Info,
}

/// What reading cost.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) measurement: Measurement,
    /// Device reads per GET; `None` without a device.
    pub(super) reads_per_get: Option<f64>,
    pub(super) sample: Value,
}

/// Loads every key once, in order.
pub(super) fn load(subject: &Subject, form: Form, base: &Load, bar: &Bar) -> Result<Loading, String> {
    let pid = subject.pid.ok_or("the memory of the server cannot be read")?;
    let load = Load {
        workload: form.workload("set", Distribution::Sequential)?,
        operations: Some(form.keys),
        time: Duration::from_secs(24 * 3600),
        warm_up: Duration::ZERO,
        ..base.clone()
    };
    let watch = Watch::start(pid);
    let measurement = run(&load, &mut |p| bar.show(p.share, &format!("loading, {:.0} keys/s", p.rate)))?;
    complain(&measurement)?;
    let (settled_s, info) = settle(&mut subject.target.control()?)?;
    let present = subject.target.control()?.integer(&["DBSIZE"])?.max(0) as u64;
    if present != form.keys {
        return Err(format!("{present} of {} keys are there after loading", form.keys));
    }
    Ok(Loading {
        keys_per_second: measurement.throughput().ok_or("no key was loaded")?,
        cpu_us: measurement.server_cpu_us(),
        resident_most: watch.most(),
        stall_ms: measurement.stall_ns as f64 / 1e6,
        batch_max_ms: measurement.latency.max() as f64 / 1e6,
        settled_s,
        info,
    })
}

/// Reads (or mixes) under `load`. Commands of the warm-up count towards reads per GET, not towards anything else.
pub(super) fn read(subject: &Subject, load: &Load, gets: f64) -> Result<Reading, String> {
    let mut control = subject.target.control()?;
    let before = Info::read(&mut control)?;
    let measurement = run(load, &mut |_| {})?;
    let after = Info::read(&mut control)?;
    complain(&measurement)?;
    if measurement.tally.nulls > 0 {
        return Err(format!("{} of {} keys were not found", measurement.tally.nulls, measurement.tally.replies));
    }
    let all = measurement.tally.replies as f64 * gets;
    let reads_per_get = after.since(&before, "storage_reads").map(|reads| reads as f64 / all.max(1.0));
    let sample = Sample::new(&subject.name, load, measurement.clone()).json();
    Ok(Reading { measurement, reads_per_get, sample })
}

impl Reading {
    /// Device reads per second during the measurement.
    pub(super) fn reads_per_second(&self, gets: f64) -> Option<f64> {
        Some(self.reads_per_get? * self.measurement.throughput()? * gets)
    }

    /// Server CPU per device read in microseconds.
    pub(super) fn cpu_us_per_read(&self) -> Option<f64> {
        let reads = self.reads_per_get.filter(|&reads| reads > 0.0)?;
        Some(self.measurement.server_cpu_us()? / reads)
    }
}

impl Loading {
    pub(super) fn json(&self, server: &str, form: Form, place: &str) -> Value {
        json!({
            "server": server, "phase": "load", "place": place, "keys": form.keys, "value": form.value.to_string(),
            "keys_per_second": self.keys_per_second, "server_cpu_us_per_op": self.cpu_us,
            "resident_bytes_max": self.resident_most, "stall_ms": self.stall_ms, "batch_max_ms": self.batch_max_ms,
            "settled_s": self.settled_s, "device_bytes": self.info.number("storage_device_bytes"),
            "index_bytes": self.info.number("index_bytes"), "used_memory": self.info.number("used_memory"),
        })
    }
}

/// Waits until nothing has been written to the device for a second.
fn settle(control: &mut Control) -> Result<(f64, Info), String> {
    let start = Instant::now();
    let mut info = Info::read(control)?;
    let (mut written, mut since) = (info.number("storage_written_bytes"), start);
    while written.is_some() && since.elapsed() < Duration::from_secs(1) && start.elapsed() < SETTLE_MAX {
        thread::sleep(Duration::from_millis(100));
        info = Info::read(control)?;
        let now = info.number("storage_written_bytes");
        if now != written {
            (written, since) = (now, Instant::now());
        }
    }
    Ok((since.duration_since(start).as_secs_f64(), info))
}

fn complain(measurement: &Measurement) -> Result<(), String> {
    match &measurement.tally.first_error {
        Some(error) => Err(format!("{} replies were wrong; the first: {error}", measurement.tally.errors.max(1))),
        None if measurement.unanswered > 0 => Err(format!("{} commands were not answered", measurement.unanswered)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_sets() {
        assert_eq!(Form::parse("5000000x1000"), Ok(Form { keys: 5_000_000, value: 1000 }));
        assert!(["5000000", "x", "0x1", "1x0", "ax1"].iter().all(|text| Form::parse(text).is_err()));
    }
}
