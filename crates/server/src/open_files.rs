//! Open files: the limit is raised to what `maxclients` needs, and `maxclients` lowered to what the limit allows.

use std::io;

use almandine_config::{Config, SetError, Settings};
use almandine_io::limits;

use crate::workers;

/// For what is neither a client nor counted below: log, listeners, signals, files that are read for INFO. As many as in Redis.
const RESERVED: u64 = 32;
/// A worker's reactor and wake-up.
const PER_WORKER: u64 = 4;
/// For each directory of the storage: a terabyte in segments of 256 MiB.
const PER_DIRECTORY: u64 = 4096;
/// What a directory gets at least, before clients do.
const PER_DIRECTORY_MIN: u64 = 64;

/// Raises the limit at start. When the system allows too little, `maxclients` becomes what is possible.
///
/// # Errors
/// When the limit leaves no room for clients at all.
pub(crate) fn prepare(config: &Config) -> io::Result<()> {
    let snapshot = config.snapshot();
    let settings = &snapshot.settings;
    let clients = u64::from(settings.connections.maxclients);
    let needed = clients + beside_clients(settings, PER_DIRECTORY_MIN);
    let files = limits::raise_open_files(clients + beside_clients(settings, PER_DIRECTORY));
    if files.now >= needed {
        if files.now > files.before {
            tracing::info!("Increased the limit of open files to {} (it was {})", files.now, files.before);
        }
        return Ok(());
    }
    let beside = needed - clients;
    let reason = files.refused.map_or_else(String::new, |error| format!(": {error}"));
    let Some(possible) = files.now.checked_sub(beside).filter(|&clients| clients > 0) else {
        let text = format!(
            "the limit of {} open files leaves none for clients{reason}; allow at least {needed} (ulimit -n, LimitNOFILE)",
            files.now
        );
        return Err(io::Error::other(text));
    };
    tracing::warn!(
        "maxclients {clients} needs {needed} open files, and the system allows {}{reason}. maxclients has been reduced to \
         {possible}. To serve more clients, raise the limit (ulimit -n, LimitNOFILE)",
        files.now
    );
    let set = config.set(&[(b"maxclients", possible.to_string().as_bytes())], true, |_, _| Ok(()));
    set.map(drop).map_err(io::Error::other)
}

/// Raises the limit for a `maxclients` that CONFIG SET has changed.
///
/// # Errors
/// When the system does not allow as many.
pub(crate) fn follow(settings: &Settings) -> Result<(), SetError> {
    let beside = beside_clients(settings, PER_DIRECTORY_MIN);
    let clients = u64::from(settings.connections.maxclients);
    let files = limits::raise_open_files(clients + beside);
    if files.now >= clients + beside {
        return Ok(());
    }
    let possible = files.now.saturating_sub(beside);
    let text = format!("The operating system is not able to handle the specified number of clients, try with {possible}");
    Err(SetError::failed("maxclients", text))
}

fn beside_clients(settings: &Settings, per_directory: u64) -> u64 {
    // Pages and large values have a folder each.
    RESERVED + PER_WORKER * workers::most(settings) as u64 + 2 * per_directory * settings.storage.directories.len() as u64
}
