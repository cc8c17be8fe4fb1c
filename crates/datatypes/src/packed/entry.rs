//! One element: with its value, as a field of a hash, or without one, as a member of a set.
//!
//! ```text
//! with a value ([`Valued`]):
//!
//! bit 7: has an expiry; 7 bits: length of the field      1 byte
//! length of the value                                    1 byte
//! expiry, milliseconds since 1970                        6 bytes, if there is one
//! rest of the field's length                             0, 1, 2 or 4 bytes
//! rest of the value's length                             0, 1, 2 or 4 bytes
//! field, value
//!
//! without one ([`Bare`]):
//!
//! length of the member                                   1 byte
//! rest of the length                                     0, 1, 2 or 4 bytes
//! member
//! ```
//!
//! A field of up to 123 bytes with a value of up to 251 takes two bytes more than they have; an expiry takes six. A member of up to
//! 251 bytes takes one byte more than it has, and does not expire.

use std::fmt::Debug;

use super::length;

/// Bytes of the part before the field at most.
pub const HEAD_MAX_BYTES: usize = 16;

/// The latest expiry that an element can have, in milliseconds since 1970: nearly 9,000 years.
pub const DUE_MAX: u64 = (1 << 48) - 2;

const HAS_DUE: u8 = 0x80;
const FIELD_LIMIT: u8 = 124;
const VALUE_LIMIT: u8 = 252;
const DUE_BYTES: usize = 6;

/// An element as it lies in the bytes of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldEntry<'a> {
    /// The element: a field's name.
    pub field: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// When it expires, in milliseconds since 1970.
    pub due: Option<u64>,
}

/// How entries of a kind of collection lie in its bytes.
pub trait EntryShape: Clone + Copy + Debug + Default + Send + Sync + 'static {
    /// The entry that begins at `at`, and the bytes that it takes. None if there is no whole one.
    fn parse(bytes: &[u8], at: usize) -> Option<(FieldEntry<'_>, usize)>;

    /// What stands before field and value of these lengths, below 2^32.
    fn head(field: usize, value: usize, due: Option<u64>) -> Head;
}

/// Entries with a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Valued;

impl EntryShape for Valued {
    #[inline]
    fn parse(bytes: &[u8], at: usize) -> Option<(FieldEntry<'_>, usize)> {
        FieldEntry::parse(bytes, at)
    }

    #[inline]
    fn head(field: usize, value: usize, due: Option<u64>) -> Head {
        Head::new(field, value, due)
    }
}

/// Entries without one: the value is empty, and they do not expire.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bare;

impl EntryShape for Bare {
    #[inline]
    fn parse(bytes: &[u8], at: usize) -> Option<(FieldEntry<'_>, usize)> {
        let first = *bytes.get(at)?;
        let rest = length::rest_len(first, VALUE_LIMIT)?;
        let field_at = at.checked_add(1)?.checked_add(rest)?;
        let len = length::decode(first, VALUE_LIMIT, bytes.get(at + 1..field_at)?);
        let field = bytes.get(field_at..field_at.checked_add(len)?)?;
        Some((FieldEntry { field, value: &[], due: None }, 1 + rest + len))
    }

    fn head(field: usize, value: usize, due: Option<u64>) -> Head {
        debug_assert!(value == 0 && due.is_none(), "a bare entry has neither value nor expiry");
        let (first, rest) = length::encode(field, VALUE_LIMIT);
        let mut head = Head::EMPTY;
        head.push(&[first]);
        head.push(&rest.bytes[..rest.len]);
        head
    }
}

/// Where the parts of an entry lie, from its first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) head: usize,
    pub(crate) field: usize,
    pub(crate) value: usize,
}

impl Extent {
    /// Bytes of the whole entry.
    pub(crate) fn size(self) -> usize {
        self.head + self.field + self.value
    }

    /// Measures the entry that begins at `at`. None if the bytes end before it does, or are no entry.
    #[inline]
    pub(crate) fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let &[first, second] = bytes.get(at..at.checked_add(2)?)? else { return None };
        let extent = if first < FIELD_LIMIT && second < VALUE_LIMIT {
            Self { head: 2, field: usize::from(first), value: usize::from(second) }
        } else {
            Self::long(bytes, at, first, second)?
        };
        let end = at.checked_add(extent.head)?.checked_add(extent.field)?.checked_add(extent.value)?;
        (end <= bytes.len()).then_some(extent)
    }

    #[cold]
    fn long(bytes: &[u8], at: usize, first: u8, second: u8) -> Option<Self> {
        let short = first & !HAS_DUE;
        let field_at = at + 2 + if first & HAS_DUE != 0 { DUE_BYTES } else { 0 };
        let value_at = field_at + length::rest_len(short, FIELD_LIMIT)?;
        let field_at_end = value_at + length::rest_len(second, VALUE_LIMIT)?;
        let field = length::decode(short, FIELD_LIMIT, bytes.get(field_at..value_at)?);
        let value = length::decode(second, VALUE_LIMIT, bytes.get(value_at..field_at_end)?);
        Some(Self { head: field_at_end - at, field, value })
    }
}

impl<'a> FieldEntry<'a> {
    /// The entry that begins at `at`, and the bytes that it takes. None if there is no whole one.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &'a [u8], at: usize) -> Option<(Self, usize)> {
        let extent = Extent::at(bytes, at)?;
        let entry = bytes.get(at..at + extent.size())?;
        let (head, rest) = entry.split_at_checked(extent.head)?;
        let (field, value) = rest.split_at_checked(extent.field)?;
        Some((Self { field, value, due: due_of(head) }, extent.size()))
    }

    /// The part before the field.
    #[must_use]
    pub fn head(&self) -> Head {
        Head::new(self.field.len(), self.value.len(), self.due)
    }

    /// Bytes that the entry takes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.head().bytes().len() + self.field.len() + self.value.len()
    }
}

/// The expiry that the first bytes of an entry tell.
#[inline]
fn due_of(head: &[u8]) -> Option<u64> {
    if head.first()? & HAS_DUE == 0 {
        return None;
    }
    let mut due = [0; 8];
    due[..DUE_BYTES].copy_from_slice(head.get(2..2 + DUE_BYTES)?);
    Some(u64::from_le_bytes(due))
}

/// The part of an entry before its field.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; HEAD_MAX_BYTES],
    len: u8,
}

impl Head {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self { bytes: [0; HEAD_MAX_BYTES], len: 0 };

    /// The head of an entry with parts of these lengths, below 2^32, and this expiry.
    #[must_use]
    pub fn new(field: usize, value: usize, due: Option<u64>) -> Self {
        let (first, field_rest) = length::encode(field, FIELD_LIMIT);
        let (second, value_rest) = length::encode(value, VALUE_LIMIT);
        let mut head = Self::EMPTY;
        head.push(&[first | if due.is_some() { HAS_DUE } else { 0 }, second]);
        if let Some(due) = due {
            debug_assert!(due <= DUE_MAX, "an expiry has 48 bits: {due}");
            head.push(&due.min(DUE_MAX).to_le_bytes()[..DUE_BYTES]);
        }
        head.push(&field_rest.bytes[..field_rest.len]);
        head.push(&value_rest.bytes[..value_rest.len]);
        head
    }

    /// Appends bytes; all together are at most [`HEAD_MAX_BYTES`].
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let at = usize::from(self.len);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(entry: &FieldEntry) -> Vec<u8> {
        [entry.head().bytes(), entry.field, entry.value].concat()
    }

    #[test]
    fn entry_bytes_are_pinned() {
        let plain = FieldEntry { field: b"ab", value: b"xyz", due: None };
        assert_eq!(encode(&plain), b"\x02\x03abxyz");
        let due = FieldEntry { field: b"a", value: &[b'v'; 300], due: Some(0x0102_0304_0506) };
        assert_eq!(encode(&due)[..10], [0x81, 252, 6, 5, 4, 3, 2, 1, 48, b'a']);
    }

    #[test]
    fn entries_come_back() {
        let lens = [0, 1, 123, 124, 251, 252, 379, 380, 507, 508, 65_535, 65_536, 100_000];
        for (field, value) in lens.iter().flat_map(|f| lens.iter().map(move |v| (vec![b'f'; *f], vec![b'v'; *v]))) {
            let bare = [Bare::head(field.len(), 0, None).bytes(), &field].concat();
            assert_eq!(Bare::parse(&bare, 0), Some((FieldEntry { field: &field, value: &[], due: None }, bare.len())));
            assert_eq!(Bare::parse(&bare[..bare.len() - 1], 0), None);
            for due in [None, Some(1), Some(DUE_MAX)] {
                let entry = FieldEntry { field: &field, value: &value, due };
                let bytes = encode(&entry);
                assert_eq!(FieldEntry::parse(&bytes, 0), Some((entry, bytes.len())));
                assert_eq!(entry.size(), bytes.len());
                assert_eq!(FieldEntry::parse(&bytes[..bytes.len() - 1], 0), None, "one byte is missing");
            }
        }
    }
}
