//! Looks for a log, before anything of it is read.

use std::io;
use std::path::{Path, PathBuf};

use almandine_config::Settings;
use almandine_config::choices::LogSync;
use almandine_io::files;
use almandine_oplog::directory::Directory;
use almandine_oplog::manifest::Manifest;
use almandine_oplog::writer::SyncMode;

/// A log that is to be recovered. This process has its lock.
pub(crate) struct Found {
    pub(super) directory: Directory,
    pub(super) manifest: Manifest,
    /// The snapshot that a new log begins with, where there is one.
    pub(super) snapshot: PathBuf,
    bytes: u64,
}

impl Found {
    /// Bytes of its files, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// When the log is made durable.
pub(crate) fn mode(settings: &Settings) -> SyncMode {
    match settings.persistence.log_sync {
        LogSync::EverySecond => SyncMode::EverySecond,
        LogSync::Always => SyncMode::Always,
        LogSync::Never => SyncMode::Never,
    }
}

/// Takes the directory of the log, below the node's, and looks what is there.
///
/// # Errors
/// When another process has it, it is the log of another server, or it is damaged.
pub(crate) fn find(settings: &Settings, base: &Path, snapshot: PathBuf) -> io::Result<Found> {
    // The working directory may change.
    let base = files::canonical(if base.as_os_str().is_empty() { Path::new(".") } else { base })?;
    let path = base.join(&settings.persistence.log_directory);
    if let Some(name) = files::names(&path).unwrap_or_default().into_iter().find(|name| is_of_redis(name)) {
        return Err(io::Error::other(format!(
            "{} is an append-only file of Redis or Valkey, which this server does not read ({name} is there). Have the old server \
             write a snapshot (SAVE), put that into 'dir', and name another directory with 'appenddirname': the new log begins \
             with the snapshot",
            path.display()
        )));
    }
    let directory = Directory::take(&path).map_err(io::Error::other)?;
    let manifest = directory.manifest().map_err(io::Error::other)?;
    let bytes = manifest.segments.iter().map(|segment| segment.bytes).sum();
    Ok(Found { directory, manifest, snapshot, bytes })
}

/// Whether a file in the directory of a log is one of Redis' or Valkey's.
fn is_of_redis(name: &str) -> bool {
    name.ends_with(".manifest") || name.ends_with(".aof") || name.ends_with(".base.rdb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_redis_are_known_by_their_names() {
        let theirs = ["appendonly.aof.manifest", "appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof", "appendonly.aof"];
        assert!(theirs.iter().all(|name| is_of_redis(name)));
        assert!(!["MANIFEST", "LOCK", "log-00000001", "base-00000001.0"].iter().any(|name| is_of_redis(name)));
    }
}
