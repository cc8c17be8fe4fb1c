//! Lengths and string objects, of which all the rest is made.
//!
//! A string is a length and its bytes, or one of four special forms: an integer of 1, 2 or 4 bytes, or compressed bytes. The two
//! highest bits of the first byte say which:
//!
//! ```text
//! 00llllll                     a length below 64
//! 01llllll  llllllll           a length below 16,384
//! 10000000  4 bytes            a length below 2^32, most significant byte first
//! 10000001  8 bytes            any length, most significant byte first
//! 11ffffff                     the special form f: 0, 1, 2 integers (least significant byte first), 3 LZF
//! ```

use crate::cursor::{array, take};
use crate::{Text, lzf};
use almandine_datatypes::number::parse_i64;

const SPECIAL: u8 = 0xC0;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;
const INTEGER_8: u8 = SPECIAL;
const INTEGER_16: u8 = SPECIAL | 1;
const INTEGER_32: u8 = SPECIAL | 2;
const COMPRESSED: u8 = SPECIAL | 3;

/// Longest string: packed elements have lengths of 32 bits.
const STRING_BYTES_MAX: usize = u32::MAX as usize;

/// Appends a string, as an integer where it is the text of one of 32 bits. Never compressed.
pub fn write_string(value: &[u8], out: &mut Vec<u8>) {
    match parse_i64(value).and_then(|number| i32::try_from(number).ok()) {
        Some(number) => write_integer(number, out),
        None => write_bytes(value, out),
    }
}

/// Appends a string as it is.
pub(super) fn write_bytes(value: &[u8], out: &mut Vec<u8>) {
    write_length(value.len(), out);
    out.extend_from_slice(value);
}

fn write_integer(number: i32, out: &mut Vec<u8>) {
    if let Ok(byte) = i8::try_from(number) {
        out.push(INTEGER_8);
        out.extend_from_slice(&byte.to_le_bytes());
    } else if let Ok(short) = i16::try_from(number) {
        out.push(INTEGER_16);
        out.extend_from_slice(&short.to_le_bytes());
    } else {
        out.push(INTEGER_32);
        out.extend_from_slice(&number.to_le_bytes());
    }
}

pub(super) fn write_length(len: usize, out: &mut Vec<u8>) {
    write_number(len as u64, out);
}

/// Appends a number as lengths are written.
pub(super) fn write_number(number: u64, out: &mut Vec<u8>) {
    match number {
        0..64 => out.push(number as u8),
        64..16_384 => out.extend_from_slice(&[0x40 | (number >> 8) as u8, number as u8]),
        _ => match u32::try_from(number) {
            Ok(number) => {
                out.push(LENGTH_32);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Err(_) => {
                out.push(LENGTH_64);
                out.extend_from_slice(&number.to_be_bytes());
            }
        },
    }
}

/// Appends compressed bytes that stand for a string of `len`.
pub(super) fn write_compressed(compressed: &[u8], len: usize, out: &mut Vec<u8>) {
    out.push(COMPRESSED);
    write_length(compressed.len(), out);
    write_length(len, out);
    out.extend_from_slice(compressed);
}

/// What the first byte of a string says of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// It begins a length, behind which the string stands.
    Plain,
    /// An integer of this many bytes follows.
    Integer(usize),
    /// Two lengths follow, then compressed bytes.
    Compressed,
    /// No string begins so.
    Unknown,
}

pub(super) fn form(first: u8) -> Form {
    match first {
        INTEGER_8 => Form::Integer(1),
        INTEGER_16 => Form::Integer(2),
        INTEGER_32 => Form::Integer(4),
        COMPRESSED => Form::Compressed,
        0..=LENGTH_64 => Form::Plain,
        _ => Form::Unknown,
    }
}

/// Bytes that a length takes whose first is this one.
pub(super) fn number_bytes(first: u8) -> usize {
    match first {
        0x40..LENGTH_32 => 2,
        LENGTH_32 => 5,
        LENGTH_64 => 9,
        _ => 1,
    }
}

/// Bytes of memory that a string takes beside the payload: what a compressed one stands for. 0 for others, and for what is
/// malformed.
#[must_use]
pub fn expanded_len(mut input: &[u8]) -> usize {
    if input.first() == Some(&COMPRESSED) { read_compressed(&mut input).map_or(0, |(_, len)| len) } else { 0 }
}

/// Reads a string and moves `input` behind it. `None` when it is malformed or cut off.
#[must_use]
pub fn read_string(input: &mut &[u8]) -> Option<Vec<u8>> {
    read_text(input).map(Text::into_vec)
}

/// As [`read_string`]; the string stays where it is if it can.
#[must_use]
pub fn read_text<'i>(input: &mut &'i [u8]) -> Option<Text<'i>> {
    let form = *input.first()?;
    match form {
        INTEGER_8 => special(input).map(|bytes| i64::from(i8::from_le_bytes(bytes)).into()),
        INTEGER_16 => special(input).map(|bytes| i64::from(i16::from_le_bytes(bytes)).into()),
        INTEGER_32 => special(input).map(|bytes| i64::from(i32::from_le_bytes(bytes)).into()),
        COMPRESSED => {
            let (compressed, len) = read_compressed(input)?;
            lzf::decompress(compressed, len).map(Text::from)
        }
        _ => {
            let len = read_length(input).filter(|len| *len <= STRING_BYTES_MAX)?;
            take(input, len).map(Text::from)
        }
    }
}

/// Moves `input` behind a string. What is compressed is not looked into.
pub(super) fn skip_text(input: &mut &[u8]) -> Option<()> {
    if input.first() == Some(&COMPRESSED) { read_compressed(input).map(drop) } else { read_text(input).map(drop) }
}

fn special<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    take(input, 1)?;
    array(input)
}

/// The compressed bytes, and how many they stand for.
fn read_compressed<'i>(input: &mut &'i [u8]) -> Option<(&'i [u8], usize)> {
    take(input, 1)?;
    let (compressed, len) = (read_length(input)?, read_length(input)?);
    let compressed = take(input, compressed)?;
    // A forged length is no reason to take memory.
    let is_possible = len <= STRING_BYTES_MAX && len <= compressed.len().saturating_mul(lzf::EXPANSION_MAX);
    is_possible.then_some((compressed, len))
}

/// Reads a length in bytes or elements. `None` when it is malformed or cut off.
pub(super) fn read_length(input: &mut &[u8]) -> Option<usize> {
    usize::try_from(read_number(input)?).ok()
}

/// Reads a number that is written as lengths are.
pub(super) fn read_number(input: &mut &[u8]) -> Option<u64> {
    let first = take(input, 1)?[0];
    match first {
        0..0x40 => Some(first.into()),
        0x40..LENGTH_32 => Some(u64::from(first & 0x3F) << 8 | u64::from(take(input, 1)?[0])),
        LENGTH_32 => array(input).map(|bytes| u32::from_be_bytes(bytes).into()),
        LENGTH_64 => array(input).map(u64::from_be_bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_string(value, &mut out);
        out
    }

    #[test]
    fn forms() {
        assert_eq!(written(b"-128"), [0xC0, 0x80]);
        assert_eq!(written(b"128"), [0xC1, 0x80, 0]);
        assert_eq!(written(b"-2147483648"), [0xC2, 0, 0, 0, 0x80]);
        assert_eq!(written(b"2147483648")[..3], [10, b'2', b'1']);
        assert_eq!(written(b"01"), [2, b'0', b'1']);
        assert_eq!(written(&[b'x'; 63])[..2], [63, b'x']);
        assert_eq!(written(&[b'x'; 16_383])[..3], [0x7F, 0xFF, b'x']);
        assert_eq!(written(&vec![b'x'; 16_384])[..6], [0x80, 0, 0, 0x40, 0, b'x']);
    }

    #[test]
    fn what_is_written_is_read() {
        for len in [0, 1, 63, 64, 16_383, 16_384, 70_000] {
            let value = vec![b'y'; len];
            let encoded = written(&value);
            let mut input = &encoded[..];
            assert_eq!(read_string(&mut input), Some(value));
            assert!(input.is_empty());
        }
        for number in [0, -1, 127, -129, 32_768, i32::MIN, i32::MAX] {
            let text = number.to_string();
            assert_eq!(read_string(&mut &written(text.as_bytes())[..]), Some(text.into_bytes()));
        }
    }

    #[test]
    fn cuts_and_unknown_forms_are_refused() {
        let encoded = written(&[b'z'; 100]);
        for len in 0..encoded.len() {
            assert_eq!(read_string(&mut &encoded[..len]), None);
        }
        for bytes in [&[0xC4, 0, 0][..], &[0x82, 0], &[0x81, 255, 255, 255, 255, 255, 255, 255, 255], &[0xC3, 1, 5, 0], &[0xC2, 1]]
        {
            assert_eq!(read_string(&mut &bytes[..]), None, "{bytes:?}");
        }
    }

    /// An element of 4 GiB and more would be written with a length of 32 bits.
    #[test]
    fn what_a_compressed_string_stands_for_is_bounded() {
        let compressed = |len: u64, bytes: usize| {
            let mut input = Vec::from([COMPRESSED]);
            write_number(bytes as u64, &mut input);
            write_number(len, &mut input);
            input.resize(input.len() + bytes, 0xFF);
            input
        };
        for (len, bytes, expected) in [(880, 10, 880), (881, 10, 0), (1 << 32, 60 << 20, 0), (u32::MAX.into(), 60 << 20, u32::MAX)]
        {
            let input = compressed(len, bytes);
            assert_eq!(expanded_len(&input), expected as usize);
            assert_eq!(skip_text(&mut &input[..]).is_some(), expected != 0, "{len}");
        }
        assert_eq!(expanded_len(&written(b"abc")), 0);
    }

    #[test]
    fn compressed_strings_are_read() {
        let mut input = &[0xC3, 4, 9, 0, b'a', 0xC0, 0, 0xFF][..];
        assert_eq!(read_string(&mut input), Some(b"aaaaaaaaa".to_vec()));
        assert_eq!(input, [0xFF]);
    }
}
