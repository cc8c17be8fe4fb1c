//! CONFIG SET appendonly: a log begins with what the server has, or ends.
//!
//! A log that begins counts from its first base on. Until then the directory has what it had: a log that ended before, or none.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use almandine_config::{Parameter, SetError, Settings};
use almandine_instance::Instance;
use almandine_io::{entropy, files, mapping};
use almandine_oplog::append::Appender;
use almandine_oplog::directory::{Directory, read_manifest};
use almandine_oplog::manifest::{Manifest, RingsEntry};
use almandine_oplog::{LogKeys, RingOptions, RingSource, Rings};

use super::found::{log_options, segment_bytes};
use super::recover::session;
use super::running::{LogSlot, RunningLog, Written};
use super::{check, keys, mode, rekey, rings};
use crate::redis_files;

/// How long a rewriting that is given up may take to end.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Makes effective what the settings say of the log.
///
/// # Errors
/// When no log can begin; then there is none.
pub(crate) fn follow(
    instance: &Arc<Instance>,
    log: &LogSlot,
    (settings, changed): (&Settings, &[&'static Parameter]),
    directory: &Path,
) -> Result<(), SetError> {
    let persistence = &instance.persistence;
    let has_archive = !settings.persistence.log_object_url.is_empty();
    if (has_archive || instance.keyspace.log().device().is_some())
        && settings.persistence.append_only != log.get().is_some()
        && !persistence.is_loading()
    {
        let what = if has_archive { "log-object-url" } else { "storage-dir" };
        let problem = format!("with {what} the log begins and ends with the server: set it in the configuration file and restart");
        return Err(SetError::Failed { name: "appendonly".to_owned(), problem: problem.into() });
    }
    check(settings).map_err(|problem| SetError::Failed { name: "appendfsync".to_owned(), problem: problem.into() })?;
    if changed.iter().any(|parameter| parameter.name == keys::NAME) {
        let followed = match log.get() {
            Some(running) => rekey::follow(&running, settings, directory),
            None => keys::read(settings, directory).map(|keys| {
                if let Some(device) = instance.keyspace.log().device() {
                    device.storage().ciphers.set_keys(keys);
                }
            }),
        };
        followed.map_err(|error| keys::refused(&error))?;
    }
    match (settings.persistence.append_only, log.get()) {
        (true, None) if !persistence.is_loading() => {
            let failed = |error: io::Error| SetError::Failed { name: "appendonly".to_owned(), problem: error.to_string().into() };
            on(instance, log, settings, directory).map_err(failed)?;
        }
        (false, Some(running)) => off(instance, log, &running),
        (true, Some(running)) => running.writer.set_segment_bytes(segment_bytes(settings)),
        (false, None) | (true, None) => {}
    }
    persistence.log.set_mode(mode(settings));
    persistence.rewrites.wake();
    persistence.saves.wake();
    Ok(())
}

fn on(instance: &Arc<Instance>, log: &LogSlot, settings: &Settings, directory: &Path) -> io::Result<()> {
    let base = files::canonical(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })?;
    let path = base.join(&settings.persistence.log_directory);
    give_up_redis_file(instance);
    let directory = Directory::take(&path).map_err(io::Error::other)?;
    if !redis_files::Own::read(&path)?.map_or(Ok(false), |own| own.has_all(&path))? {
        redis_files::check(&path)?;
    }
    let there = read_manifest(&path).map_err(io::Error::other)?.unwrap_or_default();
    let (keyspace, persistence) = (&instance.keyspace, &instance.persistence);
    let made = keyspace.log().rings();
    // The rings of this process know one log and one run.
    let (id, run) = match &made {
        Some(rings) => (rings.options().log, rings.options().run),
        None => (fresh_id()?, 1),
    };
    let manifest = Manifest { id, run, last_segment: there.last_segment, ..Manifest::default() };
    let progress = persistence.log.progress().unwrap_or_default();
    let awake = Arc::clone(&progress);
    let tell = Box::new(move || awake.wake());
    let mut accessor = session(instance)?;
    let keys = keys::read(settings, &base)?;
    let options = log_options(settings, &keys);
    let mut appender = Appender::begin_unnamed(directory, manifest, &options, tell).map_err(io::Error::other)?;
    let (source, rings) = match made {
        Some(rings) => {
            rings::check_hidden(rings::lie_within(&rings, &path), &keys)?;
            (rings.source(), rings)
        }
        None => install(instance, settings, (&path, &keys), (id, run))?,
    };
    if let Some(place) = &rings.options().directory {
        let count = u32::try_from(rings.names().len()).unwrap_or(u32::MAX);
        let named = RingsEntry { run, boot: rings.options().boot, count, place: rings::named(place, &path) };
        appender.name_rings(Some(named)).map_err(io::Error::other)?;
    }
    let last_base = there.base.map_or(0, |base| base.number);
    let running = RunningLog::start(instance, appender, source, Written { rings, progress, last_base, keys })?;
    keyspace.log().turn_alone(&mut accessor, true)?;
    drop(accessor);
    log.put(running);
    persistence.archive.wake();
    tracing::info!("Writes are logged from now on; the log counts when its first base is written");
    persistence.rewrites.ask_first(persistence.saves.figures().in_background);
    if let Some(before) = there.rings.filter(|_| there.id != id) {
        rings::remove_all(&before.directory(&path), there.id);
    }
    Ok(())
}

/// What writes an append-only file of Redis has the directory. As in Redis, turning the log on ends it.
fn give_up_redis_file(instance: &Instance) {
    let rewrites = &instance.persistence.rewrites;
    if !rewrites.is_running() {
        return;
    }
    tracing::info!(
        "AOF was enabled but there is already an AOF rewriting in background: the append-only file of Redis is given up"
    );
    rewrites.give_up(GIVE_UP);
}

/// Makes the rings of this process.
fn install(
    instance: &Instance,
    settings: &Settings,
    (directory, keys): (&Path, &LogKeys),
    (log, run): (u128, u64),
) -> io::Result<(RingSource, Arc<Rings>)> {
    let keyspace = &instance.keyspace;
    let place = rings::directory(settings, keys, log, directory)?;
    let (boot, first_epoch) = (mapping::boot_id()?, keyspace.log().order().epoch() + 1);
    let options = RingOptions { directory: place.clone(), bytes: rings::RING_BYTES, log, run, boot, first_epoch };
    let source = keyspace.log().install(options, 0);
    let source = source.map_err(|error| rings::failed(place.as_deref().unwrap_or(Path::new("memory")), &error))?;
    let made = keyspace.log().rings().ok_or_else(|| io::Error::other("the rings of the log are gone"))?;
    Ok((source, made))
}

fn fresh_id() -> io::Result<u128> {
    let mut id = [0; 16];
    entropy::fill(&mut id)?;
    Ok(u128::from_le_bytes(id))
}

fn off(instance: &Instance, log: &LogSlot, running: &RunningLog) {
    let persistence = &instance.persistence;
    if persistence.rewrites.is_running() {
        // The first words are those that Redis logs.
        tracing::info!("Killing running AOF rewrite child: the base that is being written is given up");
    }
    persistence.rewrites.end_log();
    persistence.log.end();
    let turned = session(instance).and_then(|mut accessor| instance.keyspace.log().turn_alone(&mut accessor, false));
    if turned.is_err() {
        // Without a session, the last unit of each worker may be in the log in part.
        let _ = instance.keyspace.log().turn(false);
    }
    match running.writer.end() {
        Ok(_) => {
            log.end();
            tracing::info!("The log is written and ended: writes are not logged any more");
        }
        Err(fault) => tracing::error!("The log has no end: {fault}. Writes are not logged any more"),
    }
    let _ = log.take();
    persistence.set_unlogged(false);
}
