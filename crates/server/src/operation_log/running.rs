//! The log while it takes writes, for the threads that ask something of its writer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::Mutex;
use almandine_oplog::writer::LogWriter;

/// See the module.
#[derive(Debug)]
pub(crate) struct RunningLog {
    pub(super) writer: LogWriter,
    pub(super) directory: PathBuf,
    pub(super) id: u128,
    /// The number of the last base that was begun. One that has failed may be named all the same: no other has its number.
    pub(super) last_base: AtomicU64,
}

impl RunningLog {
    pub(super) fn next_base(&self) -> u64 {
        self.last_base.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The place of the log of a node; empty while there is none.
#[derive(Debug, Default)]
pub(crate) struct LogSlot(Mutex<Option<Arc<RunningLog>>>);

impl LogSlot {
    pub(crate) fn get(&self) -> Option<Arc<RunningLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn put(&self, log: RunningLog) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(log));
    }

    pub(crate) fn take(&self) -> Option<Arc<RunningLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
