//! Keeps bases that are replaced: INV-ARCHIVE-4.
//!
//! What is kept is named by the catalog that names the next base, with all segments between. So there is no moment at which a base
//! that is to be kept counts and is not named. A base can be kept from when the catalog says since when it is there; of one with
//! pages its inventory is there before.

use std::sync::Arc;

use almandine_base::step;

use super::{Shipper, base_number};
use crate::archive::inventory::Inventory;
use crate::archive::{ArchiveFault, ArchivedFile, ArchivedLog, Catalog, PAGES_PART, Pieces, create_once};
use crate::directory::base_path;
use crate::manifest::Manifest;

/// What the archive keeps of the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Bases, with the newest one.
    pub bases: u64,
    /// From here on each moment can be had, in milliseconds since the Unix epoch; none where former bases are not kept.
    pub since_ms: Option<u64>,
}

impl Shipper {
    /// What the archive keeps.
    #[must_use]
    pub fn kept(&self) -> Kept {
        let Some(catalog) = &self.catalog else { return Kept::default() };
        Kept { bases: catalog.logs().count() as u64, since_ms: catalog.logs().next().and_then(|log| log.since_ms) }
    }

    /// The base that the archive has can be kept, if former ones are to be: of what it names there is an inventory.
    pub(super) fn prepare_kept(&mut self, manifest: &Manifest) -> Result<(), ArchiveFault> {
        let Some(log) = self.catalog.as_ref().filter(|_| self.keep.is_on()).map(|catalog| &catalog.log) else { return Ok(()) };
        let is_it = log.manifest.id == manifest.id && base_number(&log.manifest) == base_number(manifest);
        let (Some(base), Some(inventory)) = (manifest.base.filter(|_| is_it), log.inventory()) else { return Ok(()) };
        if self.has_inventory(inventory) {
            return Ok(());
        }
        let Some(source) = &mut self.pages else { return Ok(()) };
        let table = source.open(&base_path(&self.directory, base.number, PAGES_PART));
        // A later base may have replaced it meanwhile: then it is not kept.
        table.map_or(Ok(()), |table| self.put_inventory(inventory, &table.pages))
    }

    fn has_inventory(&self, file: ArchivedFile) -> bool {
        self.files.get(&file).is_some_and(|pieces: &Pieces| pieces.has(0))
    }

    /// Makes the inventory of the pages that a base names: the same for a base each time.
    pub(super) fn put_inventory(&mut self, file: ArchivedFile, pages: &[u64]) -> Result<(), ArchiveFault> {
        if self.has_inventory(file) {
            return Ok(());
        }
        let (name, text) = (file.piece(0), Inventory::of(pages).encode());
        if !create_once(&*self.objects, &name, text.as_bytes())? {
            return Err(ArchiveFault::Damaged(format!("{name} is of other pages than its base")));
        }
        self.files.entry(file).or_default().add(0, text.len() as u64);
        (self.figures.objects, self.figures.bytes) = (self.figures.objects + 1, self.figures.bytes + text.len() as u64);
        Ok(())
    }

    /// Since when the base of a catalog can be kept; none as long as it cannot.
    pub(super) fn since(&self, catalog: &Catalog) -> Option<u64> {
        catalog.log.since_ms.or_else(|| self.since_now(&catalog.log))
    }

    fn since_now(&self, log: &ArchivedLog) -> Option<u64> {
        let can_be = log.inventory().is_none_or(|file| self.has_inventory(file));
        (self.keep.is_on() && can_be).then_some(self.keep.now_ms)
    }

    /// The catalog that names another base than the archive has, with those before that are kept.
    pub(super) fn succeed(&self, target: &Catalog) -> Catalog {
        let log = ArchivedLog { since_ms: self.since_now(&target.log), ..target.log.clone() };
        let mut former: Vec<ArchivedLog> = Vec::new();
        if let Some(before) = self.before(target).filter(|_| self.keep.is_on()) {
            former.extend(before.former.iter().cloned());
            let replaced = replaced(&before.log, &log);
            match former.last_mut() {
                _ if replaced.since_ms.is_some() => former.push(replaced),
                Some(last) if !last.is_broken => last.absorb(&replaced),
                // What cannot be kept leaves a gap behind one that nothing continues.
                _ => {}
            }
        }
        Catalog { log, former: Arc::new(self.keep.choose(former)), ..target.clone() }
    }
}

/// A log that ends where the one of the next base begins.
fn replaced(log: &ArchivedLog, next: &ArchivedLog) -> ArchivedLog {
    let mut replaced = log.clone();
    let (first, base) = (next.manifest.segments.first(), next.manifest.base);
    replaced.is_broken = first.is_some_and(|first| !log.manifest.segments.contains(first));
    if let Some(begin) = first.map(|first| first.lsn).or(base.map(|base| base.lsn)) {
        step!(KeepPieces, replaced.cut(begin), else replaced.cut(log.manifest.base.map_or(0, |base| base.through)));
    }
    replaced
}
