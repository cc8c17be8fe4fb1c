//! A log that is looked at: its directory is locked while it is.

use std::io::{Error, ErrorKind};
use std::path::Path;

use almandine_oplog::Fault;
use almandine_oplog::append::Place;
use almandine_oplog::directory::{Directory, read_manifest};
use almandine_oplog::manifest::Manifest;
use almandine_oplog::read::{LogEnd, LogGroup, read};

use crate::report::Report;

/// See the module.
pub(crate) struct Log {
    pub(crate) directory: Directory,
    pub(crate) manifest: Manifest,
}

/// How far a log could be read.
pub(crate) struct Extent {
    /// Behind the last whole group.
    pub(crate) end: Place,
    /// The greatest epoch up to there.
    pub(crate) epoch: u64,
    /// All of it; or why not more.
    pub(crate) result: Result<LogEnd, Fault>,
}

impl Log {
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let Some(manifest) = read_manifest(path)? else { return Err(nothing(path)) };
        let directory = Directory::lock(path)?;
        Ok(Self { directory, manifest })
    }

    /// Where redo begins.
    pub(crate) fn begin(&self) -> Place {
        let from = self.manifest.base.map_or(0, |base| base.lsn);
        let first = self.manifest.segments.iter().find(|segment| segment.lsn >= from);
        first.map_or(Place { lsn: from, sum: 0 }, |segment| Place { lsn: segment.lsn, sum: segment.sum })
    }

    /// Reads it as a server does when it starts.
    pub(crate) fn read(&self, mut each: impl FnMut(&LogGroup<'_>)) -> Extent {
        let (mut end, mut epoch) = (self.begin(), 0);
        let from = end.lsn;
        let result = read(self.directory.path(), &self.manifest, from, &mut |group| {
            each(group);
            end = Place { lsn: group.head.end_lsn(), sum: group.head.sum };
            epoch = epoch.max(group.head.epoch);
            Ok(())
        });
        Extent { end, epoch, result }
    }
}

pub(crate) fn nothing(path: &Path) -> Fault {
    Fault::Io { what: "find a log in", path: path.to_owned(), error: Error::from(ErrorKind::NotFound) }
}

/// Says what was read.
pub(crate) fn tell(extent: &Extent, report: &mut Report) {
    report.say("end", extent.end.lsn, format!("whole up to LSN {}, epoch {}", extent.end.lsn, extent.epoch));
    if let Ok(end) = &extent.result {
        report.say("groups", end.groups, format!("{} groups with units", end.groups));
        report.say("units", end.units, format!("{} units of work", end.units));
        if let Some((offset, bytes)) = end.torn {
            let line =
                format!("{bytes} bytes behind byte {offset} of the last segment were never acknowledged: a start cuts them off");
            report.say("torn_bytes", bytes, line);
        }
    }
}
