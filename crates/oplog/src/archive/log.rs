//! A base of an archive with the log behind it, as a catalog names them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::file::ArchivedFile;
use super::pages::PAGES_PART;
use crate::manifest::{BaseEntry, Manifest, SegmentEntry};

/// See the module. That of the newest base goes on; that of a former one ends where the next begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchivedLog {
    /// The owner that has made the base.
    pub base_owner: u64,
    /// From this time on each moment can be had of it, in milliseconds since the Unix epoch: then the archive named it. None where
    /// former bases are not kept.
    pub since_ms: Option<u64>,
    /// What comes behind it is no continuation: its log ends here.
    pub is_broken: bool,
    /// The owner that has made each segment.
    pub segment_owners: BTreeMap<u64, u64>,
    /// The owner that has made each page that the base names, from these numbers on.
    pub page_owners: BTreeMap<u64, u64>,
    /// The files.
    pub manifest: Manifest,
}

impl ArchivedLog {
    /// The file of a segment.
    pub(crate) fn segment(&self, segment: &SegmentEntry) -> ArchivedFile {
        let owner = self.segment_owners.get(&segment.number).copied().unwrap_or(self.base_owner);
        ArchivedFile::Segment { number: segment.number, owner }
    }

    /// The files of the base.
    pub(crate) fn base_files(&self) -> impl Iterator<Item = ArchivedFile> {
        let parts = |BaseEntry { number, parts, .. }| (0..parts).map(move |part| (number, part));
        let owner = self.base_owner;
        self.manifest.base.into_iter().flat_map(parts).map(move |(number, part)| ArchivedFile::Base { number, part, owner })
    }

    /// The file of a page that the base names.
    pub(crate) fn page(&self, page: u64) -> ArchivedFile {
        let owner = self.page_owners.range(..=page).next_back().map_or(self.base_owner, |(_, owner)| *owner);
        ArchivedFile::Page { number: page, owner }
    }

    /// Whether the base names pages.
    pub(crate) fn has_pages(&self) -> bool {
        self.manifest.base.is_some_and(|base| base.parts > PAGES_PART)
    }

    /// What says which ones, where former bases are kept.
    pub(crate) fn inventory(&self) -> Option<ArchivedFile> {
        let base = self.manifest.base.filter(|_| self.has_pages())?;
        Some(ArchivedFile::Inventory { number: base.number, owner: self.base_owner })
    }

    /// All files but pages.
    pub(crate) fn files(&self) -> impl Iterator<Item = ArchivedFile> {
        let segments = self.manifest.segments.iter().map(|segment| self.segment(segment));
        self.base_files().chain(self.inventory()).chain(segments)
    }

    /// Leaves out the segments from an LSN on.
    pub(crate) fn cut(&mut self, lsn: u64) {
        self.manifest.segments.retain(|segment| segment.lsn < lsn);
        let left: BTreeSet<u64> = self.manifest.segments.iter().map(|segment| segment.number).collect();
        self.segment_owners.retain(|number, _| left.contains(number));
    }

    /// Goes on with the log of the next base, without that base.
    pub(crate) fn absorb(&mut self, next: &Self) {
        // With a mutant, histories are to notice it.
        debug_assert!(cfg!(feature = "mutants") || !self.is_broken, "INV-ARCHIVE-4: the next one continues it");
        self.segment_owners.extend(&next.segment_owners);
        self.manifest.segments.extend(&next.manifest.segments);
        (self.manifest.run, self.manifest.last_segment) = (next.manifest.run, next.manifest.last_segment);
        self.is_broken = next.is_broken;
    }

    /// As it stands in a catalog.
    pub(super) fn encode(&self, text: &mut String) {
        let Self { base_owner, segment_owners, page_owners, manifest, .. } = self;
        if let Some(base) = manifest.base {
            let _ = writeln!(text, "base {} owner {base_owner:016x}", base.number);
        }
        for (segment, owner) in segment_owners {
            let _ = writeln!(text, "segment {segment} owner {owner:016x}");
        }
        for (page, owner) in page_owners {
            let _ = writeln!(text, "pages from {page} owner {owner:016x}");
        }
        text.push_str(&manifest.encode());
    }

    /// Takes what a line of a catalog says; none when it is not known.
    pub(super) fn take(&mut self, line: &str) -> Option<()> {
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["base", _, "owner", owner] => self.base_owner = hex(owner)?,
            ["segment", number, "owner", owner] => {
                self.segment_owners.insert(number.parse().ok()?, hex(owner)?);
            }
            ["pages", "from", page, "owner", owner] => {
                self.page_owners.insert(page.parse().ok()?, hex(owner)?);
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether the owners of all segments are known.
    pub(super) fn is_whole(&self) -> bool {
        self.manifest.segments.iter().all(|segment| self.segment_owners.contains_key(&segment.number))
    }
}
