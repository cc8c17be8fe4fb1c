//! Reads parts of a segment, through a window that moves over its file.

use std::io;
use std::path::{Path, PathBuf};

use almandine_base::step;
use almandine_io::file::File;
use almandine_io::files;

use super::proof::Proof;
use crate::crc32c::chained;
use crate::fault::Fault;
use crate::group::{ENCRYPTION_BYTES, HEAD_BYTES, LINE_BYTES, NoHead, PART_BYTES_MAX, PartHead};
use crate::manifest::SegmentEntry;

const WINDOW_BYTES: usize = 2 * PART_BYTES_MAX;

/// What is found where a part should begin.
pub(super) enum Read<'w> {
    /// With its body as it lies there.
    Part(PartHead, &'w [u8]),
    /// None, and why.
    Bad(&'static str),
}

/// See the module.
pub(super) struct Parts<'m> {
    path: PathBuf,
    file: File,
    bytes: u64,
    log: u128,
    segment: &'m SegmentEntry,
    window: Vec<u8>,
    /// Where in the file the window begins.
    begin: u64,
}

impl<'m> Parts<'m> {
    /// Opens a segment that ends where the next one begins, if there is one; it may have been cut off there.
    pub(super) fn open(path: &Path, log: u128, segment: &'m SegmentEntry, next: Option<&SegmentEntry>) -> Result<Self, Fault> {
        let exists = files::identity(path);
        if exists.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Err(Fault::Missing { path: path.to_owned(), why: "the manifest names it".into() });
        }
        let file = files::open(path).map_err(|error| Fault::io("open", path, error))?;
        let bytes = file.len().map_err(|error| Fault::io("look at", path, error))?;
        let is_whole = bytes == segment.bytes || next.is_some_and(|next| bytes >= next.lsn - segment.lsn);
        if !is_whole {
            return Err(Fault::damaged(path, bytes.min(segment.bytes), format!("it was made with {} bytes", segment.bytes)));
        }
        Ok(Self { path: path.to_owned(), file, bytes, log, segment, window: Vec::new(), begin: 0 })
    }

    /// Bytes of the file in whole lines.
    pub(super) fn len(&self) -> u64 {
        self.bytes / LINE_BYTES as u64 * LINE_BYTES as u64
    }

    /// Up to this many bytes from an offset on.
    fn bytes_at(&mut self, offset: u64, count: usize) -> Result<&[u8], Fault> {
        let count = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX).min(count);
        let end = self.begin + self.window.len() as u64;
        if offset < self.begin || offset + count as u64 > end {
            let wanted = usize::try_from(self.bytes - offset.min(self.bytes)).unwrap_or(usize::MAX).min(WINDOW_BYTES);
            self.window.resize(wanted, 0);
            self.begin = offset;
            self.file.read_exact_at(&mut self.window, offset).map_err(|error| Fault::io("read", &self.path, error))?;
        }
        let from = usize::try_from(offset - self.begin).unwrap_or(usize::MAX).min(self.window.len());
        Ok(&self.window[from..(from + count).min(self.window.len())])
    }

    /// The head of this log, segment and place.
    fn head(&mut self, offset: u64) -> Result<Result<PartHead, &'static str>, Fault> {
        let (log, segment) = (self.log, *self.segment);
        let head = match PartHead::decode(self.bytes_at(offset, HEAD_BYTES + ENCRYPTION_BYTES)?) {
            Ok(head) => head,
            Err(NoHead::Damaged) => return Ok(Err("there is no head of a part")),
            Err(NoHead::Unknown(format)) => {
                let what = format!("a part of format {format}, or with flags of a later one,");
                return Err(Fault::Unknown { path: self.path.clone(), offset, what });
            }
        };
        let is_own = head.log == log && head.run == segment.run && head.segment == segment.number;
        let is_there = head.lsn == segment.lsn + offset;
        let is_next = step!(CheckSegment, is_own && is_there, else true);
        Ok(if is_next { Ok(head) } else { Err("a part of another log, segment or place is there") })
    }

    /// The part that begins at an offset and ends before another one.
    pub(super) fn read(&mut self, offset: u64, limit: u64) -> Result<Read<'_>, Fault> {
        let head = match self.head(offset)? {
            Ok(head) => head,
            Err(why) => return Ok(Read::Bad(why)),
        };
        if head.end_offset(offset) > limit {
            return Ok(Read::Bad("a part ends behind its segment"));
        }
        let bytes = head.head_bytes() + head.body_bytes as usize;
        let part = self.bytes_at(offset, bytes)?;
        let is_whole = part.len() == bytes && chained(head.before, &part[HEAD_BYTES..]) == head.sum;
        Ok(match is_whole {
            true => Read::Part(head, &part[head.head_bytes()..]),
            false => Read::Bad("the checksum of a part is not that of its bytes"),
        })
    }

    /// What lies at and behind a part that is not whole.
    pub(super) fn look_behind(&mut self, bad: u64) -> Result<Proof, Fault> {
        let mut proof = Proof::default();
        let mut offset = bad;
        while offset < self.bytes {
            // A head that is not known is of no use as a proof, and may be what a segment has held before.
            let head = match self.head(offset) {
                Err(Fault::Unknown { .. }) => None,
                head => head?.ok(),
            };
            if let Some(head) = head {
                proof.end = Some(head.end_offset(offset));
                if proof.durable.is_none() && head.durable_lsn.saturating_sub(self.segment.lsn) > bad {
                    proof.durable = Some(offset);
                }
            }
            offset += LINE_BYTES as u64;
        }
        Ok(proof)
    }
}
