//! Reads what a base names in the directories of the storage, without a server.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use almandine_io::files;
use almandine_keyspace::{PageFault, PageReader, Storage};
use almandine_recovery::base::{DeviceItem, DeviceReader};
use almandine_recovery::load::FileInput;

use super::{Contents, FileOptions, Part, open_directories};

/// What was read, and had its checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesRead {
    /// Pages.
    pub pages: u64,
    /// Bytes of these and of the large values that they refer to.
    pub bytes: u64,
}

/// Reads all pages of a base's table from the directories of `storage-dir`, which no server uses, and the large values that they
/// refer to.
///
/// # Errors
/// `InvalidData` where something is damaged, `NotFound` where it is missing, else as the system reports.
pub fn read_pages(table: &Path, directories: &[PathBuf], log: u128) -> io::Result<PagesRead> {
    let open = |part: Part| {
        let directories: Vec<PathBuf> = directories.iter().map(|directory| directory.join(part.name())).collect();
        if let Some(missing) = directories.iter().find(|directory| !files::is_directory(directory)) {
            return Err(io::Error::new(ErrorKind::NotFound, format!("there is no directory {}", missing.display())));
        }
        let options = Contents::Kept(log).options(FileOptions::default().segment_bytes);
        open_directories(&directories, &FileOptions { direct: false, ..options }).map(|(device, _)| device)
    };
    let storage = Storage { pages: open(Part::Log)?, values: open(Part::Values)? };
    let mut table = DeviceReader::open(FileInput::new(files::open(table)?)).map_err(io::Error::other)?;
    let (mut reader, mut read) = (PageReader::default(), PagesRead::default());
    // They are in front of all else.
    while let DeviceItem::Page(row) = table.read_item().map_err(io::Error::other)? {
        let mut count = |stored: almandine_keyspace::Stored<'_>| {
            read.bytes += stored.bytes.len() as u64;
            Ok(())
        };
        reader.read(&storage, &row, &mut count).map_err(|fault| match fault {
            PageFault::Io(error) => error,
            damaged => io::Error::new(ErrorKind::InvalidData, damaged.to_string()),
        })?;
        read.pages += 1;
    }
    Ok(read)
}
