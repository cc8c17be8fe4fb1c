//! Which keys were saved for a copy: a table of marks, open to all sessions at once.
//!
//! A mark is a hash of the key that is independent of the one which places it; two keys that could meet in one place have equal
//! marks with a chance of one in 2^63. A key is marked under the exclusive latch of its bucket, so that no two sessions mark one
//! key; and looked up under a latch of that bucket, behind what it was marked under. Places are taken and never left while a copy
//! lasts: what a look passed when it took a place, a later look passes too.
//!
//! Places ascend with the reversed hash, so that the walk, which asks for each key that it meets, goes through the table once.

use almandine_io::memory::Reservation;
use almandine_io::sync::Mutex;
use std::collections::HashSet;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WORD: usize = size_of::<AtomicU64>();
/// Places, at most and at least.
const PLACES_MAX: u64 = 1 << 32;
const PLACES_MIN: u64 = 1 << 12;
/// Places that a look passes before it asks for those that found none.
const PROBES: u64 = 64;

/// See the module.
pub(super) struct Marks {
    memory: Reservation,
    /// Places that may be used.
    reserved: u64,
    /// Places that are used by this copy.
    places: AtomicU64,
    is_any: AtomicBool,
    /// Those that found all places taken.
    beyond: Mutex<HashSet<(u64, u64)>>,
}

impl Marks {
    pub(super) fn new(physical_bytes: u64) -> io::Result<Self> {
        // A quarter of the memory in marks is more than keys have room for.
        let reserved = (physical_bytes / 4 / WORD as u64).clamp(PLACES_MIN, PLACES_MAX);
        let memory = Reservation::new(reserved as usize * WORD)?;
        let reserved = (memory.bytes() / WORD) as u64;
        debug_assert!(reserved >= PLACES_MIN, "INV-COPY-1: the table has the fewest places that a copy takes");
        let (places, is_any, beyond) = (AtomicU64::new(PLACES_MIN), AtomicBool::new(false), Mutex::default());
        Ok(Self { memory, reserved, places, is_any, beyond })
    }

    /// Begins with none, for about this many keys. All sessions are kept out.
    pub(super) fn begin(&self, keys: u64) {
        self.clear();
        debug_assert!(!self.is_any(), "INV-COPY-1: a copy begins without marks");
        // Half of the places are left when all keys are marked, and some new ones.
        self.places.store((keys / 2 * 3).clamp(PLACES_MIN, self.reserved), Ordering::Relaxed);
    }

    /// Forgets all of them. What a session marks meanwhile may stay until the next copy begins.
    pub(super) fn clear(&self) {
        debug_assert!(self.places.load(Ordering::Relaxed) <= self.reserved, "INV-COPY-1: the marks of a copy are in the table");
        let bytes = (self.places.load(Ordering::Relaxed) as usize * WORD).next_multiple_of(4096);
        self.memory.release(0, bytes.min(self.memory.bytes()));
        self.is_any.store(false, Ordering::Relaxed);
        *self.beyond.lock().unwrap_or_else(PoisonError::into_inner) = HashSet::new();
    }

    /// Bytes of memory that they take, about.
    pub(super) fn bytes(&self) -> u64 {
        if self.is_any.load(Ordering::Relaxed) { self.places.load(Ordering::Relaxed) * WORD as u64 } else { 0 }
    }

    /// Asks the cache for the place of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        crate::index::prefetch(std::ptr::from_ref(self.place(self.first(hash))).cast());
    }

    /// Marks a key; false: it is marked. Its bucket is latched exclusively.
    pub(super) fn mark(&self, hash: u64, mark: u64) -> bool {
        let mark = mark | 1;
        debug_assert_ne!(mark, 0, "INV-COPY-1: a place that is taken does not look free");
        let mut at = self.first(hash);
        for _ in 0..PROBES {
            let place = self.place(at);
            let mut found = place.load(Ordering::Relaxed);
            if found == 0 {
                match place.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => {
                        if !self.is_any.load(Ordering::Relaxed) {
                            self.is_any.store(true, Ordering::Relaxed);
                        }
                        return true;
                    }
                    // Another key has taken it.
                    Err(other) => found = other,
                }
            }
            if found == mark {
                return false;
            }
            at = self.next(at);
        }
        self.beyond.lock().unwrap_or_else(PoisonError::into_inner).insert((hash, mark))
    }

    /// Whether a key is marked. Its bucket is latched.
    pub(super) fn has(&self, hash: u64, mark: u64) -> bool {
        let mark = mark | 1;
        debug_assert_ne!(mark, 0, "INV-COPY-1: a place that is free does not look taken");
        let mut at = self.first(hash);
        for _ in 0..PROBES {
            match self.place(at).load(Ordering::Relaxed) {
                0 => return false,
                found if found == mark => return true,
                _ => at = self.next(at),
            }
        }
        self.beyond.lock().unwrap_or_else(PoisonError::into_inner).contains(&(hash, mark))
    }

    /// Whether any key is marked.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    #[inline]
    fn first(&self, hash: u64) -> u64 {
        let places = self.places.load(Ordering::Relaxed);
        debug_assert!(places >= PLACES_MIN, "INV-COPY-1: there are places before a key is marked");
        ((u128::from(hash.reverse_bits()) * u128::from(places)) >> u64::BITS) as u64
    }

    fn next(&self, at: u64) -> u64 {
        debug_assert!(at < self.places.load(Ordering::Relaxed), "INV-COPY-1: the places of a copy stay as many");
        if at + 1 < self.places.load(Ordering::Relaxed) { at + 1 } else { 0 }
    }

    #[inline]
    fn place(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at < self.reserved, "INV-COPY-1: a mark has a place of the table");
        // SAFETY: the reservation is zeroed memory of `reserved` words, zero is a valid word, and all access to it is atomic;
        // places are below `places`, which is no more than `reserved`. Memory that is given back reads as zeroes.
        unsafe { &*self.memory.base().as_ptr().cast::<AtomicU64>().add(at as usize) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn hash(key: u64) -> u64 {
        key.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    }

    /// INV-COPY-1.
    #[test]
    fn a_key_is_marked_once_and_more_keys_than_places_find_one() {
        let marks = Marks::new(1 << 20).unwrap();
        marks.begin(100);
        assert!(!marks.is_any() && marks.bytes() == 0);
        let keys = 3 * PLACES_MIN;
        for key in 0..keys {
            assert!(!marks.has(hash(key), hash(!key)), "{key}");
            assert!(marks.mark(hash(key), hash(!key)), "{key}");
            assert!(!marks.mark(hash(key), hash(!key)), "{key}");
        }
        assert!((0..keys).all(|key| marks.has(hash(key), hash(!key))));
        assert!((keys..2 * keys).all(|key| !marks.has(hash(key), hash(!key))));
        marks.begin(100);
        assert!((0..keys).all(|key| !marks.has(hash(key), hash(!key))));
    }

    /// INV-COPY-1.
    #[test]
    fn keys_of_one_place_are_told_apart_by_threads() {
        let marks = Marks::new(1 << 20).unwrap();
        marks.begin(100);
        let marked = |thread: u64| (0..1000).filter(|key| marks.mark(7, (key * 8 + thread) << 1)).count();
        let all: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=4).map(|thread| scope.spawn(move || marked(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(all, 4000);
        assert!((1..=4).all(|thread| (0..1000).all(|key| marks.has(7, (key * 8 + thread) << 1))));
        assert!(!marks.has(7, 6 << 1));
    }
}
