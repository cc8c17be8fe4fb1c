//! What a listpack or a ziplist holds: strings, some of them kept as integers.

use crate::number::parse_i64;

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'i> {
    /// A string, where it lies.
    Bytes(&'i [u8]),
    /// The string that is this number's decimal form.
    Integer(i64),
}

impl Element<'_> {
    /// The number, also of a string that is a number's decimal form.
    #[must_use]
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Bytes(bytes) => parse_i64(bytes),
            Self::Integer(number) => Some(number),
        }
    }
}

/// The number of `bytes`, least significant byte first, at most eight of them.
#[must_use]
pub fn little_endian(bytes: &[u8]) -> i64 {
    debug_assert!((1..=8).contains(&bytes.len()), "a number has 1 to 8 bytes");
    let raw = bytes.iter().rev().fold(0i64, |raw, &byte| raw << 8 | i64::from(byte));
    let unused = 64u32.saturating_sub(8 * bytes.len() as u32);
    raw << unused >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_sign() {
        assert_eq!(little_endian(&[0xFF]), -1);
        assert_eq!(little_endian(&[0, 0, 0x80]), -8_388_608);
        assert_eq!(little_endian(&[1, 0, 0x7F]), 8_323_073);
        assert_eq!(little_endian(&i64::MIN.to_le_bytes()), i64::MIN);
    }

    #[test]
    fn texts_of_numbers_are_numbers() {
        assert_eq!(Element::Bytes(b"12").integer(), Some(12));
        assert_eq!(Element::Bytes(b"012").integer(), None);
        assert_eq!(Element::Integer(-3).integer(), Some(-3));
    }
}
