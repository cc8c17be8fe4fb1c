//! The operation log of the node: found and recovered at its start, written while it runs, ended with it.

mod base;
mod found;
mod listener;
mod recover;
mod rewriter;
mod rings;
mod running;

use almandine_config::{SetError, Settings};
use almandine_instance::Instance;

pub(crate) use found::{Found, find, mode};
pub(crate) use recover::recover;
pub(crate) use rewriter::{Rewriter, start};
pub(crate) use running::{LogSlot, RunningLog};

/// What cannot be followed of the settings.
pub(crate) fn check(settings: &Settings) -> Result<(), String> {
    if settings.persistence.append_only && crate::storage::is_configured(settings) {
        return Err(
            "appendonly yes does not go with storage-dir, storage-device or storage-object-url yet: what lies there is not \
                    in the log. Set appendonly to no, or leave the storage out"
                .to_owned(),
        );
    }
    Ok(())
}

/// What cannot change while the server runs.
pub(crate) fn check_change(settings: &Settings, has_log: bool) -> Result<(), SetError> {
    if settings.persistence.append_only == has_log {
        return Ok(());
    }
    Err(SetError::failed("appendonly", "it changes with a restart only: set it in the configuration file or on the command line"))
}

/// Ends the log: all that was done is durable. No client does anything any more.
pub(crate) fn end(instance: &Instance, log: &RunningLog) {
    // What the store still removes by itself is removed by the next run, too.
    let _ = instance.keyspace.log().turn(false);
    match log.writer.end() {
        Ok(_) => {
            tracing::info!("The log is written and ended");
            if let Some(rings) = instance.keyspace.log().rings()
                && let Some(directory) = &rings.options().directory
            {
                rings::remove_all(directory, rings.options().log);
            }
        }
        Err(fault) => tracing::error!("The log has no end: {fault}. The next start finds what is in it"),
    }
}
