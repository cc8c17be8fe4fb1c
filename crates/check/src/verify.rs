//! `verify`: reads all of a log.

use std::path::Path;

use almandine_io::files;
use almandine_oplog::Fault;
use almandine_oplog::directory::base_path;

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
        for part in 0..base.parts {
            let path = base_path(&log.path, base.number, part);
            if files::identity(&path).is_err() {
                return Err(Fault::Missing { path, why: "the manifest names it as a part of the base".into() });
            }
        }
        if extent.end.lsn < base.through {
            let why = format!("base {} needs the log up to LSN {}", base.number, base.through);
            return Err(Fault::Missing { path: log.path.join("log-…"), why });
        }
    }
    let clean = if manifest.end.is_some() { "the last run has ended cleanly" } else { "the last run has not ended cleanly" };
    report.say("clean", manifest.end.is_some(), clean);
    Ok(Outcome::Whole)
}
