//! Pages that a base names, between a device and the archive of the log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_io::files;
use almandine_keyspace::{CipherRow, PageFault, PageReader, PageRow, PageWriter, Storage, StorageCiphers};
use almandine_oplog::archive::{ArchiveFault, NoPages, PageSource, PageTable, PageTarget, TakeBytes};
use almandine_oplog::{Fault, LogKeys};
use almandine_recovery::base::{BaseFault, DeviceItem, DeviceReader};
use almandine_recovery::load::FileInput;

use super::{Contents, Part, open_directories};

/// The rows of a base's table, one after the other.
struct Rows {
    path: PathBuf,
    reader: DeviceReader<'static, FileInput>,
    /// The ciphers of the pages.
    ciphers: Vec<CipherRow>,
    row: Option<PageRow>,
}

impl Rows {
    /// Opens a table, and says what is in it.
    fn open(path: &Path) -> Result<(Self, PageTable), Fault> {
        let open = || DeviceReader::open(FileInput::new(files::open(path)?));
        // Both before anything is read: a file that is removed meanwhile can be read as long as it is open.
        let opened = open().and_then(|first| Ok((first, open()?)));
        let (mut first, reader) = opened.map_err(|fault| failed(path, fault))?;
        let (mut pages, mut ciphers) = (Vec::new(), Vec::new());
        // They are in front of all else.
        loop {
            match first.read_item().map_err(|fault| failed(path, fault))? {
                DeviceItem::Cipher(row) => ciphers.push(row),
                DeviceItem::Page(row) => pages.push(row.page),
                _ => break,
            }
        }
        let behind = pages.last().map_or(0, |page| page + 1);
        let table = PageTable { next: behind.max(first.head().next_page.into()), pages };
        Ok((Self { path: path.to_owned(), reader, ciphers, row: None }, table))
    }

    /// The row of a page of the table; pages in ascending order, each as often as is wanted.
    fn at(&mut self, page: u64) -> Result<&PageRow, Fault> {
        while self.row.as_ref().is_none_or(|row| row.page < page) {
            match self.reader.read_item().map_err(|fault| failed(&self.path, fault))? {
                DeviceItem::Cipher(_) => {}
                DeviceItem::Page(row) => self.row = Some(row),
                _ => break,
            }
        }
        let row = self.row.as_ref().filter(|row| row.page == page);
        row.ok_or_else(|| failed(&self.path, BaseFault::Io(io::Error::other(format!("page {page} is not in the table")))))
    }
}

fn failed(path: &Path, fault: BaseFault) -> Fault {
    let path = path.to_owned();
    match fault {
        BaseFault::Io(error) => Fault::Io { what: "read", path, error },
        fault => Fault::BaseDamaged { path, offset: 0, why: fault.to_string() },
    }
}

/// The pages of a store, for the thread that ships them.
pub(crate) struct ShippedPages {
    storage: Storage,
    reader: PageReader,
    rows: Option<Rows>,
}

impl ShippedPages {
    pub(crate) fn new(storage: Storage) -> Self {
        Self { storage, reader: PageReader::default(), rows: None }
    }
}

impl PageSource for ShippedPages {
    fn open(&mut self, table: &Path) -> Result<PageTable, ArchiveFault> {
        let (rows, table) = Rows::open(table)?;
        self.rows = Some(rows);
        Ok(table)
    }

    fn read(&mut self, page: u64, take: &mut TakeBytes<'_>) -> Result<(), ArchiveFault> {
        let Some(rows) = &mut self.rows else { return Err(ArchiveFault::Pages("no table is open".to_owned())) };
        let (row, mut refused) = (rows.at(page)?, None);
        let read = self.reader.read(&self.storage, row, &mut |stored| {
            take(stored.bytes).map_err(|fault| {
                refused = Some(fault);
                io::Error::other("it is not taken")
            })
        });
        match (read, refused) {
            (_, Some(fault)) => Err(fault),
            (read, None) => read.map_err(|fault| ArchiveFault::Pages(fault.to_string())),
        }
    }
}

/// Directories as those of `storage-dir`, that pages of an archive are fetched to.
pub struct FetchedPages {
    directories: Vec<PathBuf>,
    segment_bytes: u64,
    /// With what the large values of encrypted pages are found; none: pages with such are refused.
    keys: Option<Arc<LogKeys>>,
    /// Of the table that is fetched.
    rows: Option<Rows>,
    storage: Option<Storage>,
    writer: PageWriter,
}

impl FetchedPages {
    /// With files of this size. All that is fetched can be read with the keys, if these are given.
    #[must_use]
    pub fn new(directories: Vec<PathBuf>, segment_bytes: u64, keys: Option<Arc<LogKeys>>) -> Self {
        Self { directories, segment_bytes, keys, rows: None, storage: None, writer: PageWriter::default() }
    }

    fn open(&self, contents: Contents) -> Result<Storage, ArchiveFault> {
        let options = contents.options(self.segment_bytes);
        let open = |part: Part| {
            let directories: Vec<PathBuf> = self.directories.iter().map(|directory| directory.join(part.name())).collect();
            open_directories(&directories, &options).map(|(device, _)| device)
        };
        let opened = open(Part::Log).and_then(|pages| Ok(Storage { pages, values: open(Part::Values)?, ciphers: Arc::default() }));
        opened.map_err(|error| self.failed("begin", error))
    }

    fn ciphers(&self) -> Arc<StorageCiphers> {
        Arc::new(StorageCiphers::new(self.keys.clone().unwrap_or_default()))
    }

    fn failed(&self, what: &'static str, error: io::Error) -> ArchiveFault {
        let path = self.directories.first().cloned().unwrap_or_default();
        ArchiveFault::Log(Fault::Io { what, path, error })
    }

    fn fault(&self, fault: PageFault) -> ArchiveFault {
        match fault {
            PageFault::Io(error) => self.failed("write", error),
            damaged => ArchiveFault::Damaged(damaged.to_string()),
        }
    }
}

impl PageTarget for FetchedPages {
    fn check(&mut self, again: bool) -> Result<(), ArchiveFault> {
        if self.directories.is_empty() {
            return NoPages.check(again);
        }
        // What belongs to a log is not deleted for another one, nor what this one may have left elsewhere.
        if again { Ok(()) } else { self.open(Contents::Passing(None)).map(|_| ()) }
    }

    fn begin(&mut self, log: u128, table: &Path) -> Result<PageTable, ArchiveFault> {
        let path = table.to_owned();
        let (rows, table) = Rows::open(table)?;
        // Before anything is written: what is fetched can be read.
        let ciphers = self.ciphers();
        let loaded = rows.ciphers.iter().try_for_each(|row| ciphers.load(row));
        if let Some(why) = loaded.err().filter(|_| self.keys.is_some()) {
            return Err(ArchiveFault::Log(Fault::Key { path, why }));
        }
        // It has the directories' locks.
        self.storage = None;
        self.storage = Some(Storage { ciphers, ..self.open(Contents::Begun(log))? });
        (self.rows, self.writer) = (Some(rows), PageWriter::default());
        Ok(table)
    }

    fn put(&mut self, page: u64, bytes: &[u8]) -> Result<(), ArchiveFault> {
        let (Some(rows), Some(storage)) = (&mut self.rows, &self.storage) else {
            return Err(ArchiveFault::Damaged(format!("page {page} is of no table")));
        };
        let put = self.writer.put(storage, rows.at(page)?, bytes);
        put.map_err(|fault| self.fault(fault))
    }

    fn end(&mut self) -> Result<(), ArchiveFault> {
        self.writer.end().map_err(|fault| self.fault(fault))?;
        let Some(storage) = self.storage.take() else { return Ok(()) };
        let synced = storage.values.sync().and_then(|()| storage.pages.sync());
        synced.map_err(|error| self.failed("sync", error))
    }
}
