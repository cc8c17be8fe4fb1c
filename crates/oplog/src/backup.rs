//! Backups: the files of a base and of the log behind it under further names, in a directory that nothing else uses, and a manifest
//! of their own.
//!
//! A backup is a log with a clean end: a server starts from a copy of it, and `almandine-check` reads it. Its segments are closed
//! ones, but for a last empty one of its own: so each part of the others is known to have been durable.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use almandine_io::files;

use crate::append::Place;
use crate::directory::{MANIFEST, base_path, is_of_log, read_manifest, segment_path};
use crate::fault::Fault;
use crate::group::BLOCK_BYTES;
use crate::manifest::{BaseEntry, Manifest, SegmentEntry};

/// A backup whose base is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    directory: PathBuf,
    log: u128,
    base: BaseEntry,
}

/// Begins a backup of the log in `from` in an empty directory: its base is there, and where that is.
///
/// # Errors
/// Of the system; or there is no base.
pub fn pin_base(from: &Path, directory: &Path) -> Result<(Pinned, Vec<PathBuf>), Fault> {
    let manifest = manifest_of(from)?;
    let Some(base) = manifest.base else {
        return Err(Fault::io("back up", from, io::Error::other("the log has no base yet")));
    };
    files::make_directories(directory).map_err(|error| Fault::io("make the directory", directory, error))?;
    let parts: Vec<PathBuf> = (0..base.parts).map(|part| base_path(directory, base.number, part)).collect();
    for (to, part) in parts.iter().zip(0..) {
        link(&base_path(from, base.number, part), to)?;
    }
    sync(directory)?;
    Ok((Pinned { directory: directory.to_owned(), log: manifest.id, base }, parts))
}

/// Completes a backup with all segments of the log in `from` that end before a place where a segment begins. Their files, and the
/// manifest's.
///
/// # Errors
/// Of the system; or the log has another base than the backup.
pub fn seal(pinned: &Pinned, from: &Path, end: Place) -> Result<Vec<PathBuf>, Fault> {
    let Pinned { directory, log, base } = pinned;
    let manifest = manifest_of(from)?;
    let last = manifest.segments.iter().find(|segment| segment.lsn == end.lsn);
    let (true, Some(last)) = (manifest.id == *log && manifest.base == Some(*base), last) else {
        let why = "the log does not go on from the base of the backup any more";
        return Err(Fault::io("back up", from, io::Error::other(why)));
    };
    debug_assert!(base.through <= end.lsn, "INV-CHECKPOINT-1: the log of a backup completes its base");
    let mut segments: Vec<SegmentEntry> =
        manifest.segments.iter().copied().filter(|segment| (base.lsn..end.lsn).contains(&segment.lsn)).collect();
    let mut paths = Vec::new();
    for segment in &segments {
        let to = segment_path(directory, segment.number);
        link(&segment_path(from, segment.number), &to)?;
        paths.push(to);
    }
    // The log writes to its own one from here on.
    let empty = SegmentEntry { bytes: BLOCK_BYTES as u64, ..*last };
    let to = segment_path(directory, empty.number);
    files::replace(&to, [0; BLOCK_BYTES]).map_err(|error| Fault::io("write", &to, error))?;
    paths.push(to);
    segments.push(empty);
    let sealed = Manifest { segments, rings: None, end: Some(end.lsn), ..manifest };
    sync(directory)?;
    let to = directory.join(MANIFEST);
    files::replace(&to, sealed.encode()).map_err(|error| Fault::io("write", &to, error))?;
    paths.push(to);
    Ok(paths)
}

/// Why no backup can be begun in a directory: it has files.
///
/// # Errors
/// With what is there; or of the system.
pub fn check_empty(directory: &Path) -> Result<(), Fault> {
    match names(directory)?.first() {
        Some(name) => {
            let why = format!("it has to be empty, and has {name}: BACKUP CLEANUP removes the files of a backup");
            Err(Fault::io("begin a backup in", directory, io::Error::other(why)))
        }
        None => Ok(()),
    }
}

/// Removes the files of a backup, and no others.
///
/// # Errors
/// Of the system.
pub fn clear(directory: &Path) -> Result<(), Fault> {
    let mut own: Vec<String> = names(directory)?.into_iter().filter(|name| is_of_log(name)).collect();
    // Without it the others are no log.
    own.sort_by_key(|name| name != MANIFEST);
    for name in own {
        let path = directory.join(name);
        files::remove(&path).map_err(|error| Fault::io("remove", &path, error))?;
    }
    Ok(())
}

fn manifest_of(directory: &Path) -> Result<Manifest, Fault> {
    read_manifest(directory)?.ok_or_else(|| Fault::io("back up", directory, io::Error::other("there is no log")))
}

fn names(directory: &Path) -> Result<Vec<String>, Fault> {
    match files::names(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(|error| Fault::io("list", directory, error)),
    }
}

fn link(from: &Path, to: &Path) -> Result<(), Fault> {
    files::link(from, to).map_err(|error| Fault::io("make another name for", from, error))
}

fn sync(directory: &Path) -> Result<(), Fault> {
    files::sync_directory(directory).map_err(|error| Fault::io("sync the directory", directory, error))
}
