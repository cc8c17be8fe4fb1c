//! What OBJECT ENCODING names a set: it follows Redis' thresholds and says nothing of how the bytes lie.

use crate::number::parse_i64;

/// The name of a set's encoding. A set keeps it as a byte of its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SetEncoding {
    /// `intset`: few integers.
    #[default]
    IntSet = 0,
    /// `listpack`: few short members.
    ListPack = 1,
    /// `hashtable`.
    HashTable = 2,
}

/// From which size on a set has which encoding.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// `set-max-intset-entries`.
    pub integers: usize,
    /// `set-max-listpack-entries`.
    pub entries: usize,
    /// `set-max-listpack-value`: bytes of a member.
    pub value: usize,
}

impl SetEncoding {
    /// The encoding with this number; unknown ones are hash tables.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::IntSet,
            1 => Self::ListPack,
            _ => Self::HashTable,
        }
    }

    /// As OBJECT ENCODING names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IntSet => "intset",
            Self::ListPack => "listpack",
            Self::HashTable => "hashtable",
        }
    }

    /// The encoding of a new set that a command is about to give `hint` members, `member` the first of them.
    #[must_use]
    pub fn for_new(member: &[u8], hint: usize, limits: SetLimits) -> Self {
        if parse_i64(member).is_some() && hint <= limits.integers {
            Self::IntSet
        } else if hint <= limits.entries {
            Self::ListPack
        } else {
            Self::HashTable
        }
    }

    /// The encoding after a new `member` has made the set one of `len` members.
    #[must_use]
    pub fn after(self, member: &[u8], len: usize, limits: SetLimits) -> Self {
        let is_small = len <= limits.entries && member.len() <= limits.value;
        match self {
            Self::IntSet if parse_i64(member).is_some() => {
                if len <= limits.integers {
                    Self::IntSet
                } else {
                    Self::HashTable
                }
            }
            Self::IntSet | Self::ListPack if is_small => Self::ListPack,
            _ => Self::HashTable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SetLimits = SetLimits { integers: 512, entries: 128, value: 64 };

    #[test]
    fn encodings_follow_the_thresholds() {
        use SetEncoding::{HashTable, IntSet, ListPack};
        let new = |member: &[u8], hint| SetEncoding::for_new(member, hint, LIMITS);
        assert_eq!([new(b"1", 512), new(b"1", 513), new(b"a", 128), new(b"a", 129)], [IntSet, HashTable, ListPack, HashTable]);
        for (before, member, len, after) in [
            (IntSet, &b"12"[..], 512, IntSet),
            (IntSet, b"12", 513, HashTable),
            (IntSet, b"012", 128, ListPack),
            (IntSet, b"a", 129, HashTable),
            (IntSet, &[b'a'; 65], 2, HashTable),
            (ListPack, b"7", 128, ListPack),
            (ListPack, b"7", 129, HashTable),
            (ListPack, &[b'a'; 64], 2, ListPack),
            (ListPack, &[b'a'; 65], 2, HashTable),
            (HashTable, b"1", 1, HashTable),
        ] {
            assert_eq!(before.after(member, len, LIMITS), after, "{before:?} {len}");
        }
        for encoding in [IntSet, ListPack, HashTable] {
            assert_eq!(SetEncoding::from_number(encoding as u8), encoding);
        }
        assert_eq!([IntSet, ListPack, HashTable].map(SetEncoding::name), ["intset", "listpack", "hashtable"]);
    }
}
