//! `verify`: reads all of a log, its base included.

use std::path::Path;

use almandine_io::files;
use almandine_oplog::Fault;
use almandine_oplog::directory::base_path;
use almandine_oplog::manifest::BaseEntry;
use almandine_recovery::base::{BaseFault, BaseItem, BaseReader};
use almandine_recovery::load::FileInput;

use crate::log::{Log, tell};
use crate::report::{Outcome, Report};

pub(crate) fn verify(path: &Path, report: &mut Report) -> Result<Outcome, Fault> {
    let log = Log::open(path)?;
    let manifest = &log.manifest;
    report.say("log", format!("{:032x}", manifest.id), format!("log {:032x}, {} runs", manifest.id, manifest.run));
    report.say("runs", manifest.run, format!("{} segments", manifest.segments.len()));
    let extent = log.read(|_| {});
    tell(&extent, report);
    extent.result?;
    if let Some(base) = manifest.base {
        let keys = (0..base.parts).map(|part| verify_base(&log, base, part)).sum::<Result<u64, Fault>>()?;
        report.say("base_keys", keys, format!("base {} with {keys} keys", base.number));
        if extent.end.lsn < base.through {
            let why = format!("base {} needs the log up to LSN {}", base.number, base.through);
            return Err(Fault::Missing { path: log.path.join("log-…"), why });
        }
    }
    let clean = if manifest.end.is_some() { "the last run has ended cleanly" } else { "the last run has not ended cleanly" };
    report.say("clean", manifest.end.is_some(), clean);
    Ok(Outcome::Whole)
}

/// Reads a part of the base, and says how many keys it has.
fn verify_base(log: &Log, base: BaseEntry, part: u32) -> Result<u64, Fault> {
    let path = base_path(&log.path, base.number, part);
    if files::identity(&path).is_err() {
        return Err(Fault::Missing { path, why: "the manifest names it as a part of the base".into() });
    }
    let mut offset = 0;
    let keys = files::open(&path).map_err(BaseFault::from).and_then(|file| {
        let mut reader = BaseReader::open(FileInput::new(file))?;
        let head = reader.head();
        if (head.log, head.base, head.lsn, u32::from(head.part), u32::from(head.parts))
            != (log.manifest.id, base.number, base.lsn, part, base.parts)
        {
            return Err(BaseFault::Another);
        }
        let mut keys = 0;
        loop {
            let item = reader.read_item().map(|item| item.map(|item| matches!(item, BaseItem::Key { .. })));
            match item {
                Ok(Some(is_key)) => keys += u64::from(is_key),
                Ok(None) => return Ok(keys),
                Err(fault) => {
                    offset = reader.offset();
                    return Err(fault);
                }
            }
        }
    });
    keys.map_err(|fault| match fault {
        BaseFault::Io(error) => Fault::Io { what: "read", path, error },
        BaseFault::Format(format) => Fault::Unknown { path, offset, what: format!("a base of format {format}") },
        fault => Fault::BaseDamaged { path, offset, why: fault.to_string() },
    })
}
