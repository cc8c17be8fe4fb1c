//! Finding the first one or the first zero.

use super::{RangeUnit, bit_range};

/// Where the first bit of this value is, from the byte `start` on (counted from the end when negative), as `BITPOS` without an end
/// does it: zeros follow the end of the string. The exception is Redis': from the end on, as in an empty string, there is nothing.
pub fn position(bytes: &[u8], start: i64, value: bool) -> Option<u64> {
    let range = bit_range(bytes.len(), start, -1, RangeUnit::Byte)?;
    find(bytes, range.start, range.end, value).or(if value { None } else { Some(range.end) })
}

/// Where the first bit of this value between `start` and `end` is, both inclusive and counted from the end when negative.
/// Nothing follows the end of the range.
pub fn position_in(bytes: &[u8], start: i64, end: i64, unit: RangeUnit, value: bool) -> Option<u64> {
    let range = bit_range(bytes.len(), start, end, unit)?;
    find(bytes, range.start, range.end, value)
}

/// Searches the bits from `start` up to `end`, a range within `bytes` that is not empty.
fn find(bytes: &[u8], start: u64, end: u64, value: bool) -> Option<u64> {
    let first = (start / 8) as usize;
    let skipped = if value { 0 } else { 0xff };
    // Ones of `wanted` are the bits that are searched for.
    let wanted = |byte: u8| byte ^ skipped;
    let edge = wanted(bytes[first]) & (0xff >> (start % 8));
    let found = if edge != 0 {
        first as u64 * 8 + u64::from(edge.leading_zeros())
    } else {
        let rest = &bytes[first + 1..end.div_ceil(8) as usize];
        let at = first_other(rest, skipped)?;
        (first + 1 + at) as u64 * 8 + u64::from(wanted(rest[at]).leading_zeros())
    };
    (found < end).then_some(found)
}

/// The index of the first byte that is not `skipped`.
fn first_other(bytes: &[u8], skipped: u8) -> Option<usize> {
    const BLOCK: usize = 64;
    // A block at a time without a branch inside, which compiles to vector comparisons.
    let same = |block: &[u8]| block.iter().fold(0, |other, &byte| other | (byte ^ skipped)) == 0;
    let blocks = bytes.chunks_exact(BLOCK).take_while(|block| same(block)).count();
    let start = blocks * BLOCK;
    bytes[start..].iter().position(|&byte| byte != skipped).map(|at| start + at)
}
