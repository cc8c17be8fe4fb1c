//! The archive: a copy of a log in object storage, from which a machine with an empty disk starts.
//!
//! Objects are made and deleted, and never changed. A file of the log is *pieces*, each named after the file and where it begins
//! there. A *catalog* says which files count, as the manifest does on the disk; the one with the greatest version counts.
//!
//! One server writes an archive: its *owner*. Another takes it over ([`fetch`]) by making the next version of the catalog, and by
//! sealing the last segment: an empty piece where the next one would begin. As no object is made twice, the former owner can
//! neither name a file nor add a piece from then on, and learns of it by that. The seal and the version with which an owner
//! began are never deleted, or it could make them later: INV-ARCHIVE-1.
//!
//! ```text
//! catalog-000000000007
//! base-00000002.0-0123456789abcdef-000000000000      the first part of base 2, from byte 0 on
//! log-00000005-0123456789abcdef-000000008192         segment 5, from byte 8192 on
//! page-0000000011-0123456789abcdef-000000000000      page 11 of the device, with the large values that it refers to
//! inventory-00000002-0123456789abcdef-000000000000   which pages base 2 names, where former bases are kept
//! ```
//!
//! A base that is replaced is kept for a time, if that is wanted ([`ArchiveKeep`]), with all of the log since: so each moment since
//! can be had, by the base before it and the log up to it ([`Moment`]). The catalog says which ones are kept, as with all else that
//! counts: INV-ARCHIVE-4.

mod catalog;
mod fault;
mod fetch;
mod file;
mod inventory;
mod keep;
mod log;
mod moment;
mod owner;
mod pages;
mod ship;

use std::collections::BTreeMap;
use std::io;

pub use self::catalog::Catalog;
pub use self::fault::ArchiveFault;
pub use self::fetch::{Fetched, copy, fetch, finish, is_to_be_fetched, is_unfinished};
pub(crate) use self::file::ArchivedFile;
pub use self::keep::{ArchiveKeep, BASES_KEPT};
pub use self::log::ArchivedLog;
pub use self::moment::{Moment, Restorable, restorable};
use self::owner::Owner;
pub use self::pages::{NoPages, PAGES_PART, PageSource, PageTable, PageTarget, TakeBytes};
pub use self::ship::{Kept, NamedBase, ShipFigures, Shipped, Shipper};

/// A directory is being made, and counts when this file is gone.
pub(crate) const FETCHING: &str = "FETCHING";
/// Bytes of a piece at most.
pub(crate) const PIECE_BYTES: u64 = 8 << 20;

/// Takes the bytes of an object: none where there is none.
pub type EachObject<'e> = dyn FnMut(usize, Option<Vec<u8>>) -> io::Result<()> + Send + 'e;

/// Objects under one address. Everything blocks.
pub trait Objects: Send {
    /// Makes an object. False: there is one of this name.
    ///
    /// # Errors
    /// As the store reports them; then it may have been made.
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool>;

    /// Makes objects: which ones were not there. Several are made at once where that is possible.
    ///
    /// # Errors
    /// As the store reports them; then some may have been made.
    fn create_all(&self, objects: Vec<(String, Vec<u8>)>) -> io::Result<Vec<bool>> {
        objects.iter().map(|(name, bytes)| self.create(name, bytes)).collect()
    }

    /// The bytes of an object; none where there is none.
    ///
    /// # Errors
    /// As the store reports them.
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// The bytes of objects, one after the other with the place of its name; several are asked for at once where that is possible.
    ///
    /// # Errors
    /// As the store reports them, and what `each` returns.
    fn get_each(&self, names: &[String], each: &mut EachObject<'_>) -> io::Result<()> {
        names.iter().enumerate().try_for_each(|(at, name)| each(at, self.get(name)?))
    }

    /// Names and lengths of all objects.
    ///
    /// # Errors
    /// As the store reports them.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// Deletes objects. Those that are not there are no error.
    ///
    /// # Errors
    /// As the store reports them.
    fn delete(&self, names: &[String]) -> io::Result<()>;
}

/// Pieces of a file, by where they begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    all: BTreeMap<u64, u64>,
    extent: u64,
}

impl Pieces {
    /// One more, in any order.
    pub(crate) fn add(&mut self, offset: u64, bytes: u64) {
        self.all.insert(offset, bytes);
        while let Some(bytes) = self.all.get(&self.extent).filter(|bytes| **bytes > 0) {
            self.extent += bytes;
        }
    }

    /// Whether one begins here.
    pub(crate) fn has(&self, offset: u64) -> bool {
        self.all.contains_key(&offset)
    }

    /// Bytes from the file's beginning on that are there.
    pub(crate) fn extent(&self) -> u64 {
        self.extent
    }

    /// Nothing can be added: where the next one would begin, there is an empty one.
    pub(crate) fn is_sealed(&self) -> bool {
        self.all.get(&self.extent) == Some(&0)
    }

    /// Those of the extent.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut end = 0;
        std::iter::from_fn(move || {
            let bytes = self.all.get(&end).copied().filter(|bytes| *bytes > 0)?;
            end += bytes;
            Some((end - bytes, bytes))
        })
    }

    /// All of them: where they begin, and their bytes.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.all.iter().map(|(offset, bytes)| (*offset, *bytes))
    }
}

/// What is at an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    /// Versions of the catalog.
    pub(crate) catalogs: Vec<u64>,
    pub(crate) files: BTreeMap<ArchivedFile, Pieces>,
}

impl Listing {
    pub(crate) fn read(objects: &dyn Objects) -> Result<Self, ArchiveFault> {
        let mut listing = Self::default();
        for (name, bytes) in objects.list()? {
            if let Some(version) = Catalog::version_of(&name) {
                listing.catalogs.push(version);
            } else if let Some((file, offset)) = ArchivedFile::of_piece(&name) {
                listing.files.entry(file).or_default().add(offset, bytes);
            } else {
                let why = format!("it has {name}, which is no part of an archive: name an empty folder");
                return Err(ArchiveFault::Owned(why));
            }
        }
        listing.catalogs.sort_unstable();
        Ok(listing)
    }

    /// The catalog that counts; none where there is none.
    pub(crate) fn catalog(&self, objects: &dyn Objects) -> Result<Option<Catalog>, ArchiveFault> {
        let Some(version) = self.catalogs.last().copied() else { return Ok(None) };
        let name = Catalog::name(version);
        // Gone, a later one is there.
        let Some(bytes) = objects.get(&name)? else { return Self::read(objects)?.catalog(objects) };
        Catalog::decode(&name, &bytes).map(Some).map_err(ArchiveFault::Damaged)
    }
}

/// Makes an object, once: true also where an earlier try has, that did not hear so.
pub(crate) fn create_once(objects: &dyn Objects, name: &str, bytes: &[u8]) -> Result<bool, ArchiveFault> {
    Ok(objects.create(name, bytes)? || objects.get(name)?.is_some_and(|there| there == bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_reach_as_far_as_they_follow_each_other() {
        let mut pieces = Pieces::default();
        assert!(pieces.extent() == 0 && !pieces.is_sealed());
        for (offset, bytes, extent) in [(10, 5, 0), (20, 1, 0), (0, 10, 15), (15, 0, 15)] {
            pieces.add(offset, bytes);
            assert_eq!(pieces.extent(), extent, "{offset}");
        }
        assert!(pieces.is_sealed());
        assert_eq!(pieces.in_order().collect::<Vec<_>>(), [(0, 10), (10, 5)]);
        assert_eq!(pieces.all().count(), 4);
    }
}
