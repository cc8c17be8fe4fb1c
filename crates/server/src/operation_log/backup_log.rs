//! The log of a backup that is taken of a server without one: it begins with the backup, and ends with it.
//!
//! It lies in a directory of its own beside that of backups, so what is in the log's directory stays as it is, and a start does not
//! look at it. Nothing is promised by it: no reply waits for it, and where it cannot be written the backup fails, not the writes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_config::Settings;
use almandine_instance::{Instance, LogPurpose};
use almandine_io::files;
use almandine_oplog::directory::{read_manifest, remove_log};

use super::rings::StaleRings;
use super::running::LogSlot;
use super::switch::{off, on};

/// Where it lies, below the directory of the node.
pub(super) fn path(node: &Path, settings: &Settings) -> PathBuf {
    node.join(format!("{}.log", settings.persistence.backup_directory))
}

/// Why a backup needs a log that a start has; none: it may have one of its own.
pub(super) fn reason_against(settings: &Settings) -> Option<&'static str> {
    if crate::storage::is_configured(settings) {
        return Some("a backup of what lies on a device needs the log of writes: set appendonly to yes");
    }
    let has_archive = !settings.persistence.log_object_url.is_empty();
    has_archive.then_some("a backup with log-object-url needs the log of writes: set appendonly to yes")
}

/// Begins the log of a backup that waits for one, or ends one that no backup needs. For the thread that writes bases.
pub(super) fn follow(instance: &Arc<Instance>, slot: &LogSlot, node: &Path) {
    let backups = &instance.persistence.backups;
    match slot.get() {
        Some(running) if running.purpose == LogPurpose::Backup && !backups.figures().state.is_begun() => {
            let _turning = slot.turn();
            off(instance, slot, &running);
            // None of its rings counts, whether it has its end or not.
            slot.end();
            remove_left(instance, node);
        }
        None if backups.is_pending() && !instance.persistence.is_loading() => {
            if let Err(error) = begin(instance, slot, node) {
                backups.fail(&error.to_string());
                remove_left(instance, node);
            }
        }
        _ => {}
    }
}

fn begin(instance: &Arc<Instance>, slot: &LogSlot, node: &Path) -> io::Result<()> {
    let settings = &instance.config.snapshot().settings;
    let _turning = slot.turn();
    if slot.get().is_some() {
        return Ok(());
    }
    if let Some(why) = reason_against(settings) {
        return Err(io::Error::other(why));
    }
    if !slot.is_settled() {
        return Err(io::Error::other(
            "the log that was turned off has no end, see the server's log: restart, or set appendonly to yes",
        ));
    }
    remove_left(instance, node);
    on(instance, slot, (settings, LogPurpose::Backup), node)
}

/// Removes such a log that has ended, or that a killed process has left.
pub(super) fn remove_left(instance: &Instance, node: &Path) {
    let Ok(node) = files::canonical(if node.as_os_str().is_empty() { Path::new(".") } else { node }) else { return };
    let path = path(&node, &instance.config.snapshot().settings);
    if !files::is_directory(&path) {
        return;
    }
    let own = instance.keyspace.log().rings().map(|rings| rings.options().log);
    if let Ok(Some(there)) = read_manifest(&path)
        && let Some(rings) = there.rings.as_ref().filter(|_| own != Some(there.id))
    {
        let directory = rings.directory(&path);
        StaleRings::of(there.id, &directory).remove();
        let _ = files::remove_directory(&directory);
    }
    if let Err(fault) = remove_log(&path) {
        tracing::warn!("The log of a backup stays in {}: {fault}", path.display());
    }
}
