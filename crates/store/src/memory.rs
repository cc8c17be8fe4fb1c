//! Bytes of memory by use, and what of them counts against the budget.

/// Bytes of memory by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Hash buckets and overflow buckets.
    pub index_bytes: u64,
    /// Log pages that hold memory.
    pub log_resident_bytes: u64,
    /// Log space taken by live records.
    pub log_live_bytes: u64,
    /// Log space of dead records that is not reused yet.
    pub log_free_bytes: u64,
    /// Heap values and long keys.
    pub heap_bytes: u64,
    /// The expiry wheel.
    pub expiry_bytes: u64,
    /// What is known of pages on the device.
    pub tier_bytes: u64,
    /// What eviction remembers of records that were evicted.
    pub ghost_bytes: u64,
    /// What the store's user says by [`crate::Settings::count_external_bytes`], values that only readers hold, and what is saved
    /// for a copy of one moment.
    pub external_bytes: u64,
    /// Large values that are being read from the device, and objects that a command or a writer holds, but no record.
    pub staged_bytes: u64,
    /// Large values without a holder, before they are freed.
    pub garbage_bytes: u64,
}

impl MemoryUse {
    /// What counts against the budget.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.log_live_bytes + self.beside_log_bytes()
    }

    /// What counts against the budget beside the log.
    #[must_use]
    pub fn beside_log_bytes(&self) -> u64 {
        self.index_bytes
            + self.heap_bytes
            + self.expiry_bytes
            + self.ghost_bytes
            + self.tier_bytes
            + self.external_bytes
            + self.staged_bytes
            + self.garbage_bytes
    }
}
