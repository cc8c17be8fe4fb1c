//! Extents: values and keys too large for a page, on a device of their own.
//!
//! A record's handle becomes a reference of one word when its page is flushed: `first block 40 | blocks 24`. An extent begins with
//! its length and a checksum. It lives as long as the page that refers to it.

use super::{Tier, bump};
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};
use std::io;
use std::sync::atomic::Ordering;

const COUNT_BITS: u32 = 24;
/// Bytes before the contents: length and checksum.
const HEAD_BYTES: usize = 16;

/// Bytes that are written together.
const GATHERED_BYTES: usize = 2 << 20;

/// Blocks for contents of this length.
pub(crate) fn blocks_for(len: usize) -> usize {
    (HEAD_BYTES + len).div_ceil(BLOCK_BYTES)
}

/// A place on the value device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent(u64);

impl Extent {
    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(crate) fn to_word(self) -> u64 {
        self.0
    }

    pub(crate) fn blocks(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }

    pub(crate) fn bytes(self) -> usize {
        self.blocks() as usize * BLOCK_BYTES
    }

    pub(crate) fn offset(self) -> u64 {
        (self.0 >> COUNT_BITS) * BLOCK_BYTES as u64
    }
}

fn sum(bytes: &[u8]) -> u64 {
    const SECRETS: RapidSecrets = RapidSecrets::seed(0xA1A4_D14E);
    rapidhash_v3_inline::<true, false, false>(bytes, &SECRETS)
}

/// The contents of an extent as it was read; none if they are not what was written.
pub(crate) fn contents(buffer: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| buffer.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let (len, expected) = (usize::try_from(word(0)?).ok()?, word(8)?);
    let bytes = buffer.get(HEAD_BYTES..HEAD_BYTES.checked_add(len)?)?;
    (sum(bytes) == expected).then_some(bytes)
}

/// Writes extents one behind the other, as many with one write as fit its buffer. One thread writes.
pub(crate) struct ExtentWriter {
    buffer: Buffer,
    filled: usize,
    /// Where the buffer's contents go.
    offset: u64,
}

impl ExtentWriter {
    pub(crate) fn new() -> Self {
        Self { buffer: Buffer::new(GATHERED_BYTES), filled: 0, offset: 0 }
    }

    /// Takes bytes for an extent of their own. They are on the device after [`ExtentWriter::finish`], if that succeeds.
    pub(crate) fn put(&mut self, tier: &Tier, bytes: &[u8]) -> io::Result<Extent> {
        let blocks = blocks_for(bytes.len());
        if blocks >= 1 << COUNT_BITS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a value is too large for the storage device"));
        }
        let extent = Extent(tier.values_tail.fetch_add(blocks as u64, Ordering::Relaxed) << COUNT_BITS | blocks as u64);
        if self.filled + extent.bytes() > self.buffer.len() || self.offset + self.filled as u64 != extent.offset() {
            self.finish(tier)?;
            self.offset = extent.offset();
        }
        if extent.bytes() > self.buffer.len() {
            let mut alone = Buffer::new(extent.bytes());
            fill(&mut alone, bytes);
            write(tier, extent.offset(), &alone)?;
            return Ok(extent);
        }
        fill(&mut self.buffer[self.filled..self.filled + extent.bytes()], bytes);
        self.filled += extent.bytes();
        Ok(extent)
    }

    /// Writes what has been gathered. After an error it is forgotten.
    pub(crate) fn finish(&mut self, tier: &Tier) -> io::Result<()> {
        match std::mem::take(&mut self.filled) {
            0 => Ok(()),
            filled => write(tier, self.offset, &self.buffer[..filled]),
        }
    }
}

fn fill(extent: &mut [u8], bytes: &[u8]) {
    let end = HEAD_BYTES + bytes.len();
    extent[..8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    extent[8..HEAD_BYTES].copy_from_slice(&sum(bytes).to_le_bytes());
    extent[HEAD_BYTES..end].copy_from_slice(bytes);
    extent[end..].fill(0);
}

fn write(tier: &Tier, offset: u64, bytes: &[u8]) -> io::Result<()> {
    bump(&tier.counters.writes, 1);
    bump(&tier.counters.written_bytes, bytes.len() as u64);
    tier.storage.values.write(offset, bytes)
}

impl Tier {
    /// Gives the space of extents back; those side by side with one call, since each is a change of the file system's books. A failure
    /// leaves garbage on the device, nothing worse.
    pub(crate) fn free_extents(&self, mut extents: Vec<Extent>) {
        extents.sort_unstable_by_key(|extent| extent.offset());
        for run in extents.chunk_by(|left, right| left.offset() + left.bytes() as u64 == right.offset()) {
            let bytes = run.iter().map(|extent| extent.bytes() as u64).sum();
            let freed = run.first().map(|first| self.storage.values.discard(first.offset(), bytes));
            if freed.is_some_and(|freed| freed.is_err()) {
                bump(&self.counters.write_errors, 1);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::tier::Storage;
    use almandine_device::MemoryDevice;
    use std::sync::Arc;

    #[test]
    fn what_was_written_comes_back_and_damage_is_seen() {
        let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()) };
        let tier = Tier::new(storage).unwrap();
        let mut writer = ExtentWriter::new();
        let lengths = [0usize, 1, 4079, 4080, 4081, 100_000, 1_500_000, 900_000, 3_000_000, 17];
        let bytes_of = |len: usize| (0..len).map(|at| (at + len) as u8).collect::<Vec<u8>>();
        let extents: Vec<Extent> = lengths.iter().map(|&len| writer.put(&tier, &bytes_of(len)).unwrap()).collect();
        writer.finish(&tier).unwrap();
        assert_eq!(tier.counters.writes.load(Ordering::Relaxed), 4, "those that fit together are written together");
        for (&extent, len) in extents.iter().zip(lengths) {
            assert_eq!(Extent::from_word(extent.to_word()), extent);
            let mut buffer = Buffer::new(extent.bytes());
            tier.storage.values.read(extent.offset(), &mut buffer).unwrap();
            assert_eq!(contents(&buffer), Some(&bytes_of(len)[..]), "{len}");
            if len > 0 {
                buffer[HEAD_BYTES + len / 2] ^= 4;
                assert_eq!(contents(&buffer), None, "INV-TIER-3");
            }
            buffer[7] = 0xFF;
            assert_eq!(contents(&buffer), None, "an impossible length");
        }
        // In any order, and with a gap.
        let mut extents = extents;
        let kept = extents.remove(3);
        extents.reverse();
        tier.free_extents(extents);
        assert_eq!(tier.storage.values.used_bytes(), kept.bytes() as u64);
        tier.free_extents(vec![kept]);
        assert_eq!(tier.storage.values.used_bytes(), 0);
    }
}
