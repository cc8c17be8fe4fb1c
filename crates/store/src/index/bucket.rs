//! The bucket: one cache line with seven tagged entries and a control word that is latch, version and overflow link at once.
//!
//! ```text
//! control:  | version 26 | exclusive 1 | shared 7 | short tags 1 | overflow 29 |
//! ```
//!
//! A writer holds the exclusive bit; releasing it increments the version. A reader takes nothing: it notes the control word,
//! reads, and checks that the version has not moved and no writer was inside (INV-READ-1). Commands over several keys take
//! shared holds, which readers ignore and writers wait for. A waiting writer spins shortly and then yields: latches are held
//! for one command, never across I/O.
//!
//! The version has 26 bits. For a reader to be fooled, exactly a multiple of 67 million writes to the same bucket must fit
//! between its two loads; at 10 million writes a second to one bucket it would have to sleep 6.7 s and wake on the number.

use super::entry::{Entry, Tag};
use crate::sync::{AtomicU64, Backoff, Ordering, fence};

/// Entries in the bucket's own cache line. The model checker gets by with fewer.
pub(crate) const ENTRIES: usize = if cfg!(loom) { 1 } else { 7 };
/// Entries in an overflow bucket of 32 bytes.
pub(crate) const OVERFLOW_ENTRIES: usize = if cfg!(loom) { 1 } else { 3 };

/// Bits of an overflow bucket's number.
pub(super) const OVERFLOW_BITS: u32 = 29;
const OVERFLOW_MASK: u64 = (1 << OVERFLOW_BITS) - 1;
/// Some entry of the bucket knows less than a whole tag.
const SHORT_TAGS: u64 = 1 << OVERFLOW_BITS;
const SHARED_ONE: u64 = 1 << 30;
const SHARED_MASK: u64 = 0x7F << 30;
pub(super) const EXCLUSIVE: u64 = 1 << 37;
pub(super) const VERSION_ONE: u64 = 1 << 38;
const VERSION_MASK: u64 = !(VERSION_ONE - 1);
/// What must not change while a reader reads: the version and the exclusive bit.
const VALIDATION_MASK: u64 = !(OVERFLOW_MASK | SHORT_TAGS | SHARED_MASK);

/// A main bucket.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    pub(crate) entries: [AtomicU64; ENTRIES],
    pub(super) control: AtomicU64,
}

/// An overflow bucket: three more entries and the number of the next one (0 = none).
#[repr(C, align(32))]
pub(crate) struct OverflowBucket {
    pub(crate) entries: [AtomicU64; OVERFLOW_ENTRIES],
    pub(crate) next: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == 64 && size_of::<OverflowBucket>() == 32);

impl OverflowBucket {
    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self { entries: std::array::from_fn(|_| AtomicU64::new(0)), next: AtomicU64::new(0) }
    }
}

/// The control word as a reader saw it before reading.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen(u64);

impl Seen {
    #[inline]
    pub(crate) fn overflow(self) -> u32 {
        (self.0 & OVERFLOW_MASK) as u32
    }

    /// Whether a writer was inside.
    #[inline]
    pub(crate) fn is_exclusive(self) -> bool {
        self.0 & EXCLUSIVE != 0
    }

    /// Whether entries are to be matched by the bits that they know.
    #[inline]
    pub(crate) fn has_short_tags(self) -> bool {
        self.0 & SHORT_TAGS != 0
    }
}

impl Bucket {
    #[cfg(any(loom, test))]
    pub(crate) fn new() -> Self {
        Self { entries: std::array::from_fn(|_| AtomicU64::new(0)), control: AtomicU64::new(0) }
    }

    /// Which of the bucket's own entries carry `tag`, as bits. Without branches: where a key's entry lies is random, so a search
    /// that stops at the first match would be mispredicted nearly every time.
    #[inline]
    pub(crate) fn matches(&self, tag: Tag, short: bool) -> u32 {
        if short {
            return self.matches_short(tag);
        }
        let mut bits = 0;
        for (at, cell) in self.entries.iter().enumerate() {
            bits |= u32::from(Entry(cell.load(Ordering::Relaxed)).has(tag)) << at;
        }
        bits
    }

    #[cold]
    fn matches_short(&self, tag: Tag) -> u32 {
        let mut bits = 0;
        for (at, cell) in self.entries.iter().enumerate() {
            bits |= u32::from(Entry(cell.load(Ordering::Relaxed)).may_be(tag)) << at;
        }
        bits
    }

    /// The entry at position `at`.
    #[inline]
    pub(crate) fn entry(&self, at: u32) -> Entry {
        debug_assert!((at as usize) < ENTRIES, "a bucket has so many entries");
        Entry(self.entries[at as usize % ENTRIES].load(Ordering::Acquire))
    }

    /// Starts an optimistic read; waits while a writer is inside.
    #[inline]
    pub(crate) fn begin_read(&self) -> Seen {
        let seen = self.control.load(Ordering::Acquire);
        if seen & EXCLUSIVE == 0 { Seen(seen) } else { self.begin_read_contended() }
    }

    #[cold]
    fn begin_read_contended(&self) -> Seen {
        let mut backoff = Backoff::new();
        loop {
            let seen = self.control.load(Ordering::Acquire);
            if seen & EXCLUSIVE == 0 {
                return Seen(seen);
            }
            backoff.wait();
        }
    }

    /// Whether everything read since `seen` belongs together. The fence keeps the reads before the second load.
    #[inline]
    pub(crate) fn validate(&self, seen: Seen) -> bool {
        fence(Ordering::Acquire);
        (self.control.load(Ordering::Relaxed) ^ seen.0) & VALIDATION_MASK == 0
    }

    /// The control word as it is, for who does not wait for a writer that is inside. What is read afterwards can be validated if none was.
    #[inline]
    pub(crate) fn peep(&self) -> Seen {
        Seen(self.control.load(Ordering::Acquire))
    }

    /// Whether nobody else has changed the bucket since `seen`, for the holder of its latch.
    #[inline]
    pub(crate) fn is_version_of(&self, seen: Seen) -> bool {
        debug_assert!(!seen.is_exclusive(), "INV-READ-1: what is read while a writer is inside is worth nothing");
        (self.control.load(Ordering::Relaxed) ^ seen.0) & VERSION_MASK == 0
    }

    /// Takes the exclusive latch.
    #[inline]
    pub(crate) fn lock_exclusive(&self) {
        let seen = self.control.load(Ordering::Relaxed) & !(EXCLUSIVE | SHARED_MASK);
        if self.control.compare_exchange(seen, seen | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_contended(EXCLUSIVE | SHARED_MASK, EXCLUSIVE);
        }
        debug_assert_eq!(
            self.control.load(Ordering::Relaxed) & (EXCLUSIVE | SHARED_MASK),
            EXCLUSIVE,
            "INV-LATCH-1: who writes is alone"
        );
        // Keeps the writer's stores behind the bit, for readers that validate (pairs with the fence in `validate`).
        fence(Ordering::Release);
    }

    /// Takes one shared hold.
    #[inline]
    pub(crate) fn lock_shared(&self) {
        let seen = self.control.load(Ordering::Relaxed) & !EXCLUSIVE;
        debug_assert_ne!(seen & SHARED_MASK, SHARED_MASK, "INV-LATCH-1: one more holder can be counted");
        if self.control.compare_exchange(seen, seen + SHARED_ONE, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_contended(EXCLUSIVE, SHARED_ONE);
        }
        debug_assert_eq!(self.control.load(Ordering::Relaxed) & EXCLUSIVE, 0, "INV-LATCH-1: nobody writes while others read");
        debug_assert_ne!(self.control.load(Ordering::Relaxed) & SHARED_MASK, 0, "INV-LATCH-1: the hold is counted");
    }

    /// Takes one shared hold if that is possible at once.
    #[inline]
    pub(crate) fn try_lock_shared(&self) -> bool {
        let seen = self.control.load(Ordering::Relaxed) & !EXCLUSIVE;
        debug_assert_ne!(seen & SHARED_MASK, SHARED_MASK, "INV-LATCH-1: one more holder can be counted");
        self.control.compare_exchange(seen, seen + SHARED_ONE, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the exclusive latch, or a shared hold, unless somebody has to be waited for and `gives_up` says so then. Whether it has it.
    pub(crate) fn lock_unless(&self, exclusive: bool, mut gives_up: impl FnMut() -> bool) -> bool {
        let (blockers, add) = if exclusive { (EXCLUSIVE | SHARED_MASK, EXCLUSIVE) } else { (EXCLUSIVE, SHARED_ONE) };
        let mut backoff = Backoff::new();
        loop {
            let seen = self.control.load(Ordering::Relaxed);
            if seen & blockers == 0 && self.control.compare_exchange(seen, seen + add, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                // As in [`Self::lock_exclusive`].
                fence(Ordering::Release);
                debug_assert!(self.is_latched(), "INV-LATCH-1: the hold is counted");
                return true;
            }
            if gives_up() {
                return false;
            }
            backoff.wait();
        }
    }

    #[cold]
    fn lock_contended(&self, blockers: u64, add: u64) {
        let mut backoff = Backoff::new();
        loop {
            let seen = self.control.load(Ordering::Relaxed);
            if seen & blockers == 0 && self.control.compare_exchange(seen, seen + add, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            backoff.wait();
        }
    }

    /// Releases the exclusive latch after a change: the version moves on.
    #[inline]
    pub(crate) fn unlock_exclusive(&self) {
        let seen = self.control.load(Ordering::Relaxed);
        debug_assert!(seen & EXCLUSIVE != 0 && seen & SHARED_MASK == 0, "INV-LATCH-1: exclusive excludes shared");
        self.control.store((seen & !EXCLUSIVE).wrapping_add(VERSION_ONE), Ordering::Release);
    }

    /// Releases a shared hold. Nothing changed, so the version stays.
    #[inline]
    pub(crate) fn unlock_shared(&self) {
        let before = self.control.fetch_sub(SHARED_ONE, Ordering::Release);
        debug_assert!(before & SHARED_MASK != 0, "INV-LATCH-1: a shared hold was taken");
        debug_assert_eq!(before & EXCLUSIVE, 0, "INV-LATCH-1: nobody writes while others read");
    }

    /// The control word without any claim to consistency; for hints and for holders of the latch.
    #[inline]
    pub(crate) fn glance(&self) -> Seen {
        Seen(self.control.load(Ordering::Relaxed))
    }

    /// Whether somebody holds the latch, in whatever way.
    pub(crate) fn is_latched(&self) -> bool {
        self.control.load(Ordering::Relaxed) & (EXCLUSIVE | SHARED_MASK) != 0
    }

    /// Whether somebody holds the latch exclusively.
    pub(crate) fn is_latched_exclusively(&self) -> bool {
        self.control.load(Ordering::Relaxed) & EXCLUSIVE != 0
    }

    /// Whether its own line is empty; for assertions.
    pub(crate) fn matches_nothing(&self) -> bool {
        self.entries.iter().all(|cell| cell.load(Ordering::Relaxed) == 0)
    }

    /// Says whether entries know less than a whole tag; under the exclusive latch.
    pub(crate) fn set_short_tags(&self, short: bool) {
        let seen = self.control.load(Ordering::Relaxed);
        debug_assert!(seen & EXCLUSIVE != 0, "INV-LATCH-1: the control word changes under the latch");
        self.control.store(if short { seen | SHORT_TAGS } else { seen & !SHORT_TAGS }, Ordering::Relaxed);
    }

    /// The first overflow bucket; under a latch.
    pub(crate) fn overflow(&self) -> u32 {
        (self.control.load(Ordering::Relaxed) & OVERFLOW_MASK) as u32
    }

    /// Links the first overflow bucket; under the exclusive latch.
    pub(crate) fn set_overflow(&self, cell: u32) {
        debug_assert!(u64::from(cell) <= OVERFLOW_MASK, "a link stays in its bits");
        let seen = self.control.load(Ordering::Relaxed);
        debug_assert!(seen & EXCLUSIVE != 0, "INV-LATCH-1: the control word changes under the latch");
        self.control.store((seen & !OVERFLOW_MASK) | u64::from(cell), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_write_invalidates_and_a_shared_hold_does_not() {
        let bucket = Bucket::new();
        let seen = bucket.begin_read();
        bucket.lock_shared();
        bucket.unlock_shared();
        assert!(bucket.validate(seen));
        bucket.lock_exclusive();
        assert!(!bucket.validate(seen));
        bucket.unlock_exclusive();
        assert!(!bucket.validate(seen));
        assert!(bucket.validate(bucket.begin_read()));
    }

    #[test]
    fn the_version_wraps_without_touching_other_bits() {
        let bucket = Bucket::new();
        bucket.lock_exclusive();
        bucket.set_overflow(5);
        bucket.unlock_exclusive();
        bucket.control.fetch_or(VALIDATION_MASK & !EXCLUSIVE, Ordering::Relaxed);
        bucket.lock_exclusive();
        bucket.unlock_exclusive();
        assert_eq!(bucket.overflow(), 5);
        assert_eq!(bucket.control.load(Ordering::Relaxed) & (SHARED_MASK | EXCLUSIVE), 0);
    }
}
