//! Which moments an archive has, and the base for each.

use super::{ArchiveFault, ArchivedLog, Catalog, Listing, Objects, Pieces};
use crate::manifest::BaseEntry;

/// What is wanted of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Moment {
    /// All that it has.
    #[default]
    Newest,
    /// The log up to an LSN at most.
    Lsn(u64),
    /// What was written until then, in milliseconds since the Unix epoch.
    Time(f64),
}

/// A base of an archive: moments behind it can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restorable {
    /// The number of the base.
    pub base: u64,
    /// Moments from here on.
    pub through: u64,
    /// Where its log ends, which that of the next base continues.
    pub end: u64,
    /// The same as a time, in milliseconds since the Unix epoch; none where it is not known.
    pub since_ms: Option<u64>,
    /// What is between its end and the next base is lost.
    pub is_broken: bool,
    /// Bytes of the base, without pages.
    pub base_bytes: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
    /// Whether it names pages.
    pub has_pages: bool,
}

impl Moment {
    /// The newest base before it, with all of the log that continues that. One that is not said to be before it may be so: the
    /// oldest is taken where no other is.
    pub(super) fn of(self, catalog: &Catalog) -> ArchivedLog {
        let is_before = |log: &ArchivedLog| match self {
            Self::Newest => true,
            Self::Lsn(lsn) => log.manifest.base.is_none_or(|base| base.through <= lsn),
            Self::Time(unix_ms) => log.since_ms.is_some_and(|since| since as f64 <= unix_ms),
        };
        let logs: Vec<&ArchivedLog> = catalog.logs().collect();
        let at = logs.iter().rposition(|log| is_before(log)).unwrap_or(0);
        let mut whole = logs[at].clone();
        for next in &logs[at + 1..] {
            if whole.is_broken {
                break;
            }
            whole.absorb(next);
        }
        whole
    }
}

/// The bases of an archive, the oldest first; none where there is no archive.
///
/// # Errors
/// Of the store, or the catalog is damaged.
pub fn restorable(objects: &dyn Objects) -> Result<Vec<Restorable>, ArchiveFault> {
    let Some(catalog) = Listing::read(objects)?.catalog(objects)? else { return Ok(Vec::new()) };
    let listing = Listing::read(objects)?;
    let pieces = |file| listing.files.get(&file).map_or(0, Pieces::extent);
    let of = |log: &ArchivedLog| {
        let BaseEntry { number, through, lsn, .. } = log.manifest.base?;
        let end = log.manifest.segments.last().map_or(lsn, |last| last.lsn + pieces(log.segment(last)));
        Some(Restorable {
            base: number,
            through,
            end,
            since_ms: log.since_ms,
            is_broken: log.is_broken,
            base_bytes: log.base_files().map(pieces).sum(),
            log_bytes: log.manifest.segments.iter().map(|segment| pieces(log.segment(segment))).sum(),
            has_pages: log.has_pages(),
        })
    };
    Ok(catalog.logs().filter_map(of).collect())
}
