//! Counting ones.
//!
//! A carry-save adder turns three words into a sum and a carry with five operations, for each of their 64 columns at once. A tree
//! of them condenses sixteen words into one whose ones count sixteen each, so that the costly population count runs once for
//! sixteen words. (Harley and Seal; Muła, Kurz and Lemire, *Faster Population Counts Using AVX2 Instructions*, 2018.) It is
//! written over small arrays, which the compiler turns into vectors of whatever width the target has.

use super::{RangeUnit, bit_range};
use crate::string::range;

const LANES: usize = 4;
const WORD: usize = size_of::<u64>();
const VECTOR: usize = LANES * WORD;
const BLOCK: usize = 16 * VECTOR;

type Lanes = [u64; LANES];

/// The ones in `bytes`.
pub fn count(bytes: &[u8]) -> u64 {
    let blocks = bytes.chunks_exact(BLOCK);
    let words = blocks.remainder().chunks_exact(WORD);
    let last: u64 = words.remainder().iter().map(|byte| u64::from(byte.count_ones())).sum();
    let rest: u64 = words.map(|bytes| u64::from(word(bytes).count_ones())).sum();
    count_blocks(blocks) + rest + last
}

/// The ones between `start` and `end`, both inclusive and counted from the end when negative.
pub fn count_range(bytes: &[u8], start: i64, end: i64, unit: RangeUnit) -> u64 {
    if range::is_reversed(start, end) {
        return 0;
    }
    let Some(range) = bit_range(bytes.len(), start, end, unit) else { return 0 };
    let (first, last) = ((range.start / 8) as usize, ((range.end - 1) / 8) as usize);
    // Whole bytes, less the bits at either edge that are outside of the range.
    let before = bytes[first] & !(0xff >> (range.start % 8));
    let after = bytes[last] & (0x7f >> ((range.end - 1) % 8));
    count(&bytes[first..=last]) - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

fn count_blocks(blocks: std::slice::ChunksExact<'_, u8>) -> u64 {
    let (mut ones, mut twos, mut fours, mut eights) = ([0; LANES], [0; LANES], [0; LANES], [0; LANES]);
    let mut sixteens = 0;
    for block in blocks {
        let at = |index: usize| lanes(&block[index * VECTOR..][..VECTOR]);
        let mut eight = [[0; LANES]; 2];
        for (half, eight) in eight.iter_mut().enumerate() {
            let mut four = [[0; LANES]; 2];
            for (quarter, four) in four.iter_mut().enumerate() {
                let first = half * 8 + quarter * 4;
                let two_a = add(&mut ones, at(first), at(first + 1));
                let two_b = add(&mut ones, at(first + 2), at(first + 3));
                *four = add(&mut twos, two_a, two_b);
            }
            *eight = add(&mut fours, four[0], four[1]);
        }
        sixteens += ones_in(add(&mut eights, eight[0], eight[1]));
    }
    sixteens * 16 + ones_in(eights) * 8 + ones_in(fours) * 4 + ones_in(twos) * 2 + ones_in(ones)
}

/// Adds two numbers of one bit in each column to `sum`, and returns the carries.
#[inline(always)]
fn add(sum: &mut Lanes, a: Lanes, b: Lanes) -> Lanes {
    let mut carry = [0; LANES];
    for lane in 0..LANES {
        let either = a[lane] ^ b[lane];
        carry[lane] = (a[lane] & b[lane]) | (either & sum[lane]);
        sum[lane] ^= either;
    }
    carry
}

#[inline(always)]
fn ones_in(lanes: Lanes) -> u64 {
    lanes.iter().map(|lane| u64::from(lane.count_ones())).sum()
}

#[inline(always)]
fn lanes(bytes: &[u8]) -> Lanes {
    std::array::from_fn(|lane| word(&bytes[lane * WORD..][..WORD]))
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}
