//! What the tier counts.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What the tier has counted since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TierStatistics {
            $($(#[$doc])* pub $name: u64,)*
            /// Space taken on the devices, in bytes.
            pub device_bytes: u64,
            /// Bytes of live records on the device, as far as it is known.
            pub device_live_bytes: u64,
            /// Bytes on the devices that only bases of the operation log need.
            pub retained_bytes: u64,
            /// Of these, bytes that the next base will not give back, because a backup copies them.
            pub leased_bytes: u64,
            /// Records that are still to be read ahead behind the start.
            pub read_ahead_left: u64,
            /// Bytes of log memory that the budget allows.
            pub log_limit_bytes: u64,
        }

        /// Counters on cold paths, shared by all threads.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        impl Counters {
            pub(super) fn read(&self) -> TierStatistics {
                TierStatistics { $($name: self.$name.load(Ordering::Relaxed),)* ..TierStatistics::default() }
            }
        }
    };
}

statistics! {
    /// Reads of the device for sessions.
    reads,
    /// Reads of the device by the store itself: pages that are compacted, records that may have expired.
    background_reads,
    /// Bytes that they asked for.
    read_bytes,
    /// Writes to the devices.
    writes,
    /// Bytes written.
    written_bytes,
    /// Reads that failed.
    read_errors,
    /// Writes that failed.
    write_errors,
    /// Blocks whose checksum did not hold.
    corrupt_blocks,
    /// Pages written.
    pages_flushed,
    /// Pages whose memory was given back.
    pages_evicted,
    /// Pages on the device given back after their live records were moved.
    pages_compacted,
    /// Records that this moved.
    records_compacted,
    /// Pages given up because blocks of them could not be read for long.
    pages_salvaged,
    /// Damaged records that were given up: with their pages, or because their keys were set or deleted.
    records_lost,
    /// Copies made of records on the device.
    records_cached,
}

pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
