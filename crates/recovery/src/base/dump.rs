//! All keys of a part of the order of scans become a file of a base; with a device, what lies there is named in another one.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use almandine_base::{sometimes, step};
use almandine_io::{files, thread};
use almandine_keyspace::{Accessor, DeviceAccess, DeviceBase, Dumping, PageRow};
use almandine_oplog::encryption::{FileKind, LogKeys};

use super::device::{DeviceDatabase, DeviceHead, DeviceWriter};
use super::format::BaseHead;
use super::write::{BaseDatabase, BaseDatabases, BaseWriter};
use crate::durable::write_durably;
use crate::save::{SaveError, SaveProgress};

/// How often a record that cannot be read is tried again,
const ATTEMPTS: u32 = 50;
/// and the rest between two attempts.
const REST: Duration = Duration::from_millis(100);

/// What a part of a base is to be.
pub struct Dump<'d> {
    /// What it says of itself: part `head.part` of `head.parts`, a power of two up to 1,024.
    pub head: BaseHead,
    /// The greatest number of the log before redo begins.
    pub floor: u64,
    /// The version and the texts of the libraries of functions, asked for behind the last key.
    pub libraries: &'d dyn Fn() -> (u64, Vec<Vec<u8>>),
    /// Where what lies on the device is named.
    pub device: Option<DeviceDump<'d>>,
    /// What it is encrypted with, but for the table of pages.
    pub keys: &'d LogKeys,
}

/// What is named of a device.
#[derive(Clone, Copy)]
pub struct DeviceDump<'d> {
    /// The base, begun before the log's cut.
    pub base: DeviceBase,
    /// What the file says of itself.
    pub head: DeviceHead,
    /// The file.
    pub path: &'d Path,
}

/// Writes a part of a base under this name, durably, and what it names on a device. Outside of a batch, while effects are numbered,
/// or nothing changes.
///
/// # Errors
/// When it cannot be written as a whole; then there is no such file.
pub fn dump(accessor: &mut Accessor, path: &Path, dump: &Dump<'_>, progress: &SaveProgress) -> Result<u64, SaveError> {
    let Some(of_device) = dump.device else {
        return keys(accessor, path, dump, progress, None::<&mut DeviceWriter<Vec<u8>>>).map(|(keys, _)| keys);
    };
    let keyspace = std::sync::Arc::clone(accessor.keyspace());
    let Some(device) = keyspace.log().device() else { return Err(SaveError::Unreadable) };
    let written = write_durably(&temporary(of_device.path), of_device.path, |out| {
        let cipher = dump.keys.begin(FileKind::Device)?;
        let mut file = DeviceWriter::encrypted(out, of_device.head, cipher, &device.ciphers())?;
        // Before the walk: what it names is in these pages, whatever is given up meanwhile.
        let mut pages = Vec::new();
        for row in device.pages(of_device.base) {
            file.page(&row)?;
            pages.push(PageRow { sums: Vec::new(), ..row });
        }
        let (count, databases) = keys(accessor, path, dump, progress, Some(&mut file))?;
        for row in pages {
            file.dead(row.page, device.dead_words(&row))?;
        }
        let synced = step!(SyncDevice, device.sync(), else Ok(()));
        if synced.is_err() {
            sometimes!("the device is not made durable for a base");
        }
        step!(HeedSync, synced?);
        Ok::<_, SaveError>((file.finish(&databases)?, count))
    });
    if written.is_err() {
        let _ = files::remove(path);
    }
    written
}

fn temporary(path: &Path) -> std::path::PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    temporary.into()
}

/// Writes the keys, and names those that stay on the device; how many, and the databases.
fn keys<W: Write>(
    accessor: &mut Accessor,
    path: &Path,
    dump: &Dump<'_>,
    progress: &SaveProgress,
    mut cold: Option<&mut DeviceWriter<W>>,
) -> Result<(u64, Vec<DeviceDatabase>), SaveError> {
    let head = dump.head;
    write_durably(&temporary(path), path, |out| {
        let mut file = BaseWriter::with_cipher(out, head, dump.keys.begin(FileKind::Base)?)?;
        let below = dump.device.map_or(0, |device| device.base.below);
        let mut walk = Dumping::part_above(head.part.into(), head.parts.into(), below);
        let (mut attempts, mut failed, mut named) = (0, None, 0);
        loop {
            let more = walk.next(accessor, |key| {
                if failed.is_none() && !progress.is_cancelled() {
                    failed = file.key(&key).err();
                    progress.rest();
                }
            });
            if let Some(cold) = &mut cold {
                named += walk.cold().len() as u64;
                walk.cold().iter().try_for_each(|key| cold.key(key))?;
            }
            file.passed(walk.position(), dump.floor);
            progress.set_keys(file.keys() + named);
            match (failed.take(), more) {
                (Some(error), _) => return Err(error.into()),
                _ if progress.is_cancelled() => return Err(SaveError::Cancelled),
                (None, Ok(true)) => attempts = 0,
                (None, Ok(false)) => break,
                (None, Err(_)) if attempts == ATTEMPTS => return Err(SaveError::Unreadable),
                (None, Err(_)) => {
                    attempts += 1;
                    thread::sleep(REST);
                }
            }
        }
        if head.part + 1 == head.parts {
            let (version, texts) = (dump.libraries)();
            file.libraries(version, &texts)?;
        }
        let count = file.keys() + named;
        let (databases, namespaces) = databases(accessor);
        Ok((file.finish(&databases)?, (count, namespaces)))
    })
}

/// The databases as they are now, and their namespaces.
fn databases(accessor: &mut Accessor) -> (BaseDatabases, Vec<DeviceDatabase>) {
    // Within a batch nothing changes them.
    accessor.begin_batch(0);
    let number = accessor.keyspace().log().order().last_of_databases();
    let dbs = 0..accessor.keyspace().databases() as u16;
    let mut namespaces = Vec::new();
    let all = dbs.map(|db| {
        let contents = accessor.changes().generation(db);
        namespaces.push(DeviceDatabase { db, contents, namespace: DeviceAccess::new(accessor).namespace_of(db) });
        BaseDatabase { db, contents, keys: accessor.keyspace().dbsize(db) }
    });
    let all = all.collect();
    accessor.end_batch();
    (BaseDatabases { number, all }, namespaces)
}
