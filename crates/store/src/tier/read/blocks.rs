//! Blocks of a page that have come. Records are decrypted in their places, each when its blocks were found to be what was written:
//! that is looked at once, before anything in them changes.

use crate::record::{Header, WORD};
use crate::tier::ciphers::{PageNonce, StorageCiphers};
use crate::tier::pages::PageInfo;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use almandine_oplog::encryption::StoragePart;

/// See the module.
pub(super) struct Blocks {
    pub(super) page: u64,
    /// Where they begin in the page.
    pub(super) start: usize,
    pub(super) nonce: PageNonce,
    pub(super) buffer: Buffer,
    /// Bits for blocks of the buffer that are what was written.
    checked: u64,
}

impl Blocks {
    pub(super) fn new(page: u64, start: usize, nonce: PageNonce, buffer: Buffer) -> Self {
        debug_assert!(start.is_multiple_of(BLOCK_BYTES), "INV-TIER-3: whole blocks are read");
        Self { page, start, nonce, buffer, checked: 0 }
    }

    /// Whether all blocks between these places of the buffer are what was written.
    pub(super) fn is_intact(&mut self, info: PageInfo<'_>, from: usize, to: usize) -> bool {
        debug_assert!(to <= self.buffer.len(), "INV-TIER-3: only what was read is looked at");
        (from / BLOCK_BYTES..to.div_ceil(BLOCK_BYTES)).all(|block| {
            let bit = u32::try_from(block).ok().and_then(|block| 1_u64.checked_shl(block)).unwrap_or(0);
            debug_assert_ne!(bit, 0, "INV-TIER-3: a read of records has few blocks");
            if self.checked & bit != 0 {
                return true;
            }
            let bytes = &self.buffer[block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES];
            let is_intact = info.is_intact(self.start / BLOCK_BYTES + block, bytes);
            self.checked |= if is_intact { bit } else { 0 };
            is_intact
        })
    }

    /// The header of the record at a place of the buffer, which is not decrypted there.
    pub(super) fn header(&self, ciphers: &StorageCiphers, offset: usize) -> Option<Header> {
        debug_assert!(offset.is_multiple_of(WORD), "INV-LOG-2: a record begins with a word");
        let mut word = *self.buffer.get(offset..)?.first_chunk::<WORD>()?;
        ciphers.apply(self.nonce, StoragePart::Page, (self.start + offset) as u64, &mut word).ok()?;
        Some(Header(u64::from_ne_bytes(word)))
    }

    /// Decrypts the record between these places of the buffer, once; false: it cannot be.
    pub(super) fn decrypt(&mut self, ciphers: &StorageCiphers, offset: usize, end: usize) -> bool {
        debug_assert!(offset < end && end <= self.buffer.len(), "INV-TIER-3: a record lies in what was read");
        let record = &mut self.buffer[offset..end];
        ciphers.apply(self.nonce, StoragePart::Page, (self.start + offset) as u64, record).is_ok()
    }
}
