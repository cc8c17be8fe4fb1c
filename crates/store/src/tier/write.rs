//! Writing extents, and giving their space back.

use super::Tier;
use super::ciphers::PageNonce;
use super::extent::{COUNT_BITS, Extent, HEAD_BYTES, PIECE_BYTES, PIECE_CONTENTS, seal};
use super::statistics::bump;
use almandine_base::step;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use almandine_oplog::encryption::StoragePart;
use std::io;
use std::sync::atomic::Ordering;

/// Bytes that are written together.
const GATHERED_BYTES: usize = 2 << 20;

/// Writes extents one behind the other, as many pieces with one write as fit its buffer. One thread writes.
///
/// After an error all is forgotten that was gathered since the last [`ExtentWriter::finish`].
pub(crate) struct ExtentWriter {
    buffer: Buffer,
    filled: usize,
    /// Where the buffer's contents go.
    offset: u64,
    run: Run,
    /// That of the page that the extents belong to.
    nonce: PageNonce,
}

/// The extent that is being written.
#[derive(Default)]
struct Run {
    first: u64,
    blocks: u64,
    pieces: u32,
    /// Contents of its last piece, which is the last one in the buffer, too.
    len: usize,
}

impl ExtentWriter {
    pub(crate) fn new() -> Self {
        Self { buffer: Buffer::new(GATHERED_BYTES), filled: 0, offset: 0, run: Run::default(), nonce: PageNonce::PLAIN }
    }

    /// What comes from now on belongs to a page that is encrypted so.
    pub(crate) fn encrypt_with(&mut self, nonce: PageNonce) {
        debug_assert_eq!(self.run.blocks, 0, "INV-ENCRYPTION-3: an extent is encrypted as its page is");
        self.nonce = nonce;
    }

    /// Takes bytes for an extent of their own. They are on the device after [`ExtentWriter::finish`], if that succeeds.
    pub(crate) fn put(&mut self, tier: &Tier, bytes: &[u8]) -> io::Result<Extent> {
        self.begin(tier, bytes.len())?;
        self.append(tier, bytes)?;
        self.end(tier)
    }

    /// Begins an extent of at least `len` bytes.
    pub(crate) fn begin(&mut self, tier: &Tier, len: usize) -> io::Result<()> {
        debug_assert_eq!(self.run.blocks, 0, "one extent is written at a time");
        self.run = Run { first: tier.space.values_tail.load(Ordering::Relaxed), ..Run::default() };
        self.make_room(tier, len.min(PIECE_CONTENTS))
    }

    /// Takes more of an extent's contents.
    pub(crate) fn append(&mut self, tier: &Tier, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            debug_assert!(self.run.len <= PIECE_CONTENTS, "INV-TIER-3: a piece is of bounded size");
            let (now, rest) = bytes.split_at(bytes.len().min(PIECE_CONTENTS - self.run.len));
            // Room was made for what the beginning said, which may have been less.
            self.make_room(tier, self.run.len + now.len())?;
            let at = self.filled + HEAD_BYTES + self.run.len;
            self.buffer[at..at + now.len()].copy_from_slice(now);
            self.run.len += now.len();
            if rest.is_empty() {
                return Ok(());
            }
            self.close_piece(tier)?;
            bytes = rest;
        }
    }

    /// Ends an extent.
    pub(crate) fn end(&mut self, tier: &Tier) -> io::Result<Extent> {
        if self.run.len != 0 || self.run.pieces == 0 {
            self.close_piece(tier)?;
        }
        let run = std::mem::take(&mut self.run);
        debug_assert_eq!(run.len, 0, "INV-TIER-3: what was taken is in a piece");
        Ok(Extent::new(run.first, run.blocks))
    }

    /// Gives up the extent that is being written, and with it all that was gathered.
    pub(crate) fn abandon(&mut self, tier: &Tier) {
        self.filled = 0;
        let run = std::mem::take(&mut self.run);
        if run.blocks != 0 {
            tier.free_extents(vec![Extent::new(run.first, run.blocks)]);
        }
    }

    /// Writes what has been gathered.
    pub(crate) fn finish(&mut self, tier: &Tier) -> io::Result<()> {
        debug_assert_eq!(self.run.blocks, 0, "an extent ends before what was gathered is finished");
        self.write_out(tier)
    }

    /// Makes room for a piece of `len` bytes behind what was gathered, the beginning of the piece included.
    fn make_room(&mut self, tier: &Tier, len: usize) -> io::Result<()> {
        if self.filled + (HEAD_BYTES + len).next_multiple_of(BLOCK_BYTES) <= self.buffer.len() {
            return Ok(());
        }
        debug_assert_ne!(self.filled, 0, "an empty buffer has room for a piece");
        let from = self.filled + HEAD_BYTES;
        self.write_out(tier)?;
        if self.run.len != 0 {
            self.buffer.copy_within(from..from + self.run.len, HEAD_BYTES);
        }
        debug_assert!(HEAD_BYTES + len <= PIECE_BYTES && PIECE_BYTES <= self.buffer.len(), "a piece fits the buffer");
        Ok(())
    }

    fn close_piece(&mut self, tier: &Tier) -> io::Result<()> {
        let (piece, block) = (&mut self.buffer[self.filled..], self.run.first + self.run.blocks);
        let (at, contents) = (block * BLOCK_BYTES as u64 + HEAD_BYTES as u64, &mut piece[HEAD_BYTES..HEAD_BYTES + self.run.len]);
        step!(EncryptPages, tier.storage.ciphers.apply(self.nonce, StoragePart::Values, at, contents)?);
        let bytes = seal(piece, self.run.pieces, self.run.len, block);
        let blocks = (bytes / BLOCK_BYTES) as u64;
        if self.run.blocks + blocks >= 1 << COUNT_BITS {
            self.abandon(tier);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a value is too large for the storage device"));
        }
        let first = tier.space.values_tail.fetch_add(blocks, Ordering::Relaxed);
        debug_assert_eq!(first, self.run.first + self.run.blocks, "INV-TIER-3: the pieces of an extent lie side by side");
        if self.filled == 0 {
            self.offset = first * BLOCK_BYTES as u64;
        }
        debug_assert_eq!(self.offset + self.filled as u64, first * BLOCK_BYTES as u64, "extents are gathered side by side");
        self.filled += bytes;
        self.run = Run { blocks: self.run.blocks + blocks, pieces: self.run.pieces + 1, len: 0, ..self.run };
        Ok(())
    }

    fn write_out(&mut self, tier: &Tier) -> io::Result<()> {
        let filled = std::mem::take(&mut self.filled);
        if filled == 0 {
            return Ok(());
        }
        // Extents written before an error have no owner.
        write(tier, self.offset, &self.buffer[..filled]).inspect_err(|_| self.abandon(tier))
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
    /// Gives the space of extents back; those side by side with one call, since each is a change of the file system's books. A
    /// failure leaves garbage on the device, nothing worse.
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
    use super::super::extent::blocks_for;
    use super::*;
    use crate::shared::garbage::Garbage;
    use crate::tier::Storage;
    use almandine_device::{Device, FaultPlan, FaultyDevice, MemoryDevice};
    use almandine_io::thread::Waker;
    use std::sync::Arc;

    const LENGTHS: [usize; 15] = [
        0,
        1,
        4079,
        4080,
        4081,
        PIECE_CONTENTS - 1,
        PIECE_CONTENTS,
        PIECE_CONTENTS + 1,
        100_000,
        2 * PIECE_CONTENTS - 4096,
        1_500_000,
        9 * PIECE_CONTENTS,
        9 * PIECE_CONTENTS + 5000,
        3_000_000,
        17,
    ];

    fn tier(values: Arc<dyn Device>) -> Tier {
        let storage = Storage { pages: Arc::new(MemoryDevice::new()), values, ciphers: Arc::default() };
        Tier::new(storage, None, Arc::new(Garbage::new(Arc::new(Waker::new()))), 64).expect("a table of pages")
    }

    fn bytes_of(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 7 + len) as u8).collect()
    }

    /// What an extent contains, with one byte of a piece changed.
    fn read(tier: &Tier, extent: Extent, damage: Option<(usize, usize)>) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for number in 0..extent.pieces() {
            let (offset, bytes) = extent.piece(number);
            let mut buffer = Buffer::new(bytes);
            tier.storage.values.read(offset, &mut buffer).expect("a device that reads");
            if let Some((_, at)) = damage.filter(|(piece, _)| *piece == number) {
                buffer[at] ^= 4;
            }
            all.extend_from_slice(extent.contents(number, &buffer)?);
        }
        assert!(all.len() <= extent.contents_max());
        Some(all)
    }

    #[test]
    fn what_was_written_comes_back_and_damage_of_any_piece_is_seen() {
        let tier = tier(Arc::new(MemoryDevice::new()));
        let mut writer = ExtentWriter::new();
        let mut extents: Vec<Extent> = LENGTHS.iter().map(|&len| writer.put(&tier, &bytes_of(len)).unwrap()).collect();
        writer.finish(&tier).unwrap();
        let all: u64 = extents.iter().map(|extent| extent.bytes() as u64).sum();
        let writes = tier.counters.writes.load(Ordering::Relaxed);
        assert!(writes <= all / (GATHERED_BYTES - PIECE_BYTES) as u64 + 1, "pieces are written together: {writes}");
        for (&extent, len) in extents.iter().zip(LENGTHS) {
            assert_eq!(Extent::from_word(extent.to_word()), extent);
            assert_eq!(extent.blocks(), blocks_for(len) as u64);
            assert_eq!(read(&tier, extent, None), Some(bytes_of(len)), "{len}");
            for piece in 0..extent.pieces() {
                let contents = (len - piece * PIECE_CONTENTS).min(PIECE_CONTENTS);
                let places = [0, 4, 8, HEAD_BYTES, HEAD_BYTES + contents / 2, HEAD_BYTES + contents.max(1) - 1];
                for at in places.into_iter().filter(|at| *at < HEAD_BYTES + contents) {
                    assert_eq!(read(&tier, extent, Some((piece, at))), None, "INV-TIER-3: {len}, piece {piece}, byte {at}");
                }
            }
        }
        let twice = [0, 1].map(|_| writer.put(&tier, b"same").unwrap());
        writer.finish(&tier).unwrap();
        let mut piece = Buffer::new(BLOCK_BYTES);
        tier.storage.values.read(twice[0].offset(), &mut piece).unwrap();
        assert_eq!(twice[0].contents(0, &piece), Some(&b"same"[..]));
        assert_eq!(twice[1].contents(0, &piece), None, "INV-TIER-3: a piece of another extent, with the same contents");
        tier.free_extents(twice.to_vec());
        let three = Extent::new(extents[9].offset() / BLOCK_BYTES as u64 + 64, 64);
        assert_eq!(read(&tier, three, None), None, "a piece belongs into its place");
        // In any order, and with a gap.
        let kept = extents.remove(3);
        extents.reverse();
        tier.free_extents(extents);
        assert_eq!(tier.storage.values.used_bytes(), kept.bytes() as u64);
        tier.free_extents(vec![kept]);
        assert_eq!(tier.storage.values.used_bytes(), 0);
    }

    #[test]
    fn what_is_given_up_or_cannot_be_written_leaves_nothing_behind() {
        let memory = Arc::new(MemoryDevice::new());
        let faulty = Arc::new(FaultyDevice::new(memory.clone(), 7, FaultPlan::default()));
        let tier = tier(faulty.clone());
        let mut writer = ExtentWriter::new();
        for len in LENGTHS {
            let small = writer.put(&tier, &bytes_of(100)).unwrap();
            writer.begin(&tier, 10).unwrap();
            writer.append(&tier, &bytes_of(len)).unwrap();
            writer.abandon(&tier);
            writer.finish(&tier).unwrap();
            tier.free_extents(vec![small]);
            assert_eq!(memory.used_bytes(), 0, "{len}");
        }
        for len in [100, 3_000_000, 9_000_000] {
            writer.finish(&tier).unwrap();
            faulty.set_plan(FaultPlan { torn_writes: 1_000_000, ..FaultPlan::default() });
            let outcome = writer.put(&tier, &bytes_of(len)).and_then(|_| writer.finish(&tier));
            assert!(outcome.is_err());
            faulty.set_plan(FaultPlan::default());
            writer.finish(&tier).unwrap();
            assert_eq!(memory.used_bytes(), 0, "{len}");
            let extent = writer.put(&tier, &bytes_of(len)).unwrap();
            writer.finish(&tier).unwrap();
            assert_eq!(read(&tier, extent, None), Some(bytes_of(len)));
            tier.free_extents(vec![extent]);
        }
        assert_eq!(memory.used_bytes(), 0);
    }
}
