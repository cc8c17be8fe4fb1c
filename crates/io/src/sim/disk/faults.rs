//! What goes wrong with a disk, and what each configuration promises to survive.

/// Rates are of a million operations of their kind; the default is a disk without faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// Reads that fail.
    pub read_errors: u32,
    /// Writes that fail after a part, or nothing, of them was written.
    pub write_errors: u32,
    /// Reads of a part of what was asked for.
    pub short_reads: u32,
    /// Writes of a part of what was asked for.
    pub short_writes: u32,
    /// Space for the bytes of files; writes beyond it are short or fail.
    pub full_at_bytes: Option<u64>,
    /// Writes of which a page cannot be read until it is written again.
    pub unreadable_pages: u32,
    /// Writes of which a bit is wrong.
    pub flipped_bits: u32,
    /// Writes that change nothing.
    pub lost_writes: u32,
    /// Writes that change other pages of the same file instead.
    pub misdirected_writes: u32,
    /// Syncs that fail, after which what they should have written passes for clean; the next one succeeds.
    pub sync_errors: u32,
    /// Holes that cannot be made.
    pub punch_errors: u32,
    /// Operations that take 10 to 500 ms.
    pub slow: u32,
    /// Nothing ends before this virtual time.
    pub stuck_until_ns: u64,
    /// Writes to an unsynced page that are preceded by making it durable, so that a crash may leave versions between the synced one
    /// and the last one. No fault.
    pub written_back: u32,
}

/// How an operation fails that is chosen by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The medium says that it fails: EIO.
    Medium,
    /// There is no room for what it needs, if it needs any: ENOSPC.
    Full,
}

/// The atlas: what a configuration promises to survive; see `docs/simulation.md`.
impl DiskFaults {
    /// One node, every configuration: a slow, full or failing disk that says so.
    #[must_use]
    pub fn reported(per_million: u32) -> Self {
        Self {
            read_errors: per_million,
            write_errors: per_million,
            sync_errors: per_million,
            punch_errors: per_million,
            ..Self::harmless(per_million)
        }
    }

    /// What changes no outcome: short transfers, slow operations, a page cache that writes back early.
    #[must_use]
    pub fn harmless(per_million: u32) -> Self {
        Self {
            short_reads: per_million,
            short_writes: per_million,
            slow: per_million,
            written_back: per_million,
            ..Self::default()
        }
    }

    /// One node, where checksums cover what is read: an error, never other bytes.
    #[must_use]
    pub fn detected(per_million: u32) -> Self {
        Self {
            unreadable_pages: per_million,
            flipped_bits: per_million,
            lost_writes: per_million,
            misdirected_writes: per_million,
            ..Self::default()
        }
    }
}
