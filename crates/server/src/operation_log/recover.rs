//! The start of the log: base, groups, and what the rings of the last run have left; then a run of its own.

use std::io;
use std::path::Path;
use std::sync::Arc;

use almandine_handler::Table;
use almandine_instance::{Instance, LogPurpose};
use almandine_io::{clock, mapping};
use almandine_keyspace::{Accessor, EvictionOrder, EvictionPolicy, StoreDevice};
use almandine_oplog::append::Appender;
use almandine_oplog::fault::Fault;
use almandine_oplog::manifest::{Manifest, RingsEntry};
use almandine_oplog::read::{BodyAccess, LogEnd, read_with};
use almandine_oplog::remains::Remains;
use almandine_oplog::writer::LogProgress;
use almandine_oplog::{LogKeys, RingOptions};
use almandine_recovery::redo::{LogLanes, Redo, RedoFault};
use almandine_recovery::save::SaveProgress;
use almandine_script::RestorePolicy;

use super::found::{Found, log_options};
use super::naming::{Naming, StorageLabel};
use super::rings::{self, StaleRings};
use super::running::{RunningLog, Written};
use super::{base, fetch};
use crate::redis_files;
use crate::snapshots::load;
use crate::workers;

/// Recovers a log, and begins a run that takes writes. Clients are told that data is being loaded meanwhile.
///
/// Behind it, `maxmemory` and its policy are to be set, which have no effect meanwhile.
///
/// None when the end of the server was asked for before it was done.
///
/// # Errors
/// When something is missing or damaged: the server does not start then, for it would serve less than there is.
pub(crate) fn recover(instance: &Arc<Instance>, table: &'static Table, mut found: Found) -> io::Result<Option<RunningLog>> {
    let began_ns = clock::monotonic_ns();
    let keyspace = &instance.keyspace;
    // What the store removes before the log is on would be in no log: nothing is evicted, and nothing expires.
    keyspace.settings().hold_expiry(true);
    let has_device = keyspace.log().device().is_some();
    if !has_device {
        // With a device it is kept: what is beyond it goes there.
        keyspace.settings().set_budget(0);
    }
    keyspace.settings().set_eviction(EvictionPolicy { order: EvictionOrder::Never, volatile_only: false });
    let is_new = found.manifest.base.is_none();
    if is_new && !begin(instance, table, &mut found)? {
        return Ok(None);
    }
    let mut accessor = session(instance)?;
    let mut lanes = LogLanes::start(&mut accessor, lanes(instance));
    let path = found.directory.path().to_owned();
    let mut redo = match is_new && has_device {
        true => base::as_begun(instance, (&path, &found.keys), &found.manifest)?,
        false => base::load_named(instance, &mut lanes, (&path, &found.keys), &found.manifest)?,
    };
    let Some(end) = redo_groups(instance, &mut lanes, (&path, &found.keys), (&found.manifest, u64::MAX), &mut redo)? else {
        return Ok(None);
    };
    fetch::compare(found.shipper.as_ref(), &found.manifest, end.place.lsn, &path)?;
    let boot = mapping::boot_id()?;
    let remains = Remains::find((&path, &found.manifest), boot, &end).map_err(io::Error::other)?;
    if let Some(aside) = &remains.aside {
        tracing::warn!("{aside}");
    }
    redo.left(&mut lanes, &remains.left, &end).map_err(io::Error::other)?;
    if let Some((at, bytes)) = end.torn {
        tracing::warn!("The log's last write was not whole: {bytes} bytes from byte {at} of its last segment on are left out");
    }
    lanes.end().map_err(|fault| io::Error::other(RedoFault::from(fault)))?;
    drop(accessor);
    let is_wider = redo.settle();
    let (version, texts) = redo.functions();
    load::restore(instance, &path, &texts.collect::<Vec<_>>(), RestorePolicy::Flush)?;
    instance.scripts.libraries.go_on_from(version);
    let log = begin_run(instance, found, &end, &redo, (remains, boot))?;
    let is_damaged = keyspace.log().device().is_some_and(|device| device.lost().0 != 0);
    if is_wider || is_damaged {
        // What further databases consist of has to be in the base before anything of theirs is in the log; and a base without the
        // keys that are lost needs no leave to be loaded.
        base::renew(instance, &log, &SaveProgress::default(), &mut || ()).map_err(io::Error::other)?;
    }
    let elapsed_ms = (clock::monotonic_ns() - began_ns) / 1_000_000;
    let units = redo.done().units;
    tracing::info!("DB loaded from append only file: {}.{:03} seconds, {units} units", elapsed_ms / 1000, elapsed_ms % 1000);
    if let Some(records) = keyspace.log().device().map(StoreDevice::read_ahead).filter(|records| *records != 0) {
        tracing::info!("{records} keys of storage-dir that were in memory are read in the background");
    }
    Ok(Some(log))
}

pub(super) fn session(instance: &Instance) -> io::Result<Accessor> {
    instance.keyspace.accessor().ok_or_else(|| io::Error::other("the store has no session left to recover the log"))
}

/// How many threads load keys: more than there are workers would take their cores.
pub(super) fn lanes(instance: &Instance) -> usize {
    workers::wanted(&instance.config.snapshot().settings)
}

/// Begins a new log, with the append-only file of Redis or the snapshot that is there. False when the end of the server was asked
/// for.
fn begin(instance: &Instance, table: &'static Table, found: &mut Found) -> io::Result<bool> {
    if found.manifest.run > 0 {
        let path = found.directory.path().display();
        return Err(io::Error::other(format!("the log in {path} has no base, so that it is not known what it begins with")));
    }
    if let Some(source) = &found.redis {
        if !redis_files::load(instance, table, source)? {
            return Ok(false);
        }
        // Until the manifest names a base the log is new, and begins with these files again.
        redis_files::mark(found.directory.path(), source)?;
        tracing::info!("The log begins with {}; the log counts from now on, and not those files", source.path().display());
    } else if load::announced_bytes(&found.snapshot)?.is_some() {
        if !load::load(instance, &found.snapshot)? {
            return Ok(false);
        }
        tracing::info!("The log begins with {}; the log counts from now on, and not the snapshot", found.snapshot.display());
    }
    if found.is_exported {
        // A start that is cut off here looks at the snapshot again.
        redis_files::end_own(found.directory.path())?;
    }
    let mut accessor = session(instance)?;
    base::begin(instance, &mut accessor, (&found.directory, &found.keys), &mut found.manifest)?;
    if instance.keyspace.log().device().is_some() {
        // A keyspace begins on its device once.
        return Ok(true);
    }
    // The base is loaded as at every start: all starts take one way.
    let databases: Vec<u16> = (0..instance.keyspace.databases()).filter_map(|db| u16::try_from(db).ok()).collect();
    accessor.begin_batch(0);
    accessor.flush(&databases);
    accessor.end_batch();
    Ok(true)
}

/// Does all groups again that begin before an LSN. None when there are more, or the end of the server was asked for.
pub(super) fn redo_groups(
    instance: &Instance,
    lanes: &mut LogLanes<'_>,
    (directory, keys): (&Path, &LogKeys),
    (manifest, until): (&Manifest, u64),
    redo: &mut Redo,
) -> io::Result<Option<LogEnd>> {
    let from = manifest.base.map_or(0, |base| base.lsn);
    let (mut refused, mut stopped) = (None::<RedoFault>, false);
    let end = read_with((directory, BodyAccess::Keys(keys)), manifest, from, &mut |group| {
        instance.persistence.loading.reached(group.lsn - from);
        stopped = instance.shutdown.requested() || group.lsn >= until;
        if stopped {
            return Err(Fault::Stopped);
        }
        refused = redo.group(lanes, group).err();
        if refused.is_some() { Err(Fault::Stopped) } else { Ok(()) }
    });
    match (end, refused) {
        (_, Some(fault)) => Err(io::Error::other(fault.to_string())),
        _ if stopped => Ok(None),
        (end, None) => {
            let end = end.map_err(io::Error::other)?;
            let through = manifest.base.map_or(0, |base| base.through);
            if end.place.lsn < through {
                let text = format!("the log ends at LSN {}, and its base is whole with LSN {through} only", end.place.lsn);
                return Err(io::Error::other(text));
            }
            Ok(Some(end))
        }
    }
}

/// Begins a run behind what was found, and turns the log on.
fn begin_run(
    instance: &Arc<Instance>,
    found: Found,
    end: &LogEnd,
    redo: &Redo,
    (remains, boot): (Remains, u128),
) -> io::Result<RunningLog> {
    let keyspace = &instance.keyspace;
    let settings = &instance.config.snapshot().settings;
    let Found { directory, manifest, keys, .. } = found;
    let first_epoch = redo.epoch().max(end.epoch).max(manifest.base.map_or(0, |base| base.epoch)) + 1;
    let progress = Arc::new(LogProgress::default());
    let awake = Arc::clone(&progress);
    let tell = Box::new(move || awake.wake());
    let options = log_options(settings, &keys);
    let mut log = Appender::begin(directory, manifest, end, &options, &remains.left, tell).map_err(io::Error::other)?;
    // What they held is durable in the log. In this order: rings that are named and missing refuse a start.
    log.name_rings(None).map_err(io::Error::other)?;
    remains.remove().map_err(io::Error::other)?;
    let (id, run) = (log.manifest().id, log.manifest().run);
    let place = rings::directory(settings, &keys, id, log.directory())?;
    if let Some(place) = &place {
        StaleRings::of(id, place).remove();
    }
    StaleRings::behind(id, log.directory(), log.manifest()).remove();
    let options = RingOptions { directory: place.clone(), bytes: rings::RING_BYTES, log: id, run, boot, first_epoch };
    let source = keyspace.log().install(options, redo.next_contents());
    let source = source.map_err(|error| rings::failed(place.as_deref().unwrap_or(log.directory()), &error))?;
    let Some(made) = keyspace.log().rings() else { return Err(io::Error::other("the rings of the log are gone")) };
    if let Some(place) = &place {
        let count = u32::try_from(made.names().len()).unwrap_or(u32::MAX);
        let named = RingsEntry { run, boot, count, place: rings::named(place, log.directory()) };
        log.name_rings(Some(named)).map_err(io::Error::other)?;
    }
    redo.databases().iter().zip(0..).for_each(|(contents, db)| keyspace.log().adopt(db, *contents));
    let last_base = log.manifest().base.map_or(0, |base| base.number);
    let naming = Naming::new(StorageLabel::Kept, StaleRings::default());
    let log = RunningLog::start(
        instance,
        log,
        source,
        Written { rings: made, progress, last_base, keys, naming, purpose: LogPurpose::Durability },
    )?;
    keyspace.log().turn(true)?;
    instance.persistence.loading.finish(keyspace.keys(), 0);
    instance.persistence.saves.begin_from(clock::unix_ms() / 1000, keyspace.figures().totals().changes);
    let where_rings = place.map_or_else(|| "in this process' memory".to_owned(), |place| format!("in {}", place.display()));
    tracing::info!("Writes are logged with appendfsync {}, and lie {where_rings} before", settings.persistence.log_sync.name());
    Ok(log)
}
