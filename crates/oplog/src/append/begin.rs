//! Begins a run: a segment of its own behind the end that recovery has found, then what the rings of the last run have left.

use std::sync::Arc;

use almandine_base::step;
use almandine_io::files;
use almandine_io::memory::HUGE_PAGE_BYTES;
use almandine_io::storage::Buffer;

use super::beside::Beside;
use super::group::GroupWriter;
use super::{Appender, Place, part_bytes_max};
use crate::directory::{Directory, segment_path};
use crate::encryption::{FileCipher, FileKind, LogKeys};
use crate::errands::{Errands, Tell};
use crate::fault::Fault;
use crate::group::LogSlice;
use crate::manifest::{Manifest, SegmentEntry};
use crate::read::{BodyAccess, LogEnd, read_segments};
use crate::segment::{self, Segment, WritePath};
use crate::source::RingId;
use crate::spare::Spares;
use crate::unit::{UnitHead, epoch_of};

/// How a log is written.
#[derive(Debug)]
pub struct LogOptions {
    /// Size of segments, whole blocks.
    pub segment_bytes: u64,
    /// Whether each group will be synced by itself, for which segments are prepared.
    pub writes_zeroes: bool,
    /// What segments are encrypted with.
    pub keys: Arc<LogKeys>,
}

impl Default for LogOptions {
    fn default() -> Self {
        // 64 MiB but in simulations, where all is small.
        Self { segment_bytes: 32 * HUGE_PAGE_BYTES as u64, writes_zeroes: false, keys: Arc::default() }
    }
}

/// What a ring of an earlier run holds, in the order of the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The run.
    pub run: u64,
    /// The ring.
    pub ring: RingId,
    /// Its units, those that are in the log already among them.
    pub units: Vec<u8>,
}

impl Appender {
    /// Begins a run: behind what is known to be durable, with what was not, then what the rings of an earlier run have left. The
    /// manifest names its segments when all of that is durable in them, so a crash before that leaves the log as it was.
    ///
    /// # Errors
    /// Of the system; then the log is as it was.
    pub fn begin(
        directory: Directory,
        manifest: Manifest,
        end: &LogEnd,
        options: &LogOptions,
        left: &[Leftover],
        tell: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Self, Fault> {
        directory.tidy(&manifest)?;
        let tell = Tell::new(tell);
        let spares = Spares::start(directory.path(), (options.segment_bytes, options.writes_zeroes), tell.clone())?;
        let errands = Errands::start(directory.path(), tell)?;
        let mut fresh = manifest.clone();
        fresh.run += 1;
        fresh.end = None;
        // Those behind that place are read again from the old manifest.
        let dropped: Vec<_> = fresh.segments.extract_if(.., |segment| segment.lsn >= end.proven.lsn).collect();
        fresh.last_segment = manifest.last_segment;
        if options.keys.current().is_some() {
            // They may be of a time when nothing was encrypted.
            spares.discard();
        }
        let segment = new_segment(&directory, &mut fresh, (&spares, &options.keys, WritePath::Direct), (end.proven, None))?;
        let mut appender = Self {
            part: Buffer::new(part_bytes_max(options.segment_bytes)),
            end: end.proven,
            durable: end.proven,
            group_end: end.proven,
            epoch: end.epoch,
            offsets: (0, 0),
            is_named: false,
            awaits_base: false,
            directory: Arc::new(directory),
            manifest: fresh,
            segment,
            write_path: if options.writes_zeroes { WritePath::Synced } else { WritePath::Direct },
            spares,
            beside: Beside::new(errands),
            keys: Arc::clone(&options.keys),
            next_keys: None,
        };
        appender.carry_over(&manifest, end)?;
        // What completes the base was read, and is at other places now where it was carried over.
        if let Some(base) = appender.manifest.base.as_mut().filter(|base| base.through > end.proven.lsn) {
            base.through = appender.end.lsn;
        }
        appender.append_left(left, end)?;
        appender.sync()?;
        appender.directory.replace(&appender.manifest)?;
        appender.is_named = true;
        appender.trim_former(&manifest, end.proven);
        for segment in dropped {
            appender.give_up(&segment);
        }
        appender.finish_errands();
        Ok(appender)
    }

    /// Begins a log in place of what the directory has, which counts until [`Appender::name_base`] names the first base of this.
    /// The manifest has no file, and numbers that its files are to exceed.
    ///
    /// # Errors
    /// Of the system.
    pub fn begin_unnamed(
        directory: Directory,
        mut manifest: Manifest,
        options: &LogOptions,
        tell: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Self, Fault> {
        debug_assert!(manifest.base.is_none() && manifest.segments.is_empty(), "nothing is taken over");
        let tell = Tell::new(tell);
        let spares = Spares::start(directory.path(), (options.segment_bytes, options.writes_zeroes), tell.clone())?;
        let errands = Errands::start(directory.path(), tell)?;
        let place = Place::default();
        if options.keys.current().is_some() {
            spares.discard();
        }
        let segment = new_segment(&directory, &mut manifest, (&spares, &options.keys, WritePath::Direct), (place, None))?;
        Ok(Self {
            part: Buffer::new(part_bytes_max(options.segment_bytes)),
            end: place,
            durable: place,
            group_end: place,
            epoch: 0,
            offsets: (0, 0),
            is_named: false,
            awaits_base: false,
            directory: Arc::new(directory),
            manifest,
            segment,
            write_path: if options.writes_zeroes { WritePath::Synced } else { WritePath::Direct },
            spares,
            beside: Beside::new(errands),
            keys: Arc::clone(&options.keys),
            next_keys: None,
        })
    }

    /// Gives back what the last run has not used of its last segment. What cannot be given back stays: it does no harm but to take
    /// room.
    fn trim_former(&self, former: &Manifest, end: Place) {
        let is_last = |segment: &&SegmentEntry| segment.lsn < end.lsn && end.lsn < segment.lsn + segment.bytes;
        if let Some(segment) = former.segments.iter().rfind(is_last) {
            let path = segment_path(self.directory.path(), segment.number);
            // One that has another name is also the log of another directory, which may have more.
            if files::links(&path).is_ok_and(|names| names == 1) {
                let _ = segment::trim(&path, end.lsn - segment.lsn);
            }
        }
    }

    /// Appends the groups again that are behind what is known to be durable: a sync of their process may have failed.
    fn carry_over(&mut self, manifest: &Manifest, end: &LogEnd) -> Result<(), Fault> {
        if end.proven == end.place {
            return Ok(());
        }
        let Some(first) = manifest.segments.iter().rposition(|segment| segment.lsn <= end.proven.lsn) else { return Ok(()) };
        let (path, keys) = (self.directory.path().to_owned(), Arc::clone(&self.keys));
        read_segments((&path, BodyAccess::Keys(&keys)), manifest, first, &mut |group| {
            if !(end.proven.lsn..end.place.lsn).contains(&group.lsn) || group.body.is_empty() {
                return Ok(());
            }
            let fill = &mut |out: &mut GroupWriter<'_>| {
                group.slices().filter_map(Result::ok).for_each(|slice| out.push_of(slice.run, slice.ring, slice.units));
            };
            self.append(group.head.epoch, false, fill).map(|_| ())
        })?;
        Ok(())
    }

    /// Appends what rings of an earlier run have left, as one group: all of them together are a closed cut.
    fn append_left(&mut self, left: &[Leftover], end: &LogEnd) -> Result<(), Fault> {
        let fresh: Vec<_> = left.iter().map(|ring| (ring, ring.not_in_log(end))).filter(|(_, units)| !units.is_empty()).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        let slices = fresh.iter().map(|(ring, units)| LogSlice { run: ring.run, ring: ring.ring, units });
        let numbers = slices.flat_map(LogSlice::heads).filter_map(|head| head.ok().map(|head| head.number));
        let epoch = numbers.map(epoch_of).max().unwrap_or(0).max(self.epoch);
        let fill = &mut |out: &mut GroupWriter<'_>| fresh.iter().for_each(|(ring, units)| out.push_of(ring.run, ring.ring, units));
        self.append(epoch, true, fill).map(|_| ())
    }
}

/// Makes the file of a new last segment, unless one is ready, and an entry for it.
pub(super) fn new_segment(
    directory: &Directory,
    manifest: &mut Manifest,
    (spares, keys, write_path): (&Spares, &LogKeys, WritePath),
    (place, ready): (Place, Option<(u64, u64)>),
) -> Result<Segment, Fault> {
    let (number, bytes) = match ready {
        Some(ready) => ready,
        None => {
            let (spare, bytes) = spares.wait()?;
            let path = segment_path(directory.path(), manifest.last_segment + 1);
            files::rename(&spare, &path).map_err(|error| Fault::io("rename", &spare, error))?;
            (manifest.last_segment + 1, bytes)
        }
    };
    let cipher = keys.begin(FileKind::Segment).map_err(|error| Fault::io("encrypt", directory.path(), error))?;
    let key = cipher.as_ref().map(FileCipher::mark);
    let entry = SegmentEntry { number, run: manifest.run, lsn: place.lsn, sum: place.sum, bytes, key };
    manifest.last_segment = number.max(manifest.last_segment);
    manifest.segments.push(entry);
    Segment::open(directory.path(), entry, cipher, write_path)
}

impl Leftover {
    /// Its units that are numbered above the last one of the ring in the log.
    #[must_use]
    pub fn not_in_log(&self, end: &LogEnd) -> &[u8] {
        let last = end.last.get(&(self.run, self.ring)).copied().unwrap_or(0);
        let last = step!(AppendOnce, last, else 0);
        let mut rest = &self.units[..];
        while let Some((head, _, behind)) = UnitHead::split(rest) {
            if head.number > last {
                return rest;
            }
            rest = behind;
        }
        rest
    }
}
