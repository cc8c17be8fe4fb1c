//! Ghosts: a byte for each of the records that were evicted last, so that what comes back soon is known.
//!
//! ```text
//! set: 8 x | proven 1 | fingerprint 7 |    newest in the lowest byte; 0 = none
//! ```
//!
//! A set of eight is one word, so adding one is a shift and a look is a few instructions on one cache line. There are as many
//! as there are keys: one byte per key. Three per cent of all newcomers are mistaken for returning ones, which does no harm.

use almandine_io::memory::Reservation;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ghosts in a set.
const PER_SET: u64 = 8;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const FINGERPRINTS: u64 = 0x7F * LOW_BITS;
const PROVEN: u64 = 0x80;
/// Bytes of the largest store's memory per ghost that room is reserved for.
const MEMORY_PER_GHOST: u64 = 32;

/// How a record that comes back had left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// Not used again since it had come.
    Unproven,
    /// Used.
    Proven,
}

/// The ghosts of all records.
pub(crate) struct Ghosts {
    memory: Reservation,
    sets: AtomicU64,
}

impl Ghosts {
    pub(crate) fn new(memory_max: u64) -> io::Result<Self> {
        let bytes = usize::try_from(memory_max / MEMORY_PER_GHOST).map_err(io::Error::other)?;
        Ok(Self { memory: Reservation::small_pages(bytes.max(1 << 16))?, sets: AtomicU64::new(0) })
    }

    /// Whether there are none yet.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.load(Ordering::Relaxed) == 0
    }

    /// How many there may be.
    pub(crate) fn capacity(&self) -> u64 {
        self.sets.load(Ordering::Relaxed) * PER_SET
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.capacity()
    }

    /// Makes room for about as many ghosts as there are keys, or for none. What is known is forgotten when the size changes.
    /// Background only.
    pub(crate) fn follow(&self, keys: u64) {
        let sets = self.sets.load(Ordering::Relaxed);
        let wanted = (keys / PER_SET).min(self.memory.bytes() as u64 / PER_SET);
        if wanted * 4 > sets * 5 || wanted * 4 < sets * 3 {
            self.resize(wanted);
        }
    }

    fn resize(&self, sets: u64) {
        debug_assert!(sets * PER_SET <= self.memory.bytes() as u64, "ghosts lie within their memory");
        let before = self.sets.swap(sets, Ordering::Relaxed) * PER_SET;
        let after = sets * PER_SET;
        let (from, to) = (after.next_multiple_of(4096), before.next_multiple_of(4096));
        if from < to {
            self.memory.release(from as usize, (to - from) as usize);
        }
    }

    fn place(&self, hash: u64) -> Option<&AtomicU64> {
        let sets = self.sets.load(Ordering::Relaxed);
        let set = ((hash >> 32) * sets) >> 32;
        debug_assert!(sets == 0 || set < sets, "a hash leads to one of the sets");
        // SAFETY: `set < sets`, and the reservation holds that many zeroed words, which are valid atomics. It is never unmapped
        // while the store lives; a word of a part that was given back reads as zero.
        (sets != 0).then(|| unsafe { &*self.memory.base().as_ptr().cast::<AtomicU64>().add(set as usize) })
    }

    fn fingerprint(hash: u64) -> u64 {
        // Bits that choose neither the set nor, in most sizes, the bucket.
        let fingerprint = (hash >> 20) % 127 + 1;
        debug_assert!(fingerprint & PROVEN == 0 && fingerprint != 0, "a fingerprint is told from an empty place and from its mark");
        fingerprint
    }

    /// A record was evicted.
    pub(crate) fn note(&self, hash: u64, proven: bool) {
        if let Some(set) = self.place(hash) {
            let ghost = Self::fingerprint(hash) | if proven { PROVEN } else { 0 };
            // A ghost that another session adds at the same moment may be lost.
            set.store(set.load(Ordering::Relaxed) << 8 | ghost, Ordering::Relaxed);
        }
    }

    /// Whether a record with this hash was evicted of late, and how; it is no ghost any more then.
    pub(crate) fn take(&self, hash: u64) -> Option<Return> {
        let set = self.place(hash)?;
        let word = set.load(Ordering::Relaxed);
        let differing = (word ^ (Self::fingerprint(hash) * LOW_BITS)) & FINGERPRINTS;
        // The lowest byte without a difference: bytes above it may be reported falsely, the lowest is right.
        let equal = differing.wrapping_sub(LOW_BITS) & !differing & (PROVEN * LOW_BITS);
        if equal == 0 {
            return None;
        }
        let shift = equal.trailing_zeros() - 7;
        debug_assert_eq!(word >> shift & 0x7F, Self::fingerprint(hash), "the lowest match is a true one");
        let found = word >> shift & 0xFF;
        set.store(word & !(0xFF << shift), Ordering::Relaxed);
        Some(if found & PROVEN == 0 { Return::Unproven } else { Return::Proven })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        let number = (number ^ (number >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (number ^ (number >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }

    #[test]
    fn the_latest_are_known_once_and_strangers_rarely() {
        let ghosts = Ghosts::new(1 << 24).unwrap();
        assert_eq!(ghosts.take(hash(1)), None);
        ghosts.note(hash(1), true);
        ghosts.follow(80_000);
        assert_eq!((ghosts.capacity(), ghosts.memory_bytes()), (80_000, 80_000));
        for number in 0..40_000 {
            ghosts.note(hash(number), number % 2 == 0);
        }
        let strangers = (1_000_000..1_010_000).filter(|&number| ghosts.take(hash(number)).is_some()).count();
        assert!(strangers < 500, "{strangers}");
        let mut wrong = 0;
        for number in 20_000..40_000 {
            let expected = if number % 2 == 0 { Return::Proven } else { Return::Unproven };
            wrong += u64::from(ghosts.take(hash(number)) != Some(expected));
        }
        assert!(wrong < 2_500, "lost, taken by strangers or mistaken: {wrong}");
        ghosts.note(hash(5), false);
        ghosts.follow(200_000);
        ghosts.follow(0);
        assert!(ghosts.is_empty());
        ghosts.follow(80_000);
        assert_eq!(ghosts.take(hash(39_999)), None);
    }
}
