//! Units of work in the log: a head with the number, then what was done, as entries.
//!
//! ```text
//! unit   | number, 8 bytes | bytes of the entries, 4 | entries, 4 | entries … |      least significant byte first
//! ```
//!
//! A unit takes its number at its end, under the latches of all keys that it used: the greatest number that any of them has, that
//! its thread and its connection had last, and the first of the commit epoch, plus one. So numbers ascend for each key, connection
//! and ring, and the units of commit epochs up to one are a causally closed cut.

/// Bits of a number below its commit epoch.
pub const EPOCH_SHIFT: u32 = 18;
/// Bytes of a head.
pub const HEAD_BYTES: usize = 16;

/// What stands in front of a unit's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHead {
    /// The number.
    pub number: u64,
    /// Bytes of the entries.
    pub bytes: u32,
    /// Entries.
    pub entries: u32,
}

/// The commit epoch of a number.
#[must_use]
pub const fn epoch_of(number: u64) -> u64 {
    number >> EPOCH_SHIFT
}

/// The greatest number that a commit epoch can have.
#[must_use]
pub const fn last_of(epoch: u64) -> u64 {
    ((epoch + 1) << EPOCH_SHIFT) - 1
}

impl UnitHead {
    /// As it stands in rings and files.
    #[must_use]
    pub fn encode(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[12..].copy_from_slice(&self.entries.to_le_bytes());
        bytes
    }

    /// The head of the first unit of `units`, with its entries and what follows them; none where they are cut short.
    #[must_use]
    pub fn split(units: &[u8]) -> Option<(Self, &[u8], &[u8])> {
        let (number, rest) = units.split_first_chunk::<8>()?;
        let (bytes, rest) = rest.split_first_chunk::<4>()?;
        let (entries, rest) = rest.split_first_chunk::<4>()?;
        let head =
            Self { number: u64::from_le_bytes(*number), bytes: u32::from_le_bytes(*bytes), entries: u32::from_le_bytes(*entries) };
        let (entries, rest) = rest.split_at_checked(head.bytes as usize)?;
        Some((head, entries, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_split_off_whole_or_not_at_all() {
        let head = UnitHead { number: (7 << EPOCH_SHIFT) + 3, bytes: 4, entries: 1 };
        assert_eq!(epoch_of(head.number), 7);
        let mut units = head.encode().to_vec();
        units.extend_from_slice(b"bodyrest");
        assert_eq!(UnitHead::split(&units), Some((head, &b"body"[..], &b"rest"[..])));
        for len in 0..HEAD_BYTES + 4 {
            assert_eq!(UnitHead::split(&units[..len]), None, "{len}");
        }
    }
}
