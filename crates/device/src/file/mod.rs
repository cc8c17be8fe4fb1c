//! A directory of segment files: the device of a log on local disks.
//!
//! An offset's segment is its quotient by the segment's size; the remainder is the position in the file. A segment is made when
//! it is first written, punched where it is discarded, and deleted when nothing in it is held, so that the file system gets back
//! whole files in the ordinary case and no file ever holds much dead space. Files are opened past the page cache where the file
//! system allows it: the log is its own cache, and a second copy in the kernel would cost memory outside of the budget.
//!
//! The table of segments is replaced as a whole, never changed in place, so [`crate::Device::source`] takes no lock.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use almandine_io::file::{self, File};
use almandine_io::sync::{Mutex, MutexGuard};
use arc_swap::ArcSwap;

use crate::{BLOCK_BYTES, BlockingSource, Device, Source, error};
use directory::Directory;
use segment::Segment;

mod directory;
mod segment;

pub use directory::{LOCK, begun_label, is_of_device};

/// What to do with what a directory holds already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Segments of an earlier run are deleted.
    Empty,
    /// Segments of an earlier run are the device's contents.
    Keep,
}

/// Segments of an earlier run that were deleted at opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many.
    pub files: u64,
    /// The space that they took.
    pub bytes: u64,
}

/// How a [`FileDevice`] is opened.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// What to do with what is there.
    pub mode: OpenMode,
    /// Size of a segment file. A directory that is kept has the size that it was made with.
    pub segment_bytes: u64,
    /// Whether to pass by the page cache where the file system can.
    pub direct: bool,
    /// What the directory is a part of; a directory that is kept must have been made with the same. What was made with a label that
    /// begins with `log ` is deleted only where it is opened with the same. What [`begun_label`] gives stands for another label
    /// when that counts.
    pub label: String,
    /// Which of several directories this one is; behind the label.
    pub shard: String,
    /// The label that counts, and the number that it has come to: see [`begun_label`]. None: that is not known.
    pub counts: Option<(String, u64)>,
}

impl Default for FileOptions {
    fn default() -> Self {
        let (label, shard, counts) = ("whole".to_owned(), String::new(), None);
        Self { mode: OpenMode::Empty, segment_bytes: 256 << 20, direct: true, label, shard, counts }
    }
}

/// Segment files in a directory that no other process uses meanwhile. Where the file system has no holes, discarded space is
/// given back, and discarded bytes are gone, only with the whole segment.
#[derive(Debug)]
pub struct FileDevice {
    files: Arc<Files>,
}

#[derive(Debug)]
struct Files {
    directory: Directory,
    segment_bytes: u64,
    /// In ascending order; replaced under `changing`.
    segments: ArcSwap<Vec<Arc<Segment>>>,
    changing: Mutex<()>,
    /// Segments were made or deleted since the last sync.
    directory_dirty: AtomicBool,
    /// Space taken; changed together with a segment's state, under its lock.
    used: AtomicU64,
    /// Held while a sync runs; true after one has failed.
    sync_failed: Mutex<bool>,
}

impl FileDevice {
    /// Opens or makes a directory.
    ///
    /// # Errors
    /// When it holds files of something else, is in use by another process, was made for something else, or as the system reports.
    pub fn open(path: impl Into<PathBuf>, options: &FileOptions) -> io::Result<Self> {
        let (directory, segment_bytes, indices) = Directory::open(path.into(), options)?;
        let mut segments = Vec::new();
        let mut used = 0;
        for index in indices {
            let segment = Segment::open(index, directory.segment_path(index), directory.direct())?;
            match segment.recover(segment_bytes)? {
                0 => segment.delete()?,
                held => {
                    used += held;
                    segments.push(Arc::new(segment));
                }
            }
        }
        let files = Files {
            directory,
            segment_bytes,
            segments: ArcSwap::from_pointee(segments),
            changing: Mutex::new(()),
            directory_dirty: AtomicBool::new(true),
            used: AtomicU64::new(used),
            sync_failed: Mutex::new(false),
        };
        Ok(Self { files: Arc::new(files) })
    }

    /// Whether the page cache is passed by. False when the options or the file system did not want it.
    #[must_use]
    pub fn direct(&self) -> bool {
        self.files.directory.direct()
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.directory.path()
    }

    /// What an earlier run had left there, and is deleted.
    #[must_use]
    pub fn removed(&self) -> Removed {
        self.files.directory.removed()
    }

    /// Size of a segment file; of a kept directory, the size that it was made with.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.files.segment_bytes
    }

    /// Writes whole blocks that are those of `from` byte for byte: where the file systems can, both share them from now on. True:
    /// they do.
    ///
    /// # Errors
    /// When not everything was written; then the range holds anything.
    pub fn write_shared(&self, offset: u64, data: &[u8], from: &Source) -> io::Result<bool> {
        let Source::File { file: source, offset: from } = from else {
            return self.write(offset, data).map(|()| false);
        };
        let mut shares = true;
        self.write_parts(offset, data, |file, position, part| {
            shares = shares && file.share_blocks(position, part.len() as u64, source, from + part.start as u64)?;
            if shares { Ok(()) } else { file.write_all_at(&data[part], position) }
        })?;
        Ok(shares)
    }

    fn write_parts(
        &self,
        offset: u64,
        data: &[u8],
        mut write: impl FnMut(&File, u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        error::check_transfer("write", offset, data)?;
        for (index, position, part) in self.files.parts(offset, data.len()) {
            let end = position + part.len() as u64;
            debug_assert!(end <= self.files.segment_bytes, "a part lies in one segment");
            let segment = self.files.begin_write(index)?;
            let written = write(segment.file(), position, part);
            segment.end_write(position, if written.is_ok() { end } else { position }, &self.files.used);
            written.map_err(|e| self.files.failed("write", offset, data.len(), &e))?;
        }
        Ok(())
    }

    /// The ranges that hold something, as begin and end, in ascending order; ranges of two segments may touch.
    #[must_use]
    pub fn held(&self) -> Vec<(u64, u64)> {
        let segments = self.files.segments.load();
        segments
            .iter()
            .flat_map(|s| s.held().into_iter().map(|(b, e)| (self.files.begin(s) + b, self.files.begin(s) + e)))
            .collect()
    }
}

/// No code panics between changes that belong together, so a poisoned state is whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// The device's offset of a segment's first byte.
    fn begin(&self, segment: &Segment) -> u64 {
        segment.index() * self.segment_bytes
    }

    /// The parts of a range that lie in one segment each: segment, position in it, and range within the whole.
    fn parts(&self, offset: u64, bytes: usize) -> impl Iterator<Item = (u64, u64, std::ops::Range<usize>)> {
        let size = self.segment_bytes;
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let part = usize::try_from(size - at % size).unwrap_or(bytes).min(bytes - done);
            done += part;
            (part > 0).then(|| (at / size, at % size, done - part..done))
        })
    }

    fn find(&self, index: u64) -> Option<Arc<Segment>> {
        let segments = self.segments.load();
        // Most segments follow each other without gaps, so the place is where the distance to the first says.
        let guess = index.checked_sub(segments.first()?.index()).and_then(|distance| usize::try_from(distance).ok())?;
        if let Some(segment) = segments.get(guess).filter(|s| s.index() == index) {
            return Some(Arc::clone(segment));
        }
        segments.binary_search_by_key(&index, |s| s.index()).ok().map(|place| Arc::clone(&segments[place]))
    }

    /// The segment, made if it is missing, with a write begun in it that keeps it from being deleted.
    fn begin_write(&self, index: u64) -> io::Result<Arc<Segment>> {
        if let Some(segment) = self.find(index).filter(|s| s.begin_write()) {
            return Ok(segment);
        }
        // Under the lock no segment of the table is deleted, so one that is found there takes the write.
        let _changing = locked(&self.changing);
        if let Some(segment) = self.find(index).filter(|s| s.begin_write()) {
            return Ok(segment);
        }
        let segment = Arc::new(Segment::open(index, self.directory.segment_path(index), self.directory.direct())?);
        let begun = segment.begin_write();
        debug_assert!(begun, "a new segment is not deleted");
        let mut segments = Vec::clone(&self.segments.load());
        let place = segments.partition_point(|s| s.index() < index);
        debug_assert!(segments.get(place).is_none_or(|s| s.index() > index), "a segment is in the table once");
        segments.insert(place, Arc::clone(&segment));
        self.segments.store(Arc::new(segments));
        self.directory_dirty.store(true, Ordering::Release);
        Ok(segment)
    }

    /// After a discard of this range of a segment: deletes the segment if nothing in it is held and no write is under way.
    fn delete_if_empty(&self, segment: &Segment, begin: u64, end: u64) -> io::Result<()> {
        let _changing = locked(&self.changing);
        if segment.delete_if_empty(begin, end, &self.used)? {
            debug_assert!(self.find(segment.index()).is_some(), "only a segment of the table is deleted");
            let left = self.segments.load().iter().filter(|s| s.index() != segment.index()).map(Arc::clone).collect();
            self.segments.store(Arc::new(left));
            self.directory_dirty.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn failed(&self, operation: &str, offset: u64, bytes: usize, error: &io::Error) -> io::Error {
        error::at_offset(operation, self.directory.path().display(), offset, bytes as u64, error)
    }
}

impl BlockingSource for Files {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        for (index, position, part) in self.parts(offset, buffer.len()) {
            let bytes = part.len();
            let Some(segment) = self.find(index) else {
                return Err(error::missing(self.directory.path().display(), offset, bytes as u64));
            };
            segment.file().read_exact_at(&mut buffer[part], position).map_err(|e| self.failed("read", offset, bytes, &e))?;
        }
        Ok(())
    }
}

impl Device for FileDevice {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_parts(offset, data, |file, position, part| file.write_all_at(&data[part], position))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        error::check_transfer("read", offset, buffer)?;
        self.files.read_at(offset, buffer)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        error::check_range("discard", offset, bytes)?;
        let (size, end) = (self.files.segment_bytes, offset + bytes);
        let segments = self.files.segments.load_full();
        let first = segments.partition_point(|s| s.index() < offset / size);
        for segment in segments[first..].iter().take_while(|s| self.files.begin(s) < end) {
            let begin = self.files.begin(segment);
            let (first, last) = (offset.saturating_sub(begin), (end - begin).min(size));
            debug_assert!(first < last, "the segments of the range alone are looked at");
            segment.discard(first, last, &self.files.used)?;
            if segment.is_empty() {
                self.files.delete_if_empty(segment, first, last)?;
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut failed = locked(&self.files.sync_failed);
        if *failed {
            let text =
                format!("an earlier sync of {} failed; what it held is uncertain: restart the server", self.path().display());
            return Err(io::Error::other(text));
        }
        let segments = self.files.segments.load_full();
        let mut result = segments.iter().try_for_each(|segment| segment.sync());
        if result.is_ok() && self.files.directory_dirty.swap(false, Ordering::AcqRel) {
            result = self.files.directory.sync();
        }
        debug_assert!(!*failed, "D3: no sync is tried after one that failed");
        *failed = result.is_err();
        result
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        error::check_range("read", offset, bytes as u64)?;
        let size = self.files.segment_bytes;
        if offset % size + bytes as u64 > size {
            return Ok(Source::Blocking { source: Arc::clone(&self.files) as Arc<dyn BlockingSource>, offset });
        }
        match self.files.find(offset / size) {
            Some(segment) => Ok(Source::File { file: Arc::clone(segment.file()), offset: offset % size }),
            None => Err(error::missing(self.path().display(), offset, bytes as u64)),
        }
    }

    fn used_bytes(&self) -> u64 {
        self.files.used.load(Ordering::Relaxed)
    }

    /// Behind the last segment: a write that an earlier process began goes to one that it had made.
    fn end(&self) -> io::Result<u64> {
        Ok(self.files.segments.load().last().map_or(0, |last| self.files.begin(last) + self.files.segment_bytes))
    }

    fn relabel(&self, label: &str) -> io::Result<()> {
        let _changing = locked(&self.files.changing);
        self.files.directory.relabel(self.files.segment_bytes, label)
    }
}

/// Whether a file can be written and read past the page cache where `path` is; makes and removes that file.
fn probe_direct(path: &Path) -> io::Result<bool> {
    let refused = |e: &io::Error| matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported);
    let direct = match file::open(path, true) {
        Ok(file) => !probe_transfer(&file).is_err_and(|e| refused(&e)),
        Err(e) if refused(&e) => false,
        Err(e) => return Err(error::at_path("make", path, &e)),
    };
    // A file system that refuses the flag may have made the file all the same.
    match almandine_io::files::remove(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(error::at_path("remove", path, &e)),
        _ => Ok(direct),
    }
}

fn probe_transfer(file: &File) -> io::Result<()> {
    let mut block = almandine_io::storage::Buffer::new(BLOCK_BYTES);
    file.write_all_at(&block, 0)?;
    file.read_exact_at(&mut block, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failed_sync_none_succeeds() {
        let path = std::env::temp_dir().join(format!("almandine-device-sync-{}", std::process::id()));
        let device = FileDevice::open(&path, &FileOptions { segment_bytes: 1 << 20, ..FileOptions::default() }).unwrap();
        let block = almandine_io::storage::Buffer::new(BLOCK_BYTES);
        device.write(0, &block).unwrap();
        device.sync().unwrap();
        // A file of the kernel's, which cannot be synced, takes the place of the segment.
        let sound = device.files.segments.load_full();
        let broken = Segment::open(0, "/proc/self/comm".into(), false).unwrap();
        broken.begin_write();
        broken.end_write(0, 0, &device.files.used);
        device.files.segments.store(Arc::new(vec![Arc::new(broken)]));
        let failed = device.sync().unwrap_err().to_string();
        assert!(failed.contains("cannot sync /proc/self/comm"), "{failed}");
        device.files.segments.store(sound);
        device.write(0, &block).unwrap();
        let after = device.sync().unwrap_err().to_string();
        assert!(after.contains("an earlier sync") && after.contains("restart the server"), "{after}");
        std::fs::remove_dir_all(&path).unwrap();
    }
}
