//! Keys are exchanged while the log is written.

use std::io;
use std::path::Path;
use std::sync::Arc;

use almandine_config::Settings;
use almandine_instance::RewriteCause;
use almandine_oplog::directory::read_manifest;

use super::keys::{NAME, read};
use super::rings::check_hidden;
use super::running::RunningLog;

/// Has what is written of a running log from now on be encrypted as the settings say.
///
/// # Errors
/// When the file cannot be used, or lacks a key that the log needs; then all is as before.
pub(super) fn follow(log: &RunningLog, settings: &Settings, directory: &Path) -> io::Result<()> {
    let keys = if settings.persistence.log_key_file.is_empty() {
        // What is there is read until a base replaces it.
        Arc::new(log.keys().for_reading())
    } else {
        read(settings, directory)?
    };
    check_hidden(log.has_rings_within, &keys)?;
    let needed = read_manifest(&log.directory).map_err(io::Error::other)?.unwrap_or_default();
    let former = log.keys().current().map_or(Ok(()), |mark| keys.check(&mark).map_err(|why| why.to_string()));
    former.and_then(|()| needed.check_keys(&log.directory, &keys).map_err(|fault| fault.to_string())).map_err(|why| {
        io::Error::other(format!("{NAME}: {why}. Keep the former keys behind the new one until BGREWRITEAOF has ended"))
    })?;
    log.check_page_keys(&keys).map_err(|why| {
        let kept = "storage_keys in INFO says which keys pages in storage-dir need";
        io::Error::other(format!("{NAME}: of a page in storage-dir, {why}. Keep the former keys behind the new one: {kept}"))
    })?;
    log.set_keys(keys);
    Ok(())
}

/// Before a new base: the file may have another first key. For a base that no client has asked for, the keys that are there do.
///
/// # Errors
/// As of [`follow`].
pub(super) fn read_again(log: &RunningLog, settings: &Settings, directory: &Path, cause: RewriteCause) -> io::Result<()> {
    if settings.persistence.log_key_file.is_empty() {
        return Ok(());
    }
    match follow(log, settings, directory) {
        Err(error) if cause != RewriteCause::Asked => {
            tracing::warn!("The keys stay as they are: {error}");
            Ok(())
        }
        followed => followed,
    }
}
