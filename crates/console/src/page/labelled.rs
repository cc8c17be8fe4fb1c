//! Families that INFO has no single field for: those with labels, and what is only computed here.

use std::collections::BTreeMap;

use almandine_instance::{CommandTotals, Histogram};
use almandine_io::usage;

use super::family::Sources;
use super::samples::{Bucket, Samples, Seconds};

/// Databases that are shown even while they are empty, so that graphs of them begin at zero.
const DATABASES_SHOWN: u16 = 16;

/// Upper ends of buckets in powers of two of microseconds, which both formats must write in the shortest way.
pub(super) const SECONDS: &[Bucket] = &[
    (1_000, "1e-06"),
    (2_000, "2e-06"),
    (4_000, "4e-06"),
    (8_000, "8e-06"),
    (16_000, "1.6e-05"),
    (32_000, "3.2e-05"),
    (64_000, "6.4e-05"),
    (128_000, "0.000128"),
    (256_000, "0.000256"),
    (512_000, "0.000512"),
    (1_024_000, "0.001024"),
    (2_048_000, "0.002048"),
    (4_096_000, "0.004096"),
    (8_192_000, "0.008192"),
    (16_384_000, "0.016384"),
    (32_768_000, "0.032768"),
    (65_536_000, "0.065536"),
    (131_072_000, "0.131072"),
    (262_144_000, "0.262144"),
    (524_288_000, "0.524288"),
    (1_048_576_000, "1.048576"),
    (4_194_304_000, "4.194304"),
    (16_777_216_000, "16.777216"),
];

/// In powers of four, for there is a histogram for each command.
pub(super) const MICROSECONDS: &[Bucket] = &[
    (1_000, "1.0"),
    (4_000, "4.0"),
    (16_000, "16.0"),
    (64_000, "64.0"),
    (256_000, "256.0"),
    (1_024_000, "1024.0"),
    (4_096_000, "4096.0"),
    (16_384_000, "16384.0"),
    (65_536_000, "65536.0"),
    (262_144_000, "262144.0"),
    (1_048_576_000, "1.048576e+06"),
    (16_777_216_000, "1.6777216e+07"),
];

pub(super) fn instance(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    let text = |field: &str| {
        let row = almandine_instance::metrics::METRICS.iter().find(|metric| metric.name == field);
        row.map_or_else(String::new, |row| (row.value)(&sources.readings).to_string())
    };
    let values = INSTANCE_LABELS.map(text);
    samples.add(&values.each_ref().map(String::as_str), 1);
}

/// Labels of the family about the instance, which are fields of INFO, too.
pub(super) const INSTANCE_LABELS: [&str; 10] = [
    "role",
    "redis_version",
    "redis_build_id",
    "redis_mode",
    "os",
    "maxmemory_policy",
    "tcp_port",
    "run_id",
    "process_id",
    "almandine_version",
];

/// Commands that were called, refused or failed.
fn commands<'s>(sources: &'s Sources<'_>) -> impl Iterator<Item = (usize, &'s str, CommandTotals)> {
    let statistics = &sources.readings.instance.statistics;
    let rows = sources.table.rows().iter().enumerate();
    rows.map(|(index, row)| (index, row.name.as_str(), statistics.command(index))).filter(|(_, _, totals)| !totals.is_empty())
}

pub(super) fn calls(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    commands(sources).for_each(|(_, name, totals)| samples.add(&[name], totals.calls));
}

pub(super) fn durations(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    commands(sources).for_each(|(_, name, totals)| samples.add_ns(&[name], totals.elapsed_ns));
}

pub(super) fn failed(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    commands(sources).for_each(|(_, name, totals)| samples.add(&[name], totals.failed));
}

pub(super) fn rejected(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    commands(sources).for_each(|(_, name, totals)| samples.add(&[name], totals.rejected));
}

pub(super) fn latencies(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    for (index, name, _) in commands(sources) {
        if let Some(histogram) = sources.readings.instance.statistics.latency(index) {
            samples.add_histogram(&[name], &histogram, MICROSECONDS, |ns| ns / 1000);
        }
    }
}

/// What is summed up by the families of commands.
fn by_family<T>(
    sources: &Sources<'_>,
    mut add: impl FnMut(&mut BTreeMap<&'static str, T>, &'static str, usize, CommandTotals),
) -> BTreeMap<&'static str, T> {
    let mut sums = BTreeMap::new();
    for (index, _, totals) in commands(sources) {
        add(&mut sums, sources.table.rows()[index].command.spec.group.name(), index, totals);
    }
    sums
}

pub(super) fn family_calls(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    let sums = by_family(sources, |sums, family, _, totals| *sums.entry(family).or_insert(0) += totals.calls);
    sums.iter().for_each(|(family, calls)| samples.add(&[family], calls));
}

pub(super) fn family_latencies(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    let sums = by_family(sources, |sums: &mut BTreeMap<_, Histogram>, family, index, _| {
        if let Some(histogram) = sources.readings.instance.statistics.latency(index) {
            sums.entry(family).or_default().merge(&histogram);
        }
    });
    sums.iter().for_each(|(family, histogram)| samples.add_histogram(&[family], histogram, SECONDS, Seconds));
}

pub(super) fn errors(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    for (prefix, count) in sources.readings.instance.statistics.errors() {
        samples.add(&[&prefix], count);
    }
}

/// Adds a figure of each database that is shown.
fn databases(sources: &Sources<'_>, samples: &mut Samples<'_>, figure: impl Fn(u16) -> u64) {
    let keyspace = &sources.readings.instance.keyspace;
    for db in (0..keyspace.databases()).filter_map(|db| u16::try_from(db).ok()) {
        if db < DATABASES_SHOWN || keyspace.dbsize(db) > 0 {
            samples.add(&[&format!("db{db}")], figure(db));
        }
    }
}

pub(super) fn keys(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    databases(sources, samples, |db| sources.readings.instance.keyspace.dbsize(db));
}

pub(super) fn expiring(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    databases(sources, samples, |db| sources.readings.instance.keyspace.expires(db));
}

pub(super) fn started(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    samples.add_ns(&[], sources.readings.instance.run.started_ms.unsigned_abs().saturating_mul(1_000_000));
}

pub(super) fn slow_length(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    samples.add(&[], sources.readings.instance.logs.slow.len());
}

pub(super) fn slow_last(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    if let Some(newest) = sources.readings.instance.logs.slow.newest(1).first() {
        samples.add(&[], newest.id);
    }
}

pub(super) fn slow_duration(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    if let Some(newest) = sources.readings.instance.logs.slow.newest(1).first() {
        samples.add_ns(&[], newest.value.saturating_mul(1000));
    }
}

/// Adds a figure of each worker, and of the carrier.
fn workers(sources: &Sources<'_>, samples: &mut Samples<'_>, figure: impl Fn(&almandine_instance::statistics::Counters) -> u64) {
    let statistics = &sources.readings.instance.statistics;
    let carrier = statistics.carrier();
    for index in 0..=carrier {
        let name = if index == carrier { "carrier".to_owned() } else { index.to_string() };
        samples.add(&[&name], figure(&statistics.worker(index).counters));
    }
}

pub(super) fn worker_commands(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    workers(sources, samples, |counters| counters.commands_processed.value());
}

pub(super) fn worker_batches(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    workers(sources, samples, |counters| counters.reads_processed.value());
}

pub(super) fn worker_writes(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    workers(sources, samples, |counters| counters.writes_processed.value());
}

/// Threads of one name, as those that read devices, are one sample.
pub(super) fn threads(_: &Sources<'_>, samples: &mut Samples<'_>) {
    let mut sums = BTreeMap::new();
    for (name, ns) in usage::threads() {
        *sums.entry(name).or_insert(0_u64) += ns;
    }
    sums.iter().for_each(|(name, ns)| samples.add_ns(&[name], *ns));
}

pub(super) fn storage_state(sources: &Sources<'_>, samples: &mut Samples<'_>) {
    let now = sources.readings.storage_state();
    for state in ["ok", "full", "failing", "damaged"] {
        samples.add(&[state], u8::from(state == now));
    }
}
