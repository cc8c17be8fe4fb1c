//! The bucket: one cache line with seven tagged entries and a control word that is latch, version and overflow link at once.
//!
//! ```text
//! control:  | version 26 | exclusive 1 | shared 7 | short tags 1 | overflow 29 |
//! ```
//!
//! A writer sets the exclusive bit, then waits until the shared holds are gone, and is inside from then on; no new hold is taken
//! while the bit is set, so overlapping readers cannot starve it (INV-LATCH-4). Releasing the bit increments the version. A reader
//! takes nothing: it notes the control word, reads, and checks that the version has not moved and no writer was inside
//! (INV-READ-1). Commands over several keys take shared holds, which readers ignore. A waiting thread spins shortly and then
//! yields: latches are held for one command, never across I/O.
//!
//! The version has 26 bits. For a reader to be fooled, exactly a multiple of 67 million writes to the same bucket must fit
//! between its two loads; at 10 million writes a second to one bucket it would have to sleep 6.7 s and wake on the number.

use super::entry::{Entry, Tag};
use crate::shared::written::{self, SharedLine};
use crate::sync::{AtomicU64, Backoff, Ordering, fence};
use almandine_base::points::point;

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
    /// The word, for mutants.
    #[cfg(all(test, loom))]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn overflow(self) -> u32 {
        (self.0 & OVERFLOW_MASK) as u32
    }

    /// Whether a writer was inside, or was waiting for shared holds to go.
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

/// Whether a control word says that a writer is inside: it has the exclusive bit, and no shared holds are left.
#[inline]
fn is_writer_inside(control: u64) -> bool {
    control & (EXCLUSIVE | SHARED_MASK) == EXCLUSIVE
}

/// Whether the control word differs from what a reader has seen by no more than a writer that waits: it changes nothing while
/// shared holds are left.
#[cold]
fn is_only_announced(now: u64, seen: Seen) -> bool {
    (now ^ seen.0) & VERSION_MASK == 0 && !is_writer_inside(now)
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

    /// As [`Self::begin_read_unless`], of one that waits.
    #[cfg(any(loom, test))]
    pub(crate) fn begin_read(&self) -> Seen {
        self.begin_read_unless(|| false).expect("nobody gives up")
    }

    /// Starts an optimistic read; waits while a writer is inside, but not for a writer that waits itself. None: a writer is
    /// inside, and `gives_up` has said so then.
    #[inline]
    pub(crate) fn begin_read_unless(&self, gives_up: impl FnMut() -> bool) -> Option<Seen> {
        let seen = self.control.load(Ordering::Acquire);
        if seen & EXCLUSIVE == 0 { Some(Seen(seen)) } else { self.begin_read_contended(gives_up) }
    }

    #[cold]
    fn begin_read_contended(&self, mut gives_up: impl FnMut() -> bool) -> Option<Seen> {
        let mut backoff = Backoff::new();
        loop {
            let seen = self.control.load(Ordering::Acquire);
            if !is_writer_inside(seen) {
                return Some(Seen(seen & !EXCLUSIVE));
            }
            if gives_up() {
                return None;
            }
            backoff.wait();
        }
    }

    /// Whether everything read since `seen` belongs together. The fence keeps the reads before the second load.
    #[inline]
    pub(crate) fn validate(&self, seen: Seen) -> bool {
        point("validates");
        debug_assert!(!seen.is_exclusive(), "INV-READ-1: what is read while a writer is inside is worth nothing");
        fence(Ordering::Acquire);
        let now = self.control.load(Ordering::Relaxed);
        (now ^ seen.0) & VALIDATION_MASK == 0 || is_only_announced(now, seen)
    }

    /// The control word as it is, for a reader that does not wait for a writer inside. What is read afterwards can be validated
    /// if none was.
    #[inline]
    pub(crate) fn peep(&self) -> Seen {
        Seen(self.control.load(Ordering::Acquire))
    }

    /// Whether the bucket is unchanged since `seen`, for the holder of its latch.
    #[inline]
    pub(crate) fn is_version_of(&self, seen: Seen) -> bool {
        debug_assert!(!seen.is_exclusive(), "INV-READ-1: what is read while a writer is inside is worth nothing");
        (self.control.load(Ordering::Relaxed) ^ seen.0) & VERSION_MASK == 0
    }

    /// Takes the exclusive latch.
    #[inline]
    pub(crate) fn lock_exclusive(&self) {
        point("latches");
        if !self.try_lock_exclusive() {
            self.lock_exclusive_contended(|| false);
        }
        debug_assert!(self.is_latched_exclusively(), "INV-LATCH-1: who writes is alone");
        // Keeps the writer's stores behind the bit, for readers that validate (pairs with the fence in `validate`).
        fence(Ordering::Release);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        written::write(SharedLine::Bucket);
        let seen = self.control.load(Ordering::Relaxed) & !(EXCLUSIVE | SHARED_MASK);
        self.control.compare_exchange(seen, seen | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes one shared hold.
    #[inline]
    pub(crate) fn lock_shared(&self) {
        point("latches shared");
        if !self.try_lock_shared() {
            self.lock_shared_contended(|| false);
        }
        debug_assert!(self.is_latched_shared(), "INV-LATCH-1: nobody writes while others read");
    }

    /// Takes one shared hold if that is possible at once.
    #[inline]
    pub(crate) fn try_lock_shared(&self) -> bool {
        written::write(SharedLine::Bucket);
        let seen = self.control.load(Ordering::Relaxed) & !EXCLUSIVE;
        debug_assert_ne!(seen & SHARED_MASK, SHARED_MASK, "INV-LATCH-1: one more holder can be counted");
        self.control.compare_exchange(seen, seen + SHARED_ONE, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the exclusive latch, or a shared hold, unless another holder has to be waited for and `gives_up` says so then.
    /// Whether it has it.
    #[inline]
    pub(crate) fn lock_unless(&self, exclusive: bool, gives_up: impl FnMut() -> bool) -> bool {
        point("latches a plan");
        let taken = if exclusive {
            self.try_lock_exclusive() || self.lock_exclusive_contended(gives_up)
        } else {
            self.try_lock_shared() || self.lock_shared_contended(gives_up)
        };
        // As in [`Self::lock_exclusive`].
        fence(Ordering::Release);
        debug_assert!(!taken || self.is_latched(), "INV-LATCH-1: the hold is counted");
        taken
    }

    /// Sets the exclusive bit as soon as no other writer has it, then waits for the shared holds to go.
    #[cold]
    fn lock_exclusive_contended(&self, mut gives_up: impl FnMut() -> bool) -> bool {
        let mut backoff = Backoff::new();
        loop {
            let seen = self.control.load(Ordering::Relaxed);
            if seen & EXCLUSIVE == 0
                && self.control.compare_exchange(seen, seen | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                break;
            }
            if gives_up() {
                return false;
            }
            backoff.wait();
        }
        // Acquire: what the last holders read was read before this writer's stores.
        let mut backoff = Backoff::new();
        while self.control.load(Ordering::Acquire) & SHARED_MASK != 0 {
            if gives_up() {
                // Nothing was changed, so the version stays. Holders release their holds meanwhile: do not store.
                self.control.fetch_and(!EXCLUSIVE, Ordering::Relaxed);
                return false;
            }
            backoff.wait();
        }
        debug_assert!(self.is_latched_exclusively(), "INV-LATCH-4: no hold is taken behind the exclusive bit");
        true
    }

    #[cold]
    fn lock_shared_contended(&self, mut gives_up: impl FnMut() -> bool) -> bool {
        let mut backoff = Backoff::new();
        loop {
            let seen = self.control.load(Ordering::Relaxed);
            if seen & EXCLUSIVE == 0
                && self.control.compare_exchange(seen, seen + SHARED_ONE, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return true;
            }
            if gives_up() {
                return false;
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
        point("unlatched");
    }

    /// Releases a shared hold. Nothing changed, so the version stays.
    #[inline]
    pub(crate) fn unlock_shared(&self) {
        let before = self.control.fetch_sub(SHARED_ONE, Ordering::Release);
        debug_assert!(before & SHARED_MASK != 0, "INV-LATCH-1: a shared hold was taken");
        point("unlatched");
    }

    /// The control word without any claim to consistency; for hints and for holders of the latch.
    #[inline]
    pub(crate) fn glance(&self) -> Seen {
        Seen(self.control.load(Ordering::Relaxed))
    }

    /// Whether the latch is held in any way, or a writer waits for it.
    pub(crate) fn is_latched(&self) -> bool {
        self.control.load(Ordering::Relaxed) & (EXCLUSIVE | SHARED_MASK) != 0
    }

    /// Whether a writer is inside.
    pub(crate) fn is_latched_exclusively(&self) -> bool {
        is_writer_inside(self.control.load(Ordering::Relaxed))
    }

    /// Whether the bucket has shared holds. A writer may be waiting for them.
    pub(crate) fn is_latched_shared(&self) -> bool {
        self.control.load(Ordering::Relaxed) & SHARED_MASK != 0
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
    use std::sync::atomic::AtomicBool;
    use std::thread;

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

    #[test]
    fn a_waiting_writer_is_announced_and_stops_no_optimistic_reader() {
        let bucket = Bucket::new();
        let before = bucket.begin_read();
        bucket.lock_shared();
        // The writer sets the bit, finds the hold, and gives up.
        let mut looks = 0;
        let taken = bucket.lock_unless(true, || {
            looks += 1;
            assert!(!bucket.try_lock_shared(), "INV-LATCH-4: no hold is taken behind the exclusive bit");
            assert!(bucket.validate(before) && bucket.validate(bucket.begin_read()), "nothing has changed yet");
            assert!(!bucket.is_latched_exclusively() && bucket.is_latched_shared());
            looks == 3
        });
        assert!(!taken && looks == 3);
        assert!(bucket.try_lock_shared(), "a writer that has given up leaves no bit behind");
        bucket.unlock_shared();
        bucket.unlock_shared();
        assert!(!bucket.is_latched() && bucket.validate(before));
        // What was read while a writer waited is void as soon as it is inside.
        bucket.lock_shared();
        let mut seen = before;
        assert!(!bucket.lock_unless(true, || {
            seen = bucket.begin_read();
            true
        }));
        bucket.unlock_shared();
        bucket.lock_exclusive();
        assert!(!bucket.validate(seen));
        bucket.unlock_exclusive();
        assert!(!bucket.validate(seen));
    }

    /// Many more readers than cores, each of which lets others run while it has its hold, so that the holds overlap without an end.
    #[test]
    fn a_writer_lets_each_reader_end_one_turn_and_no_more() {
        const READERS: u64 = 32;
        const WRITES: u64 = 200;
        let (bucket, turns, ended) = (Bucket::new(), AtomicU64::new(0), AtomicBool::new(false));
        let read = || {
            while !ended.load(Ordering::Relaxed) {
                bucket.lock_shared();
                turns.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
                bucket.unlock_shared();
            }
        };
        let mut waited = 0;
        thread::scope(|scope| {
            (0..READERS).for_each(|_| drop(scope.spawn(read)));
            // Ends the readers when an assertion fails, too.
            let write = || {
                for _ in 0..WRITES {
                    // A reader that has just had its turn has its hold still, unless it was quick.
                    let before = turns.load(Ordering::Relaxed);
                    while turns.load(Ordering::Relaxed) == before {
                        thread::yield_now();
                    }
                    // The first look that finds a hold comes behind the exclusive bit: what has a turn later had its hold before.
                    let mut first = None;
                    bucket.lock_unless(true, || {
                        let now = turns.load(Ordering::Relaxed);
                        let passed = now - *first.get_or_insert(now);
                        assert!(passed <= READERS, "INV-LATCH-4: {passed} turns passed a waiting writer");
                        false
                    });
                    waited += u64::from(first.is_some());
                    bucket.unlock_exclusive();
                }
            };
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
            ended.store(true, Ordering::Relaxed);
            outcome.unwrap_or_else(|report| std::panic::resume_unwind(report));
        });
        assert!(waited > WRITES / 4, "the writer met readers {waited} times of {WRITES}");
        assert!(!bucket.is_latched());
    }
}
