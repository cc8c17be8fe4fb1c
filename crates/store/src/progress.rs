//! What the background has done.

use std::sync::atomic::AtomicU64;

/// What the background has done.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) buckets_split: AtomicU64,
    pub(crate) buckets_merged: AtomicU64,
    pub(crate) pages_evacuated: AtomicU64,
    pub(crate) records_moved: AtomicU64,
    pub(crate) namespaces_swept: AtomicU64,
    pub(crate) buckets_swept: AtomicU64,
    pub(crate) wheel_bytes: AtomicU64,
}

/// A copy of the background's work counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Index buckets split since the start.
    pub buckets_split: u64,
    /// Index buckets merged since the start.
    pub buckets_merged: u64,
    /// Log pages evacuated and given back.
    pub pages_evacuated: u64,
    /// Records moved by that.
    pub records_moved: u64,
    /// Emptied namespaces whose records were freed.
    pub namespaces_swept: u64,
    /// Index buckets that were looked at for it.
    pub buckets_swept: u64,
    /// Emptied namespaces whose records were not.
    pub namespaces_waiting: u64,
    /// Large values that were freed.
    pub values_freed: u64,
    /// Large values without a holder, on their way.
    pub values_waiting: u64,
}
