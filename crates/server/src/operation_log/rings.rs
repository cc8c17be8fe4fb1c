//! Where the rings of the log lie.

use std::io;
use std::path::{Path, PathBuf};

use almandine_config::Settings;
use almandine_io::memory::HUGE_PAGE_BYTES;
use almandine_io::{files, mapping};
use almandine_oplog::directory::identity;

/// Bytes of a ring, 4 MiB but in simulations; each thread that does units of work has one.
pub(super) const RING_BYTES: usize = 2 * HUGE_PAGE_BYTES;
/// File systems in memory, which outlive the process.
const MEMORY: &str = "/dev/shm";
/// Files by which a container is known: its file systems in memory end with it.
const CONTAINER: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// The directory for the rings of a log whose files are in `log_files`, made ready; none where they are to end with the process. A
/// copy of these files is the same log, and has other rings: both may be in use.
///
/// # Errors
/// When it cannot be made, or others may use it.
pub(super) fn directory(settings: &Settings, log: u128, log_files: &Path) -> io::Result<Option<PathBuf>> {
    let place = match settings.persistence.ring_directory.as_str() {
        "none" | "" => return Ok(None),
        "auto" if std::process::id() == 1 || CONTAINER.iter().any(|file| files::open(file).is_ok()) => return Ok(None),
        "auto" => PathBuf::from(MEMORY),
        // The working directory may change.
        place => files::canonical(place).map_err(|error| failed(Path::new(place), &error))?,
    };
    let unseen =
        |error: io::Error| io::Error::new(error.kind(), format!("the log in {} cannot be looked at: {error}", log_files.display()));
    let (device, inode) = identity(log_files).map_err(unseen)?;
    let directory = place.join(format!("almandine-{log:032x}-{device:x}-{inode:x}"));
    mapping::prepare_directory(&directory).map_err(|error| failed(&directory, &error))?;
    Ok(Some(directory))
}

/// Why rings cannot be made.
pub(super) fn failed(directory: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!(
        "the rings of the log cannot be made in {}: {error}. Name another directory of a file system in memory with 'ring-dir', or \
         none: then replies wait until the log's file has what they acknowledge",
        directory.display()
    ))
}

/// Removes the rings of a log; what they held is in its files.
pub(super) fn remove_all(directory: &Path, log: u128) {
    let own = format!("{log:032x}-");
    for name in mapping::names(directory).unwrap_or_default().iter().filter(|name| name.starts_with(&own)) {
        if let Err(error) = mapping::remove(directory, name) {
            tracing::warn!("The ring {name} stays in {}: {error}", directory.display());
        }
    }
}
