//! Looks for a log, before anything of it is read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_config::Settings;
use almandine_config::choices::LogSync;
use almandine_io::files;
use almandine_io::memory::HUGE_PAGE_BYTES;
use almandine_oplog::append::LogOptions;
use almandine_oplog::archive::Shipper;
use almandine_oplog::directory::{Directory, base_path, read_manifest};
use almandine_oplog::manifest::Manifest;
use almandine_oplog::writer::SyncMode;
use almandine_oplog::{Fault, LogKeys};
use almandine_recovery::base::{BaseFault, DeviceHead, DeviceReader, peek_keys};
use almandine_recovery::load::FileInput;

use super::base::DEVICE_PART;
use super::{fetch, keys};
use crate::redis_files;
use crate::storage::LastBase;

/// A log that is to be recovered. This process has its lock.
pub(crate) struct Found {
    pub(super) directory: Directory,
    pub(super) manifest: Manifest,
    /// An append-only file of Redis that a new log begins with.
    pub(super) redis: Option<redis_files::Source>,
    /// The snapshot that a new log begins with, where there is one and nothing of Redis' append-only file.
    pub(super) snapshot: PathBuf,
    /// An append-only file of Redis is there that this server has written before that snapshot.
    pub(super) is_exported: bool,
    /// What ships the log, where its archive has answered: for comparison.
    pub(super) shipper: Option<Shipper>,
    /// What it is encrypted with.
    pub(super) keys: Arc<LogKeys>,
    bytes: u64,
}

impl Found {
    /// What the base says of the device below memory; none if it names nothing there.
    ///
    /// # Errors
    /// When that cannot be read, or belongs to another base.
    pub(crate) fn device(&self) -> io::Result<Option<DeviceHead>> {
        let Some(base) = self.manifest.base.filter(|base| base.parts == 2) else { return Ok(None) };
        let path = base_path(self.directory.path(), base.number, DEVICE_PART);
        let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("{} cannot be read: {error}", path.display()));
        let file = files::open(&path).map_err(|error| failed(&error))?;
        let head = DeviceReader::open(FileInput::new(file)).map_err(|fault| failed(&fault))?.head();
        if (head.log, head.base) != (self.manifest.id, base.number) {
            return Err(failed(&BaseFault::Another));
        }
        Ok(Some(head))
    }

    /// Which log it is.
    pub(crate) fn id(&self) -> u128 {
        self.manifest.id
    }

    /// What it is encrypted with.
    pub(crate) fn keys(&self) -> Arc<LogKeys> {
        Arc::clone(&self.keys)
    }

    /// Bytes of its files, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What `log-segment-size` is a multiple of.
const PAGE_BYTES: u64 = 2 << 20;

/// When the log is made durable.
pub(crate) fn mode(settings: &Settings) -> SyncMode {
    match settings.persistence.log_sync {
        LogSync::EverySecond => SyncMode::EverySecond,
        LogSync::Always => SyncMode::Always,
        LogSync::Never => SyncMode::Never,
    }
}

/// How the log's files are written.
pub(super) fn log_options(settings: &Settings, keys: &Arc<LogKeys>) -> LogOptions {
    let writes_zeroes = mode(settings) == SyncMode::Always;
    LogOptions { segment_bytes: segment_bytes(settings), writes_zeroes, keys: Arc::clone(keys) }
}

/// The size of the log's files: whole pages, which are small in simulations.
pub(super) fn segment_bytes(settings: &Settings) -> u64 {
    settings.persistence.log_segment_bytes.div_ceil(PAGE_BYTES) * HUGE_PAGE_BYTES as u64
}

/// Whether the pages that the base names can be read with these keys.
fn check_page_keys(path: &Path, manifest: &Manifest, keys: &LogKeys) -> io::Result<()> {
    let Some(base) = manifest.base.filter(|base| base.parts == DEVICE_PART + 1) else { return Ok(()) };
    let path = base_path(path, base.number, DEVICE_PART);
    // What is wrong with the file is told when it is read.
    let named = files::open(&path).map_err(BaseFault::from).and_then(|file| peek_keys(FileInput::new(file)));
    let missing = named.unwrap_or_default().iter().find_map(|mark| keys.check(mark).err());
    missing.map_or(Ok(()), |why| Err(io::Error::other(Fault::Key { path, why })))
}

/// The base of a log that is there, 0 if it has none, and that the server does not begin with, as `appendonly no` says.
pub(crate) fn passed_over(settings: &Settings, base: &Path) -> Option<LastBase> {
    // One that cannot be read may be one that counts.
    let manifest = read_manifest(&base.join(&settings.persistence.log_directory)).ok()??;
    Some(LastBase { log: manifest.id, number: manifest.base.map_or(0, |base| base.number) })
}

/// Takes the directory of the log, below the node's, and looks what is there.
///
/// # Errors
/// When another process has it, it is the log of another server, or it is damaged.
pub(crate) fn find(settings: &Settings, base: &Path, snapshot: PathBuf) -> io::Result<Found> {
    // The working directory may change.
    let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    let unfound =
        |error: io::Error| io::Error::new(error.kind(), format!("the directory {} is not to be had: {error}", base.display()));
    let base = files::canonical(base).map_err(unfound)?;
    let path = base.join(&settings.persistence.log_directory);
    let directory = Directory::take(&path).map_err(io::Error::other)?;
    let keys = keys::read(settings, &base)?;
    // Before anything is changed.
    if let Some(there) = read_manifest(&path).map_err(io::Error::other)? {
        there.check_keys(&path, &keys).map_err(io::Error::other)?;
        check_page_keys(&path, &there, &keys)?;
    }
    let shipper = fetch::prepare(settings, &base, &directory, &keys)?;
    let manifest = directory.manifest().map_err(io::Error::other)?;
    let is_new = manifest.base.is_none() && manifest.run == 0;
    let mut redis = if is_new { redis_files::find(settings, &base, &path)? } else { None };
    let own = redis_files::Own::read(&path)?.filter(|_| redis.is_some());
    let is_exported = own.map_or(Ok(false), |own| Ok::<_, io::Error>(own.is_before(&snapshot)? && own.has_all(&path)?))?;
    if is_exported {
        tracing::warn!(
            "The snapshot {} was written behind the append-only file in {}, which BGREWRITEAOF wrote while there was no log: the \
             log begins with the snapshot",
            snapshot.display(),
            path.display()
        );
        redis = None;
    } else if redis.as_ref().is_none_or(|source| !source.has_manifest()) {
        // Such that are no log, and such that the log did not begin with.
        redis_files::check(&path)?;
    }
    let bytes = match &redis {
        Some(source) => source.bytes(),
        None => manifest.segments.iter().map(|segment| segment.bytes).sum(),
    };
    Ok(Found { directory, manifest, redis, snapshot, is_exported, shipper, keys, bytes })
}
