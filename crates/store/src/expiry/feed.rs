//! The feed: how a session tells the background about a new expiry, without allocating and without waiting.
//!
//! One ring per thread, single producer and single consumer. When the consumer is late and the ring is full, the rest goes
//! through an unbounded queue, so nothing is lost.

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

const CELLS: u64 = 4096;

/// The key with this hash expires at this time, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) hash: u64,
    pub(crate) at_ms: i64,
}

struct Ring {
    /// Allocated when the thread first sets an expiry.
    cells: std::sync::OnceLock<Box<[(AtomicU64, AtomicU64)]>>,
    written: CachePadded<AtomicU64>,
    read: CachePadded<AtomicU64>,
}

/// The rings of all threads.
pub(crate) struct Feed {
    rings: Box<[Ring]>,
    spill: SegQueue<Notice>,
}

impl Feed {
    pub(crate) fn new(threads: usize) -> Self {
        let ring = || Ring { cells: std::sync::OnceLock::new(), written: CachePadded::default(), read: CachePadded::default() };
        Self { rings: (0..threads).map(|_| ring()).collect(), spill: SegQueue::new() }
    }

    /// Called by thread `thread` only. Returns whether the background should be woken.
    #[inline]
    pub(crate) fn push(&self, thread: usize, notice: Notice) -> bool {
        let ring = &self.rings[thread];
        let written = ring.written.load(Ordering::Relaxed);
        debug_assert!(
            written - ring.read.load(Ordering::Acquire) <= CELLS,
            "INV-EXP-1: no notice is overwritten before it is read"
        );
        if written - ring.read.load(Ordering::Acquire) == CELLS {
            self.spill.push(notice);
            return true;
        }
        let cells = ring.cells.get_or_init(|| (0..CELLS).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect());
        let cell = &cells[(written % CELLS) as usize];
        cell.0.store(notice.hash, Ordering::Relaxed);
        cell.1.store(notice.at_ms as u64, Ordering::Relaxed);
        ring.written.store(written + 1, Ordering::Release);
        written.is_multiple_of(CELLS / 2)
    }

    /// Takes everything that has been pushed. Background only.
    pub(crate) fn drain(&self, mut take: impl FnMut(Notice)) {
        for ring in &self.rings {
            let written = ring.written.load(Ordering::Acquire);
            let read = ring.read.load(Ordering::Relaxed);
            debug_assert!(read <= written && written - read <= CELLS, "INV-EXP-1: each notice is read once");
            if let Some(cells) = ring.cells.get() {
                for at in read..written {
                    let cell = &cells[(at % CELLS) as usize];
                    take(Notice { hash: cell.0.load(Ordering::Relaxed), at_ms: cell.1.load(Ordering::Relaxed) as i64 });
                }
            }
            ring.read.store(written, Ordering::Release);
        }
        while let Some(notice) = self.spill.pop() {
            take(notice);
        }
    }
}
