//! Writing extents, and giving their space back.

use super::Tier;
use super::extent::{COUNT_BITS, Extent, blocks_for, fill};
use super::statistics::bump;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use std::io;
use std::sync::atomic::Ordering;

/// Bytes that are written together.
const GATHERED_BYTES: usize = 2 << 20;

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
            // What of it was written before an error is nobody's.
            write(tier, extent.offset(), &alone).inspect_err(|_| tier.free_extents(vec![extent]))?;
            return Ok(extent);
        }
        fill(&mut self.buffer[self.filled..self.filled + extent.bytes()], bytes);
        self.filled += extent.bytes();
        debug_assert!(self.filled <= self.buffer.len(), "what is gathered fits the buffer");
        debug_assert_eq!(
            self.offset + self.filled as u64,
            extent.offset() + extent.bytes() as u64,
            "extents are gathered side by side"
        );
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

fn write(tier: &Tier, offset: u64, bytes: &[u8]) -> io::Result<()> {
    debug_assert!(
        (offset as usize).is_multiple_of(BLOCK_BYTES) && bytes.len().is_multiple_of(BLOCK_BYTES),
        "INV-TIER-3: whole blocks are written"
    );
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
    use super::super::extent::{HEAD_BYTES, contents};
    use super::*;
    use crate::tier::Storage;
    use almandine_device::MemoryDevice;
    use std::sync::Arc;

    #[test]
    fn what_was_written_comes_back_and_damage_is_seen() {
        let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()) };
        let tier = Tier::new(storage, None, 64).unwrap();
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
