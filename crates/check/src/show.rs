//! `show`: lists segments, groups and units.

use std::path::Path;
use std::sync::Arc;

use almandine_oplog::group::LogSlice;
use almandine_oplog::read::LogGroup;
use almandine_oplog::{Fault, LogKeys};
use serde_json::{Value, json};

use crate::log::{Log, tell};
use crate::report::{Outcome, Report};

pub(crate) fn show((path, keys): (&Path, Option<Arc<LogKeys>>), with_units: bool, report: &mut Report) -> Result<Outcome, Fault> {
    let log = Log::open(path, keys)?;
    for line in log.manifest.encode().lines() {
        report.list("manifest", json!(line), line);
    }
    let extent = log.read(|group| tell_group(group, with_units, report));
    tell(&extent, report);
    extent.result.map(|_| Outcome::Whole)
}

fn tell_group(group: &LogGroup<'_>, with_units: bool, report: &mut Report) {
    let head = &group.head;
    let slices: Vec<LogSlice<'_>> = group.slices().filter_map(Result::ok).collect();
    let units = group.units;
    let kind = if group.body.is_empty() { "seal" } else { "group" };
    let line = format!(
        "{kind} at LSN {} of segment {}, run {}: epoch {}, {units} units, {} bytes, durable up to {}, unix time {} ms",
        group.lsn,
        head.segment,
        head.run,
        head.epoch,
        group.body.len(),
        head.durable_lsn,
        head.unix_ms
    );
    let element = json!({
        "kind": kind, "lsn": group.lsn, "segment": head.segment, "run": head.run, "epoch": head.epoch, "units": units,
        "bytes": group.body.len(), "durable_lsn": head.durable_lsn, "unix_ms": head.unix_ms,
    });
    report.list("groups_found", element, line);
    for slice in slices.into_iter().filter(|_| with_units) {
        for head in slice.heads().filter_map(Result::ok) {
            let text = format!(
                "  run {} ring {}: number {}, {} entries, {} bytes",
                slice.run, slice.ring.0, head.number, head.entries, head.bytes
            );
            report.list("units_found", unit(&slice, head.number, head.bytes), text);
        }
    }
}

fn unit(slice: &LogSlice<'_>, number: u64, bytes: u32) -> Value {
    json!({ "run": slice.run, "ring": slice.ring.0, "number": number, "bytes": bytes })
}
