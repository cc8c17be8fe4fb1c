//! Writing a snapshot.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use almandine_instance::{Instance, SaveMeter, SaveOutcome};
use almandine_io::{clock, thread};
use almandine_keyspace::Accessor;
use almandine_recovery::save::{SaveError, SnapshotFile};

use super::base::options;
use crate::meter::Meter;
use crate::node::Host;

/// Between two looks at whether an append-only file of Redis is written.
const REST: Duration = Duration::from_millis(10);

/// Where the snapshot is.
pub(super) fn path(instance: &Instance, host: &dyn Host) -> PathBuf {
    let settings = &instance.config.snapshot().settings;
    host.directory(settings).join(&settings.persistence.snapshot_file)
}

/// Writes a snapshot of this moment. The log says what became of it.
pub(super) fn write(instance: &Instance, host: &dyn Host) -> SaveOutcome {
    let path = path(instance, host);
    let began_ns = clock::monotonic_ns();
    let options = options(instance);
    let persistence = &instance.config.snapshot().settings.persistence;
    let meter = Arc::new(Meter::default());
    meter.0.key_delay_us.store(u64::try_from(persistence.key_save_delay_us).unwrap_or(0), Relaxed);
    instance.persistence.saves.meter(instance.keyspace.keys(), Arc::clone(&meter) as Arc<dyn SaveMeter>);
    let Some(mut accessor) = instance.keyspace.accessor() else {
        tracing::error!("The snapshot is not written: the store has no session left for it");
        return SaveOutcome::Failed;
    };
    // What is counted later may be in it all the same, and then counts twice.
    let changes = instance.keyspace.figures().totals().changes;
    let Some(file) = begin(instance, &mut accessor) else {
        tracing::warn!("The snapshot is not written: another copy of the data is being made");
        return SaveOutcome::Failed;
    };
    match file.write(&mut accessor, &path, &options, &meter.0) {
        Ok(saved) => {
            let elapsed_ms = (clock::monotonic_ns() - began_ns) / 1_000_000;
            tracing::info!("DB saved on disk: {} keys, {} bytes, {elapsed_ms} ms, {}", saved.keys, saved.bytes, path.display());
            if let Some(version) = saved.newer {
                tracing::info!("Some of its values need version {version} of the format: older servers refuse them");
            }
            SaveOutcome::Done { changes, keys: saved.keys }
        }
        Err(SaveError::Cancelled) => {
            tracing::warn!("The snapshot was cancelled");
            SaveOutcome::Cancelled
        }
        Err(error) => {
            tracing::error!("The snapshot {} is not written: {error}. What was there before is there still", path.display());
            SaveOutcome::Failed
        }
    }
}

/// Begins a snapshot, behind an append-only file of Redis that is being written.
fn begin(instance: &Instance, accessor: &mut Accessor) -> Option<SnapshotFile> {
    loop {
        let file = SnapshotFile::begin_now(accessor);
        if file.is_some() || !instance.persistence.rewrites.is_running() {
            return file;
        }
        thread::sleep(REST);
    }
}
