//! Listpacks: small collections in one run of bytes, as Redis 7.0 and younger lay them out.
//!
//! ```text
//! bytes in all (4)  number of elements (2, 65535: count them)  elements …  255
//! ```
//!
//! An element is an encoding, its data, and the length of both once more, to be read backwards: seven bits per byte, the most
//! significant first, with the high bit in all bytes but the first. Numbers are least significant byte first, except a string's
//! twelve bits of length:
//!
//! ```text
//! 0nnnnnnn                         a number of 0 to 127
//! 10llllll                         a string of up to 63 bytes
//! 110nnnnn  nnnnnnnn               a number of 13 bits, with sign
//! 1110llll  llllllll               a string of up to 4,095 bytes
//! 11110000  4 bytes of length      a string
//! 11110001 … 11110100              a number of 2, 3, 4, 8 bytes
//! 11111111                         the end
//! ```

use super::checked::{Checked, Elements, Format};
use crate::cursor::take;
use almandine_datatypes::number::parse_i64;
use almandine_datatypes::packed::Element;
use almandine_datatypes::packed::element::little_endian;

const HEADER_BYTES: usize = 6;
const COUNT_UNKNOWN: u16 = u16::MAX;
const END: u8 = 0xFF;
const STRING_32: u8 = 0xF0;
const INTEGER_16: u8 = 0xF1;
const INTEGER_24: u8 = 0xF2;
const INTEGER_32: u8 = 0xF3;
const INTEGER_64: u8 = 0xF4;

/// Redis puts no more than this many bytes into one.
pub const BYTES_MAX: usize = 1 << 30;

/// A listpack all of whose bytes were checked.
pub type Listpack<'i> = Checked<'i, ListpackFormat>;

/// The elements of a listpack.
pub type ListpackElements<'i> = Elements<'i, ListpackFormat>;

/// How these lie.
#[derive(Clone, Copy, Debug)]
pub struct ListpackFormat;

impl Format for ListpackFormat {
    type Element<'i> = Element<'i>;
    const HEADER_BYTES: usize = HEADER_BYTES;

    fn read<'i>(input: &mut &'i [u8]) -> Option<Self::Element<'i>> {
        read_element(input)
    }
}

impl<'i> Listpack<'i> {
    /// Checks header, each element with its length behind it, their number and the end. `None` when anything is wrong.
    #[must_use]
    pub fn parse(bytes: &'i [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [a, b, c, d, count @ ..] = *header;
        let (&end, elements) = rest.split_last()?;
        if usize::try_from(u32::from_le_bytes([a, b, c, d])) != Ok(bytes.len()) || end != END {
            return None;
        }
        let (mut len, mut unread) = (0, elements);
        while !unread.is_empty() {
            read_element(&mut unread)?;
            len += 1;
        }
        let count = u16::from_le_bytes(count);
        (count == COUNT_UNKNOWN || usize::from(count) == len).then(|| Self::new(elements, len))
    }
}

/// Reads an element and its length behind it. `None` when it is malformed, cut off, or there is none.
fn read_element<'i>(input: &mut &'i [u8]) -> Option<Element<'i>> {
    let before = *input;
    let first = take(input, 1)?[0];
    let element = match first {
        0..0x80 => Element::Integer(first.into()),
        0x80..0xC0 => Element::Bytes(take(input, usize::from(first & 0x3F))?),
        0xC0..0xE0 => {
            let raw = u16::from(first & 0x1F) << 8 | u16::from(take(input, 1)?[0]);
            Element::Integer(i64::from((raw << 3).cast_signed() >> 3))
        }
        0xE0..0xF0 => {
            let len = usize::from(first & 0x0F) << 8 | usize::from(take(input, 1)?[0]);
            Element::Bytes(take(input, len)?)
        }
        STRING_32 => {
            let len = u32::from_le_bytes(take(input, 4)?.try_into().ok()?);
            Element::Bytes(take(input, usize::try_from(len).ok()?)?)
        }
        INTEGER_16 => Element::Integer(little_endian(take(input, 2)?)),
        INTEGER_24 => Element::Integer(little_endian(take(input, 3)?)),
        INTEGER_32 => Element::Integer(little_endian(take(input, 4)?)),
        INTEGER_64 => Element::Integer(little_endian(take(input, 8)?)),
        _ => return None,
    };
    let (backward, len) = backward_length(before.len() - input.len());
    (take(input, len)? == &backward[..len]).then_some(element)
}

/// The length that stands behind an element of `len` bytes, and how many bytes it takes. The highest number of each width takes one
/// more byte than it needs, as in Redis.
fn backward_length(len: usize) -> ([u8; 5], usize) {
    let bits = |shift: u32| (len >> shift) as u8 & 0x7F;
    match len {
        0..=127 => ([bits(0), 0, 0, 0, 0], 1),
        128..16_383 => ([bits(7), bits(0) | 0x80, 0, 0, 0], 2),
        16_383..2_097_151 => ([bits(14), bits(7) | 0x80, bits(0) | 0x80, 0, 0], 3),
        2_097_151..268_435_455 => ([bits(21), bits(14) | 0x80, bits(7) | 0x80, bits(0) | 0x80, 0], 4),
        _ => ([bits(28), bits(21) | 0x80, bits(14) | 0x80, bits(7) | 0x80, bits(0) | 0x80], 5),
    }
}

/// Writes a listpack from its beginning to its end.
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    len: usize,
    bytes_max: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Self { bytes: vec![0; HEADER_BYTES], len: 0, bytes_max: BYTES_MAX }
    }
}

impl Writer {
    /// Of as many bytes as the format has room for: one entry of a stream may have [`BYTES_MAX`] without what surrounds it.
    #[must_use]
    pub fn unlimited() -> Self {
        Self { bytes_max: u32::MAX as usize, ..Self::default() }
    }

    /// Appends a string, as a number where it is the decimal form of one. `None`, and nothing is written, when that would be more
    /// than the writer takes: [`BYTES_MAX`], unless it is unlimited.
    #[must_use]
    pub fn push(&mut self, text: &[u8]) -> Option<()> {
        match parse_i64(text) {
            Some(number) => self.push_integer(number),
            None => {
                let len = text.len();
                self.append(
                    |bytes| {
                        match len {
                            0..64 => bytes.push(0x80 | len as u8),
                            64..4_096 => bytes.extend_from_slice(&[0xE0 | (len >> 8) as u8, len as u8]),
                            _ => {
                                bytes.push(STRING_32);
                                bytes.extend_from_slice(&(len as u32).to_le_bytes());
                            }
                        }
                        bytes.extend_from_slice(text);
                    },
                    len,
                )
            }
        }
    }

    /// Appends a number. `None` as [`Writer::push`].
    #[must_use]
    pub fn push_integer(&mut self, number: i64) -> Option<()> {
        let le = number.to_le_bytes();
        self.append(
            |bytes| match number {
                0..=127 => bytes.push(number as u8),
                -4_096..=4_095 => bytes.extend_from_slice(&[0xC0 | (number >> 8) as u8 & 0x1F, number as u8]),
                -32_768..=32_767 => bytes.extend_from_slice(&[INTEGER_16, le[0], le[1]]),
                -8_388_608..=8_388_607 => bytes.extend_from_slice(&[INTEGER_24, le[0], le[1], le[2]]),
                -2_147_483_648..=2_147_483_647 => bytes.extend_from_slice(&[INTEGER_32, le[0], le[1], le[2], le[3]]),
                _ => {
                    bytes.push(INTEGER_64);
                    bytes.extend_from_slice(&le);
                }
            },
            le.len(),
        )
    }

    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>), data_len: usize) -> Option<()> {
        // An encoding of 5 bytes, the length behind of 5, the end.
        let bound = self.bytes.len().checked_add(data_len)?.checked_add(11)?;
        if bound > self.bytes_max {
            return None;
        }
        let before = self.bytes.len();
        write(&mut self.bytes);
        let (backward, len) = backward_length(self.bytes.len() - before);
        self.bytes.extend_from_slice(&backward[..len]);
        self.len += 1;
        Some(())
    }

    /// The finished bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let in_all = (self.bytes.len() as u32).to_le_bytes();
        let count = u16::try_from(self.len).unwrap_or(COUNT_UNKNOWN).to_le_bytes();
        for (byte, &value) in self.bytes.iter_mut().zip(in_all.iter().chain(&count)) {
            *byte = value;
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use almandine_datatypes::packed::listpack::text_size;

    use super::*;

    fn written(texts: &[&[u8]]) -> Vec<u8> {
        let mut writer = Writer::default();
        texts.iter().for_each(|text| writer.push(text).unwrap());
        writer.finish()
    }

    #[test]
    fn encodings() {
        for (text, bytes) in [
            (&b"127"[..], &[0x7F, 1][..]),
            (b"128", &[0xC0, 0x80, 2]),
            (b"-1", &[0xDF, 0xFF, 2]),
            (b"-4096", &[0xD0, 0, 2]),
            (b"4096", &[0xF1, 0, 0x10, 3]),
            (b"-32769", &[0xF2, 0xFF, 0x7F, 0xFF, 4]),
            (b"8388608", &[0xF3, 0, 0, 0x80, 0, 5]),
            (b"2147483648", &[0xF4, 0, 0, 0, 0x80, 0, 0, 0, 0, 9]),
            (b"abc", &[0x83, b'a', b'b', b'c', 4]),
            (b"01", &[0x82, b'0', b'1', 3]),
            (b"", &[0x80, 1]),
        ] {
            let whole = written(&[text]);
            assert_eq!(whole[6..whole.len() - 1], *bytes, "{}", text.escape_ascii());
        }
        assert_eq!(written(&[]), [7, 0, 0, 0, 0, 0, 0xFF]);
    }

    #[test]
    fn what_is_written_is_read() {
        for len in [0, 63, 64, 126, 127, 4_095, 4_096, 16_377, 16_378, 16_379, 2_097_145, 2_097_146, 2_097_147] {
            let text = vec![b'x'; len];
            let bytes = written(&[b"-5", &text]);
            let read = Listpack::parse(&bytes).unwrap();
            assert_eq!(read.iter().collect::<Vec<_>>(), [Element::Integer(-5), Element::Bytes(&text)], "{len}");
            assert_eq!(bytes.len(), HEADER_BYTES + text_size(b"-5") + text_size(&text) + 1, "{len}");
        }
        for number in [0, 127, 128, -1, 4_095, 4_096, -4_097, 1 << 15, 1 << 23, -1 << 23, 1 << 31, -1 << 31, i64::MIN, i64::MAX] {
            let bytes = written(&[number.to_string().as_bytes()]);
            assert_eq!(Listpack::parse(&bytes).unwrap().iter().next(), Some(Element::Integer(number)));
            assert_eq!(bytes.len(), HEADER_BYTES + text_size(number.to_string().as_bytes()) + 1);
        }
    }

    #[test]
    fn many_elements_are_counted() {
        let mut writer = Writer::default();
        (0..70_000).for_each(|n| writer.push_integer(n).unwrap());
        let bytes = writer.finish();
        assert_eq!(bytes[4..6], [0xFF, 0xFF]);
        assert_eq!(Listpack::parse(&bytes).unwrap().len(), 70_000);
    }

    #[test]
    fn any_changed_byte_that_matters_is_noticed() {
        let good = written(&[b"field", b"5", &[b'v'; 200]]);
        assert!(Listpack::parse(&good).is_some());
        for len in 0..good.len() {
            assert!(Listpack::parse(&good[..len]).is_none());
        }
        // Of the total, the count, an encoding, both kinds of length behind an element, the end.
        for at in [0, 4, 6, 12, 14, good.len() - 3, good.len() - 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            assert!(Listpack::parse(&bad).is_none(), "byte {at}");
        }
    }
}
