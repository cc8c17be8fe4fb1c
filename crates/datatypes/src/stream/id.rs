//! Ids of entries: a time in milliseconds, and a number within it.

use crate::number::parse_i64;

/// Redis reads no longer text as an id.
const TEXT_MAX: usize = 127;

/// The id of an entry. Ids of a stream ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds since 1970, or what a client says instead.
    pub ms: u64,
    /// The number among those of the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// `0-0`, which no entry has.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The last one.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };
    /// Bytes of the longest text of an id.
    pub const TEXT_BYTES_MAX: usize = 41;

    /// An id of its two parts.
    #[must_use]
    pub const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// The next one. None behind the last.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, seq: 0 }),
        }
    }

    /// The one before. None before the first.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| Self { ms, seq: u64::MAX }),
        }
    }

    /// The id that an entry gets at a time, in a stream whose last id is this one. None: there is none left.
    #[must_use]
    pub fn generate(self, now_ms: u64) -> Option<Self> {
        if now_ms > self.ms { Some(Self { ms: now_ms, seq: 0 }) } else { self.next() }
    }

    /// Reads `<ms>-<seq>`, or `<ms>` alone, whose number is then `missing`.
    #[must_use]
    pub fn parse(text: &[u8], missing: u64) -> Option<Self> {
        if text.len() > TEXT_MAX {
            return None;
        }
        match text.iter().position(|byte| *byte == b'-') {
            None => Some(Self { ms: parse_u64(text)?, seq: missing }),
            Some(at) => Some(Self { ms: parse_u64(&text[..at])?, seq: parse_u64(&text[at + 1..])? }),
        }
    }

    /// The text of the id.
    #[must_use]
    pub fn text(self) -> IdText {
        let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
        let mut text = IdText { bytes: [0; Self::TEXT_BYTES_MAX], len: 0 };
        text.push(ms.format(self.ms).as_bytes());
        text.push(b"-");
        text.push(seq.format(self.seq).as_bytes());
        text
    }

    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.ms.to_le_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        let [a, b, c, d, e, f, g, h, seq @ ..] = bytes;
        Self { ms: u64::from_le_bytes([a, b, c, d, e, f, g, h]), seq: u64::from_le_bytes(seq) }
    }
}

/// A number as Redis reads it here: what is no integer's decimal form goes through `strtoull`, which takes spaces and a sign before
/// the digits.
fn parse_u64(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let number = digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(u64::from(digit)) }
    })?;
    let number = if is_negative { number.wrapping_neg() } else { number };
    (!digits.is_empty()).then_some(number)
}

/// The text of an id, without memory of its own.
#[derive(Clone, Copy, Debug)]
pub struct IdText {
    bytes: [u8; StreamId::TEXT_BYTES_MAX],
    len: u8,
}

impl IdText {
    fn push(&mut self, part: &[u8]) {
        let at = usize::from(self.len);
        self.bytes[at..at + part.len()].copy_from_slice(part);
        self.len += part.len() as u8;
    }
}

impl std::ops::Deref for IdText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for id in [StreamId::MIN, StreamId::new(1, 2), StreamId::MAX, StreamId::new(1_526_919_030_474, 55)] {
            assert_eq!(StreamId::parse(&id.text(), 0), Some(id));
        }
        assert_eq!(&*StreamId::MAX.text(), b"18446744073709551615-18446744073709551615");
        assert_eq!(StreamId::parse(b"5", 7), Some(StreamId::new(5, 7)));
        assert_eq!(StreamId::parse(b" 05-+3", 0), Some(StreamId::new(5, 3)));
        for text in ["", "-", "1-", "-1", "a-1", "1-b", "1-1-1", "18446744073709551616-0", "1-*", "1--1"] {
            assert_eq!(StreamId::parse(text.as_bytes(), 0), None, "{text}");
        }
    }

    #[test]
    fn neighbours() {
        assert_eq!(StreamId::new(1, u64::MAX).next(), Some(StreamId::new(2, 0)));
        assert_eq!(StreamId::new(2, 0).previous(), Some(StreamId::new(1, u64::MAX)));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
        assert_eq!(StreamId::new(9, 3).generate(5), Some(StreamId::new(9, 4)));
        assert_eq!(StreamId::new(9, 3).generate(10), Some(StreamId::new(10, 0)));
    }
}
