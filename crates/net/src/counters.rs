//! What a worker counts. Each counter has one writer, its worker; any thread may read and sum them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with one writer: adding is a load and a store, without a bus lock.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The value now.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds. By the owning worker only.
    pub(crate) fn add(&self, count: usize) {
        self.0.store(self.value().wrapping_add(count as u64), Ordering::Relaxed);
    }

    /// Subtracts. By the owning worker only.
    pub(crate) fn subtract(&self, count: usize) {
        self.0.store(self.value().wrapping_sub(count as u64), Ordering::Relaxed);
    }

    /// Replaces `old` by `new` in a sum. By the owning worker only.
    pub(crate) fn replace(&self, old: usize, new: usize) {
        if old != new {
            self.subtract(old);
            self.add(new);
        }
    }
}

/// The counters of one worker.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that this worker has served.
    pub opened: Counter,
    /// Of those, how many are closed.
    pub closed: Counter,
    /// Connections refused because of `maxclients`.
    pub rejected: Counter,
    /// Times that nothing could be accepted for want of descriptors or memory; tried again with the next tick.
    pub accepts_failed: Counter,
    /// Bytes received.
    pub bytes_in: Counter,
    /// Bytes sent.
    pub bytes_out: Counter,
    /// Chunks received.
    pub reads: Counter,
    /// Replies handed to the kernel.
    pub writes: Counter,
    /// Times that the worker asked the kernel for events.
    pub rounds: Counter,
    /// Now: bytes of output that peers have not taken.
    pub output_pending_bytes: Counter,
    /// Now: memory of that output, without the values that it shares with the service.
    pub output_memory_bytes: Counter,
    /// Now: bytes reserved for incomplete input.
    pub input_buffer_bytes: Counter,
    /// Reads of devices that the service has asked for.
    pub device_reads: Counter,
    /// Of those, how many have ended with an error.
    pub device_reads_failed: Counter,
    /// Now: how many have not ended.
    pub device_reads_in_flight: Counter,
    /// Connections that this end closed.
    pub closed_by: ClosedBy,
}

/// Connections closed, by the limit that was broken.
#[derive(Debug, Default)]
pub struct ClosedBy {
    /// Too much output was not taken.
    pub output_limit: Counter,
    /// A command was too long.
    pub input_limit: Counter,
    /// Nothing came for too long.
    pub timeout: Counter,
}
