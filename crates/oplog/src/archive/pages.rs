//! Pages that a base names beside the log: those of a server with more data than memory, which lie on its device.
//!
//! A page with the large values that it refers to is a file of the archive. It is made once: a page never changes, and one owner
//! gives no number to a second page that a base names (`next page` of the base's table, INV-RETAIN-1). The next owner of an archive
//! goes on with numbers behind all that its base names, so that it is enough to know from which page on an owner has written.
//!
//! The piece at byte 0 is made last: where it is, the page is there as a whole.

use std::path::Path;

use super::fault::ArchiveFault;

/// The part of a base that names pages.
pub const PAGES_PART: u32 = 1;

/// The pages that a base names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageTable {
    /// Their numbers, ascending.
    pub pages: Vec<u64>,
    /// No base before has named this page or one behind it.
    pub next: u64,
}

/// Where the server that ships a log has its pages.
pub trait PageSource: Send {
    /// The pages of a table, which [`Self::read`] is asked for from then on.
    ///
    /// # Errors
    /// When it cannot be read.
    fn open(&mut self, table: &Path) -> Result<PageTable, ArchiveFault>;

    /// Reads a page of the table with what it refers to, each part once it has its checksum; pages in ascending order.
    ///
    /// # Errors
    /// When something cannot be read or is damaged, and what `take` returns.
    fn read(&mut self, page: u64, take: &mut TakeBytes<'_>) -> Result<(), ArchiveFault>;
}

/// Takes bytes of a page, one part behind the other.
pub type TakeBytes<'t> = dyn FnMut(&[u8]) -> Result<(), ArchiveFault> + 't;

/// Where a fetch puts pages.
pub trait PageTarget: Send {
    /// Whether there is room for pages and nothing else: nothing is changed yet. `again`: what is there may be of a fetch that was
    /// cut off.
    ///
    /// # Errors
    /// When there is something else.
    fn check(&mut self, again: bool) -> Result<(), ArchiveFault>;

    /// Begins with the pages of a table, for this log.
    ///
    /// # Errors
    /// When the table cannot be read, or nothing can be written.
    fn begin(&mut self, log: u128, table: &Path) -> Result<PageTable, ArchiveFault>;

    /// Takes the next bytes of a page; pages in ascending order.
    ///
    /// # Errors
    /// When they are not those that the table says, or cannot be written.
    fn put(&mut self, page: u64, bytes: &[u8]) -> Result<(), ArchiveFault>;

    /// All of it is there, and durable.
    ///
    /// # Errors
    /// When it is not.
    fn end(&mut self) -> Result<(), ArchiveFault>;
}

/// In place of a target, where there is no device: a base that names pages is refused.
#[derive(Debug)]
pub struct NoPages;

impl NoPages {
    fn refuse<T>(&self) -> Result<T, ArchiveFault> {
        Err(ArchiveFault::Owned(
            "its base names data in storage-dir, which is not named: name an empty directory for it".to_owned(),
        ))
    }
}

impl PageTarget for NoPages {
    fn check(&mut self, _: bool) -> Result<(), ArchiveFault> {
        self.refuse()
    }

    fn begin(&mut self, _: u128, _: &Path) -> Result<PageTable, ArchiveFault> {
        self.refuse()
    }

    fn put(&mut self, _: u64, _: &[u8]) -> Result<(), ArchiveFault> {
        self.refuse()
    }

    fn end(&mut self) -> Result<(), ArchiveFault> {
        self.refuse()
    }
}
