//! The operation log of the node: found and recovered at its start, written while it runs, ended with it.

mod archive;
mod backup;
mod backup_log;
mod base;
mod fetch;
mod found;
mod keys;
mod listener;
mod naming;
#[cfg(feature = "object-store")]
mod objects;
#[cfg(not(feature = "object-store"))]
#[path = "no_objects.rs"]
mod objects;
mod page_copies;
mod read;
mod recover;
mod rekey;
mod reload;
mod retained;
mod rewriter;
mod rings;
mod running;
mod switch;
mod uploader;

use almandine_base::step;
use almandine_config::Settings;
use almandine_config::choices::CommitTier;
use almandine_instance::Instance;
use almandine_io::files;
use almandine_oplog::writer::SyncMode;

use rings::StaleRings;

pub(crate) use archive::Archiver;
pub(crate) use backup::install as install_backups;
pub(crate) use found::{Found, find, mode, passed_over};
pub(crate) use keys::read as read_keys;
pub use objects::object_folder;
pub(crate) use read::{Extent, read_log, write_new};
pub(crate) use recover::recover;
pub(crate) use reload::reload;
pub(crate) use retained::{fills_storage, retained_too_much};
pub(crate) use rewriter::{Rewriter, start};
pub(crate) use running::LogSlot;
pub(crate) use switch::follow;
pub(crate) use uploader::Uploader;

/// What cannot be followed of the settings.
pub(crate) fn check(settings: &Settings) -> Result<(), String> {
    if settings.persistence.append_only && crate::storage::is_configured(settings) && !crate::storage::outlives(settings) {
        return Err(
            "appendonly yes goes with storage-dir alone, not with storage-device or storage-object-url yet: what lies there would \
             not be found again. Set appendonly to no, or leave these out"
                .to_owned(),
        );
    }
    let persistence = &settings.persistence;
    if !persistence.backup_object_url.is_empty() && persistence.backup_object_url == persistence.log_object_url {
        return Err("backup-object-url and log-object-url need folders of their own".to_owned());
    }
    check_archive(settings)
}

fn check_archive(settings: &Settings) -> Result<(), String> {
    let persistence = &settings.persistence;
    let (has_url, awaited) = (!persistence.log_object_url.is_empty(), persistence.commit_tier == CommitTier::ObjectStore);
    let problem = if has_url && crate::storage::is_configured(settings) && !crate::storage::outlives(settings) {
        "log-object-url goes with storage-dir alone, not with storage-device or storage-object-url: what lies there would be \
         missing in the archive. Leave one of both out"
    } else if awaited && !has_url {
        "commit-tier object-store needs the object storage that log-object-url names"
    } else if awaited && persistence.append_only && mode(settings) != SyncMode::Always {
        "commit-tier object-store needs appendfsync always: in the other modes no reply waits"
    } else {
        return Ok(());
    };
    Err(problem.to_owned())
}

/// Ends the log, where there is one: all that was done is durable. No client does anything any more.
pub(crate) fn end(instance: &Instance, slot: &LogSlot) {
    if let Some(log) = slot.take() {
        // What the store still removes by itself is removed by the next run, too.
        let _ = instance.keyspace.log().turn(false);
        if let Err(fault) = log.writer.end() {
            return tracing::error!("The log has no end: {fault}. The next start finds what is in it");
        }
        slot.end();
        tracing::info!("The log is written and ended");
    }
    // Also those of a log that has ended before; the manifest of one that has not may name them.
    if step!(KeepRings, slot.has_ended(), else true)
        && let Some(rings) = instance.keyspace.log().rings()
        && let Some(directory) = &rings.options().directory
    {
        StaleRings::of(rings.options().log, directory).remove();
        // It is empty, unless another log has rings there.
        let _ = files::remove_directory(directory);
    }
}
