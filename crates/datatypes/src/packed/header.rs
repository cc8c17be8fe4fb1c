//! The first bytes of a packed collection.
//!
//! ```text
//! bit 0: the earliest expiry follows; bits 1-2: encoding     1 byte
//! number of elements                                         1 byte
//! earliest expiry of the elements                            6 bytes, if one has any
//! ```

use super::entry::Head;

/// Bytes of a header at most.
pub const HEADER_MAX_BYTES: usize = 8;

const HAS_DUE: u8 = 1;

/// What OBJECT ENCODING names. It follows Redis' thresholds and says nothing of how the bytes lie: the caller decides it, values
/// keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum HashEncoding {
    /// `listpack`.
    #[default]
    ListPack = 0,
    /// `listpackex`: a small hash of which a field had an expiry once.
    ListPackEx = 1,
    /// `hashtable`.
    HashTable = 2,
}

impl HashEncoding {
    /// The encoding with this number; unknown ones are hash tables.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::ListPack,
            1 => Self::ListPackEx,
            _ => Self::HashTable,
        }
    }

    /// As OBJECT ENCODING names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ListPack => "listpack",
            Self::ListPackEx => "listpackex",
            Self::HashTable => "hashtable",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) encoding: HashEncoding,
    pub(crate) count: usize,
    pub(crate) due: Option<u64>,
}

impl Header {
    /// The header, and the bytes that it takes. Bytes that are none are an empty collection.
    pub(crate) fn parse(bytes: &[u8]) -> (Self, usize) {
        let &[flags, count, ref rest @ ..] = bytes else { return (Self::default(), bytes.len()) };
        let mut header = Self { encoding: HashEncoding::from_number((flags >> 1) & 3), count: usize::from(count), due: None };
        if flags & HAS_DUE == 0 {
            return (header, 2);
        }
        let Some(&[a, b, c, d, e, f]) = rest.get(..6) else { return (Self::default(), bytes.len()) };
        header.due = Some(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]));
        (header, HEADER_MAX_BYTES)
    }

    pub(crate) fn encode(self) -> Head {
        let mut head = Head::EMPTY;
        head.push(&[u8::from(self.due.is_some()) | ((self.encoding as u8) << 1), self.count as u8]);
        if let Some(due) = self.due {
            head.push(&due.to_le_bytes()[..6]);
        }
        head
    }
}
