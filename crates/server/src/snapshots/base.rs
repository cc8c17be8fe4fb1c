//! How snapshots are written, and the one that an append-only file of Redis begins with.

use std::io;
use std::path::Path;
use std::time::Duration;

use almandine_config::choices::SnapshotVersion;
use almandine_instance::{Instance, REDIS_VERSION};
use almandine_io::{clock, thread};
use almandine_rdb::file::WriteVersion;
use almandine_recovery::save::{SaveError, SaveOptions, SaveProgress, Saved, SnapshotFile};

/// How long an append-only file of Redis waits for a snapshot that is being written, and the rest between two looks.
const BUSY_NS: u64 = 600_000_000_000;
const REST: Duration = Duration::from_millis(10);

/// Writes what an append-only file of Redis begins with.
///
/// # Errors
/// When it cannot be written; then there is no such file.
pub(crate) fn write_base(instance: &Instance, path: &Path, progress: &SaveProgress) -> Result<Saved, SaveError> {
    let options = base_options(instance);
    let mut accessor = instance.keyspace.accessor().ok_or_else(|| io::Error::other("the store has no session left for it"))?;
    let began_ns = clock::monotonic_ns();
    let file = loop {
        match SnapshotFile::begin_now(&mut accessor) {
            Some(file) => break file,
            // SAVE, which a client waits for.
            None if clock::monotonic_ns() - began_ns < BUSY_NS => thread::sleep(REST),
            None => return Err(SaveError::Io(io::Error::other("another copy of the data is being made"))),
        }
    };
    file.write(&mut accessor, path, &options, progress)
}

/// How such a snapshot is written.
pub(crate) fn base_options(instance: &Instance) -> SaveOptions {
    SaveOptions { aux: vec![("aof-base".to_owned(), "1".to_owned())], ..options(instance) }
}

/// How snapshots are written.
pub(crate) fn options(instance: &Instance) -> SaveOptions {
    let persistence = &instance.config.snapshot().settings.persistence;
    SaveOptions {
        version: match persistence.snapshot_version {
            SnapshotVersion::Redis10 => WriteVersion::Redis10,
            SnapshotVersion::Redis11 => WriteVersion::Redis11,
            SnapshotVersion::Redis12 => WriteVersion::Redis12,
            SnapshotVersion::Valkey80 => WriteVersion::Valkey80,
        },
        checksum: persistence.checksum,
        compression: persistence.compression,
        server_version: REDIS_VERSION.to_owned(),
        functions: instance.scripts.libraries.all().into_iter().map(|(_, library)| library.code.to_vec()).collect(),
        ..SaveOptions::default()
    }
}
