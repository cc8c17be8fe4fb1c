//! Makes directories of a backup, from which a server starts.

use std::io;
use std::path::{Path, PathBuf};

use almandine_base::step;
use almandine_io::{file, files};

use super::fault::StoreFault;
use super::inventory::{Inventory, StoredFile, StoredPiece};
use super::listing::StoredBackups;
use super::name::StoredName;
use crate::archive::{FETCHING, Objects, is_to_be_fetched};
use crate::crc32c::sum;
use crate::directory::{Directory, MANIFEST, drop_all};

/// Which backup is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// The newest.
    #[default]
    Newest,
    /// This one.
    Named(StoredName),
    /// The newest that was sealed at or before this time, Unix seconds.
    Before(u64),
    /// The first that was sealed at or behind this time: it has that moment, if it was begun before.
    Covering(u64),
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Its inventory.
    pub inventory: Inventory,
    /// Objects that were read.
    pub objects: u64,
}

/// The backup that is meant, of those that count; none where there is none. `owner`: of this one only.
///
/// # Errors
/// As the store reports them; or there are backups of several owners and none is named.
pub fn choose(found: &StoredBackups, wanted: Wanted, owner: Option<u64>) -> Result<Option<StoredName>, StoreFault> {
    if let Wanted::Named(name) = wanted {
        return Ok(found.counting().find(|there| **there == name).copied());
    }
    let all: Vec<&StoredName> = found.counting().filter(|name| owner.is_none_or(|owner| name.owner == owner)).collect();
    if let Some((one, other)) = all.first().zip(all.iter().find(|name| name.owner != all[0].owner)) {
        let why = format!(
            "there are backups of several servers, of {:016x} and {:016x} for example: name a backup, or one of these as the owner",
            one.owner, other.owner
        );
        return Err(StoreFault::Refused(why));
    }
    let newest = |all: &mut dyn Iterator<Item = &StoredName>| all.max_by_key(|name| name.number).copied();
    Ok(match wanted {
        Wanted::Newest | Wanted::Named(_) => newest(&mut all.into_iter()),
        Wanted::Before(time) => newest(&mut all.into_iter().filter(|name| name.end_s <= time)),
        Wanted::Covering(time) => all.into_iter().filter(|name| name.end_s >= time).min_by_key(|name| name.number).copied(),
    })
}

impl Inventory {
    /// That of a backup which counts.
    ///
    /// # Errors
    /// Of the store; or it is damaged, or gone.
    pub fn read(objects: &dyn Objects, name: StoredName) -> Result<Self, StoreFault> {
        let bytes = objects.get(&name.inventory())?.ok_or_else(|| StoreFault::Refused(format!("{name} was dropped")))?;
        Self::decode(name, &bytes).map_err(StoreFault::Damaged)
    }
}

/// Makes the files of a backup: those of its log in a directory, the others in `storage`, which are both empty, or have what an
/// earlier try has left. It is a log when all of it is there.
///
/// # Errors
/// Of the store or the files; or it is damaged, or was dropped meanwhile.
pub fn restore(
    objects: &dyn Objects,
    inventory: Inventory,
    directory: &Directory,
    storage: Option<&Path>,
) -> Result<Restored, StoreFault> {
    let path = directory.path();
    check_targets(&inventory, directory, storage)?;
    let marker = path.join(FETCHING);
    files::replace(&marker, "").map_err(|error| StoreFault::file("write", &marker, error))?;
    drop_all(path)?;
    let mut all: Vec<(u32, &StoredFile, PathBuf)> = Vec::new();
    for (number, file) in (0..).zip(&inventory.files) {
        let to = match (file.log_name(), file.storage_path(), storage) {
            (Some(name), ..) => path.join(name),
            (None, Some(below), Some(storage)) => storage.join(below),
            _ => return Err(StoreFault::Damaged(format!("{} belongs nowhere", file.path))),
        };
        all.push((number, file, to));
    }
    // Without it the others are no log.
    all.sort_by_key(|(_, file, _)| file.log_name() == Some(MANIFEST));
    let mut read = 0;
    for (number, file, to) in &all {
        let made = restore_file(objects, inventory.name, (*number, file), to);
        read += match made {
            Err(StoreFault::Damaged(_)) if objects.get(&inventory.name.inventory())?.is_none() => {
                return Err(StoreFault::Refused(format!("{} was dropped meanwhile: try it again", inventory.name)));
            }
            made => made?,
        };
    }
    files::remove(&marker).map_err(|error| StoreFault::file("remove", &marker, error))?;
    directory.sync_names()?;
    Ok(Restored { inventory, objects: read })
}

fn check_targets(inventory: &Inventory, directory: &Directory, storage: Option<&Path>) -> Result<(), StoreFault> {
    if !is_to_be_fetched(directory)? {
        let why = format!("{} has a log already: name a directory that is empty, or not there", directory.path().display());
        return Err(StoreFault::Refused(why));
    }
    if !inventory.has_storage() {
        return Ok(());
    }
    let Some(storage) = storage else {
        let why = "its base names data in storage-dir, which is not named: name an empty directory for it";
        return Err(StoreFault::Refused(why.to_owned()));
    };
    let is_again = files::names(directory.path()).is_ok_and(|names| names.iter().any(|name| name == FETCHING));
    let has_files = ["log", "values"].iter().any(|part| files::names(storage.join(part)).is_ok_and(|names| !names.is_empty()));
    if has_files && !is_again {
        let why = format!("{} has data already: name a directory that is empty, or not there", storage.display());
        return Err(StoreFault::Refused(why));
    }
    Ok(())
}

/// Makes a file of its pieces. How many there are.
fn restore_file(objects: &dyn Objects, name: StoredName, (number, file): (u32, &StoredFile), to: &Path) -> Result<u64, StoreFault> {
    let failed = |error: io::Error| StoreFault::file("write", to, error);
    let parent = to.parent().unwrap_or(Path::new(""));
    files::make_directories(parent).map_err(failed)?;
    let made = file::open(to, false).map_err(failed)?;
    // What an earlier try has left goes.
    made.set_len(0).and_then(|()| made.set_len(file.bytes)).map_err(failed)?;
    let names: Vec<String> = file.pieces.iter().map(|piece| name.piece(number, piece.offset)).collect();
    let mut fault = None;
    let got = objects.get_each(&names, &mut |at, piece| {
        let written = check_piece(&file.pieces[at], piece, &names[at])
            .and_then(|bytes| made.write_all_at(&bytes, file.pieces[at].offset).map_err(failed));
        fault = written.err();
        if fault.is_some() { Err(io::Error::other("a piece is of no use")) } else { Ok(()) }
    });
    fault.map_or(Ok(()), Err)?;
    got?;
    made.sync_all().map_err(failed)?;
    files::sync_directory(parent).map_err(failed)?;
    Ok(names.len() as u64)
}

fn check_piece(piece: &StoredPiece, bytes: Option<Vec<u8>>, name: &str) -> Result<Vec<u8>, StoreFault> {
    let Some(bytes) = bytes else { return Err(StoreFault::Damaged(format!("{name} is missing"))) };
    let is_right = bytes.len() as u64 == piece.bytes && step!(ComparePieces, sum(&bytes) == piece.sum, else true);
    if is_right { Ok(bytes) } else { Err(StoreFault::Damaged(format!("{name} does not have its sum"))) }
}
