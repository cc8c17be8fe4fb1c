//! What a log has, read into a keyspace that writes none.

use std::io;
use std::path::Path;

use almandine_instance::Instance;
use almandine_io::mapping;
use almandine_oplog::LogKeys;
use almandine_oplog::directory::{Directory, read_manifest};
use almandine_oplog::remains::Remains;
use almandine_recovery::redo::{LogLanes, RedoFault};
use almandine_script::RestorePolicy;

use super::base;
use super::recover::{lanes, redo_groups, session};
use crate::snapshots::load;

/// How much of a log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All that a start would take, also out of the rings of a run that has not ended.
    Whole,
    /// Its files up to this LSN: a run writes behind that.
    Until(u64),
}

/// Reads the log in `directory` into the keyspace of `instance`, which is empty and which no other thread uses. Nothing of the log
/// is changed. What a reader should know of it is returned.
///
/// # Errors
/// Where a start would be refused.
pub(crate) fn read_log(instance: &Instance, (directory, keys): (&Path, &LogKeys), extent: Extent) -> io::Result<Vec<String>> {
    let manifest = read_manifest(directory).map_err(io::Error::other)?;
    let manifest = manifest.ok_or_else(|| io::Error::other(format!("there is no log in {}", directory.display())))?;
    manifest.check_keys(directory, keys).map_err(io::Error::other)?;
    let mut accessor = session(instance)?;
    let mut lanes = LogLanes::start(&mut accessor, lanes(instance));
    let mut redo = base::load_named(instance, &mut lanes, (directory, keys), &manifest)?;
    let until = match extent {
        Extent::Whole => u64::MAX,
        Extent::Until(lsn) => lsn,
    };
    let end = redo_groups(instance, &mut lanes, (directory, keys), (&manifest, until), &mut redo)?;
    let mut notes = Vec::new();
    if let (Extent::Whole, Some(end)) = (extent, end) {
        let remains = Remains::find((directory, &manifest), mapping::boot_id()?, &end).map_err(io::Error::other)?;
        redo.left(&mut lanes, &remains.left, &end).map_err(io::Error::other)?;
        notes.extend(remains.aside);
        if let Some((at, bytes)) = end.torn {
            notes.push(format!("{bytes} bytes from byte {at} of its last segment on were never acknowledged, and are left out"));
        }
    }
    lanes.end().map_err(|fault| io::Error::other(RedoFault::from(fault)))?;
    redo.settle();
    load::restore(instance, directory, &redo.functions().1.collect::<Vec<_>>(), RestorePolicy::Flush)?;
    Ok(notes)
}

/// Begins a log in a new directory with what the keyspace of `instance` has, which no other thread uses. Returns how many keys and
/// bytes that are.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_new(instance: &Instance, directory: &Path, keys: &LogKeys) -> io::Result<(u64, u64)> {
    let directory = Directory::take(directory).map_err(io::Error::other)?;
    let mut manifest = directory.manifest().map_err(io::Error::other)?;
    let bytes = base::begin(instance, &mut session(instance)?, (&directory, keys), &mut manifest)?;
    Ok((instance.keyspace.keys(), bytes))
}
