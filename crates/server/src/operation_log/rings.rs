//! Where the rings of the log lie.
//!
//! In memory that outlives the process, if there is such. In a container there is none, and they lie with the log's files, in the
//! page cache: that outlives the container as it outlives the process. Where neither is to be had, they end with the process, and
//! replies wait for the files.

use std::io;
use std::path::{Path, PathBuf};

use almandine_config::Settings;
use almandine_io::memory::HUGE_PAGE_BYTES;
use almandine_io::{files, mapping};
use almandine_oplog::directory::{identity, rings_path};
use almandine_oplog::manifest::Manifest;
use almandine_oplog::{LogKeys, Rings};

use crate::workers;

/// Bytes of a ring, 4 MiB but in simulations; each thread that does units of work has one.
pub(super) const RING_BYTES: usize = 2 * HUGE_PAGE_BYTES;
/// File systems in memory, which outlive the process.
const MEMORY: &str = "/dev/shm";
/// Threads that have rings beside the workers, at most.
const OTHER_THREADS: usize = 8;

/// The directory for the rings of a log whose files are in `log_files`, made ready; none where they are to end with the process. A
/// copy of these files is the same log, and has other rings: both may be in use.
///
/// # Errors
/// When it cannot be made, or others may use it.
pub(super) fn directory(settings: &Settings, keys: &LogKeys, log: u128, log_files: &Path) -> io::Result<Option<PathBuf>> {
    let place = match settings.persistence.ring_directory.as_str() {
        "none" | "" => return Ok(None),
        "log" => {
            check_hidden(true, keys)?;
            return within(log_files).map(Some);
        }
        "auto" if mapping::is_in_container() => return beside_files(settings, keys, log_files),
        "auto" => PathBuf::from(MEMORY),
        // The working directory may change.
        place => files::canonical(place).map_err(|error| failed(Path::new(place), &error))?,
    };
    let unseen =
        |error: io::Error| io::Error::new(error.kind(), format!("the log in {} cannot be looked at: {error}", log_files.display()));
    let (device, inode) = identity(log_files).map_err(unseen)?;
    prepared(place.join(format!("almandine-{log:032x}-{device:x}-{inode:x}"))).map(Some)
}

/// With the log's files, where what is stored there outlives the process, is not to be encrypted, and has room.
fn beside_files(settings: &Settings, keys: &LogKeys, log_files: &Path) -> io::Result<Option<PathBuf>> {
    let bytes = (workers::wanted(settings) + OTHER_THREADS) * RING_BYTES;
    let why = if keys.current().is_some() {
        "they would not be encrypted with log-key-file"
    } else if !mapping::outlives_process(log_files)? {
        "their file system may not keep them when the process ends"
    } else if files::free_bytes(log_files)? < bytes as u64 {
        "there is no room"
    } else {
        return within(log_files).map(Some);
    };
    tracing::info!("The rings of the log do not lie with its files, in {}: {why}. Replies wait for the files", log_files.display());
    Ok(None)
}

fn within(log_files: &Path) -> io::Result<PathBuf> {
    prepared(rings_path(log_files))
}

fn prepared(directory: PathBuf) -> io::Result<PathBuf> {
    mapping::prepare_directory(&directory).map_err(|error| failed(&directory, &error))?;
    Ok(directory)
}

/// What the manifest of the log says of where rings lie: with its files, they are found where these are.
pub(super) fn named(place: &Path, log_files: &Path) -> PathBuf {
    let is_within = place == rings_path(log_files);
    place.file_name().filter(|_| is_within).map_or_else(|| place.to_owned(), PathBuf::from)
}

/// Whether rings lie with the files of their log.
pub(super) fn lie_within(rings: &Rings, log_files: &Path) -> bool {
    rings.options().directory.as_deref() == Some(&rings_path(log_files))
}

/// Nothing that is to be encrypted lies on a disk as it is.
///
/// # Errors
/// When rings do, with such keys.
pub(super) fn check_hidden(is_within: bool, keys: &LogKeys) -> io::Result<()> {
    if is_within && keys.current().is_some() {
        return Err(io::Error::other(
            "the rings of the log lie with its files, where log-key-file would not encrypt them. Set log-key-file in the \
             configuration file, with ring-dir auto, none, or a directory of a file system in memory, and restart",
        ));
    }
    Ok(())
}

/// Why rings cannot be made.
pub(super) fn failed(directory: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!(
        "the rings of the log cannot be made in {}: {error}. Name another directory of a file system in memory with 'ring-dir', or \
         none: then replies wait until the log's file has what they acknowledge",
        directory.display()
    ))
}

/// Whether the rings of this process lie where a start looks for those of the log in `log_files`: while there is no log its
/// directory may be moved, and another one named.
///
/// # Errors
/// When they do not.
pub(super) fn check_place(rings: &Rings, log_files: &Path) -> io::Result<()> {
    let Some(directory) = &rings.options().directory else { return Ok(()) };
    let refused = |why: &str| {
        let place = directory.display();
        io::Error::other(format!("the rings of this process {why} {place}: have the log's directory where it was, or restart"))
    };
    if directory.file_name() == rings_path(log_files).file_name() && !lie_within(rings, log_files) {
        return Err(refused("lie with another log, in"));
    }
    let there = mapping::names(directory)?;
    let is_there = rings.names().iter().all(|name| there.contains(&name.file()));
    if is_there { Ok(()) } else { Err(refused("are not there any more, in")) }
}

/// Rings that count no more: their directory, and their names.
#[derive(Debug, Default)]
pub(super) struct StaleRings(Vec<(PathBuf, Vec<String>)>);

impl StaleRings {
    /// All of a log, in `directory`.
    pub(super) fn of(log: u128, directory: &Path) -> Self {
        Self(vec![named_so(directory, |name| is_of(log, name))])
    }

    /// When this log counts, whose files are in `log_files`: those of the one before, and what others have left there.
    pub(super) fn behind(log: u128, log_files: &Path, before: &Manifest) -> Self {
        let within = named_so(&rings_path(log_files), |name| !is_of(log, name));
        let former = before.rings.iter().filter(|_| before.id != log);
        let former = former.map(|rings| named_so(&rings.directory(log_files), |name| is_of(before.id, name)));
        Self(former.filter(|(directory, _)| *directory != within.0).chain([within.clone()]).collect())
    }

    /// Removes them; what they held is in files.
    pub(super) fn remove(self) {
        for (directory, names) in &self.0 {
            for name in names {
                if let Err(error) = mapping::remove(directory, name) {
                    tracing::warn!("The ring {name} stays in {}: {error}", directory.display());
                }
            }
        }
    }
}

fn is_of(log: u128, name: &str) -> bool {
    name.starts_with(&format!("{log:032x}-"))
}

fn named_so(directory: &Path, is_stale: impl Fn(&str) -> bool) -> (PathBuf, Vec<String>) {
    let mut names = mapping::names(directory).unwrap_or_default();
    names.retain(|name| is_stale(name));
    (directory.to_owned(), names)
}
