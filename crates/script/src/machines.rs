//! What the machines of all workers have in common.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The machines that run scripts.
#[derive(Debug, Default)]
pub struct Machines {
    /// How often all scripts have been forgotten: machines forget theirs when it has changed.
    generation: AtomicU64,
    bytes: AtomicI64,
}

impl Machines {
    /// Bytes that they take between runs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed).max(0).unsigned_abs()
    }

    /// A machine has grown, or shrunk.
    pub(crate) fn note(&self, bytes: i64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// All scripts are forgotten.
    pub(crate) fn forget(&self) {
        self.generation.fetch_add(1, Relaxed);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }
}
