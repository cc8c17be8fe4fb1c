//! Devices: where a log's pages go when they leave memory.
//!
//! **Is**: one trait of aligned writes, reads, discards and syncs over a flat range of offsets, and what implements it: files,
//! memory, nothing at all, and devices made of devices.
//! **Is not**: a log or a cache. It does not know pages, records, checksums or which bytes are live: its caller knows, and
//! discards what is not needed any more. It has no place on the way of a request: a worker asks for a [`Source`] and reads that
//! itself.
//! **Invariants**: *D1* [`Device::used_bytes`] follows from the writes and discards that succeeded, and is the same after
//! reopening. *D2* The range of a source keeps its bytes until it is discarded or written again. *D3* After a failed sync a
//! device never says again that anything is safe.
//! **Start reading at**: [`Device`], then [`file::FileDevice`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

use std::io;

pub use almandine_io::storage::{BLOCK_BYTES, BlockingSource, Source};

mod error;
pub mod faulty;
pub mod file;
mod limited;
pub mod memory;
pub mod null;
#[cfg(feature = "object-store")]
pub mod object;
mod ranges;
pub mod sharded;
pub mod tiered;
pub mod watched;

pub use faulty::{FaultCounts, FaultPlan, FaultyDevice};
pub use file::{FileDevice, FileOptions, OpenMode, Removed};
pub use limited::{LimitedDevice, Quota};
pub use memory::MemoryDevice;
pub use null::NullDevice;
#[cfg(feature = "object-store")]
pub use object::{ObjectDevice, ObjectFolder, ObjectOptions, ObjectReport};
pub use sharded::ShardedDevice;
pub use tiered::{Tier, TierOptions, TierReport, TieredDevice};
pub use watched::WatchedDevice;

/// A range of offsets that can be written, read and given back. Everything blocks but [`Device::source`] and
/// [`Device::used_bytes`]; offsets, lengths and memory are multiples of [`Device::block_bytes`].
pub trait Device: Send + Sync {
    /// Alignment of offsets, lengths and memory.
    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    /// Writes whole blocks. For background threads.
    ///
    /// # Errors
    /// When not everything was written; then the range holds anything.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Fills the buffer. For background threads and those of the pool.
    ///
    /// # Errors
    /// When not everything could be read; then the buffer holds anything.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Gives the space of a range back. Reading it afterwards is an error or zeroes. What holds nothing may be discarded.
    ///
    /// # Errors
    /// When the space could not be given back; what the range holds then may still be there.
    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Returns when all that was written survives a crash of the machine.
    ///
    /// # Errors
    /// When that is not certain; it never is again with this device.
    fn sync(&self) -> io::Result<()>;

    /// How a worker reads these bytes without blocking on them here.
    ///
    /// # Errors
    /// When the range was never written or has been discarded, as far as that is known without looking at the device.
    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source>;

    /// Space taken on the device.
    fn used_bytes(&self) -> u64;

    /// An offset that nothing was ever written at or behind, by an earlier process included, whose last writes may still be on
    /// their way.
    ///
    /// # Errors
    /// `Unsupported` where that cannot be known: nothing outlives a process on such a device.
    fn end(&self) -> io::Result<u64> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "what this device holds does not outlive the process"))
    }

    /// Says durably what it holds is a part of from now on: what a later process is to open it as.
    ///
    /// # Errors
    /// When that is not certain, or nothing outlives a process on such a device.
    fn relabel(&self, label: &str) -> io::Result<()> {
        let _ = label;
        Err(io::Error::new(io::ErrorKind::Unsupported, "what this device holds does not outlive the process"))
    }
}
