//! Extents: values and keys too large for a page, on a device of their own.
//!
//! A record's handle becomes a reference of one word when its page is flushed: `first block 40 | blocks 24`. An extent lives as
//! long as the page that refers to it.
//!
//! It is a run of *pieces* of 256 KiB, the last of which may be shorter. Each begins with its length, its number and a
//! checksum, so that neither writer nor reader has to have all of it in memory. The checksum covers the place, too: a device that
//! writes a piece in place of another one gives no other value.

use almandine_io::storage::BLOCK_BYTES;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

pub(super) const COUNT_BITS: u32 = 24;
/// Bytes of a piece before its contents: length, number and checksum.
pub(in crate::tier) const HEAD_BYTES: usize = 16;
/// Bytes of a piece, unless it is the last one.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
/// Contents of a piece, unless it is the last one.
pub(super) const PIECE_CONTENTS: usize = PIECE_BYTES - HEAD_BYTES;

/// Blocks for contents of this length.
pub(crate) fn blocks_for(len: usize) -> usize {
    debug_assert!(PIECE_BYTES.is_multiple_of(BLOCK_BYTES), "INV-TIER-3: whole blocks are written");
    let (full, rest) = (len / PIECE_CONTENTS, len % PIECE_CONTENTS);
    // Even nothing has a piece.
    let last = if rest == 0 && full != 0 { 0 } else { (HEAD_BYTES + rest).div_ceil(BLOCK_BYTES) };
    let blocks = full * (PIECE_BYTES / BLOCK_BYTES) + last;
    debug_assert_ne!(blocks, 0, "INV-TIER-3: even nothing has a checksum");
    blocks
}

/// A place on the value device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent(u64);

impl Extent {
    /// A run of blocks.
    pub(super) fn new(first: u64, blocks: u64) -> Self {
        debug_assert!(blocks != 0 && blocks < 1 << COUNT_BITS, "INV-TIER-3: the number of blocks fits the word");
        Self(first << COUNT_BITS | blocks)
    }

    pub(crate) fn from_word(word: u64) -> Self {
        debug_assert_ne!(word & ((1 << COUNT_BITS) - 1), 0, "INV-TIER-3: an extent has blocks, so a word without is none");
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

    /// How many pieces it has.
    pub(crate) fn pieces(self) -> usize {
        self.bytes().div_ceil(PIECE_BYTES)
    }

    /// Where on the device a piece begins, and how many bytes it takes.
    pub(crate) fn piece(self, number: usize) -> (u64, usize) {
        debug_assert!(number < self.pieces(), "INV-TIER-3: an extent is as long as its word says");
        let from = number * PIECE_BYTES;
        (self.offset() + from as u64, (self.bytes() - from).min(PIECE_BYTES))
    }

    /// Bytes that its contents take at most.
    pub(super) fn contents_max(self) -> usize {
        debug_assert!(self.bytes() > self.pieces() * HEAD_BYTES, "INV-TIER-3: a piece has room for contents");
        self.bytes() - self.pieces() * HEAD_BYTES
    }

    /// What a piece contains, as it was read; none if that is not what was written.
    pub(crate) fn contents(self, number: usize, piece: &[u8]) -> Option<&[u8]> {
        debug_assert!(piece.len().is_multiple_of(BLOCK_BYTES), "INV-TIER-3: a piece is read whole, as it was written");
        let (&[a, b, c, d, ref tag @ ..], rest) = piece.split_first_chunk::<8>()?;
        let (expected, rest) = rest.split_first_chunk::<8>()?;
        let bytes = rest.get(..u32::from_le_bytes([a, b, c, d]) as usize)?;
        // All but the last piece are full.
        let is_whole = number + 1 == self.pieces() || bytes.len() == PIECE_CONTENTS;
        let sum = sum(bytes, self.piece(number).0 / BLOCK_BYTES as u64);
        let is_right = is_whole && u32::from_le_bytes(*tag) == number as u32 && u64::from_le_bytes(*expected) == sum;
        is_right.then_some(bytes)
    }
}

/// A checksum of the contents of a piece that begins with this block.
fn sum(bytes: &[u8], block: u64) -> u64 {
    const SECRETS: RapidSecrets = RapidSecrets::seed(0xA1A4_D14E);
    rapidhash_v3_inline::<true, false, false>(bytes, &SECRETS) ^ block.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Makes a piece of `len` bytes of contents, which are in their place already; it will begin with this block of the device. Returns
/// how many bytes it takes.
pub(super) fn seal(piece: &mut [u8], number: u32, len: usize, block: u64) -> usize {
    debug_assert!(len <= PIECE_CONTENTS, "INV-TIER-3: a piece is of bounded size");
    let end = HEAD_BYTES + len;
    let bytes = end.next_multiple_of(BLOCK_BYTES);
    piece[..4].copy_from_slice(&(len as u32).to_le_bytes());
    piece[4..8].copy_from_slice(&number.to_le_bytes());
    let sum = sum(&piece[HEAD_BYTES..end], block);
    piece[8..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    piece[end..bytes].fill(0);
    bytes
}
