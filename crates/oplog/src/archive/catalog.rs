//! The catalog: which files of an archive count, and which owner it has.
//!
//! A text of lines, so that an operator can read it; the last one has the checksum of those before.
//!
//! ```text
//! almandine archive 1
//! version 7
//! owner 0123456789abcdef claim 6
//! base 2 owner 0123456789abcdef
//! segment 4 owner fedcba9876543210
//! segment 5 owner 0123456789abcdef
//! pages from 0 owner fedcba9876543210     only where the base names pages
//! almandine log 1                        from here on the manifest, without rings and end
//! …
//! sum 99887766
//! sum 11223344
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::{ArchivedFile, PAGES_PART};
use crate::manifest::{BaseEntry, Manifest, SegmentEntry};
use crate::sum::sum;

const FIRST_LINE: &str = "almandine archive 1";
const MANIFEST_BEGINS: &str = "almandine log ";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// Counted from 1.
    pub version: u64,
    /// The owner that has made it, and writes the archive until another one makes the next.
    pub owner: u64,
    /// The owner's first version, which is never deleted: the former owner would make it as its next one.
    pub claim: u64,
    /// The owner that has made the base.
    pub base_owner: u64,
    /// The owner that has made each segment.
    pub segment_owners: BTreeMap<u64, u64>,
    /// The owner that has made each page that the base names, from these numbers on.
    pub page_owners: BTreeMap<u64, u64>,
    /// The files.
    pub manifest: Manifest,
}

impl Catalog {
    /// The object of a version.
    #[must_use]
    pub fn name(version: u64) -> String {
        format!("catalog-{version:012}")
    }

    /// Of which version a name is.
    #[must_use]
    pub fn version_of(name: &str) -> Option<u64> {
        let version = name.strip_prefix("catalog-")?.parse().ok()?;
        (Self::name(version) == name).then_some(version)
    }

    /// The file of a segment.
    pub(crate) fn segment(&self, segment: &SegmentEntry) -> ArchivedFile {
        let owner = self.segment_owners.get(&segment.number).copied().unwrap_or(self.owner);
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
        let owner = self.page_owners.range(..=page).next_back().map_or(self.owner, |(_, owner)| *owner);
        ArchivedFile::Page { number: page, owner }
    }

    /// Whether the base names pages.
    pub(crate) fn has_pages(&self) -> bool {
        self.manifest.base.is_some_and(|base| base.parts > PAGES_PART)
    }

    /// All files but pages.
    pub(crate) fn files(&self) -> impl Iterator<Item = ArchivedFile> {
        self.base_files().chain(self.manifest.segments.iter().map(|segment| self.segment(segment)))
    }

    /// As it lies in its object.
    #[must_use]
    pub fn encode(&self) -> String {
        let Self { version, owner, claim, base_owner, segment_owners, page_owners, manifest } = self;
        let mut text = format!("{FIRST_LINE}\nversion {version}\nowner {owner:016x} claim {claim}\n");
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
        let _ = writeln!(text, "sum {:08x}", sum(text.as_bytes()));
        text
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it is not what [`Self::encode`] makes.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, String> {
        Self::parse(name, bytes).ok_or_else(|| format!("{name} is not a catalog, or one of a later version of the program"))
    }

    fn parse(name: &str, bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let body = &text[..text.strip_suffix('\n')?.rfind('\n')? + 1];
        if text[body.len()..] != format!("sum {:08x}\n", sum(body.as_bytes())) {
            return None;
        }
        let (head, manifest) = body.split_at(body.find(&format!("\n{MANIFEST_BEGINS}"))? + 1);
        let manifest = Manifest::decode(Path::new(name), manifest.as_bytes()).ok()?;
        let (segment_owners, page_owners) = (BTreeMap::new(), BTreeMap::new());
        let mut catalog = Self { version: 0, owner: 0, claim: 0, base_owner: 0, segment_owners, page_owners, manifest };
        let mut lines = head.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        for line in lines {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["version", version] => catalog.version = version.parse().ok()?,
                ["owner", owner, "claim", claim] => (catalog.owner, catalog.claim) = (hex(owner)?, claim.parse().ok()?),
                ["base", _, "owner", owner] => catalog.base_owner = hex(owner)?,
                ["segment", number, "owner", owner] => {
                    catalog.segment_owners.insert(number.parse().ok()?, hex(owner)?);
                }
                ["pages", "from", page, "owner", owner] => {
                    catalog.page_owners.insert(page.parse().ok()?, hex(owner)?);
                }
                _ => return None,
            }
        }
        let is_whole = catalog.manifest.segments.iter().all(|segment| catalog.segment_owners.contains_key(&segment.number));
        (is_whole && Self::version_of(name) == Some(catalog.version)).then_some(catalog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let segment = |number, lsn| SegmentEntry { number, run: 2, lsn, sum: 7, bytes: 65536, key: None };
        let base = BaseEntry { number: 2, lsn: 8192, through: 12288, epoch: 9, parts: 1, key: None };
        let segments = vec![segment(4, 8192), segment(5, 16384)];
        let manifest = Manifest { id: 0x0102, run: 3, last_segment: 5, base: Some(base), segments, ..Manifest::default() };
        let segment_owners = BTreeMap::from([(4, 0xCD), (5, 0xAB)]);
        let page_owners = BTreeMap::new();
        Catalog { version: 7, owner: 0xAB, claim: 6, base_owner: 0xAB, segment_owners, page_owners, manifest }
    }

    fn with_pages() -> Catalog {
        Catalog { page_owners: BTreeMap::from([(0, 0xCD), (12, 0xAB)]), ..catalog() }
    }

    /// The layout is fixed: archives outlive the program.
    #[test]
    fn the_text_is_pinned() {
        let golden = "almandine archive 1\nversion 7\nowner 00000000000000ab claim 6\nbase 2 owner 00000000000000ab\n\
            segment 4 owner 00000000000000cd\nsegment 5 owner 00000000000000ab\n";
        let golden = format!("{golden}{}", catalog().manifest.encode());
        assert_eq!(catalog().encode(), format!("{golden}sum {:08x}\n", sum(golden.as_bytes())));
        assert_eq!(Catalog::name(7), "catalog-000000000007");
        let text = with_pages().encode();
        assert!(
            text.contains("ab\npages from 0 owner 00000000000000cd\npages from 12 owner 00000000000000ab\nalmandine log"),
            "{text}"
        );
        assert_eq!(with_pages().page(11).piece(0), "page-0000000011-00000000000000cd-000000000000");
        assert_eq!(with_pages().page(12).piece(8 << 20), "page-0000000012-00000000000000ab-000008388608");
        let base = ArchivedFile::Base { number: 2, part: 1, owner: 0xAB };
        assert_eq!(base.piece(8192), "base-00000002.1-00000000000000ab-000000008192");
        assert_eq!(catalog().segment(&catalog().manifest.segments[0]).piece(0), "log-00000004-00000000000000cd-000000000000");
    }

    #[test]
    fn it_is_read_as_written_and_no_other_text_passes() {
        let (name, text) = (Catalog::name(7), with_pages().encode());
        assert_eq!(Catalog::decode(&name, text.as_bytes()).unwrap(), with_pages());
        assert_eq!(Catalog::decode(&name, catalog().encode().as_bytes()).unwrap(), catalog());
        assert!(Catalog::decode("catalog-000000000008", text.as_bytes()).is_err());
        for len in 0..text.len() {
            assert!(Catalog::decode(&name, &text.as_bytes()[..len]).is_err(), "{len}");
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[len] ^= 1 << bit;
                assert!(Catalog::decode(&name, &bytes).is_err(), "byte {len}, bit {bit}");
            }
        }
    }

    #[test]
    fn names_of_pieces_are_read_as_written_and_no_others() {
        for file in [
            ArchivedFile::Base { number: 12, part: 3, owner: u64::MAX },
            ArchivedFile::Segment { number: 1, owner: 0 },
            ArchivedFile::Page { number: 7, owner: 9 },
        ] {
            assert_eq!(ArchivedFile::of_piece(&file.piece(77)), Some((file, 77)));
        }
        for name in ["log-1-0-0", "log-00000001-0000000000000000-000000000000x", "base-00000001-0000000000000000-000000000000", ""]
        {
            assert_eq!(ArchivedFile::of_piece(name), None, "{name}");
        }
    }
}
