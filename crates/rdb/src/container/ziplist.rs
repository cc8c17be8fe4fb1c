//! Ziplists: what Redis before 7.0 used where it has listpacks now. They are only read.
//!
//! ```text
//! bytes in all (4)  offset of the last element (4)  number of elements (2, 65535: count them)  elements …  255
//! ```
//!
//! An element is the length of the one before it (one byte, or 254 and 4 bytes), an encoding and its data. Numbers are least
//! significant byte first, except lengths of strings:
//!
//! ```text
//! 00llllll                         a string of up to 63 bytes
//! 01llllll  llllllll               a string of up to 16,383 bytes
//! 10______  4 bytes of length      a string
//! 11000000, 11010000, 11100000     a number of 2, 4, 8 bytes
//! 11110000, 11111110               a number of 3 bytes, of 1 byte
//! 1111nnnn                         the number n - 1, with n of 1 to 13
//! ```

use super::checked::{Checked, Elements, Format};
use crate::cursor::{array, take};
use almandine_datatypes::packed::Element;
use almandine_datatypes::packed::element::little_endian;

const HEADER_BYTES: usize = 10;
const COUNT_UNKNOWN: u16 = u16::MAX;
const END: u8 = 0xFF;
const LONG_PREVIOUS: u8 = 0xFE;

/// A ziplist all of whose bytes were checked.
pub type Ziplist<'i> = Checked<'i, ZiplistFormat>;

/// The elements of a ziplist.
pub type ZiplistElements<'i> = Elements<'i, ZiplistFormat>;

/// How these lie.
#[derive(Clone, Copy, Debug)]
pub struct ZiplistFormat;

impl Format for ZiplistFormat {
    type Element<'i> = Element<'i>;
    const HEADER_BYTES: usize = HEADER_BYTES;

    fn read<'i>(input: &mut &'i [u8]) -> Option<Self::Element<'i>> {
        read_element(input).map(|(_, element)| element)
    }
}

impl<'i> Ziplist<'i> {
    /// Checks header, each element with the length of the one before it, their number, the offset of the last and the end. `None`
    /// when anything is wrong.
    #[must_use]
    pub fn parse(bytes: &'i [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [a, b, c, d, e, f, g, h, count @ ..] = *header;
        let (&end, elements) = rest.split_last()?;
        let last = usize::try_from(u32::from_le_bytes([e, f, g, h])).ok()?;
        if usize::try_from(u32::from_le_bytes([a, b, c, d])) != Ok(bytes.len()) || end != END || last >= bytes.len() {
            return None;
        }
        let (mut len, mut unread, mut previous) = (0, elements, 0);
        while !unread.is_empty() {
            let before = unread.len();
            let (previous_said, _) = read_element(&mut unread)?;
            if previous_said != previous || (unread.is_empty() && last != bytes.len() - 1 - before) {
                return None;
            }
            previous = before - unread.len();
            len += 1;
        }
        let count = u16::from_le_bytes(count);
        (count == COUNT_UNKNOWN || usize::from(count) == len).then(|| Self::new(elements, len))
    }
}

/// Reads an element: what it says of the length of the one before it, and what it is.
fn read_element<'i>(input: &mut &'i [u8]) -> Option<(usize, Element<'i>)> {
    let previous = match take(input, 1)?[0] {
        END => return None,
        LONG_PREVIOUS => usize::try_from(u32::from_le_bytes(array(input)?)).ok()?,
        short => usize::from(short),
    };
    let first = take(input, 1)?[0];
    let element = match first {
        0..0x40 => Element::Bytes(take(input, usize::from(first))?),
        0x40..0x80 => {
            let len = usize::from(first & 0x3F) << 8 | usize::from(take(input, 1)?[0]);
            Element::Bytes(take(input, len)?)
        }
        0x80..0xC0 => {
            let len = u32::from_be_bytes(array(input)?);
            Element::Bytes(take(input, usize::try_from(len).ok()?)?)
        }
        0xC0 => Element::Integer(little_endian(take(input, 2)?)),
        0xD0 => Element::Integer(little_endian(take(input, 4)?)),
        0xE0 => Element::Integer(little_endian(take(input, 8)?)),
        0xF0 => Element::Integer(little_endian(take(input, 3)?)),
        0xFE => Element::Integer(little_endian(take(input, 1)?)),
        0xF1..0xFE => Element::Integer(i64::from(first & 0x0F) - 1),
        _ => return None,
    };
    Some((previous, element))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each encoding of numbers, and a string, with the lengths of those before them.
    const ALL: &[u8] = &[
        48, 0, 0, 0, 40, 0, 0, 0, 8, 0, // header
        0, 0x03, b'a', b'b', b'c', // "abc"
        5, 0xC0, 0xFF, 0xFE, // -257
        4, 0xD0, 0, 0, 1, 0, // 65536
        6, 0xE0, 0, 0, 0, 0, 1, 0, 0, 0, // 2^32
        10, 0xF1, // 0
        2, 0xFD, // 12
        // The length before may be long without need.
        0xFE, 2, 0, 0, 0, 0xFE, 0x80, // -128
        7, 0xF0, 0, 0, 0x80, // -2^23
    ];

    fn all() -> Vec<u8> {
        let mut bytes = ALL.to_vec();
        let last = bytes.len() - 5;
        bytes.push(END);
        bytes[0] = bytes.len() as u8;
        bytes[4] = last as u8;
        bytes
    }

    #[test]
    fn encodings() {
        let bytes = all();
        let list = Ziplist::parse(&bytes).unwrap();
        let numbers = [-257, 65_536, 1 << 32, 0, 12, -128, -8_388_608].map(Element::Integer);
        assert_eq!(list.iter().next(), Some(Element::Bytes(b"abc")));
        assert_eq!(list.iter().skip(1).collect::<Vec<_>>(), numbers);
        assert_eq!(list.len(), 8);
    }

    #[test]
    fn long_strings() {
        let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0x40, 100];
        bytes.extend([b'x'; 100]);
        bytes.extend([103, 0x80, 0, 0, 0, 70]);
        bytes.extend([b'y'; 70]);
        bytes.push(END);
        bytes[0] = bytes.len() as u8;
        bytes[4] = 10 + 103;
        let list = Ziplist::parse(&bytes).unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), [Element::Bytes(&[b'x'; 100]), Element::Bytes(&[b'y'; 70])]);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let good = all();
        for len in 0..good.len() {
            assert!(Ziplist::parse(&good[..len]).is_none());
        }
        // The total, the last one's offset, the count, a length before, an encoding, the end.
        for at in [0, 4, 8, 10, 15, 16, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 0x05;
            assert!(Ziplist::parse(&bad).is_none(), "byte {at}");
        }
        assert!(Ziplist::parse(&[11, 0, 0, 0, 10, 0, 0, 0, 0, 0, END]).is_some_and(|list| list.is_empty()));
        assert!(Ziplist::parse(&[11, 0, 0, 0, 11, 0, 0, 0, 0, 0, END]).is_none());
    }
}
