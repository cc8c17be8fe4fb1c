//! DEBUG LOADAOF: what the files of the log have takes the place of the data.
//!
//! The files are read first, into a keyspace of its own, so that nothing is lost where they cannot be. Then the data goes, and
//! comes from there, as ordinary changes, which are in the log that goes on.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use almandine_handler::Table;
use almandine_instance::{Instance, LogPurpose};
use almandine_io::{clock, files};
use almandine_keyspace::{Accessor, Dumping, Effect, EvictionOrder, EvictionPolicy};
use almandine_script::RestorePolicy;

use super::keys;
use super::read::Extent;
use super::recover::session;
use super::running::{LogSlot, RunningLog};
use crate::offline::{Offline, Readable};

/// Keys behind which the log is let write what it has.
const KEYS_PER_SYNC: u64 = 1 << 16;

/// Does it. Clients are told that data is being loaded meanwhile. Behind it, `maxmemory` and its policy are to be set, which have
/// no effect meanwhile.
///
/// # Errors
/// When there are no such files, or they cannot be read, or the log is being rewritten: then nothing has changed. Or when the data
/// does not fit.
pub(crate) fn reload(instance: &Arc<Instance>, table: &'static Table, log: &LogSlot, directory: &Path) -> io::Result<()> {
    instance.persistence.begin_loading(0);
    let log = log.get().filter(|log| log.purpose == LogPurpose::Durability);
    let reloaded = load(instance, table, log.as_deref(), directory);
    instance.persistence.end_loading();
    reloaded
}

fn load(instance: &Instance, table: &'static Table, log: Option<&RunningLog>, directory: &Path) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::other(why.to_owned()));
    if instance.persistence.rewrites.is_running() {
        return refuse("the log is being rewritten");
    }
    if instance.keyspace.log().device().is_some() {
        return refuse("with storage-dir the log is read at the start only: restart the server");
    }
    let (readable, extent) = match log {
        Some(log) => {
            // Whatever had begun before clients were told has ended when the first cut is closed, and is in the second.
            log.writer.sync().map_err(io::Error::other)?;
            let end = log.writer.sync().map_err(io::Error::other)?;
            (Readable::Log(log.directory.clone()), Extent::Until(end.place.lsn))
        }
        None => {
            let base = files::canonical(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })?;
            let path = base.join(&instance.config.snapshot().settings.persistence.log_directory);
            match Readable::in_directory(&path)? {
                Some(readable) => (readable, Extent::Whole),
                None => return refuse(&format!("there is no append-only file in {}", path.display())),
            }
        }
    };
    let keys = match log {
        Some(log) => log.keys(),
        None => keys::read(&instance.config.snapshot().settings, directory)?,
    };
    let offline = Offline::new(instance.config.copy(), table, keys)?;
    offline.read(&readable, extent)?;
    let settings = instance.keyspace.settings();
    settings.hold_expiry(true);
    settings.set_budget(0);
    settings.set_eviction(EvictionPolicy { order: EvictionOrder::Never, volatile_only: false });
    let taken = take(instance, &offline.instance, log);
    settings.hold_expiry(false);
    taken
}

/// Puts what one instance has in place of what the other has.
fn take(instance: &Instance, from: &Instance, log: Option<&RunningLog>) -> io::Result<()> {
    let (mut accessor, mut source) = (session(instance)?, session(from)?);
    let databases = 0..u16::try_from(instance.keyspace.databases()).unwrap_or(u16::MAX);
    accessor.begin_batch(clock::unix_ms());
    accessor.flush(&databases.clone().collect::<Vec<_>>());
    accessor.end_batch();
    source.begin_batch(0);
    let contents: BTreeMap<u64, u16> = databases.map(|db| (source.changes().generation(db), db)).collect();
    source.end_batch();
    let keys = copy(&mut accessor, &mut source, &contents, log)?;
    let codes: Vec<Vec<u8>> = from.scripts.libraries.all().into_iter().map(|(_, library)| library.code.to_vec()).collect();
    let limit = usize::try_from(instance.config.snapshot().settings.process.script_memory_limit_bytes).unwrap_or(usize::MAX);
    let restored = instance.scripts.libraries.restore(&codes, RestorePolicy::Flush, limit);
    restored.map_err(|error| io::Error::other(String::from_utf8_lossy(&error.0).into_owned()))?;
    accessor.begin_batch(clock::unix_ms());
    instance.log_functions(&mut accessor);
    accessor.end_batch();
    tracing::info!("DB loaded from append only file: {keys} keys");
    Ok(())
}

fn copy(to: &mut Accessor, from: &mut Accessor, contents: &BTreeMap<u64, u16>, log: Option<&RunningLog>) -> io::Result<u64> {
    let (mut walk, mut keys, mut refused) = (Dumping::part(0, 1), 0_u64, None);
    loop {
        let before = keys;
        to.begin_batch(0);
        let more = walk.next(from, |key| {
            let (Some(db), None) = (contents.get(&key.contents), &refused) else { return };
            let effect = Effect::Set { kind: key.kind, value: key.value, put: key.put };
            let name = to.key(*db, key.key);
            refused = to.writer(*db).replay(name, &effect).err();
            keys += 1;
        });
        to.end_batch();
        if let Some(refusal) = refused {
            return Err(io::Error::other(format!("a key does not fit: {refusal:?}")));
        }
        // Nothing of it is on a device.
        if !more.map_err(|missing| io::Error::other(format!("a key is {missing:?}")))? {
            return Ok(keys);
        }
        if let Some(log) = log
            && before / KEYS_PER_SYNC != keys / KEYS_PER_SYNC
        {
            log.writer.sync().map_err(io::Error::other)?;
        }
    }
}
