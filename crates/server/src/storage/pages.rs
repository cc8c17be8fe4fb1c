//! Reads what a base names in the directories of the storage, without a server.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_io::files;
use almandine_keyspace::{PageFault, PageReader, Storage, StorageCiphers};
use almandine_oplog::LogKeys;
use almandine_recovery::base::{DeviceItem, DeviceReader};
use almandine_recovery::load::FileInput;

use super::{Contents, FileOptions, LastBase, Part, open_directories};

/// What was read, and had its checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesRead {
    /// Pages.
    pub pages: u64,
    /// Bytes of these and of the large values that they refer to.
    pub bytes: u64,
    /// Pages whose large values were not found, because their key is not there.
    pub opaque: u64,
}

/// Reads all pages of a base's table from the directories of `storage-dir`, which no server uses, and the large values that they
/// refer to, as far as there are keys for that.
///
/// # Errors
/// `InvalidData` where something is damaged, `NotFound` where it is missing, else as the system reports.
pub fn read_pages(table: &Path, directories: &[PathBuf], (log, keys): (u128, Option<Arc<LogKeys>>)) -> io::Result<PagesRead> {
    let mut table = DeviceReader::open(FileInput::new(files::open(table)?)).map_err(io::Error::other)?;
    let base = LastBase { log, number: table.head().base };
    let open = |part: Part| {
        let directories: Vec<PathBuf> = directories.iter().map(|directory| directory.join(part.name())).collect();
        if let Some(missing) = directories.iter().find(|directory| !files::is_directory(directory)) {
            return Err(io::Error::new(ErrorKind::NotFound, format!("there is no directory {}", missing.display())));
        }
        let options = Contents::Kept(base).options(FileOptions::default().segment_bytes);
        open_directories(&directories, &FileOptions { direct: false, ..options }).map(|(device, _)| device)
    };
    let storage = Storage {
        pages: open(Part::Log)?,
        values: open(Part::Values)?,
        ciphers: Arc::new(StorageCiphers::new(keys.unwrap_or_default())),
    };
    let (mut reader, mut read) = (PageReader::default(), PagesRead::default());
    loop {
        // They are in front of all else.
        let row = match table.read_item().map_err(io::Error::other)? {
            DeviceItem::Cipher(row) => {
                // Without it, large values are not found.
                let _ = storage.ciphers.load(&row);
                continue;
            }
            DeviceItem::Page(row) => row,
            _ => return Ok(read),
        };
        let mut count = |stored: almandine_keyspace::Stored<'_>| {
            read.bytes += stored.bytes.len() as u64;
            Ok(())
        };
        match reader.read(&storage, &row, &mut count) {
            Ok(()) => {}
            Err(PageFault::Encrypted { .. }) => read.opaque += 1,
            Err(PageFault::Io(error)) => return Err(error),
            Err(damaged) => return Err(io::Error::new(ErrorKind::InvalidData, damaged.to_string())),
        }
        read.pages += 1;
    }
}
