//! Extents: values and keys too large for a page, on a device of their own.
//!
//! A record's handle becomes a reference of one word when its page is flushed: `first block 40 | blocks 24`. An extent begins with
//! its length and a checksum. It lives as long as the page that refers to it.

use almandine_io::storage::BLOCK_BYTES;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

pub(super) const COUNT_BITS: u32 = 24;
/// Bytes before the contents: length and checksum.
pub(super) const HEAD_BYTES: usize = 16;

/// Blocks for contents of this length.
pub(crate) fn blocks_for(len: usize) -> usize {
    let blocks = (HEAD_BYTES + len).div_ceil(BLOCK_BYTES);
    debug_assert_ne!(blocks, 0, "INV-TIER-3: even nothing has a checksum");
    blocks
}

/// A place on the value device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent(pub(super) u64);

impl Extent {
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
}

fn sum(bytes: &[u8]) -> u64 {
    const SECRETS: RapidSecrets = RapidSecrets::seed(0xA1A4_D14E);
    rapidhash_v3_inline::<true, false, false>(bytes, &SECRETS)
}

/// The contents of an extent as it was read; none if they are not what was written.
pub(crate) fn contents(buffer: &[u8]) -> Option<&[u8]> {
    debug_assert!(buffer.len().is_multiple_of(BLOCK_BYTES), "INV-TIER-3: an extent is read whole, as it was written");
    let word = |at: usize| buffer.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let (len, expected) = (usize::try_from(word(0)?).ok()?, word(8)?);
    let bytes = buffer.get(HEAD_BYTES..HEAD_BYTES.checked_add(len)?)?;
    (sum(bytes) == expected).then_some(bytes)
}

/// Makes an extent of its contents.
pub(super) fn fill(extent: &mut [u8], bytes: &[u8]) {
    debug_assert_eq!(extent.len(), blocks_for(bytes.len()) * BLOCK_BYTES, "INV-TIER-3: an extent is as long as its word says");
    let end = HEAD_BYTES + bytes.len();
    extent[..8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    extent[8..HEAD_BYTES].copy_from_slice(&sum(bytes).to_le_bytes());
    extent[HEAD_BYTES..end].copy_from_slice(bytes);
    extent[end..].fill(0);
}
