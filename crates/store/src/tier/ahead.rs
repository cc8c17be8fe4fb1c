//! What is to be read ahead behind a start: records that were in memory as copies when the last base was written.

use almandine_io::clock;
use almandine_io::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Records that are read together.
const TOGETHER: usize = 64;

/// Records that are to be read ahead.
#[derive(Default)]
pub(crate) struct Ahead {
    addresses: Mutex<Vec<u64>>,
    left: AtomicU64,
    begun: AtomicBool,
    /// Before this time, by the monotonic clock, the pace says to wait.
    not_before_ms: AtomicU64,
}

impl Ahead {
    fn addresses(&self) -> MutexGuard<'_, Vec<u64>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record was in memory when the base was written.
    pub(crate) fn note(&self, address: u64) {
        debug_assert!(!self.begun.load(Ordering::Relaxed), "what is read ahead is known when the server serves");
        self.addresses().push(address);
    }

    /// From now on they are read, those that were written last first: of what does not fit these stay.
    pub(crate) fn begin(&self) -> u64 {
        let mut addresses = self.addresses();
        addresses.sort_unstable();
        addresses.dedup();
        self.left.store(addresses.len() as u64, Ordering::Relaxed);
        self.begun.store(true, Ordering::Release);
        addresses.len() as u64
    }

    /// How many are still to be read.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether the pace keeps it from going on at once.
    pub(crate) fn is_held_back(&self) -> bool {
        self.left() != 0 && clock::monotonic_ns() / 1_000_000 < self.not_before_ms.load(Ordering::Relaxed)
    }

    /// Takes the next ones, if it is time for them; all are given up when there is no room.
    pub(crate) fn next(&self, has_room: impl FnOnce() -> bool) -> Option<Vec<u64>> {
        let is_due = self.left() != 0 && self.begun.load(Ordering::Acquire) && !self.is_held_back();
        is_due.then(|| self.take(has_room()))
    }

    /// `bytes` were read: the next records wait for as long as that takes at this rate a second.
    pub(crate) fn rest(&self, bytes: u64, rate: u64) {
        debug_assert!(self.begun.load(Ordering::Relaxed), "what rests has begun");
        let until_ms = clock::monotonic_ns() / 1_000_000 + bytes.saturating_mul(1000) / rate.max(1);
        self.not_before_ms.store(until_ms, Ordering::Relaxed);
    }

    fn take(&self, has_room: bool) -> Vec<u64> {
        let mut addresses = self.addresses();
        let from = if has_room { addresses.len().saturating_sub(TOGETHER) } else { addresses.len() };
        debug_assert!(addresses.is_sorted(), "those that were written last are the last ones");
        let taken = addresses.split_off(from);
        if !has_room || addresses.is_empty() {
            *addresses = Vec::new();
        }
        self.left.store(addresses.len() as u64, Ordering::Relaxed);
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_read_first_and_all_are_given_up_when_memory_is_used() {
        let ahead = Ahead::default();
        (0..100).rev().chain([7]).for_each(|address| ahead.note(address + 1));
        assert_eq!((ahead.left(), ahead.begin(), ahead.left()), (0, 100, 100));
        assert_eq!(ahead.take(true), (37..=100).collect::<Vec<_>>());
        assert_eq!(ahead.left(), 36);
        assert_eq!((ahead.take(false), ahead.left()), (Vec::new(), 0));
    }
}
