//! Large values that nobody holds any more, on their way to be freed in the background, a part at a time.

use crate::heap::{HeapValue, SharedValue};
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
    /// Wakes who frees them.
    waker: Arc<Waker>,
}

impl Garbage {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { values: SegQueue::new(), bytes: AtomicU64::new(0), waker }
    }

    /// Bytes of the values.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Lets go of a reference. Whoever has the last one of a large value leaves it to the background.
    pub(crate) fn discard(&self, value: SharedValue) {
        // Of several that let go at the same time one is the last, and nobody frees it by chance.
        let Some(mut value) = Arc::into_inner(value) else { return };
        let bytes = value.memory_bytes();
        debug_assert_ne!(bytes, 0, "whatever is freed takes memory");
        if bytes >= DISCARD_BYTES {
            value.count_no_more();
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            self.values.push(value);
            self.waker.wake();
        }
    }

    /// Frees some; whether there is more.
    pub(crate) fn collect(&self) -> bool {
        (0..VALUES_PER_STEP).all(|_| self.values.pop().is_some_and(|value| self.free_some(value))) || !self.values.is_empty()
    }

    /// Frees a value, or a part of a large one. Whether others may follow before it is somebody else's turn.
    fn free_some(&self, mut value: HeapValue) -> bool {
        let before = value.memory_bytes();
        let ended = value.drop_step(STEP);
        debug_assert!(ended || value.memory_bytes() <= before, "what is freed becomes less");
        let freed = if ended { before } else { before.saturating_sub(value.memory_bytes()) };
        let counted = self.bytes.fetch_sub(freed as u64, Ordering::Relaxed);
        debug_assert!(counted >= freed as u64, "what is freed was counted");
        if !ended {
            self.values.push(value);
        }
        ended
    }
}
