//! Large values without a holder, on their way to be freed in the background, a part at a time.

use crate::record::heap::{HeapValue, Outliving, SharedValue};
use almandine_io::thread::Waker;
use crossbeam_queue::SegQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Heap values from this size on are freed by the background thread.
const DISCARD_BYTES: usize = 64 * 1024;
/// Parts of an object that are freed before other work gets its turn.
const STEP: usize = 1024;
/// And values.
const VALUES_PER_STEP: usize = 256;

/// Values to be freed. What is in it still takes memory, and counts.
pub(crate) struct Garbage {
    values: SegQueue<HeapValue>,
    bytes: AtomicU64,
    /// Values that have come, and those of them that are freed.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Values that are held by readers alone: they are not here yet.
    outliving: Arc<Outliving>,
    /// Wakes the thread that frees them.
    waker: Arc<Waker>,
}

impl Garbage {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self {
            values: SegQueue::new(),
            bytes: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            outliving: Arc::default(),
            waker,
        }
    }

    /// The count of values that readers hold and no record does.
    pub(crate) fn outliving(&self) -> &Arc<Outliving> {
        &self.outliving
    }

    /// Bytes of the values.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Values that wait, and those that were freed.
    pub(crate) fn values(&self) -> (u64, u64) {
        // In this order, so that none is freed before it has come.
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Relaxed);
        debug_assert!(begun >= ended, "what is freed has come before");
        (begun - ended, ended)
    }

    /// Drops a reference. The last one of a large value goes to the background.
    pub(crate) fn discard(&self, value: SharedValue) {
        // Of several threads that drop it at the same time exactly one is the last, and no other one frees it.
        let Some(mut value) = Arc::into_inner(value) else { return };
        let bytes = value.memory_bytes();
        debug_assert_ne!(bytes, 0, "whatever is freed takes memory");
        if bytes >= DISCARD_BYTES {
            value.count_no_more();
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            self.begun.fetch_add(1, Ordering::Relaxed);
            self.values.push(value);
            self.waker.wake();
        }
    }

    /// Frees some; whether there is more.
    pub(crate) fn collect(&self) -> bool {
        (0..VALUES_PER_STEP).all(|_| self.values.pop().is_some_and(|value| self.free_some(value))) || !self.values.is_empty()
    }

    /// Frees a value, or a part of a large one. Whether others may follow in this turn.
    fn free_some(&self, mut value: HeapValue) -> bool {
        let before = value.memory_bytes();
        let ended = value.drop_step(STEP);
        debug_assert!(ended || value.memory_bytes() <= before, "what is freed becomes less");
        let freed = if ended { before } else { before.saturating_sub(value.memory_bytes()) };
        let counted = self.bytes.fetch_sub(freed as u64, Ordering::Relaxed);
        debug_assert!(counted >= freed as u64, "what is freed was counted");
        if ended {
            let before = self.ended.fetch_add(1, Ordering::AcqRel);
            debug_assert!(before < self.begun.load(Ordering::Relaxed), "a value is freed once");
        } else {
            self.values.push(value);
        }
        ended
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn large_values_are_counted_until_they_are_freed_and_others_never() {
        let garbage = Garbage::new(Arc::new(Waker::new()));
        let value = |bytes: usize| Arc::new(HeapValue::string(vec![1; bytes]));
        let (large, held) = (value(DISCARD_BYTES), value(DISCARD_BYTES));
        garbage.discard(Arc::clone(&held));
        garbage.discard(value(1000));
        assert_eq!(garbage.values(), (0, 0), "one is held, one is small");
        garbage.discard(large);
        garbage.discard(held);
        assert_eq!(garbage.values(), (2, 0));
        assert!(garbage.bytes() >= 2 * DISCARD_BYTES as u64);
        while garbage.collect() {}
        assert_eq!((garbage.values(), garbage.bytes()), ((0, 2), 0));
    }
}
