//! Copies for a backup what its base names in `storage-dir`, by a thread of its own and at a pace.
//!
//! INV-LEASE-1: until the copy has ended, well or not, nothing that the base names goes back to the device. Each page and large
//! value is copied once its checksum holds. Where the file system can, both share the blocks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use almandine_device::file::{self, is_of_device};
use almandine_device::{Device, FileDevice};
use almandine_instance::Instance;
use almandine_io::sync::Mutex;
use almandine_io::thread::JoinHandle;
use almandine_io::{clock, files, thread};
use almandine_keyspace::{DeviceBase, DeviceLease, PageReader, Storage, Stored};
use almandine_recovery::base::{DeviceItem, DeviceReader};
use almandine_recovery::load::FileInput;

use crate::storage::{Contents, Part};

/// The directory within that of a backup that a server takes as its `storage-dir`.
const STORAGE: &str = "storage";
/// As much of the file system of a backup is left to the log and its bases.
const ROOM_LEFT: u64 = 256 << 20;
/// How long the thread rests at most before it looks whether it is to end.
const REST: Duration = Duration::from_millis(20);
const CANCELLED: &str = "it was given up";

/// What is to be copied.
pub(super) struct Order {
    /// Of the backup.
    pub(super) number: u64,
    /// The directory of the backup.
    pub(super) directory: PathBuf,
    /// The table of the pages that the base names.
    pub(super) table: PathBuf,
    /// The log, which the copy belongs to as what is copied does.
    pub(super) log: u128,
    /// The base.
    pub(super) base: DeviceBase,
}

/// The copy that is under way, if there is one.
#[derive(Default)]
pub(crate) struct PageCopies {
    running: Mutex<Option<Running>>,
}

type Copied = Result<Vec<PathBuf>, String>;

struct Running {
    number: u64,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    is_cancelled: AtomicBool,
    copied: Mutex<Option<Copied>>,
}

impl PageCopies {
    /// Begins a copy; none is under way. Before the next base of the log is begun.
    ///
    /// # Errors
    /// When there is no device, or no thread is to be had.
    pub(super) fn start(&self, instance: &Arc<Instance>, order: Order) -> Result<(), String> {
        let shared = Arc::<Shared>::default();
        let leased = Leased::begin(instance, order.base).ok_or("there is no storage-dir")?;
        let (number, own) = (order.number, Arc::clone(&shared));
        let thread = thread::spawn("backup", move || {
            // Where that is not allowed, it competes with the workers on equal terms.
            let _ = thread::rank_behind_workers(thread::Rank::Copies);
            let instance = Arc::clone(&leased.instance);
            let copied = copy(&instance, &order, &own.is_cancelled);
            if copied.is_err() {
                clear(&order.directory);
            }
            drop(leased);
            *own.copied.lock().unwrap_or_else(PoisonError::into_inner) = Some(copied);
            instance.persistence.rewrites.wake();
        });
        let thread = thread.map_err(|error| format!("no thread is to be had: {error}"))?;
        *self.running() = Some(Running { number, shared, thread });
        Ok(())
    }

    /// Ends the copy that is under way, and waits for that; its files are gone then, and its lease.
    pub(super) fn stop(&self) {
        let Some(running) = self.running().take() else { return };
        running.shared.is_cancelled.store(true, Ordering::Relaxed);
        // A thread that panics ends the process.
        let _ = running.thread.join();
    }

    /// What became of the one that has ended, and of which backup it is.
    pub(super) fn take_copied(&self) -> Option<(u64, Copied)> {
        let mut running = self.running();
        let copied = running.as_ref()?.shared.copied.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let ended = running.take()?;
        let _ = ended.thread.join();
        Some((ended.number, copied))
    }

    fn running(&self) -> almandine_io::sync::MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lease of a base, as long as this lives.
struct Leased {
    instance: Arc<Instance>,
    lease: DeviceLease,
}

impl Leased {
    fn begin(instance: &Arc<Instance>, base: DeviceBase) -> Option<Self> {
        let lease = instance.keyspace.log().device()?.begin_lease(base);
        Some(Self { instance: Arc::clone(instance), lease })
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if let Some(device) = self.instance.keyspace.log().device() {
            device.end_lease(self.lease);
        }
    }
}

fn copy(instance: &Instance, order: &Order, is_cancelled: &AtomicBool) -> Copied {
    let began_ns = clock::monotonic_ns();
    let failed = |what: &Path, error: &dyn std::fmt::Display| format!("{} cannot be copied: {error}", what.display());
    let storage = instance.keyspace.log().device().ok_or("there is no storage-dir")?.storage();
    let mut target = Target::open(instance, order).map_err(|error| failed(&order.directory, &error))?;
    let table = files::open(&order.table).map_err(|error| failed(&order.table, &error))?;
    let mut table = DeviceReader::open(FileInput::new(table)).map_err(|fault| failed(&order.table, &fault))?;
    let (mut reader, mut pages) = (PageReader::default(), 0_u64);
    loop {
        // They are in front of all else, but for their ciphers, which the store has.
        let row = match table.read_item().map_err(|fault| failed(&order.table, &fault))? {
            DeviceItem::Cipher(_) => continue,
            DeviceItem::Page(row) => row,
            _ => break,
        };
        target.check_room(&order.directory)?;
        let read = reader.read(&storage, &row, &mut |stored| {
            target.put(&storage, stored)?;
            if target.rest(instance, is_cancelled) { Ok(()) } else { Err(io::Error::other(CANCELLED)) }
        });
        read.map_err(|fault| fault.to_string())?;
        pages += 1;
    }
    let bytes = target.bytes;
    let files = target.end(&order.directory).map_err(|error| failed(&order.directory, &error))?;
    let elapsed_ms = (clock::monotonic_ns() - began_ns) / 1_000_000;
    tracing::info!(
        "The backup has what its base names in storage-dir: {pages} pages, {bytes} bytes with large values, {elapsed_ms} ms"
    );
    Ok(files)
}

/// Where a copy goes: a directory as `storage-dir` is.
struct Target {
    pages: FileDevice,
    values: FileDevice,
    bytes: u64,
    /// When the last part was put, by the monotonic clock, and the bytes that it had.
    last: (u64, u64),
    /// The file systems may share blocks.
    may_share: bool,
}

impl Target {
    fn open(instance: &Instance, order: &Order) -> io::Result<Self> {
        let segment_bytes = instance.config.snapshot().settings.storage.segment_bytes;
        let options = Contents::Begun(order.log).options(segment_bytes);
        let open = |part: Part| FileDevice::open(order.directory.join(STORAGE).join(part.name()), &options);
        let last = (clock::monotonic_ns(), 0);
        Ok(Self { pages: open(Part::Log)?, values: open(Part::Values)?, bytes: 0, last, may_share: true })
    }

    /// Fails where the log would lack room on the same file system.
    fn check_room(&self, directory: &Path) -> Result<(), String> {
        let free = files::free_bytes(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        if free >= ROOM_LEFT {
            return Ok(());
        }
        let (free, left) = (free >> 20, ROOM_LEFT >> 20);
        Err(format!("{} has {free} MiB left, and {left} MiB are left for the log", directory.display()))
    }

    fn put(&mut self, from: &Storage, stored: Stored<'_>) -> io::Result<()> {
        let Stored { is_value, offset, bytes } = stored;
        let (from, to) = if is_value { (&from.values, &self.values) } else { (&from.pages, &self.pages) };
        if self.may_share {
            self.may_share = to.write_shared(offset, bytes, &from.source(offset, bytes.len())?)?;
        } else {
            to.write(offset, bytes)?;
        }
        self.bytes += bytes.len() as u64;
        self.last.1 = bytes.len() as u64;
        Ok(())
    }

    /// Rests as the pace says; false: the copy is given up.
    fn rest(&mut self, instance: &Instance, is_cancelled: &AtomicBool) -> bool {
        loop {
            if is_cancelled.load(Ordering::Relaxed) {
                return false;
            }
            let rate = instance.config.snapshot().settings.persistence.backup_copy_rate.max(1);
            let due_ns =
                self.last.0 + u64::try_from(u128::from(self.last.1) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX);
            let now_ns = clock::monotonic_ns();
            if now_ns >= due_ns {
                self.last = (now_ns, 0);
                return true;
            }
            thread::sleep(Duration::from_nanos(due_ns - now_ns).min(REST));
        }
    }

    /// Makes all of it durable, and says which files it has.
    fn end(self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.values.sync()?;
        self.pages.sync()?;
        let all = files_of(directory)?;
        [directory.join(STORAGE), directory.to_owned()].iter().try_for_each(files::sync_directory)?;
        Ok(all)
    }
}

/// The files of a copy in the directory of a backup; none where there is no copy.
pub(super) fn files_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for part in [Part::Log, Part::Values] {
        let path = directory.join(STORAGE).join(part.name());
        let mut names = match files::names(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            names => names?,
        };
        names.sort_unstable();
        // Its lock is of no use to a copy.
        all.extend(names.into_iter().filter(|name| name != file::LOCK).map(|name| path.join(name)));
    }
    Ok(all)
}

/// Removes what a copy has left in the directory of a backup, and nothing else.
pub(super) fn clear(directory: &Path) {
    let storage = directory.join(STORAGE);
    for part in [Part::Log, Part::Values] {
        let directory = storage.join(part.name());
        let mut own: Vec<String> = files::names(&directory).unwrap_or_default();
        own.retain(|name| is_of_device(name));
        // What says whose the segments are goes last.
        own.sort_unstable_by_key(|name| name.starts_with("almandine."));
        own.iter().for_each(|name| _ = files::remove(directory.join(name)));
        // It stays where something else is in it, which the next backup tells of.
        let _ = files::remove_directory(directory);
    }
    let _ = files::remove_directory(storage);
}
