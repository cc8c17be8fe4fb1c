//! What clients hold of memory: the sums of each worker, and whose turn it is to close some of them when that is too much.
//!
//! Each worker keeps the sums of its own clients, and the bucket of its largest one, by plain stores. While
//! `maxmemory-clients` is set, each worker adds them up once in a round.
//!
//! Clients are closed by the worker that owns them, the largest first over all workers: a worker whose largest client is in a lower
//! bucket than another's leaves it to that one. Those whose turn it is take one mutex, under which the sum is looked at before each
//! client, so that no more of them are closed than must be.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use almandine_io::sync::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;

use crate::lock::lock;

/// Smaller clients share the lowest bucket.
const LOWEST_BITS: u32 = 15;
/// Larger ones share the highest.
const HIGHEST_BITS: u32 = 33;

/// The bucket of a client that holds `bytes`: each has clients of up to twice the size of those in the one below.
#[must_use]
pub fn bucket(bytes: usize) -> u8 {
    let bits = usize::BITS - bytes.leading_zeros();
    (bits.clamp(LOWEST_BITS, HIGHEST_BITS) - LOWEST_BITS) as u8
}

/// The sums of one worker.
#[derive(Debug, Default)]
struct Sums {
    /// All that its clients hold.
    total: AtomicU64,
    /// Of that, what their sessions keep: transactions, watched keys, subscriptions.
    held: AtomicU64,
    /// One more than the highest bucket that has a client that may be closed; 0 without any.
    top: AtomicU8,
    /// It has been told that it is its turn, and has not looked yet.
    told: AtomicBool,
}

/// The sums of all workers.
#[derive(Debug, Default)]
pub struct ClientMemory {
    workers: Box<[CachePadded<Sums>]>,
    closing: Mutex<()>,
}

impl ClientMemory {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| CachePadded::default()).collect(), closing: Mutex::default() }
    }

    /// A client of the worker holds `after` bytes and no longer `before`; of these its session keeps the second number. By that
    /// worker only.
    pub fn change(&self, worker: usize, before: (usize, usize), after: (usize, usize)) {
        let replace = |sum: &AtomicU64, before: usize, after: usize| {
            sum.store(sum.load(Relaxed).wrapping_add(after as u64).wrapping_sub(before as u64), Relaxed);
        };
        let sums = &self.workers[worker];
        replace(&sums.total, before.0, after.0);
        if before.1 != after.1 {
            replace(&sums.held, before.1, after.1);
        }
    }

    /// The highest bucket in which the worker has a client that may be closed. By that worker only.
    pub fn set_top(&self, worker: usize, bucket: Option<u8>) {
        self.workers[worker].top.store(bucket.map_or(0, |bucket| bucket + 1), Relaxed);
    }

    /// Bytes that all clients hold.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sum(|sums| &sums.total)
    }

    /// Bytes that the sessions of all clients keep.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.sum(|sums| &sums.held)
    }

    fn sum(&self, of: impl Fn(&Sums) -> &AtomicU64) -> u64 {
        self.workers.iter().map(|sums| of(sums).load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// Whether this worker must close a client: clients hold more than `limit` bytes, and no worker has one in a higher bucket.
    /// `limit` is not 0.
    #[must_use]
    pub fn is_turn_of(&self, worker: usize, limit: u64) -> bool {
        let top = self.workers[worker].top.load(Relaxed);
        top > 0 && self.total() > limit && self.workers.iter().all(|other| other.top.load(Relaxed) <= top)
    }

    /// Another worker whose turn it is and that has not been told yet; from now on it has.
    #[must_use]
    pub fn to_be_told(&self, worker: usize, limit: u64) -> Option<usize> {
        if self.total() <= limit {
            return None;
        }
        let (other, sums) = self.workers.iter().enumerate().max_by_key(|(_, sums)| sums.top.load(Relaxed))?;
        let is_higher = sums.top.load(Relaxed) > self.workers[worker].top.load(Relaxed);
        (is_higher && !sums.told.swap(true, Relaxed)).then_some(other)
    }

    /// The worker looks now.
    pub fn hear(&self, worker: usize) {
        self.workers[worker].told.store(false, Relaxed);
    }

    /// Held while clients are closed.
    pub fn begin_closing(&self) -> MutexGuard<'_, ()> {
        lock(&self.closing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_redis() {
        let sizes = [0, 1, (1 << 15) - 1, 1 << 15, (1 << 16) - 1, 1 << 16, (1 << 33) - 1, 1 << 33, usize::MAX];
        assert_eq!(sizes.map(bucket), [0, 0, 0, 1, 1, 2, 18, 18, 18]);
    }

    #[test]
    fn the_worker_with_the_largest_client_has_its_turn() {
        let memory = ClientMemory::new(3);
        memory.change(0, (0, 0), (1000, 10));
        memory.change(1, (0, 0), (500, 0));
        memory.set_top(0, Some(0));
        memory.set_top(1, Some(4));
        assert_eq!((memory.total(), memory.held()), (1500, 10));
        assert!([0, 1, 2].iter().all(|worker| !memory.is_turn_of(*worker, 1500)), "there is room");
        assert!(memory.is_turn_of(1, 1499) && !memory.is_turn_of(0, 1499) && !memory.is_turn_of(2, 1499));
        assert_eq!((memory.to_be_told(0, 1499), memory.to_be_told(2, 1499)), (Some(1), None), "told once");
        memory.hear(1);
        assert_eq!((memory.to_be_told(1, 1499), memory.to_be_told(2, 1499)), (None, Some(1)));
        memory.change(1, (500, 0), (0, 0));
        memory.set_top(1, None);
        assert!(memory.is_turn_of(0, 999) && !memory.is_turn_of(0, 1000));
    }
}
