//! A log begins with what the server has, or ends: by CONFIG SET appendonly, and for a backup.
//!
//! A log that begins counts from its first base on. Until then the directory has what it had: a log that ended before, or none.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use almandine_config::{Parameter, SetError, Settings};
use almandine_instance::{Instance, LogPurpose};
use almandine_io::{entropy, files, mapping};
use almandine_oplog::append::Appender;
use almandine_oplog::directory::{Directory, read_manifest};
use almandine_oplog::manifest::{Manifest, RingsEntry};
use almandine_oplog::{LogKeys, RingOptions, RingSource, Rings};

use super::found::{log_options, segment_bytes};
use super::naming::{self, Naming, StorageLabel};
use super::recover::session;
use super::rings::{self, StaleRings};
use super::running::{LogSlot, RunningLog, Written, check_page_keys};
use super::{backup_log, check, keys, mode, rekey};
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
    let _turning = log.turn();
    let persistence = &instance.persistence;
    let has_archive = !settings.persistence.log_object_url.is_empty();
    if has_archive && settings.persistence.append_only != log.get().is_some() && !persistence.is_loading() {
        let problem = "with log-object-url the log begins and ends with the server: set it in the configuration file and restart";
        return Err(SetError::Failed { name: "appendonly".to_owned(), problem: problem.into() });
    }
    let what = if changed.iter().any(|parameter| parameter.name == "appendonly") { "appendonly" } else { "appendfsync" };
    check(settings).map_err(|problem| SetError::Failed { name: what.to_owned(), problem: problem.into() })?;
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
    let is_of_backup = log.get().is_some_and(|log| log.purpose == LogPurpose::Backup);
    match (settings.persistence.append_only, log.get()) {
        (true, Some(_)) if is_of_backup => {
            let problem = "a backup is being taken, with a log of its own: BACKUP SEAL or BACKUP ABORT ends it";
            return Err(SetError::Failed { name: "appendonly".to_owned(), problem: problem.into() });
        }
        (true, None) if !persistence.is_loading() => {
            let failed = |error: io::Error| SetError::Failed { name: "appendonly".to_owned(), problem: error.to_string().into() };
            on(instance, log, (settings, LogPurpose::Durability), directory).map_err(failed)?;
        }
        (false, Some(running)) if !is_of_backup => off(instance, log, &running),
        (true, Some(running)) => running.writer.set_segment_bytes(segment_bytes(settings)),
        (false, _) | (true, None) => {}
    }
    if !is_of_backup {
        persistence.log.set_mode(mode(settings));
    }
    persistence.rewrites.wake();
    persistence.saves.wake();
    Ok(())
}

/// Begins a log. No other one begins or ends meanwhile.
///
/// # Errors
/// When it cannot; then there is none.
pub(super) fn on(
    instance: &Arc<Instance>,
    log: &LogSlot,
    (settings, purpose): (&Settings, LogPurpose),
    directory: &Path,
) -> io::Result<()> {
    let base = files::canonical(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })?;
    let home = base.join(&settings.persistence.log_directory);
    let path = if purpose == LogPurpose::Backup { backup_log::path(&base, settings) } else { home.clone() };
    let (keyspace, persistence) = (&instance.keyspace, &instance.persistence);
    let made = keyspace.log().rings();
    made.as_ref().map_or(Ok(()), |made| rings::check_place(made, &home))?;
    if purpose == LogPurpose::Durability {
        give_up_redis_file(instance);
    }
    let directory = Directory::take(&path).map_err(io::Error::other)?;
    if purpose == LogPurpose::Durability && !redis_files::Own::read(&path)?.map_or(Ok(false), |own| own.has_all(&path))? {
        redis_files::check(&path)?;
    }
    let there = read_manifest(&path).map_err(io::Error::other)?;
    // The rings of this process know one log and one run.
    let (id, run) = match &made {
        Some(rings) => (rings.options().log, rings.options().run),
        None => (fresh_id()?, 1),
    };
    let there = match there {
        Some(there) if there.base.is_some() || there.run > 0 => there,
        // Files of a log without a manifest are such that have lost it. A start with this one begins the log anew, and finds its
        // rings by its number.
        there => {
            let empty = Manifest { id, last_segment: there.map_or(0, |there| there.last_segment), ..Manifest::default() };
            directory.replace(&empty).map_err(io::Error::other)?;
            empty
        }
    };
    let manifest = Manifest { id, run, last_segment: there.last_segment, ..Manifest::default() };
    let progress = persistence.log.progress().unwrap_or_default();
    let awake = Arc::clone(&progress);
    let tell = Box::new(move || awake.wake());
    let mut accessor = session(instance)?;
    let keys = keys::read(settings, &base)?;
    if let Some(device) = keyspace.log().device() {
        let ciphers = device.storage().ciphers;
        check_page_keys(&ciphers, &keys)
            .map_err(|why| io::Error::other(format!("{}: of a page in storage-dir, {why}", keys::NAME)))?;
        ciphers.set_keys(Arc::clone(&keys));
    }
    let options = log_options(settings, &keys);
    let mut appender = Appender::begin_unnamed(directory, manifest, &options, tell).map_err(io::Error::other)?;
    let (source, rings) = match made {
        Some(rings) => {
            rings::check_hidden(rings::lie_within(&rings, &home), &keys)?;
            (rings.source(), rings)
        }
        // They are those of this process: a log that is turned on later has them where a start looks for its rings.
        None => {
            let lock = (path != home).then(|| Directory::take(&home)).transpose().map_err(io::Error::other)?;
            let installed = install(instance, settings, (&home, &keys), (id, run))?;
            drop(lock);
            installed
        }
    };
    if let Some(place) = &rings.options().directory {
        let count = u32::try_from(rings.names().len()).unwrap_or(u32::MAX);
        let named = RingsEntry { run, boot: rings.options().boot, count, place: rings::named(place, &path) };
        appender.name_rings(Some(named)).map_err(io::Error::other)?;
    }
    let last_base = there.base.map_or(0, |base| base.number);
    let naming = Naming::new(StorageLabel::Absent, StaleRings::behind(id, &path, &there));
    let written = Written { rings, progress, last_base, keys, naming, purpose };
    let running = RunningLog::start(instance, appender, source, written)?;
    keyspace.log().turn_alone(&mut accessor, true)?;
    drop(accessor);
    log.put(running);
    persistence.archive.wake();
    if purpose == LogPurpose::Durability {
        tracing::info!("Writes are logged from now on; the log counts when its first base is written");
        persistence.rewrites.ask_first(persistence.saves.figures().in_background);
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

/// Ends a log. No other one begins or ends meanwhile.
pub(super) fn off(instance: &Instance, log: &LogSlot, running: &RunningLog) {
    let persistence = &instance.persistence;
    if persistence.rewrites.is_running() {
        // The first words are those that Redis logs.
        tracing::info!("Killing running AOF rewrite child: the base that is being written is given up");
    }
    running.naming.refuse();
    if running.purpose == LogPurpose::Durability {
        persistence.rewrites.end_log();
    }
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
    naming::end(instance, &running.naming);
    let _ = log.take();
    persistence.set_unlogged(false);
}
