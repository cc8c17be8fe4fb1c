//! Places in a log.

/// A place between two groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The LSN.
    pub lsn: u64,
    /// The sum of the part before.
    pub sum: u32,
}
