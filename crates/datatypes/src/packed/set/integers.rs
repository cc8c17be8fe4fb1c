//! Ascending integers, all of one width of 1 to 8 bytes, least significant byte first.

use crate::rdb::little_endian;

/// A run of integers. A rest that is no whole one is not looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integers<'a> {
    bytes: &'a [u8],
    width: usize,
}

/// The least width that holds a number.
pub(super) fn width_of(number: i64) -> usize {
    let bits = 65 - number.unsigned_abs().saturating_sub(u64::from(number < 0)).leading_zeros() as usize;
    bits.div_ceil(8)
}

impl<'a> Integers<'a> {
    /// `width` is from 1 to 8.
    pub(super) fn new(bytes: &'a [u8], width: usize) -> Self {
        debug_assert!((1..=8).contains(&width), "integers of {width} bytes");
        Self { bytes, width }
    }

    pub(super) fn len(self) -> usize {
        self.bytes.len() / self.width
    }

    pub(super) fn get(self, index: usize) -> Option<i64> {
        let at = index.checked_mul(self.width)?;
        self.bytes.get(at..at + self.width).map(little_endian)
    }

    /// Where the number is, or where it would be.
    pub(super) fn search(self, number: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle) {
                Some(found) if found == number => return Ok(middle),
                Some(found) if found < number => low = middle + 1,
                _ => high = middle,
            }
        }
        Err(low)
    }

    /// All of them with another width appended to `out`.
    pub(super) fn widen(self, width: usize, out: &mut Vec<u8>) {
        for number in (0..self.len()).filter_map(|index| self.get(index)) {
            out.extend_from_slice(&number.to_le_bytes()[..width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_width_holds_a_number() {
        for width in 1..=8 {
            let most = i64::MAX >> (64 - 8 * width);
            assert_eq!((width_of(most), width_of(-most - 1)), (width, width));
            if width < 8 {
                assert_eq!((width_of(most + 1), width_of(-most - 2)), (width + 1, width + 1));
            }
        }
        assert_eq!((width_of(0), width_of(-1)), (1, 1));
    }
}
