//! What is known of a part that is not whole, by what lies behind it.

/// See the module. Offsets are of the segment's file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proof {
    /// A later part that was written when the one that is not whole was durable: so it was damaged since.
    pub(super) durable: Option<u64>,
    /// The end of the last part that has a whole head.
    pub(super) end: Option<u64>,
}
