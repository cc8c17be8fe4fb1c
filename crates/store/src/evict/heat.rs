//! Heat: how often a record was used of late, in three bits of its index entry.
//!
//! The entry is in the cache when it matters, it is there for records on a device too, and a search for cold records reads
//! index lines in sequence and touches no record. Sessions warm an entry when its key is used; the background (or an evicting
//! session) cools it down. A lost update costs nothing but precision.

/// How use is turned into heat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum HeatRule {
    /// Not at all.
    #[default]
    Off = 0,
    /// A use makes a record as warm as it can be: heat is how recent that was.
    Recency = 1,
    /// Each use counts two steps: heat is how often it was used of late.
    Frequency = 2,
    /// Each use counts, from three on with a chance that halves with each step: what was used repeatedly is told from what was
    /// not, and often from seldom. For stores with a device.
    Uses = 3,
}

impl HeatRule {
    pub(crate) fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::Recency,
            2 => Self::Frequency,
            3 => Self::Uses,
            _ => Self::Off,
        }
    }
}
