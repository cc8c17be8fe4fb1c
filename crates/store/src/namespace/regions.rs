//! Where the keys of small namespaces are: a bit for each part of the order in which keys are scanned.
//!
//! All namespaces share one index, so the few keys of a small one lie between the many buckets of others. While a namespace has
//! only ever had few keys at a time, each insertion notes its *region*, the keys with the same [`REGION_BITS`] first bits of
//! the reversed hash. Scans leave regions out in which nothing was ever inserted. Removals note nothing: a region that has
//! become empty costs a look.

use crate::namespace::NAMESPACES;
use crate::shared::written::{self, SharedLine};
use almandine_io::memory::Reservation;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bits of a region's number.
const REGION_BITS: u32 = if cfg!(miri) { 12 } else { 16 };
/// Regions of a namespace.
const REGIONS: usize = 1 << REGION_BITS;
/// Words of a namespace's bits, and their bytes.
const WORDS: usize = REGIONS / 64;
const BYTES: usize = WORDS * size_of::<u64>();
/// A thread that has inserted this many keys of a namespace, less those that it has removed, notes no more of them.
const NOTED_MAX: i64 = 1 << 14;

/// The regions of all namespaces.
pub(crate) struct Regions {
    bits: Reservation,
    /// By namespace: insertions were not noted, so that nothing can be said.
    unknown: Box<[AtomicBool]>,
}

impl Regions {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            bits: Reservation::small_pages(NAMESPACES * BYTES)?,
            unknown: (0..NAMESPACES).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    fn words(&self, namespace: u16) -> &[AtomicU64] {
        // SAFETY: the reservation holds `NAMESPACES * WORDS` zeroed words, which are valid as atomics.
        unsafe {
            let first = self.bits.base().as_ptr().cast::<AtomicU64>().add(usize::from(namespace) * WORDS);
            std::slice::from_raw_parts(first, WORDS)
        }
    }

    fn of(position: u64) -> usize {
        let region = (position >> (u64::BITS - REGION_BITS)) as usize;
        debug_assert!(start_of(region) <= position, "INV-SCAN-2: a region holds its positions");
        region
    }

    /// Notes that a key is about to be inserted by a thread that counts `records` of the namespace, and has inserted at most
    /// that many more that it has not counted yet. Before it is in the index, under its latch (INV-SCAN-2).
    #[inline]
    pub(crate) fn note(&self, namespace: u16, hash: u64, records: i64, uncounted: i64) {
        debug_assert!(records <= NOTED_MAX || !self.are_known(namespace), "INV-SCAN-2: who notes nothing has said so");
        if records <= NOTED_MAX {
            self.note_rare(namespace, hash, records + uncounted);
        }
    }

    #[cold]
    fn note_rare(&self, namespace: u16, hash: u64, records: i64) {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        // Above the limit nothing is noted, and no count gets there but past it, or with several at once.
        if records >= NOTED_MAX {
            self.unknown[usize::from(namespace)].store(true, Ordering::Release);
        }
        let region = Self::of(hash.reverse_bits());
        let word = &self.words(namespace)[region / 64];
        let bit = 1 << (region % 64);
        if word.load(Ordering::Relaxed) & bit == 0 {
            written::write(SharedLine::Region);
            word.fetch_or(bit, Ordering::Release);
        }
        debug_assert!(self.may_have(namespace, hash), "INV-SCAN-2: what was noted is known");
    }

    /// As [`Regions::note`], of a key of whose hash only the low bits are known.
    pub(crate) fn note_partial(&self, namespace: u16, hash: u64, known_bits: u32, records: i64) {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        if known_bits < REGION_BITS {
            self.unknown[usize::from(namespace)].store(true, Ordering::Release);
        } else {
            self.note(namespace, hash, records, 0);
        }
    }

    /// Whether all insertions into the namespace were noted.
    pub(crate) fn are_known(&self, namespace: u16) -> bool {
        !self.unknown[usize::from(namespace)].load(Ordering::Acquire)
    }

    /// Whether a key with this hash may be there.
    pub(crate) fn may_have(&self, namespace: u16, hash: u64) -> bool {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        let region = Self::of(hash.reverse_bits());
        !self.are_known(namespace) || self.words(namespace)[region / 64].load(Ordering::Acquire) & 1 << (region % 64) != 0
    }

    /// The first position from `position` on, in the order of scans, at which a key may be. Of a namespace whose regions are known.
    pub(crate) fn next(&self, namespace: u16, position: u64) -> Option<u64> {
        let from = Self::of(position);
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        let words = self.words(namespace);
        let first = words[from / 64].load(Ordering::Acquire) & (u64::MAX << (from % 64));
        let rest = words[from / 64 + 1..].iter().map(|word| word.load(Ordering::Acquire));
        let (word, bits) = (from / 64..).zip(std::iter::once(first).chain(rest)).find(|(_, bits)| *bits != 0)?;
        let region = word * 64 + bits.trailing_zeros() as usize;
        debug_assert!(region >= from, "INV-SCAN-1: a scan goes forward");
        Some(if region == from { position } else { start_of(region) })
    }

    /// The beginning of one of the regions in which keys may be, each as likely. Of a namespace whose regions are known.
    pub(crate) fn any(&self, namespace: u16, random: u64) -> Option<u64> {
        let words = self.words(namespace);
        let count: u64 = words.iter().map(|word| u64::from(word.load(Ordering::Acquire).count_ones())).sum();
        let mut left = random.checked_rem(count)?;
        for (number, word) in words.iter().enumerate() {
            let mut bits = word.load(Ordering::Acquire);
            let here = u64::from(bits.count_ones());
            if left >= here {
                left -= here;
                continue;
            }
            (0..left).for_each(|_| bits &= bits - 1);
            debug_assert_ne!(bits, 0, "the word has more bits than were left out");
            return Some(start_of(number * 64 + bits.trailing_zeros() as usize));
        }
        None
    }

    /// Forgets the notes of a namespace that is not used any more.
    pub(crate) fn clear(&self, namespace: u16) {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        self.bits.release(usize::from(namespace) * BYTES, BYTES);
        self.unknown[usize::from(namespace)].store(false, Ordering::Release);
    }
}

fn start_of(region: usize) -> u64 {
    debug_assert!(region < REGIONS, "a region's number has {REGION_BITS} bits");
    (region as u64) << (u64::BITS - REGION_BITS)
}

/// Whether two positions of scans are in the same region.
pub(crate) fn is_same(left: u64, right: u64) -> bool {
    Regions::of(left) == Regions::of(right)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// INV-SCAN-2.
    #[test]
    fn what_was_noted_is_found_in_order_until_too_much_was() {
        let regions = Regions::new().expect("address space");
        assert_eq!((regions.next(7, 0), regions.any(7, 5)), (None, None));
        let positions = [start_of(0) + 9, start_of(63), start_of(64) + 1, start_of(REGIONS - 1)];
        positions.iter().for_each(|position| regions.note(7, position.reverse_bits(), 0, 0));
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(position) = regions.next(7, from) {
            found.push(position);
            let Some(next) = (position | (start_of(1) - 1)).checked_add(1) else { break };
            from = next;
        }
        assert_eq!(found, positions.map(|position| position & !(start_of(1) - 1)));
        assert_eq!(regions.next(7, positions[2]), Some(positions[2]));
        assert_eq!([0, 1, 2, 3, 4].map(|random| regions.any(7, random).expect("some")), [0, 1, 2, 3, 0].map(|n| found[n]));
        assert!(regions.may_have(7, positions[1].reverse_bits()) && !regions.may_have(7, start_of(1).reverse_bits()));
        assert_eq!(regions.next(8, 0), None);

        regions.note(7, 1, NOTED_MAX, 0);
        regions.note(7, 2, NOTED_MAX + 1, 0);
        assert!(!regions.are_known(7) && regions.are_known(8) && regions.may_have(7, start_of(1).reverse_bits()));
        regions.clear(7);
        assert!(regions.are_known(7) && regions.next(7, 0).is_none());
        // Several at once, which are counted when all are there.
        (0..5).for_each(|uncounted| regions.note(7, 1, NOTED_MAX - 2, uncounted));
        assert!(!regions.are_known(7));
        regions.note(7, 1, NOTED_MAX + 3, 0);
    }
}
