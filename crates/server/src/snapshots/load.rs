//! Loading the snapshot at the start, while clients are told that it is being loaded.

use std::io;
use std::path::Path;
use std::time::Duration;

use almandine_config::Settings;
use almandine_config::choices::VersionCheck;
use almandine_instance::Instance;
use almandine_io::{clock, files, thread};
use almandine_keyspace::Accessor;
use almandine_rdb::file::ReadOptions;
use almandine_recovery::load::{self, Existing, FileInput, LoadError, LoadFault, LoadOptions, Loaded};
use almandine_recovery::put::ValueLimits;
use almandine_script::RestorePolicy;

use crate::workers;

/// Between two lines of the log that say how far loading is.
const REPORT_NS: u64 = 5_000_000_000;

/// Bytes of the snapshot; none where there is no file of this name.
///
/// # Errors
/// When it cannot be looked at.
pub(crate) fn announced_bytes(path: &Path) -> io::Result<Option<u64>> {
    match files::open(path).and_then(|file| file.len()) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Loads the snapshot of this name, and says in the log what it was. [`almandine_instance::Persistence::begin_loading`] was called.
///
/// Returns whether it is loaded: not when the end of the server is asked for meanwhile.
///
/// # Errors
/// When it cannot be loaded whole: the server does not start then, for it would serve less than there is.
pub(crate) fn load(instance: &Instance, path: &Path) -> io::Result<bool> {
    let mut accessor =
        instance.keyspace.accessor().ok_or_else(|| io::Error::other("the store has no session left to load the snapshot"))?;
    let whole = load_with(instance, path, &mut accessor, (Existing::Refuse, RestorePolicy::Append))?;
    // A snapshot is no change since the last one.
    instance.persistence.saves.begin_from(clock::unix_ms() / 1000, instance.keyspace.figures().totals().changes);
    Ok(whole)
}

/// As [`load`], by a way to the data that the caller has, which says what becomes of keys and of libraries that are there.
///
/// # Errors
/// As for [`load`].
pub(super) fn load_with(
    instance: &Instance,
    path: &Path,
    accessor: &mut Accessor,
    (existing, libraries): (Existing, RestorePolicy),
) -> io::Result<bool> {
    let options = options(&instance.config.snapshot().settings, existing);
    let Some((loaded, _)) = read(instance, path, accessor, (options, 0))? else { return Ok(false) };
    instance.persistence.loading.finish(loaded.keys, loaded.expired);
    restore(instance, path, &loaded.functions, libraries)?;
    Ok(true)
}

/// Loads the keys of a snapshot, and returns what it was and where it ends, behind which the file may go on. `before` bytes of
/// what is loaded were so. None when the end of the server is asked for meanwhile.
///
/// # Errors
/// As for [`load`].
pub(crate) fn read(
    instance: &Instance,
    path: &Path,
    accessor: &mut Accessor,
    (options, before): (LoadOptions, u64),
) -> io::Result<Option<(Loaded, u64)>> {
    let input = FileInput::new(files::open(path).map_err(|error| failed(path, &error))?);
    let began_ns = clock::monotonic_ns();
    let (mut reported_ns, mut delayed, mut end) = (began_ns, 0, 0);
    let mut proceed = |bytes, keys: u64| {
        end = bytes;
        let delay_us = u64::try_from(instance.config.snapshot().settings.memory.key_load_delay_us).unwrap_or(0);
        if delay_us > 0 {
            thread::sleep(Duration::from_micros(delay_us.saturating_mul(keys - delayed)));
            delayed = keys;
        }
        let loading = &instance.persistence.loading;
        loading.reached(before + bytes);
        let now_ns = clock::monotonic_ns();
        if now_ns - reported_ns >= REPORT_NS {
            reported_ns = now_ns;
            let figures = loading.figures();
            let (share, left_s) = (figures.share() * 100.0, figures.seconds_left(clock::unix_ms()));
            tracing::info!("Loading {}: {share:.0}% of {} MiB, about {left_s} s left", path.display(), figures.total_bytes >> 20);
        }
        !instance.shutdown.requested()
    };
    let loaded = match load::load(accessor, input, &options, &mut proceed) {
        Err(LoadError { fault: LoadFault::Stopped, .. }) => return Ok(None),
        loaded => loaded.map_err(|error| failed(path, &error))?,
    };
    report(&loaded, clock::monotonic_ns() - began_ns);
    Ok(Some((loaded, end)))
}

/// Takes up the libraries of functions that a file has.
///
/// # Errors
/// When one cannot be loaded.
pub(crate) fn restore(instance: &Instance, path: &Path, functions: &[Vec<u8>], there: RestorePolicy) -> io::Result<()> {
    let limit_bytes = instance.config.snapshot().settings.process.script_memory_limit_bytes;
    let memory_limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
    let restored = instance.scripts.libraries.restore(functions, there, memory_limit);
    restored.map(drop).map_err(|error| failed(path, &format!("its functions: {}", String::from_utf8_lossy(&error.0))))
}

pub(crate) fn failed(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!(
        "Fatal error loading the DB, check server logs. {} cannot be loaded: {error}. Put a whole snapshot in its place, or move \
         it away to start without its data",
        path.display()
    ))
}

/// How a snapshot is loaded.
pub(crate) fn options(settings: &Settings, existing: Existing) -> LoadOptions {
    let persistence = &settings.persistence;
    let read = ReadOptions { checksum: persistence.checksum, any_version: persistence.version_check == VersionCheck::Relaxed };
    LoadOptions { limits: ValueLimits::of(settings), read, existing, keep_expired: false, lanes: workers::wanted(settings) }
}

#[expect(clippy::cast_precision_loss, reason = "three decimals are shown")]
fn report(loaded: &Loaded, elapsed_ns: u64) {
    if let Some(server) = &loaded.server {
        tracing::info!("Loading RDB produced by version {server}");
    }
    if let Some(written_s) = loaded.written_s {
        tracing::info!("RDB age {} seconds", (clock::unix_ms() / 1000).saturating_sub(written_s));
    }
    for module in &loaded.modules {
        tracing::warn!("The snapshot has data of the module '{module}' beside the keys, which is left out: there are no modules");
    }
    for key in &loaded.empty_keys {
        tracing::info!("skipping empty key: {}", String::from_utf8_lossy(key));
    }
    if loaded.empty > 0 {
        tracing::info!(
            "Done loading RDB, keys loaded: {}, keys expired: {}, empty keys skipped: {}.",
            loaded.keys,
            loaded.expired,
            loaded.empty
        );
    } else {
        tracing::info!("Done loading RDB, keys loaded: {}, keys expired: {}.", loaded.keys, loaded.expired);
    }
    if !loaded.functions.is_empty() {
        tracing::info!("{} libraries of functions are loaded with it", loaded.functions.len());
    }
    tracing::info!("DB loaded from disk: {:.3} seconds", elapsed_ns as f64 / 1e9);
}
