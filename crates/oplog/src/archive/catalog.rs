//! The catalog: which files of an archive count, and which owner it has.
//!
//! A text of lines, so that an operator can read it; the last one has the checksum of those before.
//!
//! ```text
//! almandine archive 1
//! version 7
//! owner 0123456789abcdef claim 6
//! former since 1795845103123             for each base that is kept, from the oldest on: when the archive named it
//! base 1 owner 0123456789abcdef
//! segment 3 owner fedcba9876543210
//! almandine log 1                        the manifest of its log, as far as the next base
//! …
//! sum 55667788
//! since 1795848703456                    of the newest base, where former ones are kept
//! base 2 owner 0123456789abcdef
//! segment 4 owner fedcba9876543210
//! segment 5 owner 0123456789abcdef
//! pages from 0 owner fedcba9876543210     only where the base names pages
//! almandine log 1                        from here on the manifest, without rings and end
//! …
//! sum 99887766
//! sum 11223344
//! ```

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use super::{ArchivedFile, ArchivedLog};
use crate::crc32c::sum;
use crate::manifest::Manifest;

const FIRST_LINE: &str = "almandine archive 1";
const MANIFEST_BEGINS: &str = "almandine log ";
const MANIFEST_ENDS: &str = "sum ";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// Counted from 1.
    pub version: u64,
    /// The owner that has made it, and writes the archive until another one makes the next.
    pub owner: u64,
    /// The owner's first version, which is never deleted: the former owner would make it as its next one.
    pub claim: u64,
    /// The newest base, and the log behind it.
    pub log: ArchivedLog,
    /// Former bases that are kept, the oldest first.
    pub former: Arc<Vec<ArchivedLog>>,
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

    /// All bases with their logs, the oldest first.
    pub(crate) fn logs(&self) -> impl DoubleEndedIterator<Item = &ArchivedLog> {
        self.former.iter().chain([&self.log])
    }

    /// All files but pages.
    pub(crate) fn files(&self) -> impl Iterator<Item = ArchivedFile> {
        self.logs().flat_map(ArchivedLog::files)
    }

    /// As it lies in its object.
    #[must_use]
    pub fn encode(&self) -> String {
        let Self { version, owner, claim, log, former } = self;
        let mut text = format!("{FIRST_LINE}\nversion {version}\nowner {owner:016x} claim {claim}\n");
        for log in former.iter() {
            let (since, broken) = (log.since_ms.unwrap_or(0), if log.is_broken { " broken" } else { "" });
            let _ = writeln!(text, "former since {since}{broken}");
            log.encode(&mut text);
        }
        if let Some(since) = log.since_ms {
            let _ = writeln!(text, "since {since}");
        }
        log.encode(&mut text);
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
        let mut lines = Lines(body);
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let (mut version, mut owner, mut claim) = (0, 0, 0);
        let (mut logs, mut log, mut is_former) = (Vec::new(), ArchivedLog::default(), false);
        while let Some(line) = lines.next() {
            if line.starts_with(MANIFEST_BEGINS) {
                log.manifest = lines.manifest(line, name)?;
                let is_last = lines.0.is_empty();
                if is_last == is_former || !log.is_whole() {
                    return None;
                }
                logs.push(std::mem::take(&mut log));
                is_former = false;
                continue;
            }
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["version", of] => version = of.parse().ok()?,
                ["owner", of, "claim", since] => (owner, claim) = (u64::from_str_radix(of, 16).ok()?, since.parse().ok()?),
                ["since", since] => log.since_ms = Some(since.parse().ok()?),
                ["former", "since", since] => (log.since_ms, is_former) = (Some(since.parse().ok()?), true),
                ["former", "since", since, "broken"] => {
                    (log.since_ms, log.is_broken, is_former) = (Some(since.parse().ok()?), true, true);
                }
                _ => log.take(line)?,
            }
        }
        let log = logs.pop()?;
        (Self::version_of(name) == Some(version)).then(|| Self { version, owner, claim, log, former: Arc::new(logs) })
    }
}

/// The lines that are left of a text.
struct Lines<'t>(&'t str);

impl<'t> Lines<'t> {
    fn next(&mut self) -> Option<&'t str> {
        let (line, rest) = self.0.split_once('\n')?;
        self.0 = rest;
        Some(line)
    }

    /// The manifest whose first line was read.
    fn manifest(&mut self, first: &str, name: &str) -> Option<Manifest> {
        let mut text = format!("{first}\n");
        loop {
            let line = self.next()?;
            let _ = writeln!(text, "{line}");
            if line.starts_with(MANIFEST_ENDS) {
                return Manifest::decode(Path::new(name), text.as_bytes()).ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::manifest::{BaseEntry, SegmentEntry};

    fn catalog() -> Catalog {
        let segment = |number, lsn| SegmentEntry { number, run: 2, lsn, sum: 7, bytes: 65536, key: None };
        let base = BaseEntry { number: 2, lsn: 8192, through: 12288, epoch: 9, parts: 1, key: None };
        let segments = vec![segment(4, 8192), segment(5, 16384)];
        let manifest = Manifest { id: 0x0102, run: 3, last_segment: 5, base: Some(base), segments, ..Manifest::default() };
        let segment_owners = BTreeMap::from([(4, 0xCD), (5, 0xAB)]);
        let log = ArchivedLog { base_owner: 0xAB, segment_owners, manifest, ..ArchivedLog::default() };
        Catalog { version: 7, owner: 0xAB, claim: 6, log, former: Arc::default() }
    }

    fn with_pages() -> Catalog {
        let page_owners = BTreeMap::from([(0, 0xCD), (12, 0xAB)]);
        Catalog { log: ArchivedLog { page_owners, ..catalog().log }, ..catalog() }
    }

    fn with_former() -> Catalog {
        let segment = |number, lsn| SegmentEntry { number, run: 1, lsn, sum: 7, bytes: 65536, key: None };
        let former = |number, lsn, is_broken| {
            let base = BaseEntry { number, lsn, through: lsn + 64, epoch: 3, parts: 1, key: None };
            let manifest = Manifest {
                id: 0x0102,
                run: 1,
                last_segment: 5,
                base: Some(base),
                segments: vec![segment(number, lsn)],
                ..Manifest::default()
            };
            let segment_owners = BTreeMap::from([(number, 0xCD)]);
            ArchivedLog {
                base_owner: 0xCD,
                since_ms: Some(1000 * number),
                is_broken,
                segment_owners,
                manifest,
                ..ArchivedLog::default()
            }
        };
        let log = ArchivedLog { since_ms: Some(3456), ..with_pages().log };
        Catalog { log, former: Arc::new(vec![former(1, 0, true), former(3, 4096, false)]), ..catalog() }
    }

    /// The layout is fixed: archives outlive the program.
    #[test]
    fn the_text_is_pinned() {
        let golden = "almandine archive 1\nversion 7\nowner 00000000000000ab claim 6\nbase 2 owner 00000000000000ab\n\
            segment 4 owner 00000000000000cd\nsegment 5 owner 00000000000000ab\n";
        let golden = format!("{golden}{}", catalog().log.manifest.encode());
        assert_eq!(catalog().encode(), format!("{golden}sum {:08x}\n", sum(golden.as_bytes())));
        assert_eq!(Catalog::name(7), "catalog-000000000007");
        let text = with_pages().encode();
        assert!(
            text.contains("ab\npages from 0 owner 00000000000000cd\npages from 12 owner 00000000000000ab\nalmandine log"),
            "{text}"
        );
        assert_eq!(with_pages().log.page(11).piece(0), "page-0000000011-00000000000000cd-000000000000");
        assert_eq!(with_pages().log.page(12).piece(8 << 20), "page-0000000012-00000000000000ab-000008388608");
        let text = with_former().encode();
        assert!(text.contains(
            "claim 6\nformer since 1000 broken\nbase 1 owner 00000000000000cd\nsegment 1 owner 00000000000000cd\nalmandine log 1\n"
        ));
        assert!(
            text.contains("\nformer since 3000\nbase 3 owner 00000000000000cd\n") && text.contains("\nsince 3456\nbase 2 owner"),
            "{text}"
        );
        let base = ArchivedFile::Base { number: 2, part: 1, owner: 0xAB };
        assert_eq!(base.piece(8192), "base-00000002.1-00000000000000ab-000000008192");
        assert_eq!(
            catalog().log.segment(&catalog().log.manifest.segments[0]).piece(0),
            "log-00000004-00000000000000cd-000000000000"
        );
    }

    #[test]
    fn it_is_read_as_written_and_no_other_text_passes() {
        let (name, text) = (Catalog::name(7), with_former().encode());
        assert_eq!(Catalog::decode(&name, text.as_bytes()).unwrap(), with_former());
        assert_eq!(Catalog::decode(&name, with_pages().encode().as_bytes()).unwrap(), with_pages());
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
            ArchivedFile::Inventory { number: 3, owner: 9 },
        ] {
            assert_eq!(ArchivedFile::of_piece(&file.piece(77)), Some((file, 77)));
        }
        for name in ["log-1-0-0", "log-00000001-0000000000000000-000000000000x", "base-00000001-0000000000000000-000000000000", ""]
        {
            assert_eq!(ArchivedFile::of_piece(name), None, "{name}");
        }
    }
}
