//! Images of pages: what a page has as it lies on the device, its records and the extents that they refer to.

use super::extent::Extent;
use crate::log::{CHUNK_WORDS, PAGE_WORDS};
use crate::record::{Header, Record, WORD};
use almandine_io::storage::Buffer;
use std::sync::atomic::AtomicU64;

/// Calls `visit` for each record of an image that was live when it was made.
pub(crate) fn walk(image: &mut Buffer, page: u64, mut visit: impl FnMut(u64, Record, Header)) {
    debug_assert_eq!(image.len(), PAGE_WORDS as usize * WORD, "INV-TIER-3: an image is one of a whole page");
    let base = image.as_mut_ptr().cast::<AtomicU64>();
    let words = image.len() / WORD;
    let mut at = 0usize;
    while at < words {
        // SAFETY: inside the buffer, which is aligned to more than a word.
        let record = unsafe { Record::new(base.add(at)) };
        let header = record.header();
        let units = header.units();
        if units == 0 || at + units > words {
            at = (at / CHUNK_WORDS as usize + 1) * CHUNK_WORDS as usize;
            continue;
        }
        if !header.has(Header::DEAD) {
            visit(page * PAGE_WORDS + at as u64, record, header);
        }
        at += units;
    }
}

/// The record of an image at a word where [`walk`] has found one: its address, and what it is.
pub(crate) fn at(image: &mut Buffer, page: u64, word: usize) -> (u64, Record, Header) {
    debug_assert!(word < image.len() / WORD, "INV-TIER-3: a record lies within its page");
    // SAFETY: inside the buffer, which is aligned to more than a word.
    let record = unsafe { Record::new(image.as_mut_ptr().cast::<AtomicU64>().add(word)) };
    (page * PAGE_WORDS + word as u64, record, record.header())
}

/// The extents that an image's records refer to.
pub(crate) fn extents(image: &mut Buffer, page: u64) -> Vec<Extent> {
    let mut extents = Vec::new();
    walk(image, page, |_, record, header| {
        if header.has(Header::HEAP_KEY) {
            extents.push(Extent::from_word(record.key_handle()));
        }
        if header.has(Header::HEAP_VALUE) {
            extents.push(Extent::from_word(record.value_handle(header)));
        }
    });
    extents
}
