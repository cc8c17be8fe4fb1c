//! Reading what a base names on a device, without a store: a page, and the large values that its records refer to, each with its
//! checksum.

use super::Storage;
use super::extent::{Extent, PIECE_BYTES};
use super::page_image;
use super::pages::{PageRow, checksum};
use crate::log::PAGE_BYTES;
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use almandine_oplog::encryption::StoragePart;
use std::{fmt, io};

/// Why a page cannot be had.
#[derive(Debug)]
pub enum PageFault {
    /// The device did not give it, or what took it has failed.
    Io(io::Error),
    /// Its cipher is not there, so that it is not known which large values it has.
    Encrypted {
        /// The page's number.
        page: u64,
    },
    /// A block of it does not have its checksum.
    Damaged {
        /// The page's number.
        page: u64,
        /// The block's, within the page.
        block: usize,
    },
    /// A large value of it does not have its checksum.
    DamagedValue {
        /// The page's number.
        page: u64,
        /// Where the piece that is damaged begins among the large values, in bytes.
        offset: u64,
    },
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Encrypted { page } => {
                write!(f, "page {page} of the storage is encrypted, and its large values are not found without its key")
            }
            Self::Damaged { page, block } => write!(f, "page {page} of the storage is damaged in block {block}"),
            Self::DamagedValue { page, offset } => {
                write!(f, "a large value of page {page} of the storage is damaged at byte {offset} of the values")
            }
        }
    }
}

impl From<io::Error> for PageFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What was read.
#[derive(Clone, Copy)]
pub struct Stored<'b> {
    /// Whether it lies among the large values, else among the pages.
    pub is_value: bool,
    /// Where it begins there.
    pub offset: u64,
    /// Whole blocks.
    pub bytes: &'b [u8],
}

/// Reads pages.
pub struct PageReader {
    image: Buffer,
    piece: Buffer,
}

impl Default for PageReader {
    fn default() -> Self {
        Self { image: Buffer::new(PAGE_BYTES), piece: Buffer::new(PIECE_BYTES) }
    }
}

impl PageReader {
    /// Reads a page and what it refers to, and gives each part away once its checksum holds: at most 2 MiB together.
    ///
    /// # Errors
    /// When something cannot be read or is damaged, or `take` fails.
    pub fn read(
        &mut self,
        storage: &Storage,
        row: &PageRow,
        take: &mut dyn FnMut(Stored<'_>) -> io::Result<()>,
    ) -> Result<(), PageFault> {
        let page = row.page;
        debug_assert_eq!(row.sums.len(), PageRow::SUMS, "INV-TIER-3: each block has a checksum");
        let offset = page * PAGE_BYTES as u64;
        storage.pages.read(offset, &mut self.image)?;
        let damaged = self.image.chunks_exact(BLOCK_BYTES).zip(&row.sums).position(|(block, sum)| checksum(block) != *sum);
        if let Some(block) = damaged {
            return Err(PageFault::Damaged { page, block });
        }
        take(Stored { is_value: false, offset, bytes: &self.image })?;
        let extents = extents(storage, row, &mut self.image)?;
        for extent in extents {
            for number in 0..extent.pieces() {
                let (offset, bytes) = extent.piece(number);
                debug_assert!((1..=PIECE_BYTES).contains(&bytes), "INV-TIER-3: a piece is of bounded size");
                let piece = &mut self.piece[..bytes];
                storage.values.read(offset, piece)?;
                if extent.contents(number, piece).is_none() {
                    return Err(PageFault::DamagedValue { page, offset });
                }
                take(Stored { is_value: true, offset, bytes: piece })?;
            }
        }
        Ok(())
    }
}

/// The extents that a page refers to, whose blocks are what was written; the image is decrypted.
pub(super) fn extents(storage: &Storage, row: &PageRow, image: &mut Buffer) -> Result<Vec<Extent>, PageFault> {
    debug_assert_eq!(image.len(), PAGE_BYTES, "INV-TIER-3: an image is one of a whole page");
    if row.extent_blocks == 0 {
        return Ok(Vec::new());
    }
    let decrypted = storage.ciphers.apply(row.nonce, StoragePart::Page, 0, image);
    decrypted.map_err(|_| PageFault::Encrypted { page: row.page })?;
    Ok(page_image::extents(image, row.page))
}
