//! How a store is made.

use crate::tier::Storage;
use almandine_base::object::Types;
use std::sync::Arc;

/// What a store begins with on a device that has pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptDevice {
    /// Buckets that the index had.
    pub index_buckets: u64,
    /// No page below it is written again, also where the device has nothing any more.
    pub next_page: u64,
}

/// How a store is made.
#[derive(Clone)]
pub struct Options {
    /// Most sessions at once.
    pub sessions_max: usize,
    /// Keys for which the index has room at the start.
    pub keys_expected: u64,
    /// Bytes of memory that log and index may ever reach; they bound the reserved address space. 0: what the machine has.
    pub memory_bytes_max: u64,
    /// Seed of the hash function; a secret against chosen keys.
    pub seed: u64,
    /// Part of the log that is updated in place, from the tail backwards; 1.0: all of it.
    pub mutable_fraction: f64,
    /// Part of the log's words that may be free before pages are evacuated.
    pub free_fraction_max: f64,
    /// Where to put what does not fit the memory budget. Without it everything stays in memory.
    pub storage: Option<Storage>,
    /// Pages of 2 MiB that the device may hold at once, and as many writes from the oldest to the newest.
    pub device_pages_max: u64,
    /// What the device has that the store goes on with; none: it is empty, or what it has counts no more. The seed is that of the
    /// store before.
    pub kept: Option<KeptDevice>,
    /// What is to be known of values that are no strings. Without it there are none.
    pub types: Option<Arc<dyn Types>>,
    /// Whether the background thread runs. Without it, call [`Store::maintain`].
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sessions_max: 16,
            keys_expected: 0,
            memory_bytes_max: 0,
            seed: 0x5EED,
            mutable_fraction: 1.0,
            free_fraction_max: 0.15,
            storage: None,
            device_pages_max: 1 << 20,
            kept: None,
            types: None,
            background: true,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Options")
            .field("sessions_max", &self.sessions_max)
            .field("keys_expected", &self.keys_expected)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .field("storage", &self.storage)
            .finish_non_exhaustive()
    }
}
