//! The base of the log: written, and loaded at the start.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use almandine_instance::Instance;
use almandine_io::{file, files};
use almandine_keyspace::Accessor;
use almandine_oplog::directory::{Directory, base_path};
use almandine_oplog::manifest::{BaseEntry, Manifest};
use almandine_recovery::base::{BaseHead, BaseReader, dump, load};
use almandine_recovery::load::FileInput;
use almandine_recovery::redo::Redo;
use almandine_recovery::save::SaveProgress;

/// Begins a new log with a base of what the keyspace has: a snapshot that was loaded, or nothing. Until the manifest names it, the
/// log is as new as before.
///
/// # Errors
/// When it cannot be written.
pub(super) fn begin(accessor: &mut Accessor, directory: &Directory, manifest: &mut Manifest) -> io::Result<u64> {
    let base = BaseEntry { number: 1, lsn: 0, through: 0, epoch: 0, parts: 1 };
    let path = base_path(directory.path(), base.number, 0);
    let head = BaseHead { log: manifest.id, base: base.number, lsn: base.lsn, seed: 0, part: 0, parts: 1 };
    let bytes = dump(accessor, &path, head, &SaveProgress::default(), || 0)
        .map_err(|error| io::Error::other(format!("{} cannot be written: {error}", path.display())))?;
    let begun = Manifest { base: Some(base), ..manifest.clone() };
    directory.replace(&begun).map_err(io::Error::other)?;
    *manifest = begun;
    Ok(bytes)
}

/// Loads the base that a manifest names, and begins redo behind it.
///
/// # Errors
/// When it is damaged, or has another number of databases.
pub(super) fn load_named(instance: &Instance, accessor: &mut Accessor, directory: &Path, manifest: &Manifest) -> io::Result<Redo> {
    let Some(base) = manifest.base else {
        return Err(io::Error::other(format!("the log in {} has no base", directory.display())));
    };
    if base.parts != 1 {
        return Err(io::Error::other(format!("the base of the log has {} parts, and this version reads one", base.parts)));
    }
    let path = base_path(directory, base.number, 0);
    let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("{} cannot be loaded: {error}", path.display()));
    let open = || files::open(&path).map(FileInput::new).map_err(|error| failed(&error));
    // Which databases there are is at its end; on the way there its sums are checked.
    let mut reader = BaseReader::open(open()?).map_err(|error| failed(&error))?;
    while reader.read_item().map_err(|error| failed(&error))?.is_some() {}
    let mut databases = reader.databases().unwrap_or_default().to_vec();
    databases.sort_unstable_by_key(|database| database.db);
    let count = instance.keyspace.databases();
    if databases.len() != count {
        let had = databases.len();
        return Err(failed(&format!("it has {had} databases, and 'databases' is {count}: set it to {had}")));
    }
    let contents: BTreeMap<u64, u16> = databases.iter().map(|database| (database.contents, database.db)).collect();
    let mut redo = Redo::new(databases.iter().map(|database| database.contents).collect());
    let head = BaseHead { log: manifest.id, base: base.number, lsn: base.lsn, seed: reader.head().seed, part: 0, parts: 1 };
    load(open()?, head, accessor, &contents, |contents, key, number| redo.based(contents, key, number))
        .map_err(|error| failed(&error))?;
    redo.complete_base(base.epoch);
    instance.persistence.log.set_base_bytes(file::open(&path, false).and_then(|file| file.len()).map_err(|error| failed(&error))?);
    Ok(redo)
}
