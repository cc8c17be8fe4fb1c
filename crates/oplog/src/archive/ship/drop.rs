//! Deletes what no catalog names any more: behind the catalog that does without it, so that whatever happens between, nothing that
//! counts is gone, and what is left behind is found by a later look.

use std::collections::BTreeSet;

use almandine_base::step;

use super::{Shipper, base_number};
use crate::archive::inventory::Inventory;
use crate::archive::{ArchiveFault, ArchivedFile, ArchivedLog, Catalog};
use crate::manifest::Manifest;

/// A former base, and the pages that it names.
pub(super) type FormerPages = (ArchivedLog, Inventory);

impl Shipper {
    /// Files that neither the catalog nor the manifest names are to be deleted; not pages, of which only a base's table tells.
    pub(super) fn drop_unnamed(&mut self, manifest: Option<&Manifest>) {
        let Some(catalog) = &self.catalog else { return };
        let target = manifest.map(|manifest| self.target(manifest.clone()));
        let in_catalog = || catalog.logs().skip(step!(KeepFormer, 0, else catalog.former.len())).flat_map(ArchivedLog::files);
        let named: BTreeSet<ArchivedFile> = in_catalog().chain(target.iter().flat_map(Catalog::files)).collect();
        let unnamed: Vec<ArchivedFile> =
            self.files.keys().copied().filter(|file| !file.is_page() && !named.contains(file)).collect();
        for file in unnamed {
            let pieces = self.files.remove(&file).unwrap_or_default();
            // A seal stays: the former owner would go on there.
            let of_bytes = pieces.all().filter(|(_, bytes)| step!(KeepSeal, *bytes > 0, else true));
            self.garbage.extend(of_bytes.map(|(offset, _)| file.piece(offset)));
        }
    }

    /// What a mutant does: deletes what a catalog does without that is not there yet.
    #[cfg(any(feature = "mutants", loom))]
    pub(super) fn drop_ahead(&mut self, next: &Catalog) {
        let own = self.catalog.replace(next.clone());
        self.drop_unnamed(None);
        self.collect();
        self.catalog = own;
    }

    /// Pages that no base names which is kept are to be deleted. Where it cannot be told which, it is tried again.
    pub(super) fn sweep_pages(&mut self) {
        let Some((number, pages)) = self.unswept.take() else { return };
        let Some(catalog) = self.catalog.as_ref().filter(|catalog| base_number(&catalog.log.manifest) == Some(number)) else {
            return;
        };
        let newest = catalog.log.clone();
        match step!(KeepFormerPages, self.former_pages(catalog), else Ok(Vec::new())) {
            Ok(former) => self.drop_pages(&newest, &pages, &former),
            Err(_) => self.unswept = Some((number, pages)),
        }
    }

    /// What former bases name.
    fn former_pages(&self, catalog: &Catalog) -> Result<Vec<FormerPages>, ArchiveFault> {
        let of = |log: &ArchivedLog| log.inventory().map(|file| (log.clone(), file.piece(0)));
        let read = |(log, name): (ArchivedLog, String)| {
            let inventory = self.objects.get(&name)?.and_then(|bytes| Inventory::decode(&bytes));
            Ok((log, inventory.ok_or_else(|| ArchiveFault::Damaged(format!("{name} is missing")))?))
        };
        catalog.former.iter().filter_map(of).map(read).collect()
    }

    pub(super) fn drop_pages(&mut self, newest: &ArchivedLog, pages: &[u64], former: &[FormerPages]) {
        let is_named = |file: &ArchivedFile| match file {
            ArchivedFile::Page { number, .. } => {
                pages.binary_search(number).is_ok() && newest.page(*number) == *file
                    || former.iter().any(|(log, inventory)| inventory.has(*number) && log.page(*number) == *file)
            }
            _ => true,
        };
        let unnamed: Vec<ArchivedFile> = self.files.keys().copied().filter(|file| !is_named(file)).collect();
        for file in unnamed {
            let pieces = self.files.remove(&file).unwrap_or_default();
            self.garbage.extend(pieces.all().map(|(offset, _)| file.piece(offset)));
        }
    }

    /// Deletes what no catalog names any more. What cannot be deleted is tried again.
    pub(super) fn collect(&mut self) {
        if !self.garbage.is_empty() && self.objects.delete(&self.garbage).is_ok() {
            self.garbage.clear();
        }
    }
}
