//! Writing what a base names to another device, without a store: a page and the large values that its records refer to, in the
//! order in which [`super::page_copy::PageReader`] gives them, each part once it has its checksum.

use super::Storage;
use super::extent::{Extent, PIECE_BYTES};
use super::page_copy::{PageFault, extents};
use super::pages::{PageRow, checksum};
use crate::log::PAGE_BYTES;
use almandine_io::storage::{BLOCK_BYTES, Buffer};

/// See the module.
pub struct PageWriter {
    image: Buffer,
    piece: Buffer,
    /// The page that is being written.
    page: Option<u64>,
    /// Bytes of its image that are here.
    of_image: usize,
    /// Pieces of large values that are still to come, the last one first: which of an extent, and its bytes that are here.
    pieces: Vec<(Extent, usize)>,
    of_piece: usize,
}

impl Default for PageWriter {
    fn default() -> Self {
        let (image, piece) = (Buffer::new(PAGE_BYTES), Buffer::new(PIECE_BYTES));
        Self { image, piece, page: None, of_image: 0, pieces: Vec::new(), of_piece: 0 }
    }
}

impl PageWriter {
    /// Takes the next bytes of a page that has this row.
    ///
    /// # Errors
    /// When they are not those that were written, the page before is not whole, or the device does not take it.
    pub fn put(&mut self, storage: &Storage, row: &PageRow, bytes: &[u8]) -> Result<(), PageFault> {
        if self.page != Some(row.page) {
            self.end()?;
            (self.page, self.of_image, self.of_piece) = (Some(row.page), 0, 0);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = if self.of_image < PAGE_BYTES { self.image(storage, row, rest)? } else { self.value(storage, row, rest)? };
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// The last page is whole.
    ///
    /// # Errors
    /// When it is not.
    pub fn end(&mut self) -> Result<(), PageFault> {
        let Some(page) = self.page.take() else { return Ok(()) };
        match self.pieces.last() {
            _ if self.of_image < PAGE_BYTES => Err(PageFault::Damaged { page, block: self.of_image / BLOCK_BYTES }),
            Some((extent, number)) => Err(PageFault::DamagedValue { page, offset: extent.piece(*number).0 }),
            None => Ok(()),
        }
    }

    fn image(&mut self, storage: &Storage, row: &PageRow, bytes: &[u8]) -> Result<usize, PageFault> {
        let page = row.page;
        debug_assert_eq!(row.sums.len(), PageRow::SUMS, "INV-TIER-3: each block has a checksum");
        let taken = bytes.len().min(PAGE_BYTES - self.of_image);
        self.image[self.of_image..][..taken].copy_from_slice(&bytes[..taken]);
        self.of_image += taken;
        if self.of_image == PAGE_BYTES {
            let damaged = self.image.chunks_exact(BLOCK_BYTES).zip(&row.sums).position(|(block, sum)| checksum(block) != *sum);
            if let Some(block) = damaged {
                return Err(PageFault::Damaged { page, block });
            }
            storage.pages.write(page * PAGE_BYTES as u64, &self.image)?;
            let extents = extents(storage, row, &mut self.image)?;
            let pieces = extents.iter().rev().flat_map(|extent| (0..extent.pieces()).rev().map(|number| (*extent, number)));
            self.pieces = pieces.collect();
        }
        Ok(taken)
    }

    fn value(&mut self, storage: &Storage, row: &PageRow, bytes: &[u8]) -> Result<usize, PageFault> {
        let page = row.page;
        let Some((extent, number)) = self.pieces.last().copied() else {
            return Err(PageFault::Damaged { page, block: PageRow::SUMS });
        };
        let (offset, len) = extent.piece(number);
        debug_assert!((1..=PIECE_BYTES).contains(&len), "INV-TIER-3: a piece is of bounded size");
        let taken = bytes.len().min(len - self.of_piece);
        self.piece[self.of_piece..][..taken].copy_from_slice(&bytes[..taken]);
        self.of_piece += taken;
        if self.of_piece == len {
            let piece = &self.piece[..len];
            if extent.contents(number, piece).is_none() {
                return Err(PageFault::DamagedValue { page, offset });
            }
            storage.values.write(offset, piece)?;
            self.pieces.pop();
            self.of_piece = 0;
        }
        Ok(taken)
    }
}
