//! Appends groups to a log: one run's end of it.
//!
//! Nothing is written twice: a part lies behind the last one, a run begins a segment of its own, and a file that could not be
//! written or synced is left as it is. When a segment is full it is made durable, then the next one is named in the manifest; so
//! the manifest proves that all before the last segment was durable.

mod begin;
mod beside;
mod group;
mod later;
mod naming;
mod place;

use std::path::Path;
use std::sync::Arc;

use almandine_base::step;
use almandine_io::clock;
use almandine_io::storage::Buffer;

pub use self::begin::{Leftover, LogOptions};
use self::beside::Beside;
pub use self::group::{Appended, GroupWriter};
pub use self::place::Place;
use crate::directory::Directory;
use crate::encryption::LogKeys;
use crate::fault::Fault;
use crate::group::{BLOCK_BYTES, PART_BYTES_MAX, PartHead};
use crate::manifest::{Manifest, RingsEntry};
use crate::segment::Segment;
pub use crate::segment::WritePath;
use crate::spare::{READY, Spares};

/// See the module.
#[derive(Debug)]
pub struct Appender {
    directory: Arc<Directory>,
    manifest: Manifest,
    segment: Segment,
    write_path: WritePath,
    spares: Spares,
    beside: Beside,
    part: Buffer,
    /// Behind the last part.
    end: Place,
    /// Behind the last group that is durable.
    durable: Place,
    /// Behind the last group.
    group_end: Place,
    /// The greatest epoch of a group.
    epoch: u64,
    /// Where the streams from and to other servers are.
    offsets: (u64, u64),
    /// Whether the manifest on the disk names its segments.
    is_named: bool,
    /// It did, and will when a base is named that heals the log.
    awaits_base: bool,
    /// What the segments are encrypted with that are begun.
    keys: Arc<LogKeys>,
    /// Those from the next group on.
    next_keys: Option<Arc<LogKeys>>,
}

impl Appender {
    /// Where its files are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What the manifest says.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether it writes past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.segment.is_direct()
    }

    /// Behind the last group, and behind the last one that is durable.
    #[must_use]
    pub fn ends(&self) -> (Place, Place) {
        (self.group_end, self.durable)
    }

    /// Bytes of the log from its base on.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let begin = self.manifest.segments.first().map_or(self.end.lsn, |segment| segment.lsn);
        self.end.lsn - self.manifest.base.map_or(begin, |base| base.lsn).min(self.end.lsn)
    }

    /// Bytes of a segment.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.segment.entry.bytes
    }

    /// The size of the segments that are begun from now on.
    pub fn set_segment_bytes(&mut self, bytes: u64) {
        debug_assert_eq!(self.end, self.group_end, "between two groups");
        self.drop_next();
        self.spares.set_bytes(bytes);
        if self.part.len() != part_bytes_max(bytes) {
            self.part = Buffer::new(part_bytes_max(bytes));
        }
    }

    /// From the next group on, segments are encrypted with the first of these keys, or plain.
    pub fn set_keys(&mut self, keys: Arc<LogKeys>) {
        self.next_keys = Some(keys);
    }

    /// Between two groups: takes keys that were set. Whether the last segment is encrypted otherwise than the next one.
    fn take_keys(&mut self) -> bool {
        debug_assert_eq!(self.end, self.group_end, "between two groups");
        self.adopt_keys();
        self.segment.entry.key != self.keys.current()
    }

    fn adopt_keys(&mut self) {
        let Some(keys) = self.next_keys.take() else { return };
        if self.keys.current().is_none() && keys.current().is_some() {
            // They may hold what was written plain, those that are given up last, too.
            self.drop_next();
            self.finish_errands();
            self.spares.discard();
        }
        self.keys = keys;
    }

    /// Before a group: it lies in a segment that is encrypted as it is to be.
    fn follow_keys(&mut self) -> Result<(), Fault> {
        if self.take_keys() {
            self.sync()?;
            self.next_segment(self.end)?;
        }
        Ok(())
    }

    /// Says how groups get to the disk from now on, for which segments are prepared.
    ///
    /// # Errors
    /// As of [`Self::sync`].
    pub fn set_write_path(&mut self, write_path: WritePath) -> Result<(), Fault> {
        debug_assert_eq!(self.end, self.group_end, "between two groups");
        if self.write_path == write_path {
            return Ok(());
        }
        self.spares.write_zeroes(write_path == WritePath::Synced);
        if (self.write_path == WritePath::Cached) != (write_path == WritePath::Cached) {
            self.sync()?;
            self.segment.sync()?;
            self.segment.reopen(write_path)?;
        }
        self.write_path = write_path;
        Ok(())
    }

    /// Has further segments made ready: one when this run has written anything, more when it goes on.
    fn prepare(&mut self) {
        let is_filling = self.segment.room() < self.segment.entry.bytes / 4 * 3;
        self.spares.want(if is_filling { READY } else { 1 });
        if self.segment.room() < self.segment.entry.bytes / 4 && self.write_path == WritePath::Cached {
            self.prepare_next();
        }
    }

    /// Whether the disk has no room for a further segment, and there is less than `bytes` left.
    #[must_use]
    pub(crate) fn is_short_of(&self, bytes: u64) -> bool {
        self.segment.room() < bytes && self.beside.next.is_none() && self.spares.is_out()
    }

    /// Makes durable all groups that were appended.
    ///
    /// # Errors
    /// Of the system: then it is not known what is durable, and nothing more may be appended behind it.
    pub fn sync(&mut self) -> Result<(), Fault> {
        self.settle()?;
        self.end_block()?;
        if self.durable != self.group_end {
            let synced = self.segment.sync();
            step!(TrustNoSync, synced?, else synced.or_else(|_| self.segment.sync())?);
            self.durable = self.group_end;
        }
        Ok(())
    }

    /// Begins a new segment, unless the last one is empty; the log has a group's end where it begins. Returns that place.
    ///
    /// # Errors
    /// As of [`Self::sync`], or when there is no room for one.
    pub fn rotate(&mut self) -> Result<Place, Fault> {
        debug_assert_eq!(self.end, self.group_end, "between two groups");
        let is_other = self.take_keys();
        self.sync()?;
        if is_other || self.segment.entry.lsn != self.end.lsn {
            self.next_segment(self.end)?;
        }
        Ok(self.end)
    }

    /// Goes on in a new segment behind the last durable group, after something could not be written or synced. What was appended
    /// since is no part of the log.
    ///
    /// # Errors
    /// Of the system.
    pub fn heal(&mut self) -> Result<(), Fault> {
        self.is_named |= std::mem::take(&mut self.awaits_base);
        self.heal_at(self.durable)
    }

    /// As [`Self::heal`], where what was appended since is in no ring any more: the manifest goes on naming what it names, until
    /// [`Self::name_base`] names a base that begins with the new segment, and has what is missing.
    ///
    /// # Errors
    /// Of the system.
    pub fn heal_with_base(&mut self) -> Result<(), Fault> {
        self.awaits_base |= std::mem::take(&mut self.is_named);
        self.heal_at(self.durable)
    }

    fn heal_at(&mut self, place: Place) -> Result<(), Fault> {
        let former = Arc::clone(&self.keys);
        self.adopt_keys();
        // Whatever comes of it: what it would make durable is no part of the log.
        self.beside.syncing = None;
        // The directory knows when its names could not be synced.
        if let Some(names) = self.beside.names.take() {
            let _ = names.wait();
        }
        if let Err(fault) = self.next_segment(place) {
            // The former segment may be gone on with.
            self.next_keys = Some(std::mem::replace(&mut self.keys, former));
            return Err(fault);
        }
        (self.end, self.group_end) = (place, place);
        Ok(())
    }

    /// Whether nothing more can be named: it is not known which files the manifest on the disk names.
    #[must_use]
    pub(crate) fn is_unnamed(&self) -> bool {
        self.directory.is_broken()
    }

    /// Names the rings of this run, or none.
    ///
    /// # Errors
    /// Of the system.
    pub fn name_rings(&mut self, rings: Option<RingsEntry>) -> Result<(), Fault> {
        self.wait_for_names();
        let manifest = Manifest { rings, ..self.manifest.clone() };
        if self.is_named {
            self.directory.replace(&manifest)?;
        }
        self.manifest = manifest;
        Ok(())
    }

    /// Ends the log cleanly: all that was appended is durable, and a reader that finds less knows it. One without a base goes.
    ///
    /// # Errors
    /// Of the system.
    pub fn end(mut self) -> Result<(), Fault> {
        if self.awaits_base {
            return Err(Fault::Stopped);
        }
        if !self.is_named {
            self.drop_files(&self.manifest.segments, None);
            return Ok(());
        }
        self.sync()?;
        self.seal(true)?;
        self.wait_for_names();
        self.drop_next();
        let manifest = Manifest { end: Some(self.durable.lsn), rings: None, ..self.manifest.clone() };
        self.directory.replace(&manifest)
    }

    /// The head of a part at the end.
    fn head(&self) -> PartHead {
        PartHead {
            log: self.manifest.id,
            run: self.manifest.run,
            segment: self.segment.entry.number,
            lsn: self.end.lsn,
            durable_lsn: self.durable.lsn,
            base: self.manifest.base.map_or(0, |base| base.number),
            unix_ms: clock::unix_ms(),
            offsets: self.offsets,
            before: self.end.sum,
            ..PartHead::default()
        }
    }
}

/// The longest part of a segment of this size.
fn part_bytes_max(segment_bytes: u64) -> usize {
    let whole = usize::try_from(segment_bytes).unwrap_or(usize::MAX) / BLOCK_BYTES * BLOCK_BYTES;
    whole.clamp(BLOCK_BYTES, PART_BYTES_MAX)
}
