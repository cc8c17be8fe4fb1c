//! Backups: the files of a base and of the log behind it under further names, in a directory that nothing else uses, and a manifest
//! of their own.
//!
//! A backup is a log with a clean end: a server starts from a copy of it, and `almandine-check` reads it. Its segments are closed
//! ones, but for a last empty one of its own: so each part of the others is known to have been durable.
//!
//! The log may get further bases meanwhile, if [`keep`] is called before each of them is named: what drops out of the log then
//! has its name in the backup already.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use almandine_io::files;

use crate::append::Place;
use crate::directory::{MANIFEST, UNFINISHED, base_path, is_of_log, read_manifest, segment_path};
use crate::fault::Fault;
use crate::group::BLOCK_BYTES;
use crate::manifest::{BaseEntry, Manifest, SegmentEntry};

/// A backup whose base is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    directory: PathBuf,
    log: u128,
    base: BaseEntry,
    /// Segments whose names it has.
    kept: Vec<SegmentEntry>,
    /// Where the first one begins that it lacks.
    lacks_from: u64,
}

impl Pinned {
    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The number of the log.
    #[must_use]
    pub fn log(&self) -> u128 {
        self.log
    }

    /// The file of a part of the base.
    #[must_use]
    pub fn base_path(&self, part: u32) -> PathBuf {
        base_path(&self.directory, self.base.number, part)
    }
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
    let (directory, lacks_from) = (directory.to_owned(), base.lsn);
    Ok((Pinned { directory, log: manifest.id, base, kept: Vec::new(), lacks_from }, parts))
}

/// Takes the names of all segments of the log in `from` that have ended: a base may be named then. Their files.
///
/// # Errors
/// Of the system; or some are gone already.
pub fn keep(pinned: &mut Pinned, from: &Path) -> Result<Vec<PathBuf>, Fault> {
    let manifest = manifest_of(from)?;
    let end = manifest.segments.last().map_or(0, |last| last.lsn);
    let paths = keep_until(pinned, from, &manifest, end)?;
    sync(&pinned.directory)?;
    Ok(paths)
}

/// Takes the names of the segments that end at or before a place where one begins.
fn keep_until(pinned: &mut Pinned, from: &Path, manifest: &Manifest, end: u64) -> Result<Vec<PathBuf>, Fault> {
    let is_there = |lsn: u64| manifest.segments.iter().any(|segment| segment.lsn == lsn);
    if manifest.id != pinned.log || !is_there(pinned.lacks_from) || !is_there(end) {
        let why = "the log does not go on from the base of the backup any more";
        return Err(Fault::io("back up", from, io::Error::other(why)));
    }
    let mut paths = Vec::new();
    for segment in manifest.segments.iter().filter(|segment| (pinned.lacks_from..end).contains(&segment.lsn)) {
        let to = segment_path(&pinned.directory, segment.number);
        link(&segment_path(from, segment.number), &to)?;
        pinned.kept.push(*segment);
        paths.push(to);
    }
    debug_assert!(pinned.kept.is_sorted_by(|a, b| a.lsn < b.lsn), "the segments of a log follow each other");
    pinned.lacks_from = end;
    Ok(paths)
}

/// Completes a backup with all segments of the log in `from` that end before a place where a segment begins. Their files, and the
/// manifest's; not those that were [kept](keep) before.
///
/// # Errors
/// Of the system; or the log does not go on from the base of the backup any more.
pub fn seal(mut pinned: Pinned, from: &Path, end: Place) -> Result<Vec<PathBuf>, Fault> {
    let manifest = manifest_of(from)?;
    let mut paths = keep_until(&mut pinned, from, &manifest, end.lsn)?;
    let Pinned { directory, base, kept: mut segments, .. } = pinned;
    let Some(last) = manifest.segments.iter().find(|segment| segment.lsn == end.lsn) else {
        return Err(Fault::io("back up", from, io::Error::other("no segment begins where the backup ends")));
    };
    debug_assert!(base.through <= end.lsn, "INV-CHECKPOINT-1: the log of a backup completes its base");
    // The log writes to its own one from here on.
    let empty = SegmentEntry { bytes: BLOCK_BYTES as u64, ..*last };
    let to = segment_path(&directory, empty.number);
    files::replace(&to, [0; BLOCK_BYTES]).map_err(|error| Fault::io("write", &to, error))?;
    paths.push(to);
    segments.push(empty);
    let sealed = Manifest { segments, rings: None, base: Some(base), end: Some(end.lsn), ..manifest };
    sync(&directory)?;
    let to = directory.join(MANIFEST);
    files::replace(&to, sealed.encode()).map_err(|error| Fault::io("write", &to, error))?;
    paths.push(to);
    Ok(paths)
}

/// Why no backup can be begun in a directory: it has files. A manifest that a killed process was writing is removed.
///
/// # Errors
/// With what is there; or of the system.
pub fn check_empty(directory: &Path) -> Result<(), Fault> {
    let (unfinished, others): (Vec<String>, Vec<String>) = names(directory)?.into_iter().partition(|name| is_unfinished(name));
    remove(directory, &unfinished)?;
    match others.first() {
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
    let is_own = |name: &String| is_of_log(name) || is_unfinished(name);
    let mut own: Vec<String> = names(directory)?.into_iter().filter(is_own).collect();
    // Without it the others are no log.
    own.sort_by_key(|name| name != MANIFEST);
    remove(directory, &own)
}

/// Whether a file is a manifest that was not put in its place.
fn is_unfinished(name: &str) -> bool {
    name.strip_prefix(MANIFEST).is_some_and(|rest| rest.starts_with('.') && rest.ends_with(UNFINISHED))
}

fn remove(directory: &Path, names: &[String]) -> Result<(), Fault> {
    names
        .iter()
        .map(|name| directory.join(name))
        .try_for_each(|path| files::remove(&path).map_err(|error| Fault::io("remove", &path, error)))
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
