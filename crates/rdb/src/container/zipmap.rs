//! Zipmaps: the small hashes of Redis 2.4 and older. They are only read.
//!
//! ```text
//! number of pairs (1, 254: count them)  pairs …  255
//! ```
//!
//! A pair is a field's length and bytes, a value's length, the number of unused bytes behind it (1), the value's bytes and the
//! unused ones. A length is one byte below 254, or 254 and 4 bytes, least significant first; a short length in the long form is
//! damage.

use super::checked::{Checked, Elements, Format};
use crate::cursor::{array, take};

const LONG: u8 = 254;
const END: u8 = 255;

/// A zipmap all of whose bytes were checked.
pub type Zipmap<'i> = Checked<'i, ZipmapFormat>;

/// The pairs, fields and values, of a zipmap.
pub type Pairs<'i> = Elements<'i, ZipmapFormat>;

/// How these lie.
#[derive(Clone, Copy, Debug)]
pub struct ZipmapFormat;

impl Format for ZipmapFormat {
    type Element<'i> = (&'i [u8], &'i [u8]);
    const HEADER_BYTES: usize = 1;

    fn read<'i>(input: &mut &'i [u8]) -> Option<Self::Element<'i>> {
        read_pair(input)
    }
}

impl<'i> Zipmap<'i> {
    /// Checks each pair, their number and the end. `None` when anything is wrong.
    #[must_use]
    pub fn parse(bytes: &'i [u8]) -> Option<Self> {
        let (&count, rest) = bytes.split_first()?;
        let (&end, pairs) = rest.split_last()?;
        let (mut len, mut unread) = (0, pairs);
        while !unread.is_empty() {
            read_pair(&mut unread)?;
            len += 1;
        }
        (end == END && (count == LONG || usize::from(count) == len)).then(|| Self::new(pairs, len))
    }
}

fn read_pair<'i>(input: &mut &'i [u8]) -> Option<(&'i [u8], &'i [u8])> {
    let len = read_length(input)?;
    let field = take(input, len)?;
    let len = read_length(input)?;
    let unused = take(input, 1)?[0];
    let value = take(input, len)?;
    take(input, usize::from(unused))?;
    Some((field, value))
}

fn read_length(input: &mut &[u8]) -> Option<usize> {
    match take(input, 1)?[0] {
        END => None,
        LONG => usize::try_from(u32::from_le_bytes(array(input)?)).ok().filter(|len| *len >= usize::from(LONG)),
        short => Some(usize::from(short)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[u8] = b"\x02\x01f\x02\x03vw___\x01g\x00\x00\xff";

    #[test]
    fn pairs() {
        let map = Zipmap::parse(GOOD).unwrap();
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&b"f"[..], &b"vw"[..]), (b"g", b"")]);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for len in 0..GOOD.len() {
            assert!(Zipmap::parse(&GOOD[..len]).is_none());
        }
        for at in [0, 1, 3, 4, 10, 12, 14] {
            let mut bad = GOOD.to_vec();
            bad[at] ^= 0x10;
            assert!(Zipmap::parse(&bad).is_none(), "byte {at}");
        }
        assert!(Zipmap::parse(&[0, END]).is_some_and(|map| map.is_empty()));
    }

    #[test]
    fn the_long_form_is_for_long_ones() {
        let long = |len: u8| [&[1, LONG, len, 0, 0, 0][..], &vec![b'f'; len.into()], &[0, 0, END]].concat();
        assert!(Zipmap::parse(&long(254)).is_some_and(|map| map.iter().all(|(field, _)| field.len() == 254)));
        for len in [0, 1, 253] {
            assert!(Zipmap::parse(&long(len)).is_none(), "{len}");
        }
    }
}
