//! The base of the log: written, and loaded at the start.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use almandine_base::{sometimes, step};
use almandine_instance::Instance;
use almandine_io::{file, files};
use almandine_keyspace::{Accessor, DeviceAccess, DeviceBase, StoreDevice};
use almandine_oplog::directory::{Directory, base_path};
use almandine_oplog::fault::Fault;
use almandine_oplog::manifest::{BaseEntry, Manifest};
use almandine_oplog::{LogKeys, last_of};
use almandine_recovery::base::{
    BaseFault, BaseHead, DeviceDump, DeviceHead, DeviceReader, Dump, LoadedBase, dump, load, load_device, peek, peek_databases,
};
use almandine_recovery::load::FileInput;
use almandine_recovery::redo::{LogLanes, Redo};
use almandine_recovery::save::{SaveError, SaveProgress};

use super::naming;
use super::recover::session;
use super::running::RunningLog;

/// Begins a new log with a base of what the keyspace has: a snapshot that was loaded, or nothing. Until the manifest names it, the
/// log is as new as before.
///
/// # Errors
/// When it cannot be written.
pub(super) fn begin(
    instance: &Instance,
    accessor: &mut Accessor,
    (directory, keys): (&Directory, &LogKeys),
    manifest: &mut Manifest,
) -> io::Result<u64> {
    let device = DeviceAccess::new(accessor).begin_base();
    let base = BaseEntry { number: 1, lsn: 0, through: 0, epoch: 0, parts: parts(device), key: keys.current() };
    let path = base_path(directory.path(), base.number, 0);
    let head = BaseHead { log: manifest.id, base: base.number, lsn: base.lsn, seed: 0, part: 0, parts: 1 };
    let dumped = dump_base(instance, accessor, (head, 0), (&path, keys, device), &SaveProgress::default());
    let bytes = dumped.map_err(|error| io::Error::other(format!("{} cannot be written: {error}", path.display())))?;
    let begun = Manifest { base: Some(base), ..manifest.clone() };
    directory.replace(&begun).map_err(io::Error::other)?;
    end(instance, device, true);
    *manifest = begun;
    Ok(bytes)
}

/// The part of a base that names what lies on the device.
pub(super) const DEVICE_PART: u32 = 1;

/// How many parts a base has.
fn parts(device: Option<DeviceBase>) -> u32 {
    if device.is_some() { DEVICE_PART + 1 } else { 1 }
}

/// Ends a base of what lies on the device.
fn end(instance: &Instance, base: Option<DeviceBase>, is_named: bool) {
    if let Some((device, base)) = instance.keyspace.log().device().zip(base) {
        device.end_base(base, is_named);
    }
}

/// Writes all parts of a base; the first one has this name.
fn dump_base(
    instance: &Instance,
    accessor: &mut Accessor,
    (head, floor): (BaseHead, u64),
    (path, keys, device): (&Path, &LogKeys, Option<DeviceBase>),
    progress: &SaveProgress,
) -> Result<u64, SaveError> {
    let seed = instance.keyspace.log().device().filter(|_| device.is_some()).map_or(0, StoreDevice::seed);
    let of_device = base_path(path.parent().unwrap_or(Path::new("")), head.base, DEVICE_PART);
    let device = device.map(|base| DeviceDump {
        base,
        head: DeviceHead {
            log: head.log,
            base: head.base,
            seed,
            index_buckets: base.index_buckets,
            next_page: u32::try_from(base.next_page()).unwrap_or(u32::MAX),
        },
        path: &of_device,
    });
    let head = BaseHead { seed, ..head };
    dump(accessor, path, &Dump { head, floor, libraries: &|| instance.scripts.libraries.texts(), device, keys }, progress)
}

/// Gives a running log a new base, while writers write, and drops what was before it.
///
/// The base is fuzzy: each key is as the walk meets it. It is named when all is durable that was done until the end of the walk,
/// so that the log completes it whatever happens.
///
/// Of what lies on a device that is named which was there when the base began; what goes there meanwhile is copied.
///
/// `before_named` is called when it is complete, before the log drops what is older. Returns its bytes, and what it names on the
/// device.
///
/// # Errors
/// When it cannot be written; the log is as it was then, and has no file of it.
pub(super) fn renew(
    instance: &Instance,
    log: &RunningLog,
    progress: &SaveProgress,
    before_named: &mut dyn FnMut(),
) -> Result<(u64, Option<DeviceBase>), SaveError> {
    let failed = |fault: Fault| SaveError::Io(io::Error::other(fault));
    let mut accessor = session(instance)?;
    // Before the cut: no record on the device has an effect that is behind it.
    let device = DeviceAccess::new(&mut accessor).begin_base();
    let keys = log.keys();
    let heals = || instance.persistence.log.lacks_base();
    let renewed = (|| {
        let did_heal = heals();
        // All that is numbered up to here is in what the walk meets.
        let begin = log.writer.rotate().map_err(failed)?;
        let number = log.next_base();
        let path = base_path(&log.directory, number, 0);
        let head = BaseHead { log: log.id, base: number, lsn: begin.place.lsn, seed: 0, part: 0, parts: 1 };
        let floor = step!(FloorAtCut, last_of(begin.epoch), else u64::MAX);
        dump_base(instance, &mut accessor, (head, floor), (&path, &keys, device), progress)?;
        drop(accessor);
        // And here ends what the walk may have met.
        let through = step!(SyncThrough, log.writer.sync(), else Ok(begin));
        let paths: Vec<PathBuf> = (0..parts(device)).map(|part| base_path(&log.directory, number, part)).collect();
        let length = || paths.iter().map(|path| file::open(path, false)?.len()).sum::<io::Result<u64>>();
        let completed = through.map_err(failed).and_then(|through| Ok((through, length()?)));
        let remove = || paths.iter().for_each(|path| drop(files::remove(path)));
        let (end, bytes) = completed.inspect_err(|_| remove())?;
        let (lsn, through) = (begin.place.lsn, end.place.lsn);
        let base = BaseEntry { number, lsn, through, epoch: end.epoch, parts: parts(device), key: keys.current() };
        let naming = naming::begin(instance, &log.naming, (log.id, number)).inspect_err(|_| remove())?;
        before_named();
        let does_heal = did_heal || heals();
        // Where this fails, either of both bases may be named: both stay.
        naming.name(&log.writer, base)?;
        log.set_named_base(number, does_heal);
        instance.persistence.log.set_base_bytes(bytes);
        Ok((bytes, device))
    })();
    if renewed.is_err() {
        sometimes!("a base is given up");
        log.writer.abandon_base();
    }
    end(instance, device, renewed.is_ok());
    renewed
}

/// The base that was written just now, of what the keyspace has: nothing has to be loaded.
///
/// # Errors
/// When it cannot be read.
pub(super) fn as_begun(instance: &Instance, (directory, keys): (&Path, &LogKeys), manifest: &Manifest) -> io::Result<Redo> {
    let number = manifest.base.map_or(0, |base| base.number);
    let file = files::open(base_path(directory, number, 0))?;
    let (_, bytes, databases) = peek(&file, keys).map_err(io::Error::other)?;
    let mut redo = Redo::of_base(&databases, 0);
    let last_contents = databases.all.iter().map(|database| database.contents).max().unwrap_or(0);
    let libraries = instance.scripts.libraries.texts();
    redo.complete_base(LoadedBase { last_contents, databases, libraries, ..LoadedBase::default() }, 0);
    instance.persistence.log.set_base_bytes(bytes);
    Ok(redo)
}

/// Takes over what a base names on the device, before any key is loaded.
fn load_on_device(
    instance: &Instance,
    accessor: &mut Accessor,
    (path, keys): (&Path, &LogKeys),
    expected: DeviceHead,
) -> io::Result<()> {
    let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("{} cannot be loaded: {error}", path.display()));
    let Some(device) = instance.keyspace.log().device() else {
        let why = "it names data in storage-dir, which is not set: give it as before";
        return Err(failed(&why));
    };
    let file = files::open(path).map_err(|error| failed(&error))?;
    let databases = peek_databases(&file).map_err(|error| failed(&error))?;
    if instance.config.snapshot().settings.persistence.recover_damaged {
        device.forgive_damage();
    }
    let expected = DeviceHead { seed: device.seed(), ..expected };
    let keys = load_device((FileInput::new(file), keys), expected, accessor, &databases).map_err(|error| failed(&error))?;
    tracing::info!("{keys} keys lie in storage-dir, as the base names them");
    if let (pages @ 1.., lost) = device.lost() {
        tracing::error!("{lost} keys are lost with {pages} damaged pages of storage-dir, and given up as recover-damaged says");
    }
    Ok(())
}

/// Loads the base that a manifest names into what lanes lead to, and begins redo behind it.
///
/// # Errors
/// When it is damaged, or has another number of databases.
pub(super) fn load_named(
    instance: &Instance,
    lanes: &mut LogLanes<'_>,
    (directory, keys): (&Path, &LogKeys),
    manifest: &Manifest,
) -> io::Result<Redo> {
    let Some(base) = manifest.base else {
        return Err(io::Error::other(format!("the log in {} has no base", directory.display())));
    };
    if base.parts > DEVICE_PART + 1 {
        return Err(io::Error::other(format!("the base of the log has {} parts, and this version reads two", base.parts)));
    }
    if base.parts == DEVICE_PART + 1 {
        let path = base_path(directory, base.number, DEVICE_PART);
        let head = files::open(&path).map_err(BaseFault::from).and_then(|file| DeviceReader::open(FileInput::new(file)));
        let head = head.map_err(|error| io::Error::other(format!("{} cannot be loaded: {error}", path.display())))?.head();
        let expected = DeviceHead { log: manifest.id, base: base.number, ..head };
        load_on_device(instance, lanes.accessor(), (&path, keys), expected)?;
    }
    let path = base_path(directory, base.number, 0);
    let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("{} cannot be loaded: {error}", path.display()));
    let file = files::open(&path).map_err(|error| failed(&error))?;
    // Which databases there are is at its end. Whether that is true shows when all before is read.
    let (head, bytes, announced) = peek(&file, keys).map_err(|error| failed(&error))?;
    let mut databases = announced.clone();
    databases.all.sort_unstable_by_key(|database| database.db);
    let (had, count) = (databases.all.len(), instance.keyspace.databases());
    let Some(further) = count.checked_sub(had) else {
        return Err(failed(&format!("it has {had} databases, and 'databases' is {count}: set it to {had}, or more")));
    };
    let contents: BTreeMap<u64, u16> = databases.all.iter().map(|database| (database.contents, database.db)).collect();
    let expected = BaseHead { log: manifest.id, base: base.number, lsn: base.lsn, seed: head.seed, part: 0, parts: 1 };
    let loaded = load((FileInput::new(file), keys), expected, lanes, &contents);
    let loaded = loaded.and_then(|loaded| if loaded.databases == announced { Ok(loaded) } else { Err(BaseFault::Damaged) });
    let loaded = loaded.map_err(|error| failed(&error))?;
    let mut redo = Redo::of_base(&databases, further);
    redo.complete_base(loaded, base.epoch);
    if instance.config.snapshot().settings.persistence.recover_damaged && instance.keyspace.log().device().is_some() {
        redo.lacks_keys();
    }
    instance.persistence.log.set_base_bytes(bytes);
    Ok(redo)
}
