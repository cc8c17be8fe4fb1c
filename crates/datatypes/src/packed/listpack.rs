//! One element of a list, as in a listpack without the length behind it.
//!
//! ```text
//! 0nnnnnnn                         a number of 0 to 127
//! 10llllll                         a string of up to 63 bytes
//! 110nnnnn  nnnnnnnn               a number of 13 bits, with sign
//! 1110llll  llllllll               a string of up to 4,095 bytes
//! 11110000  4 bytes of length      a string
//! 11110001 … 11110100              a number of 2, 3, 4, 8 bytes
//! ```
//!
//! Numbers of several bytes and the longest lengths are least significant byte first. A string that is the decimal form of a number
//! is always written as that number, so equal elements have equal bytes: an element is looked for by its bytes.

use crate::number::parse_i64;
use crate::packed::Element;
use crate::packed::element::little_endian;
use crate::packed::entry::Head;

const STRING_12: u8 = 0xE0;
const STRING_32: u8 = 0xF0;
const INTEGER_16: u8 = 0xF1;
const INTEGER_24: u8 = 0xF2;
const INTEGER_32: u8 = 0xF3;
const INTEGER_64: u8 = 0xF4;

/// Bytes before a string of 2 GiB at most.
const HEAD_32: usize = 5;

/// An element as it is written.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'e> {
    head: Head,
    data: &'e [u8],
}

impl<'e> Encoded<'e> {
    /// An element below 4 GiB.
    #[inline]
    pub fn new(element: &'e [u8]) -> Self {
        let mut head = Head::EMPTY;
        if let Some(number) = parse_i64(element) {
            push_integer(number, &mut head);
            return Self { head, data: &[] };
        }
        let len = element.len();
        debug_assert!(u32::try_from(len).is_ok(), "an element of {len} bytes");
        match len {
            0..64 => head.push(&[0x80 | len as u8]),
            64..4_096 => head.push(&[STRING_12 | (len >> 8) as u8, len as u8]),
            _ => {
                let [a, b, c, d] = (len as u32).to_le_bytes();
                head.push(&[STRING_32, a, b, c, d]);
            }
        }
        Self { head, data: element }
    }

    /// Bytes that it takes.
    #[inline]
    pub fn size(&self) -> usize {
        self.head.bytes().len() + self.data.len()
    }

    /// Its bytes in two pieces.
    #[inline]
    pub fn parts(&self) -> [&[u8]; 2] {
        [self.head.bytes(), self.data]
    }

    /// Its bytes.
    pub fn to_vec(self) -> Vec<u8> {
        self.parts().concat()
    }

    /// Writes it to the beginning of a buffer that has room for it.
    pub fn write(&self, out: &mut [u8]) {
        let (head, data) = (self.head.bytes(), self.data);
        out[..head.len()].copy_from_slice(head);
        out[head.len()..head.len() + data.len()].copy_from_slice(data);
    }
}

fn push_integer(number: i64, head: &mut Head) {
    let [a, b, c, d, ..] = number.to_le_bytes();
    match number {
        0..=127 => head.push(&[a]),
        -4_096..=4_095 => head.push(&[0xC0 | b & 0x1F, a]),
        -32_768..=32_767 => head.push(&[INTEGER_16, a, b]),
        -8_388_608..=8_388_607 => head.push(&[INTEGER_24, a, b, c]),
        -2_147_483_648..=2_147_483_647 => head.push(&[INTEGER_32, a, b, c, d]),
        _ => {
            head.push(&[INTEGER_64]);
            head.push(&number.to_le_bytes());
        }
    }
}

/// Bytes of the entry that begins at `at`, whether they are all there or not. None if none begins there.
#[inline]
pub fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    let first = *bytes.get(at)?;
    Some(match first {
        0..0x80 => 1,
        0x80..0xC0 => 1 + usize::from(first & 0x3F),
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 2 + (usize::from(first & 0x0F) << 8 | usize::from(*bytes.get(at + 1)?)),
        INTEGER_16 => 3,
        INTEGER_24 => 4,
        INTEGER_32 => 5,
        INTEGER_64 => 9,
        STRING_32 => {
            let &[a, b, c, d] = bytes.get(at + 1..at + HEAD_32)? else { return None };
            HEAD_32 + u32::from_le_bytes([a, b, c, d]) as usize
        }
        _ => return None,
    })
}

/// The entry that begins at `at`, and the bytes that it takes. None if there is no whole one.
#[inline]
pub fn parse(bytes: &[u8], at: usize) -> Option<(Element<'_>, usize)> {
    let size = size_at(bytes, at)?;
    let entry = bytes.get(at..at.checked_add(size)?)?;
    let element = match *entry.first()? {
        first @ 0..0x80 => Element::Integer(first.into()),
        0x80..0xC0 => Element::Bytes(&entry[1..]),
        first @ 0xC0..0xE0 => {
            let raw = u16::from(first & 0x1F) << 8 | u16::from(entry[1]);
            Element::Integer(i64::from((raw << 3).cast_signed() >> 3))
        }
        0xE0..0xF0 => Element::Bytes(&entry[2..]),
        STRING_32 => Element::Bytes(&entry[HEAD_32..]),
        _ => Element::Integer(little_endian(&entry[1..])),
    };
    Some((element, size))
}

/// The string that entries begin with, if they begin with one of less than 64 bytes: most are.
#[inline]
pub fn short_string(entries: &[u8]) -> Option<&[u8]> {
    let (first, rest) = entries.split_first()?;
    if first & 0xC0 == 0x80 { rest.get(..usize::from(first & 0x3F)) } else { None }
}

/// Whether a whole entry that begins at `at` is one that [`Encoded::new`] writes: equal elements have equal bytes.
pub fn is_canonical(bytes: &[u8], at: usize) -> bool {
    let Some((element, size)) = parse(bytes, at) else { return false };
    let text = super::Member::from(element);
    Encoded::new(&text).to_vec() == bytes[at..at + size]
}

/// Bytes that a listpack has behind an entry of this size: its length once more.
#[inline]
pub fn trailer_len(size: usize) -> usize {
    // The highest number of each width takes one more byte than it needs, as in Redis.
    match size {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Bytes that a text takes as an element of a listpack.
#[must_use]
pub fn text_size(text: &[u8]) -> usize {
    if let Some(number) = parse_i64(text) {
        return integer_size(number);
    }
    let len = text.len();
    surrounded(match len {
        0..64 => 1 + len,
        64..4_096 => 2 + len,
        _ => 5 + len,
    })
}

/// Bytes that a number takes as an element of a listpack.
#[must_use]
pub fn integer_size(number: i64) -> usize {
    surrounded(match number {
        0..=127 => 1,
        -4_096..=4_095 => 2,
        -32_768..=32_767 => 3,
        -8_388_608..=8_388_607 => 4,
        -2_147_483_648..=2_147_483_647 => 5,
        _ => 9,
    })
}

fn surrounded(len: usize) -> usize {
    len + trailer_len(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_bytes_are_pinned() {
        for (text, bytes) in [
            (&b"127"[..], &[0x7F][..]),
            (b"128", &[0xC0, 0x80]),
            (b"-1", &[0xDF, 0xFF]),
            (b"-4096", &[0xD0, 0]),
            (b"4096", &[0xF1, 0, 0x10]),
            (b"-32769", &[0xF2, 0xFF, 0x7F, 0xFF]),
            (b"8388608", &[0xF3, 0, 0, 0x80, 0]),
            (b"2147483648", &[0xF4, 0, 0, 0, 0x80, 0, 0, 0, 0]),
            (b"abc", &[0x83, b'a', b'b', b'c']),
            (b"01", &[0x82, b'0', b'1']),
            (b"", &[0x80]),
        ] {
            assert_eq!(Encoded::new(text).to_vec(), bytes, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn entries_come_back() {
        for len in [0, 1, 63, 64, 300, 4_095, 4_096, 70_000] {
            let text = vec![b'x'; len];
            let bytes = [&b"##"[..], &Encoded::new(&text).to_vec()].concat();
            assert_eq!(parse(&bytes, 2), Some((Element::Bytes(&text), bytes.len() - 2)), "{len}");
            assert!(is_canonical(&bytes, 2));
            for cut in 2..bytes.len() {
                assert_eq!(parse(&bytes[..cut], 2), None, "{len} cut to {cut}");
            }
        }
        for shift in 0..64 {
            for number in [i64::MAX >> shift, i64::MIN >> shift, (i64::MAX >> shift).wrapping_add(1)] {
                let text = number.to_string();
                let bytes = Encoded::new(text.as_bytes()).to_vec();
                assert_eq!(parse(&bytes, 0), Some((Element::Integer(number), bytes.len())));
                assert!(is_canonical(&bytes, 0));
            }
        }
        assert!(!is_canonical(&[0x81, b'7'], 0) && !is_canonical(&[0xC0, 1], 0) && !is_canonical(&[0xF5], 0));
    }
}
