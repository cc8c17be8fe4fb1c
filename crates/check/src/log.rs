//! A log that is looked at: its directory is locked while it is, where that is possible. Nothing of a directory is changed by a
//! look, so that a copy may lie where nothing can be written.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_oplog::append::Place;
use almandine_oplog::directory::{Directory, read_manifest};
use almandine_oplog::manifest::Manifest;
use almandine_oplog::read::{BodyAccess, LogEnd, LogGroup, read_with};
use almandine_oplog::{Fault, LogKeys};

use crate::progress::Progress;
use crate::report::Report;

/// See the module.
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    pub(crate) manifest: Manifest,
    /// What reads it, where it is encrypted.
    pub(crate) keys: Option<Arc<LogKeys>>,
    /// None where the directory cannot be written: no server writes the log either.
    directory: Option<Directory>,
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
    pub(crate) fn open(path: &Path, keys: Option<Arc<LogKeys>>) -> Result<Self, Fault> {
        let Some(manifest) = read_manifest(path)? else { return Err(nothing(path)) };
        keys.as_ref().map_or(Ok(()), |keys| manifest.check_keys(path, keys))?;
        let directory = match Directory::lock(path) {
            Err(Fault::Io { error, .. }) if is_unwritable(&error) => None,
            locked => Some(locked?),
        };
        Ok(Self { path: path.to_owned(), manifest, keys, directory })
    }

    /// Its directory and manifest, for changes.
    pub(crate) fn into_parts(self) -> Result<(Directory, Manifest), Fault> {
        let Self { path, manifest, directory, .. } = self;
        let error = || Fault::Io { what: "write in", path, error: Error::from(ErrorKind::ReadOnlyFilesystem) };
        Ok((directory.ok_or_else(error)?, manifest))
    }

    /// How it is read.
    pub(crate) fn access(&self) -> BodyAccess<'_> {
        access(self.keys.as_deref())
    }

    /// Where redo begins.
    pub(crate) fn begin(&self) -> Place {
        let from = self.manifest.base.map_or(0, |base| base.lsn);
        let first = self.manifest.segments.iter().find(|segment| segment.lsn >= from);
        first.map_or(Place { lsn: from, sum: 0 }, |segment| Place { lsn: segment.lsn, sum: segment.sum })
    }

    /// Bytes of the log from a place on, at most.
    fn bytes_behind(&self, from: u64) -> u64 {
        self.manifest.segments.last().map_or(0, |last| (last.lsn + last.bytes).saturating_sub(from))
    }

    /// Reads it as a server does when it starts.
    pub(crate) fn read(&self, mut each: impl FnMut(&LogGroup<'_>)) -> Extent {
        let (mut end, mut epoch) = (self.begin(), 0);
        let from = end.lsn;
        let mut progress = Progress::new(self.bytes_behind(from));
        let result = read_with((&self.path, self.access()), &self.manifest, from, &mut |group| {
            each(group);
            progress.reached(group.end_lsn - from);
            end = Place { lsn: group.end_lsn, sum: group.head.sum };
            epoch = epoch.max(group.head.epoch);
            Ok(())
        });
        Extent { end, epoch, result }
    }
}

/// How a log is read with these keys; without any, by its sums where it is encrypted.
pub(crate) fn access(keys: Option<&LogKeys>) -> BodyAccess<'_> {
    keys.map_or(BodyAccess::Sums, BodyAccess::Keys)
}

fn is_unwritable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
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
