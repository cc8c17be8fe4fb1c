//! The directory of a log: its lock, its manifest, and the names of its files.
//!
//! One process at a time uses it. A file counts when the manifest names it; what has another name, or none there, holds nothing.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use almandine_base::step;
use almandine_io::file::{self, File};
use almandine_io::{entropy, files};

use crate::fault::Fault;
use crate::manifest::Manifest;

const LOCK: &str = "LOCK";
pub(crate) const MANIFEST: &str = "MANIFEST";
const SEGMENT: &str = "log-";
const BASE: &str = "base-";
/// A directory for rings.
const RINGS: &str = "rings";
/// Segments that are ready for use, under any number.
pub(crate) const SPARE: &str = "spare-";
/// What is being made.
pub(crate) const UNFINISHED: &str = ".tmp";

/// A directory that this process has the lock of.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Closing it gives the lock back.
    _lock: File,
    /// A sync of the directory has failed: no later one says what is durable.
    is_broken: AtomicBool,
}

impl Directory {
    /// Takes a directory, and makes it when it is missing.
    ///
    /// # Errors
    /// When another process has it.
    pub fn take(path: impl AsRef<Path>) -> Result<Self, Fault> {
        let path = path.as_ref();
        files::make_directories(path).map_err(|error| Fault::io("make the directory", path, error))?;
        Self::lock(path)
    }

    /// Takes a directory that is there.
    ///
    /// # Errors
    /// When another process has it.
    pub fn lock(path: &Path) -> Result<Self, Fault> {
        let lock = path.join(LOCK);
        let file = file::open(&lock, false).map_err(|error| Fault::io("open", &lock, error))?;
        if !file.lock().map_err(|error| Fault::io("lock", &lock, error))? {
            return Err(Fault::Locked(lock));
        }
        Ok(Self { path: path.to_owned(), _lock: file, is_broken: AtomicBool::new(false) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest; a new one, of a log that is empty, is made when there is nothing of a log.
    ///
    /// # Errors
    /// When it cannot be read or made, or is missing beside files of a log.
    pub fn manifest(&self) -> Result<Manifest, Fault> {
        if let Some(manifest) = read_manifest(&self.path)? {
            return Ok(manifest);
        }
        let mut id = [0; 16];
        entropy::fill(&mut id).map_err(|error| Fault::io("have a random number for", &self.path, error))?;
        let manifest = Manifest { id: u128::from_le_bytes(id), ..Manifest::default() };
        self.replace(&manifest)?;
        Ok(manifest)
    }

    /// Puts a manifest in place of the last one. When it returns, it is durable with the names of all files that were made before.
    ///
    /// # Errors
    /// As the system reports them; then either of both may be there.
    pub fn replace(&self, manifest: &Manifest) -> Result<(), Fault> {
        self.check()?;
        // A manifest that names a file may be durable before the name of that file is.
        step!(SyncNames, self.sync_names()?);
        self.put(manifest)?;
        self.sync_names()
    }

    /// Puts a manifest in place of the last one, where the names of all files are durable that it names. It is itself by the next
    /// [`Self::sync_names`].
    pub(crate) fn put(&self, manifest: &Manifest) -> Result<(), Fault> {
        self.check()?;
        let path = self.path.join(MANIFEST);
        let failed = |error: io::Error| Fault::io("replace", &path, error);
        let written = files::write_beside(&path, manifest.encode()).map_err(failed)?;
        let replaced = files::rename(&written, &path);
        // What a full disk refuses has not happened.
        if replaced.as_ref().is_err_and(|error| error.kind() != ErrorKind::StorageFull) {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        if replaced.is_err() {
            let _ = files::remove(&written);
        }
        replaced.map_err(failed)
    }

    fn check(&self) -> Result<(), Fault> {
        let refused = "the directory could not be synced before: only a new base or a restart helps";
        match self.is_broken() {
            true => Err(Fault::io("replace", &self.path.join(MANIFEST), io::Error::other(refused))),
            false => Ok(()),
        }
    }

    /// Goes on after a failed sync, where all files that the next manifest names were made since: then a sync says what is durable
    /// of their names.
    pub(crate) fn go_on(&self) {
        self.is_broken.store(false, Ordering::Relaxed);
    }

    /// Whether the manifest, or the names of files, could not be made durable: no later try says what is.
    #[must_use]
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Makes durable which files there are.
    pub(crate) fn sync_names(&self) -> Result<(), Fault> {
        let synced = files::sync_directory(&self.path);
        if synced.is_err() {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        synced.map_err(|error| Fault::io("sync the directory", &self.path, error))
    }

    /// Removes what an earlier process has left and the manifest does not name, but for what is ready for use.
    ///
    /// # Errors
    /// As the system reports them.
    pub fn tidy(&self, manifest: &Manifest) -> Result<(), Fault> {
        self.drop_others(manifest, true)
    }

    /// Removes segments and bases that the manifest does not name.
    pub(crate) fn drop_unnamed(&self, manifest: &Manifest) -> Result<(), Fault> {
        self.drop_others(manifest, false)
    }

    fn drop_others(&self, manifest: &Manifest, unfinished: bool) -> Result<(), Fault> {
        for name in names(&self.path)? {
            let is_left = match (number(&name, SEGMENT), number(&name, BASE)) {
                (Some(number), _) => manifest.segments.iter().all(|segment| segment.number != number),
                (_, Some(number)) => manifest.base.is_none_or(|base| base.number != number),
                (None, None) => unfinished && name.ends_with(UNFINISHED),
            };
            if is_left {
                let path = self.path.join(name);
                match files::remove(&path) {
                    // The log gives files up meanwhile.
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(Fault::io("remove", &path, error)),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The file of a segment.
#[must_use]
pub fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{SEGMENT}{number:08}"))
}

/// The file of a part of a base.
#[must_use]
pub fn base_path(directory: &Path, number: u64, part: u32) -> PathBuf {
    directory.join(format!("{BASE}{number:08}.{part}"))
}

/// Where rings lie within the directory of their log.
#[must_use]
pub fn rings_path(directory: &Path) -> PathBuf {
    directory.join(RINGS)
}

/// What tells the directory of a log from its copies.
///
/// # Errors
/// As the system reports them.
pub fn identity(directory: &Path) -> io::Result<(u64, u64)> {
    files::identity(directory.join(LOCK))
}

/// Whether a file of this name is of a log.
pub(crate) fn is_of_log(name: &str) -> bool {
    name == MANIFEST || name == LOCK || number(name, SEGMENT).is_some() || number(name, BASE).is_some()
}

/// The manifest of a directory; none when there is nothing of a log.
///
/// # Errors
/// When it cannot be read, or is missing beside files of a log.
pub fn read_manifest(directory: &Path) -> Result<Option<Manifest>, Fault> {
    let path = directory.join(MANIFEST);
    match files::read(&path) {
        Ok(bytes) => Manifest::decode(&path, &bytes).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let is_part = |name: &String| number(name, SEGMENT).is_some() || number(name, BASE).is_some();
            match names(directory)?.into_iter().find(is_part) {
                Some(name) => Err(Fault::Missing { path, why: format!("{name} is beside it") }),
                None => Ok(None),
            }
        }
        Err(error) => Err(Fault::io("read", &path, error)),
    }
}

/// Whether a directory has neither manifest nor files of a log.
pub(crate) fn is_empty(directory: &Path) -> Result<bool, Fault> {
    Ok(names(directory)?.iter().all(|name| name == LOCK || !is_of_log(name)))
}

/// Removes the manifest of a log and its files.
pub(crate) fn drop_all(directory: &Path) -> Result<(), Fault> {
    let mut own: Vec<String> = names(directory)?.into_iter().filter(|name| name != LOCK && is_of_log(name)).collect();
    // Without it the others are no log.
    own.sort_by_key(|name| name != MANIFEST);
    for name in own {
        let path = directory.join(name);
        files::remove(&path).map_err(|error| Fault::io("remove", &path, error))?;
    }
    Ok(())
}

/// Removes a log that counts no more with its directory, unless something else is in that.
///
/// # Errors
/// When a process has it; or of the system.
pub fn remove_log(directory: &Path) -> Result<(), Fault> {
    let _lock = Directory::lock(directory)?;
    drop_all(directory)?;
    let is_rest = |name: &String| name.starts_with(SPARE) || name.ends_with(UNFINISHED) || name == LOCK;
    for name in names(directory)?.into_iter().filter(is_rest) {
        let path = directory.join(name);
        files::remove(&path).map_err(|error| Fault::io("remove", &path, error))?;
    }
    match files::remove_directory(directory) {
        Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => Err(Fault::io("remove", directory, error)),
        _ => Ok(()),
    }
}

/// The numbers of the segments that are in a directory, ascending.
///
/// # Errors
/// As the system reports them.
pub fn segment_numbers(directory: &Path) -> Result<Vec<u64>, Fault> {
    let mut numbers: Vec<u64> = names(directory)?.iter().filter_map(|name| number(name, SEGMENT)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn names(directory: &Path) -> Result<Vec<String>, Fault> {
    let names = match files::names(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(|error| Fault::io("list", directory, error))?,
    };
    Ok(names)
}

/// The number in a file's name.
fn number(name: &str, prefix: &str) -> Option<u64> {
    let rest = name.strip_prefix(prefix)?;
    rest.split('.').next()?.parse().ok()
}
