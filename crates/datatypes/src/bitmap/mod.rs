//! Strings as arrays of bits: bit 0 is the highest bit of the first byte, and every bit beyond the end is zero.

mod count;
pub mod field;
mod operation;
mod position;

pub use count::{count, count_range};
pub use operation::BitOperation;
pub use position::{position, position_in};

use std::ops::Range;

use crate::string::range;

/// What the start and end of a range count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeUnit {
    /// Eight bits each; the default.
    Byte,
    /// Single bits.
    Bit,
}

/// The bit at `offset`.
pub fn bit(bytes: &[u8], offset: u64) -> bool {
    let byte = usize::try_from(offset / 8).ok().and_then(|at| bytes.get(at)).copied().unwrap_or(0);
    byte & mask(offset) != 0
}

/// Sets the bit at `offset`, which must be within `bytes` (panics otherwise), and returns what it was.
pub fn set_bit(bytes: &mut [u8], offset: u64, value: bool) -> bool {
    let byte = &mut bytes[(offset / 8) as usize];
    let old = *byte & mask(offset) != 0;
    *byte = if value { *byte | mask(offset) } else { *byte & !mask(offset) };
    old
}

fn mask(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

/// The bits that a range's arguments stand for. `None` when there are none.
fn bit_range(len: usize, start: i64, end: i64, unit: RangeUnit) -> Option<Range<u64>> {
    let len = len as u64;
    match unit {
        RangeUnit::Bit => range::between(start, end, len * 8),
        RangeUnit::Byte => range::between(start, end, len).map(|bytes| bytes.start * 8..bytes.end * 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits() {
        let mut bytes = [0b0100_0001, 0x80];
        let set: Vec<u64> = (0..32).filter(|&offset| bit(&bytes, offset)).collect();
        assert_eq!(set, [1, 7, 8]);
        assert!(!bit(&bytes, u64::MAX));
        assert!(!set_bit(&mut bytes, 15, true));
        assert!(set_bit(&mut bytes, 1, false));
        assert!(!set_bit(&mut bytes, 2, false));
        assert_eq!(bytes, [1, 0x81]);
    }
}
