//! The devices below memory, as the settings say.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_config::Settings;
use almandine_config::choices::{CopyReads, StorageDevice};
use almandine_device::watched::Health;
use almandine_device::{
    Device, FaultPlan, FaultyDevice, FileDevice, FileOptions, MemoryDevice, NullDevice, Quota, Removed, ShardedDevice,
    WatchedDevice,
};
use almandine_instance::Instance;
use almandine_io::files;
use almandine_keyspace::{Storage, StorageCiphers};
use almandine_oplog::LogKeys;

mod archived;
mod contents;
mod devices;
mod pages;
mod streak;

pub use archived::FetchedPages;
pub(crate) use archived::ShippedPages;
pub(crate) use contents::{Contents, LastBase, begins, belongs, belongs_to_none};
pub use pages::{PagesRead, read_pages};

#[cfg(feature = "object-store")]
mod objects;
#[cfg(not(feature = "object-store"))]
#[path = "no_objects.rs"]
mod objects;

/// A page of the log: as many consecutive bytes are on one of several directories, or one object.
const PAGE_BYTES: u64 = 2 << 20;

/// What a device is for.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// Pages of the log.
    Log,
    /// Values and keys too large for a page.
    Values,
}

impl Part {
    /// The folder in each directory, and under the address of objects.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Values => "values",
        }
    }
}

/// What memory must hold beside the index: records that change in place, and what is on its way to the device.
const RECORD_BYTES_MIN: u64 = 8 << 20;

/// Whether data beyond memory goes anywhere.
pub(crate) fn is_configured(settings: &Settings) -> bool {
    let storage = &settings.storage;
    storage.device != StorageDevice::File || !storage.directories.is_empty() || !storage.object_url.is_empty()
}

/// Whether what goes beyond memory is there for the next server, if a log names it.
pub(crate) fn outlives(settings: &Settings) -> bool {
    let storage = &settings.storage;
    storage.device == StorageDevice::File && !storage.directories.is_empty() && storage.object_url.is_empty()
}

/// Refuses settings with which the storage cannot work; their relative paths begin at `base`. It opens and makes nothing.
pub(crate) fn check(settings: &Settings, base: &Path) -> Result<(), String> {
    let storage = &settings.storage;
    check_budget(settings)?;
    if storage.directory_bytes != 0 && storage.directories.is_empty() {
        return Err("storage-dir-size bounds storage-dir, which is not set".to_owned());
    }
    let mut known: Vec<PathBuf> = Vec::new();
    for directory in &storage.directories {
        let path = resolved(&base.join(directory));
        if known.contains(&path) {
            return Err(format!("storage-dir names '{directory}' twice"));
        }
        // A directory that cannot be listed is left to the start, which has the rights of the server.
        let names = files::names(&path).unwrap_or_default();
        if let Some(foreign) = names.iter().find(|name| !OURS.contains(&name.as_str()) || !files::is_directory(path.join(name))) {
            return Err(format!(
                "storage-dir: '{directory}' holds '{foreign}', which is not of this server. Name an empty directory; its files \
                 are deleted"
            ));
        }
        known.push(path);
    }
    Ok(())
}

/// A path without links and dots, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    files::canonical(path).unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent != Path::new("") => resolved(parent).join(name),
        _ => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    })
}

/// What a directory of the storage may hold: our folders, and that of a file system's own.
const OURS: [&str; 3] = [Part::Log.name(), Part::Values.name(), "lost+found"];

/// Refuses a `maxmemory` with which a server with storage could not take a single record.
pub(crate) fn check_budget(settings: &Settings) -> Result<(), String> {
    let (maxmemory, least) = (settings.memory.maxmemory, settings.engine.index_bytes as u64 + RECORD_BYTES_MIN);
    if !is_configured(settings) || maxmemory == 0 || maxmemory >= least {
        return Ok(());
    }
    Err(format!(
        "maxmemory is {maxmemory} bytes; with data on storage it must be at least {least} ({}mb): the index and 8mb for records",
        least.div_ceil(1 << 20)
    ))
}

/// Opens what `storage-dir`, `storage-device` and `storage-object-url` ask for; nothing when they ask for nothing. Relative paths
/// begin at `base`. What is written there is encrypted with the first of the keys.
///
/// # Errors
/// When a directory or the object storage cannot be used.
pub(crate) fn open(settings: &Settings, base: &Path, (contents, keys): (Contents, Arc<LogKeys>)) -> io::Result<Opened> {
    let mut objects = objects::Watch::default();
    let health = Arc::new(Health::default());
    let quota = Some(settings.storage.directory_bytes).filter(|bytes| *bytes != 0).map(Quota::new);
    let mut make = |part| -> io::Result<Option<Arc<dyn Device>>> {
        let local = local(settings, base, (part, contents))?;
        let device = if !settings.storage.object_url.is_empty() {
            Some(objects.below(local, settings, part)?)
        } else if let (Some(device), Some(quota)) = (&local, &quota) {
            Some(Arc::new(quota.limit(Arc::clone(device))) as _)
        } else {
            local
        };
        Ok(device.map(|device| Arc::new(WatchedDevice::new(device, Arc::clone(&health))) as _))
    };
    let (pages, values) = (make(Part::Log)?, make(Part::Values)?);
    if let (Contents::Kept(base), Some(pages), Some(values)) = (contents, &pages, &values) {
        belongs([pages, values], base.log)?;
    }
    let storage = pages.zip(values).map(|(pages, values)| Storage { pages, values, ciphers: Arc::new(StorageCiphers::new(keys)) });
    Ok(Opened { storage, health: Arc::clone(&health), watch: Watch { objects, devices: devices::Watch::new(health) } })
}

/// What [`open`] has opened.
pub(crate) struct Opened {
    /// The devices, if there are any.
    pub(crate) storage: Option<Storage>,
    /// How their writes fare.
    pub(crate) health: Arc<Health>,
    /// What must be looked at now and then.
    pub(crate) watch: Watch,
}

/// Looks at the storage now and then: brings figures to the instance, and tells of errors.
pub(crate) struct Watch {
    objects: objects::Watch,
    devices: devices::Watch,
}

impl Watch {
    /// Ten times a second.
    pub(crate) fn turn(&mut self, instance: &Instance) {
        self.objects.turn(instance);
        self.devices.turn(instance);
        if crate::operation_log::retained_too_much(instance).is_some() || crate::operation_log::fills_storage(instance) {
            instance.persistence.rewrites.wake();
        }
    }
}

/// The device of this machine, if there is one.
fn local(settings: &Settings, base: &Path, part: (Part, Contents)) -> io::Result<Option<Arc<dyn Device>>> {
    let storage = &settings.storage;
    let device: Arc<dyn Device> = match storage.device {
        StorageDevice::File if storage.directories.is_empty() => return Ok(None),
        StorageDevice::File => file_device(settings, base, part)?,
        StorageDevice::Memory => Arc::new(MemoryDevice::new()),
        StorageDevice::Null => Arc::new(NullDevice),
        StorageDevice::Faulty => {
            let sound: Arc<dyn Device> =
                if storage.directories.is_empty() { Arc::new(MemoryDevice::new()) } else { file_device(settings, base, part)? };
            Arc::new(FaultyDevice::new(sound, storage.fault_seed, faults(&storage.faults)?))
        }
    };
    Ok(Some(device))
}

fn file_device(settings: &Settings, base: &Path, (part, contents): (Part, Contents)) -> io::Result<Arc<dyn Device>> {
    let directories: Vec<PathBuf> =
        settings.storage.directories.iter().map(|directory| base.join(directory).join(part.name())).collect();
    for directory in &directories {
        files::make_directories(directory).map_err(|error| {
            io::Error::new(error.kind(), format!("storage-dir: cannot create '{}': {error}", directory.display()))
        })?;
    }
    let (device, removed) = open_directories(&directories, &contents.options(settings.storage.segment_bytes))?;
    if removed.files > 0 {
        let places: Vec<_> = directories.iter().map(|directory| directory.display().to_string()).collect();
        tracing::warn!(
            "Deleted {} files ({} KiB) that an earlier server left in {}: without a log, storage-dir holds nothing that \
             outlives the server",
            removed.files,
            removed.bytes >> 10,
            places.join(", ")
        );
    }
    Ok(device)
}

/// Opens directories that are a device together.
fn open_directories(directories: &[PathBuf], options: &FileOptions) -> io::Result<(Arc<dyn Device>, Removed)> {
    Ok(match directories {
        [one] => {
            let device = FileDevice::open(one.clone(), options)?;
            let removed = device.removed();
            (Arc::new(device), removed)
        }
        several => {
            let segment_bytes = options.segment_bytes.next_multiple_of(PAGE_BYTES);
            let device = ShardedDevice::open(several, &FileOptions { segment_bytes, ..options.clone() })?;
            let removed = device.removed();
            (Arc::new(device), removed)
        }
    })
}

/// Reads `name=number` pairs.
fn faults(text: &str) -> io::Result<FaultPlan> {
    let mut plan = FaultPlan::default();
    for word in text.split_whitespace() {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("storage-faults: '{word}' is not known"));
        let (name, number) = word.split_once('=').ok_or_else(wrong)?;
        let number: u32 = number.parse().map_err(|_| wrong())?;
        match name {
            "read-errors" => plan.read_errors = number,
            "short-reads" => plan.short_reads = number,
            "flipped-bits" => plan.flipped_bits = number,
            "write-errors" => plan.write_errors = number,
            "torn-writes" => plan.torn_writes = number,
            "discard-errors" => plan.discard_errors = number,
            _ => return Err(wrong()),
        }
    }
    Ok(plan)
}

/// What becomes of records read from storage.
pub(crate) fn copy_reads(settings: &Settings) -> almandine_keyspace::CopyReads {
    match settings.storage.copy_reads {
        CopyReads::None => almandine_keyspace::CopyReads::None,
        CopyReads::ReadCache => almandine_keyspace::CopyReads::ReadCache,
        CopyReads::Tail => almandine_keyspace::CopyReads::Tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_or_refused() {
        let plan = faults("read-errors=5 torn-writes=7").unwrap();
        assert_eq!((plan.read_errors, plan.torn_writes, plan.write_errors), (5, 7, 0));
        assert!(faults("read-errors").is_err() && faults("sparks=1").is_err() && faults("read-errors=x").is_err());
        assert_eq!(faults("").unwrap(), FaultPlan::default());
    }
}
