//! What OBJECT ENCODING names a list: it follows the thresholds of Redis 7.2 and younger, and says nothing of how the bytes lie.

/// The name of a list's encoding. A list keeps it as a byte of its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ListEncoding {
    /// `listpack`: what would be no more than one node of a quicklist.
    #[default]
    ListPack = 0,
    /// `quicklist`.
    QuickList = 1,
}

/// Bytes of a node whose size is limited in elements.
const SAFE_BYTES_MAX: usize = 8192;

/// Bytes of a listpack without elements.
pub const EMPTY_LISTPACK_BYTES: usize = 7;

/// How large a node of a quicklist may be, by `list-max-listpack-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// Bytes of a node.
    bytes: usize,
    /// Elements of a node.
    entries: usize,
}

impl ListLimits {
    /// Of the parameter's value: elements of a node, or, if it is negative, bytes: −1 for 4 KiB, twice as many for each further one
    /// up to −5.
    #[must_use]
    pub fn new(size: i64) -> Self {
        match size {
            0.. => Self { bytes: SAFE_BYTES_MAX, entries: usize::try_from(size.max(1)).unwrap_or(usize::MAX) },
            _ => Self { bytes: 4096 << (-1 - size.max(-5)), entries: usize::MAX },
        }
    }

    /// Whether a node with these elements, of these bytes as a listpack, is too large.
    #[must_use]
    pub fn is_exceeded(self, bytes: usize, entries: usize) -> bool {
        bytes > self.bytes || entries > self.entries
    }

    /// What a quicklist may be at most to become a listpack when it shrinks: half, lest it goes to and fro.
    #[must_use]
    pub fn half(self) -> Self {
        let entries = if self.entries == usize::MAX { usize::MAX } else { self.entries / 2 };
        let bytes = if self.entries == usize::MAX { self.bytes / 2 } else { self.bytes };
        Self { bytes, entries }
    }
}

impl ListEncoding {
    /// The encoding with this number; unknown ones are quicklists.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        if number == 0 { Self::ListPack } else { Self::QuickList }
    }

    /// As OBJECT ENCODING names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ListPack => "listpack",
            Self::QuickList => "quicklist",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_of_both_signs() {
        let limits = |size| ListLimits::new(size);
        assert!(!limits(-2).is_exceeded(8192, 8000) && limits(-2).is_exceeded(8193, 1));
        assert!(limits(-1).is_exceeded(4097, 1) && !limits(-5).is_exceeded(65_536, 1) && limits(-9) == limits(-5));
        assert!(!limits(3).is_exceeded(8192, 3) && limits(3).is_exceeded(10, 4) && limits(3).is_exceeded(8193, 1));
        assert!(limits(0) == limits(1));
        assert!(limits(-2).half().is_exceeded(4097, 1) && limits(4).half().is_exceeded(10, 3));
        for encoding in [ListEncoding::ListPack, ListEncoding::QuickList] {
            assert_eq!(ListEncoding::from_number(encoding as u8), encoding);
        }
    }
}
