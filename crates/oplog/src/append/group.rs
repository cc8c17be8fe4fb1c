//! One group: units are copied into parts and summed there, and a part is written when it is full.

use std::ops::Range;

use almandine_base::step;

use super::{Appender, Place, WritePath};
use crate::crc32c::{added, chained};
use crate::fault::Fault;
use crate::group::{HEAD_BYTES, LogSlice, PartEncryption, PartEnd, PartHead, SLICE_HEAD_BYTES};
use crate::source::{RingId, UnitSink};

/// Bytes of units that are put to a part at a time: they are in the first caches when they are summed.
const SLICE_BYTES: usize = 16 << 10;

/// What a group has put into the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Units.
    pub units: u64,
    /// Bytes of its body.
    pub payload_bytes: u64,
    /// Bytes of its parts.
    pub bytes: u64,
}

/// A group that is being written.
pub struct GroupWriter<'a> {
    appender: &'a mut Appender,
    epoch: u64,
    /// Parts that were written.
    parts: u32,
    /// Bytes before the bodies of parts.
    head_bytes: usize,
    /// Bytes of the part that is being filled.
    filled: usize,
    /// The sum of what is filled, behind the part before.
    sum: u32,
    /// Units of the slices that begin in it.
    units: u32,
    done: Appended,
    failure: Option<Fault>,
}

impl Appender {
    /// Appends a group: the units that `fill` pushes, which with those before are all up to and with `epoch`. Durable, it is synced
    /// with all before it. Without units nothing is written.
    ///
    /// # Errors
    /// Of the system: then it is not known what was written, and nothing more may be appended behind it.
    pub fn append(&mut self, epoch: u64, durable: bool, fill: &mut dyn FnMut(&mut GroupWriter<'_>)) -> Result<Appended, Fault> {
        self.follow_keys()?;
        if durable {
            self.settle()?;
        }
        let mut group = self.begin_group(epoch);
        fill(&mut group);
        if group.done == Appended::default() {
            if durable {
                self.sync()?;
            }
            return Ok(Appended::default());
        }
        group.finish(durable)
    }

    /// Whether parts are padded to lines.
    fn packs(&self) -> bool {
        self.write_path == WritePath::Cached && !self.segment.is_direct()
    }

    /// Before a sync: what that makes durable ends with a block, as an empty group does. One that has no room in its segment is the
    /// last thing that could have had.
    pub(super) fn end_block(&mut self) -> Result<(), Fault> {
        let empty = self.segment.padded(self.segment.head_bytes(), false) as u64;
        let is_within = self.durable != self.group_end && self.segment.ends_in_block() && empty <= self.segment.room();
        if step!(EndBlock, is_within, else false) {
            self.begin_group(self.epoch).finish(false)?;
        }
        Ok(())
    }

    /// Appends an empty group, which says that the one before it is durable.
    ///
    /// # Errors
    /// As of [`Self::append`].
    pub fn seal(&mut self, durable: bool) -> Result<(), Fault> {
        self.follow_keys()?;
        self.settle()?;
        self.begin_group(self.epoch).finish(durable).map(|_| ())
    }

    fn begin_group(&mut self, epoch: u64) -> GroupWriter<'_> {
        let sum = chained(self.end.sum, &[]);
        let (head_bytes, done) = (self.segment.head_bytes(), Appended::default());
        GroupWriter { appender: self, epoch, parts: 0, head_bytes, filled: head_bytes, sum, units: 0, done, failure: None }
    }
}

impl Appender {
    /// Encrypts the part that was filled, where its segment is.
    fn encrypt(&mut self, head: &mut PartHead, filled: usize) -> Result<(), Fault> {
        let Some(cipher) = &mut self.segment.cipher else { return Ok(()) };
        let (mark, salt) = (cipher.mark(), cipher.salt());
        // The format is authenticated.
        head.encryption = Some(PartEncryption { mark, salt, ..PartEncryption::default() });
        let body = &mut self.part[head.head_bytes()..filled];
        let encrypted = cipher.encrypt(&head.authenticated(), body);
        let (count, tag) = encrypted.map_err(|error| Fault::io("encrypt a part for", self.directory.path(), error))?;
        let encryption = PartEncryption { mark, salt, count, tag };
        self.part[HEAD_BYTES..head.head_bytes()].copy_from_slice(&encryption.encode());
        head.encryption = Some(encryption);
        head.sum = chained(head.before, &self.part[HEAD_BYTES..filled]);
        Ok(())
    }
}

impl UnitSink for GroupWriter<'_> {
    fn push(&mut self, ring: RingId, units: &[u8]) {
        Self::push(self, ring, units);
    }

    fn room(&mut self) -> &mut [u8] {
        let begin = self.filled + SLICE_HEAD_BYTES;
        let end = self.appender.part.len().min(begin + SLICE_BYTES);
        // What cannot be written is not taken either.
        if self.failure.is_some() { &mut [] } else { self.appender.part.get_mut(begin..end).unwrap_or_default() }
    }

    fn fill(&mut self, ring: RingId, bytes: usize, count: u32) {
        let begin = self.filled + SLICE_HEAD_BYTES;
        let units = &self.appender.part[begin..begin + bytes];
        let head = LogSlice { run: self.appender.manifest.run, ring, units }.head();
        self.units += count;
        self.done.units += u64::from(count);
        self.done.payload_bytes += (SLICE_HEAD_BYTES + bytes) as u64;
        self.appender.part[self.filled..begin].copy_from_slice(&head);
        self.add(self.filled..begin + bytes);
        self.filled = begin + bytes;
    }
}

impl GroupWriter<'_> {
    /// Takes the next units of a ring of this run.
    pub fn push(&mut self, ring: RingId, units: &[u8]) {
        self.push_of(self.appender.manifest.run, ring, units);
    }

    /// Takes what a ring of another run has left.
    pub(super) fn push_of(&mut self, run: u64, ring: RingId, units: &[u8]) {
        let slice = LogSlice { run, ring, units };
        let count = slice.heads().filter(Result::is_ok).count();
        self.units += u32::try_from(count).unwrap_or(u32::MAX);
        self.done.units += count as u64;
        self.copy(&slice.head());
        self.copy(units);
    }

    fn copy(&mut self, mut bytes: &[u8]) {
        self.done.payload_bytes += bytes.len() as u64;
        while !bytes.is_empty() && self.failure.is_none() {
            let room = &mut self.appender.part[self.filled..];
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.add(self.filled..self.filled + count);
            self.filled += count;
            bytes = &bytes[count..];
            if self.filled == self.appender.part.len() && !bytes.is_empty() {
                self.failure = self.write(false, false).err();
            }
        }
    }

    /// Sums what was filled, while it is at hand. What will be encrypted is summed then.
    fn add(&mut self, filled: Range<usize>) {
        if self.appender.segment.cipher.is_none() {
            self.sum = added(self.sum, &self.appender.part[filled]);
        }
    }

    fn finish(mut self, durable: bool) -> Result<Appended, Fault> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.write(true, durable)?;
        let appender = self.appender;
        appender.group_end = appender.end;
        appender.epoch = appender.epoch.max(self.epoch);
        if durable {
            appender.sync()?;
        }
        Ok(self.done)
    }

    /// Writes the part that was filled.
    fn write(&mut self, ends_group: bool, durable: bool) -> Result<(), Fault> {
        let is_packed = self.filled > self.head_bytes && self.appender.packs();
        if self.appender.segment.padded(self.filled, is_packed) as u64 > self.appender.segment.room() {
            // Parts of this group may be in the segment that is full.
            self.appender.settle()?;
            self.appender.segment.sync()?;
            self.appender.durable = self.appender.group_end;
            self.appender.next_segment(self.appender.end)?;
        }
        let appender = &mut *self.appender;
        let bytes = appender.segment.padded(self.filled, is_packed);
        appender.part[self.filled..bytes].fill(0);
        debug_assert!(
            self.filled == self.head_bytes || appender.segment.entry.key == appender.keys.current(),
            "INV-ENCRYPTION-2: a segment with units is of the key that is set"
        );
        debug_assert_eq!(self.head_bytes, appender.segment.head_bytes(), "keys change between groups");
        let mut head = appender.head();
        head.part = self.parts;
        head.end = PartEnd { of_group: ends_group, in_line: is_packed };
        head.body_bytes = u32::try_from(self.filled - self.head_bytes).unwrap_or(u32::MAX);
        head.units = self.units;
        head.epoch = self.epoch;
        head.sum = self.sum;
        appender.encrypt(&mut head, self.filled)?;
        debug_assert_eq!(
            head.sum,
            chained(head.before, &appender.part[HEAD_BYTES..self.filled]),
            "INV-OPLOG-3: the sum is the body's"
        );
        appender.part[..HEAD_BYTES].copy_from_slice(&head.encode());
        // A write that is durable says nothing of those before it, nor that it ends with a block.
        let at_once = durable && !is_packed && self.parts == 0 && appender.durable == appender.group_end;
        appender.segment.write(&appender.part[..bytes], at_once)?;
        debug_assert_eq!(
            appender.end.lsn + bytes as u64,
            appender.segment.end_lsn(),
            "INV-OPLOG-3: a part lies behind the last one"
        );
        appender.end = Place { lsn: appender.segment.end_lsn(), sum: head.sum };
        if at_once {
            appender.durable = appender.end;
        }
        appender.prepare();
        self.parts += 1;
        self.done.bytes += bytes as u64;
        (self.filled, self.units, self.sum) = (self.head_bytes, 0, chained(appender.end.sum, &[]));
        Ok(())
    }
}
