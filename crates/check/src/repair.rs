//! `repair`: a manifest anew, from what the segments say of themselves.

use std::path::Path;
use std::sync::Arc;

use almandine_io::files;
use almandine_oplog::directory::{Directory, read_manifest, segment_numbers, segment_path};
use almandine_oplog::group::PartHead;
use almandine_oplog::manifest::{Manifest, SegmentEntry};
use almandine_oplog::read::read_with;
use almandine_oplog::{Fault, LogKeys};

use crate::log::{access, nothing};
use crate::report::{Outcome, Report};
use crate::verify::verify_log;

pub(crate) fn repair((path, keys): (&Path, Option<Arc<LogKeys>>), yes: bool, report: &mut Report) -> Result<Outcome, Fault> {
    match read_manifest(path) {
        Ok(None) => return Err(nothing(path)),
        Ok(Some(_)) => {
            report.say("done", false, "the manifest is whole; what it names:");
            // A part of a base that is damaged is nowhere else, and the end of a log is dropped by `cut`.
            return verify_log((path, &[]), keys, report);
        }
        Err(Fault::Unknown { path, offset, what }) => return Err(Fault::Unknown { path, offset, what }),
        Err(fault) => report.say("reason", fault.to_string(), fault.to_string()),
    }
    let directory = Directory::lock(path)?;
    let manifest = find(path)?;
    keys.as_ref().map_or(Ok(()), |keys| manifest.check_keys(path, keys))?;
    let end = read_with((path, access(keys.as_deref())), &manifest, 0, &mut |_| Ok(()))?;
    let found = format!(
        "{} segments of log {:032x} hold {} units up to LSN {}",
        manifest.segments.len(),
        manifest.id,
        end.units,
        end.place.lsn
    );
    report.say("units", end.units, found);
    if !yes {
        report.say("done", false, "nothing was changed: copy the directory, then run this with --yes");
        return Ok(Outcome::Damaged);
    }
    directory.replace(&manifest)?;
    report.say("done", true, "the manifest was written");
    Ok(Outcome::Whole)
}

/// The manifest that the heads of segments tell of.
fn find(path: &Path) -> Result<Manifest, Fault> {
    let mut manifest = Manifest::default();
    for number in segment_numbers(path)? {
        let file = segment_path(path, number);
        let bytes = files::read(&file).map_err(|error| Fault::Io { what: "read", path: file.clone(), error })?;
        manifest.last_segment = number;
        // One that nothing was written to, or that was never named.
        let Ok(head) = PartHead::decode(&bytes) else { continue };
        if head.segment != number {
            continue;
        }
        let refuse = |why: &str| Err(Fault::Damaged { path: file.clone(), offset: 0, why: why.into() });
        if head.base != 0 {
            return refuse("the log has a base, and only the manifest says how far it goes: take the directory from a copy");
        }
        if manifest.id != 0 && manifest.id != head.log {
            return refuse("it belongs to another log than the segments before it");
        }
        // What was given up begins where the next one does, or behind it.
        manifest.segments.retain(|segment| segment.lsn < head.lsn);
        (manifest.id, manifest.run) = (head.log, manifest.run.max(head.run));
        let (bytes, key) = (bytes.len() as u64, head.encryption.map(|encryption| encryption.mark));
        manifest.segments.push(SegmentEntry { number, run: head.run, lsn: head.lsn, sum: head.before, bytes, key });
    }
    if manifest.segments.first().is_none_or(|first| first.lsn != 0) {
        return Err(Fault::Missing { path: segment_path(path, 1), why: "no segment holds the beginning of the log".into() });
    }
    Ok(manifest)
}
