//! A segment that is written: a file of one size, filled with zeroes or with an earlier segment, so that a full disk cannot meet a
//! write within it. Where each group is synced, the zeroes were written: then a write changes no metadata.
//!
//! Groups pass by the page cache, unless replies wait until the system has them and not for the disk: the cache takes them at once,
//! also while the disk is busy. Such groups are small; so their parts are padded to lines, but what a sync makes durable ends with
//! a block: a power failure may tear the block that is written then (INV-OPLOG-3).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_io::file::{self, File};
use almandine_io::storage::Buffer;

use crate::directory::segment_path;
use crate::encryption::FileCipher;
use crate::fault::Fault;
use crate::group::{BLOCK_BYTES, ENCRYPTION_BYTES, HEAD_BYTES, LINE_BYTES};
use crate::manifest::SegmentEntry;

/// What is written at once to make one.
const ZEROES_BYTES: usize = 1 << 20;

/// How groups get to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePath {
    /// Past the page cache: nothing waits for them.
    #[default]
    Direct,
    /// So, and each is synced by itself.
    Synced,
    /// Through the page cache: replies wait until that has them.
    Cached,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) entry: SegmentEntry,
    path: PathBuf,
    file: Arc<File>,
    /// Past the page cache.
    direct: bool,
    written: u64,
    synced: u64,
    /// Where it is encrypted.
    pub(crate) cipher: Option<FileCipher>,
}

impl Segment {
    /// Opens one that is named and that nothing was written to.
    pub(crate) fn open(
        directory: &Path,
        entry: SegmentEntry,
        cipher: Option<FileCipher>,
        write_path: WritePath,
    ) -> Result<Self, Fault> {
        let path = segment_path(directory, entry.number);
        let (file, direct) = open_file(&path, write_path).map_err(|error| Fault::io("open", &path, error))?;
        debug_assert_eq!(entry.key, cipher.as_ref().map(FileCipher::mark), "the manifest names the key");
        Ok(Self { entry, path, file: Arc::new(file), direct, written: 0, synced: 0, cipher })
    }

    /// Opens it again, for another way to the disk.
    pub(crate) fn reopen(&mut self, write_path: WritePath) -> Result<(), Fault> {
        debug_assert_eq!(self.synced, self.written, "only who has written it hears that a write has failed");
        let (file, direct) = open_file(&self.path, write_path).map_err(|error| Fault::io("open", &self.path, error))?;
        (self.file, self.direct) = (Arc::new(file), direct);
        Ok(())
    }

    /// Bytes before the body of a part.
    pub(crate) fn head_bytes(&self) -> usize {
        HEAD_BYTES + if self.cipher.is_some() { ENCRYPTION_BYTES } else { 0 }
    }

    /// Whether it is written past the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// The LSN behind what was written.
    pub(crate) fn end_lsn(&self) -> u64 {
        self.entry.lsn + self.written
    }

    /// The LSN behind what is durable.
    pub(crate) fn synced_lsn(&self) -> u64 {
        self.entry.lsn + self.synced
    }

    /// Whether the next part would begin within a block that has the last one's end.
    pub(crate) fn ends_in_block(&self) -> bool {
        !self.written.is_multiple_of(BLOCK_BYTES as u64)
    }

    /// The length of the next part, whose bytes without its padding are these.
    pub(crate) fn padded(&self, bytes: usize, is_packed: bool) -> usize {
        let to = if is_packed { LINE_BYTES } else { BLOCK_BYTES };
        let in_block = usize::try_from(self.written % BLOCK_BYTES as u64).unwrap_or(0);
        (in_block + bytes).next_multiple_of(to) - in_block
    }

    /// Bytes that are left.
    pub(crate) fn room(&self) -> u64 {
        self.entry.bytes - self.written
    }

    /// Writes a part behind the last one. After an error it must not be written again.
    pub(crate) fn write(&mut self, part: &[u8], durable: bool) -> Result<(), Fault> {
        let padded_to = if self.direct { BLOCK_BYTES } else { LINE_BYTES };
        debug_assert!(part.len().is_multiple_of(padded_to), "parts are whole blocks past the page cache, else lines");
        debug_assert!(part.len() as u64 <= self.room(), "a part lies in one segment");
        debug_assert!(
            self.synced.is_multiple_of(BLOCK_BYTES as u64),
            "INV-OPLOG-3: no block that has what is durable is written again"
        );
        let written = match durable {
            true => self.file.write_durable_at(part, self.written),
            false => self.file.write_all_at(part, self.written),
        };
        written.map_err(|error| Fault::io("write", &self.path, error))?;
        // What is durable at once says nothing of what was written before.
        if durable && self.synced == self.written {
            self.synced += part.len() as u64;
        }
        self.written += part.len() as u64;
        Ok(())
    }

    /// Makes durable what was written. After an error it must not be tried again.
    pub(crate) fn sync(&mut self) -> Result<(), Fault> {
        let synced = self.file.sync_data();
        self.note_sync(synced, self.written)
    }

    /// Its file, for a sync of what was written until now, and how much that is.
    pub(crate) fn written(&self) -> (Arc<File>, u64) {
        (Arc::clone(&self.file), self.written)
    }

    /// Notes what came of a sync that was begun when this was written.
    pub(crate) fn note_sync(&mut self, synced: io::Result<()>, written: u64) -> Result<(), Fault> {
        synced.map_err(|error| Fault::io("sync", &self.path, error))?;
        debug_assert!(
            written == self.written || written.is_multiple_of(BLOCK_BYTES as u64),
            "INV-OPLOG-3: what is durable ends with a block, where more is written behind it"
        );
        self.synced = self.synced.max(written);
        Ok(())
    }
}

/// Past the page cache where that is asked for and the file system can.
fn open_file(path: &Path, write_path: WritePath) -> io::Result<(File, bool)> {
    if write_path == WritePath::Cached {
        return Ok((file::open(path, false)?, false));
    }
    match file::open(path, true) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok((file::open(path, false)?, false)),
        Err(error) => Err(error),
    }
}

/// Cuts off what lies behind the end of a segment that nothing is written to any more. A late write of a process that was thought
/// dead may make it longer again.
pub(crate) fn trim(path: &Path, bytes: u64) -> io::Result<()> {
    let file = file::open(path, false)?;
    if file.len()? > bytes { file.set_len(bytes) } else { Ok(()) }
}

/// Makes a file of this many zeroes that is durable but for its name. Written ones cost as much as what will be written over them,
/// and spare each later sync that the file system says of a range that it is written.
pub(crate) fn fill(path: &Path, bytes: u64, written: bool) -> Result<(), Fault> {
    let filled = (|| {
        let (file, _) = open_file(path, WritePath::Direct)?;
        if written || !file.reserve_zeroes(0, bytes)? {
            let zeroes = Buffer::new(ZEROES_BYTES);
            let mut done = 0;
            while done < bytes {
                let count = (bytes - done).min(zeroes.len() as u64);
                file.write_all_at(&zeroes[..usize::try_from(count).map_err(io::Error::other)?], done)?;
                done += count;
            }
        }
        file.sync_all()
    })();
    filled.map_err(|error| Fault::io("fill", path, error))
}
