//! `cut`: drops the end of a log.

use std::path::Path;

use almandine_oplog::Fault;
use almandine_oplog::append::{Appender, LogOptions, Place};
use almandine_oplog::read::LogEnd;

use crate::log::Log;
use crate::report::{Outcome, Report};

pub(crate) fn cut(path: &Path, at: Option<u64>, yes: bool, report: &mut Report) -> Result<Outcome, Fault> {
    let log = Log::open(path)?;
    let mut kept = (log.begin(), 0_u64);
    let extent = log.read(|group| {
        if at.is_none_or(|at| group.head.end_lsn() <= at) {
            kept = (Place { lsn: group.head.end_lsn(), sum: group.head.sum }, kept.1.max(group.head.epoch));
        }
    });
    let (place, epoch) = kept;
    match (&extent.result, at) {
        (Ok(_), None) => {
            report.say("cut_at", place.lsn, "the log is whole: nothing to cut");
            return Ok(Outcome::Whole);
        }
        (Err(fault), _) => report.say("reason", fault.to_string(), fault.to_string()),
        (Ok(_), Some(_)) => {}
    }
    if let Some(base) = log.manifest.base.filter(|base| base.through > place.lsn) {
        let why = format!("base {} needs the log up to LSN {}: nothing before that can be cut", base.number, base.through);
        return Err(Fault::Missing { path: log.path.clone(), why });
    }
    let line = format!("the log is kept up to LSN {}, epoch {epoch}; what is behind that is dropped", place.lsn);
    report.say("cut_at", place.lsn, line);
    if !yes {
        report.say("done", false, "nothing was changed: copy the directory, then run this with --yes");
        return Ok(Outcome::Damaged);
    }
    let segment_bytes = log.manifest.segments.last().map_or(LogOptions::default().segment_bytes, |segment| segment.bytes);
    let end = LogEnd { place, proven: place, epoch, ..LogEnd::default() };
    let options = LogOptions { segment_bytes, ..LogOptions::default() };
    // Its rings belong to an end that is dropped.
    let (directory, manifest) = log.into_parts()?;
    Appender::begin(directory, manifest, &end, &options, &[], Box::new(|| {}))?.end()?;
    report.say("done", true, "cut");
    Ok(Outcome::Whole)
}
