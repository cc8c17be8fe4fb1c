//! `cut`: drops the end of a log.

use std::path::Path;
use std::sync::Arc;

use almandine_oplog::append::{Appender, LogOptions, Place};
use almandine_oplog::read::{LogEnd, LogGroup};
use almandine_oplog::{Fault, LogKeys};

use crate::log::Log;
use crate::report::{Outcome, Report};

/// What is kept of a log.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// What is whole.
    Whole,
    /// The groups that end at or before this LSN.
    Lsn(u64),
    /// The groups before the first one that was written behind this time, in milliseconds since the Unix epoch.
    Time(f64),
}

impl Limit {
    pub(crate) fn new(lsn: Option<u64>, seconds: Option<f64>) -> Self {
        lsn.map(Self::Lsn).or(seconds.map(|seconds| Self::Time(seconds * 1000.0))).unwrap_or(Self::Whole)
    }

    fn has(self, group: &LogGroup<'_>) -> bool {
        match self {
            Self::Whole => true,
            Self::Lsn(lsn) => group.end_lsn <= lsn,
            Self::Time(unix_ms) => group.head.unix_ms as f64 <= unix_ms,
        }
    }
}

pub(crate) fn cut(
    (path, keys): (&Path, Option<Arc<LogKeys>>),
    limit: Limit,
    yes: bool,
    report: &mut Report,
) -> Result<Outcome, Fault> {
    let log = Log::open(path, keys.clone())?;
    let mut kept = (log.begin(), 0_u64);
    // A clock may have been set back: what is behind the first group that goes, goes.
    let mut is_kept = true;
    let extent = log.read(|group| {
        is_kept &= limit.has(group);
        if is_kept {
            kept = (Place { lsn: group.end_lsn, sum: group.head.sum }, kept.1.max(group.head.epoch));
        }
    });
    let (place, epoch) = kept;
    match (&extent.result, limit) {
        (Ok(_), Limit::Whole) => {
            report.say("cut_at", place.lsn, "the log is whole: nothing to cut");
            return Ok(Outcome::Whole);
        }
        (Err(fault), _) => report.say("reason", fault.to_string(), fault.to_string()),
        (Ok(_), Limit::Lsn(_) | Limit::Time(_)) => {}
    }
    if let (Limit::Time(_), Some(base)) = (limit, log.manifest.base)
        && place == log.begin()
    {
        let why = format!("base {} is younger than that: nothing before it can be had from this log", base.number);
        return Err(Fault::Missing { path: log.path.clone(), why });
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
    // The last one of a backup is a block.
    let most = log.manifest.segments.iter().map(|segment| segment.bytes).max();
    let segment_bytes = most.unwrap_or(LogOptions::default().segment_bytes);
    let end = LogEnd { place, proven: place, epoch, ..LogEnd::default() };
    let options = LogOptions { segment_bytes, keys: keys.unwrap_or_default(), ..LogOptions::default() };
    // Its rings belong to an end that is dropped.
    let (directory, manifest) = log.into_parts()?;
    Appender::begin(directory, manifest, &end, &options, &[], Box::new(|| {}))?.end()?;
    report.say("done", true, "cut");
    Ok(Outcome::Whole)
}
