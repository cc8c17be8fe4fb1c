//! The base of the log: written, and loaded at the start.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use almandine_base::step;
use almandine_instance::Instance;
use almandine_io::{file, files};
use almandine_keyspace::Accessor;
use almandine_oplog::directory::{Directory, base_path};
use almandine_oplog::fault::Fault;
use almandine_oplog::last_of;
use almandine_oplog::manifest::{BaseEntry, Manifest};
use almandine_recovery::base::{BaseFault, BaseHead, Dump, dump, load, peek};
use almandine_recovery::load::FileInput;
use almandine_recovery::redo::{LogLanes, Redo};
use almandine_recovery::save::{SaveError, SaveProgress};

use super::recover::session;
use super::running::RunningLog;

/// Begins a new log with a base of what the keyspace has: a snapshot that was loaded, or nothing. Until the manifest names it, the
/// log is as new as before.
///
/// # Errors
/// When it cannot be written.
pub(super) fn begin(
    instance: &Instance,
    accessor: &mut Accessor,
    directory: &Directory,
    manifest: &mut Manifest,
) -> io::Result<u64> {
    let base = BaseEntry { number: 1, lsn: 0, through: 0, epoch: 0, parts: 1 };
    let path = base_path(directory.path(), base.number, 0);
    let head = BaseHead { log: manifest.id, base: base.number, lsn: base.lsn, seed: 0, part: 0, parts: 1 };
    let part = Dump { head, floor: 0, libraries: &|| instance.scripts.libraries.texts() };
    let bytes = dump(accessor, &path, &part, &SaveProgress::default())
        .map_err(|error| io::Error::other(format!("{} cannot be written: {error}", path.display())))?;
    let begun = Manifest { base: Some(base), ..manifest.clone() };
    directory.replace(&begun).map_err(io::Error::other)?;
    *manifest = begun;
    Ok(bytes)
}

/// Gives a running log a new base, while writers write, and drops what was before it.
///
/// The base is fuzzy: each key is as the walk meets it. It is named when all is durable that was done until the end of the walk,
/// so that the log completes it whatever happens.
///
/// # Errors
/// When it cannot be written; the log is as it was then, and has no file of it.
pub(super) fn renew(instance: &Instance, log: &RunningLog, progress: &SaveProgress) -> Result<u64, SaveError> {
    let failed = |fault: Fault| SaveError::Io(io::Error::other(fault));
    let mut accessor = session(instance)?;
    // All that is numbered up to here is in what the walk meets.
    let begin = log.writer.rotate().map_err(failed)?;
    let number = log.next_base();
    let path = base_path(&log.directory, number, 0);
    let head = BaseHead { log: log.id, base: number, lsn: begin.place.lsn, seed: 0, part: 0, parts: 1 };
    let floor = step!(FloorAtCut, last_of(begin.epoch), else u64::MAX);
    let part = Dump { head, floor, libraries: &|| instance.scripts.libraries.texts() };
    dump(&mut accessor, &path, &part, progress)?;
    drop(accessor);
    // And here ends what the walk may have met.
    let through = step!(SyncThrough, log.writer.sync(), else Ok(begin));
    let length = || file::open(&path, false).and_then(|file| file.len());
    let completed = through.map_err(failed).and_then(|through| Ok((through, length()?)));
    let (end, bytes) = completed.inspect_err(|_| drop(files::remove(&path)))?;
    let base = BaseEntry { number, lsn: begin.place.lsn, through: end.place.lsn, epoch: end.epoch, parts: 1 };
    // Where this fails, either of both bases may be named: both stay.
    log.writer.name_base(base).map_err(failed)?;
    instance.persistence.log.set_base_bytes(bytes);
    Ok(bytes)
}

/// Loads the base that a manifest names into what lanes lead to, and begins redo behind it.
///
/// # Errors
/// When it is damaged, or has another number of databases.
pub(super) fn load_named(instance: &Instance, lanes: &mut LogLanes<'_>, directory: &Path, manifest: &Manifest) -> io::Result<Redo> {
    let Some(base) = manifest.base else {
        return Err(io::Error::other(format!("the log in {} has no base", directory.display())));
    };
    if base.parts != 1 {
        return Err(io::Error::other(format!("the base of the log has {} parts, and this version reads one", base.parts)));
    }
    let path = base_path(directory, base.number, 0);
    let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("{} cannot be loaded: {error}", path.display()));
    let file = files::open(&path).map_err(|error| failed(&error))?;
    // Which databases there are is at its end. Whether that is true shows when all before is read.
    let (head, bytes, announced) = peek(&file).map_err(|error| failed(&error))?;
    let mut databases = announced.clone();
    databases.all.sort_unstable_by_key(|database| database.db);
    let (had, count) = (databases.all.len(), instance.keyspace.databases());
    let Some(further) = count.checked_sub(had) else {
        return Err(failed(&format!("it has {had} databases, and 'databases' is {count}: set it to {had}, or more")));
    };
    let contents: BTreeMap<u64, u16> = databases.all.iter().map(|database| (database.contents, database.db)).collect();
    let expected = BaseHead { log: manifest.id, base: base.number, lsn: base.lsn, seed: head.seed, part: 0, parts: 1 };
    let loaded = load(FileInput::new(file), expected, lanes, &contents);
    let loaded = loaded.and_then(|loaded| if loaded.databases == announced { Ok(loaded) } else { Err(BaseFault::Damaged) });
    let loaded = loaded.map_err(|error| failed(&error))?;
    let mut redo = Redo::of_base(&databases, further);
    redo.complete_base(loaded, base.epoch);
    instance.persistence.log.set_base_bytes(bytes);
    Ok(redo)
}
