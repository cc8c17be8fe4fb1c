//! Ascending integers, all of one width of 1 to 8 bytes, least significant byte first.

use crate::packed::element::little_endian;

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

    #[inline]
    pub(super) fn get(self, index: usize) -> Option<i64> {
        let at = index.checked_mul(self.width)?;
        if let Some(word) = self.bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            // All but the last ones are read with what follows them, which is shifted out.
            let unused = 64 - 8 * self.width;
            return Some(i64::from_le_bytes(*word) << unused >> unused);
        }
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

/// A place in ascending integers that only goes on, for members that ascend, too.
#[derive(Clone, Debug)]
pub struct IntegerCursor<'a> {
    integers: Integers<'a>,
    at: usize,
}

impl<'a> IntegerCursor<'a> {
    pub(super) fn new(integers: Integers<'a>) -> Self {
        Self { integers, at: 0 }
    }

    /// The integer at a place, wherever the cursor is.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<i64> {
        self.integers.get(index)
    }

    /// Whether the number, which is none before those that were asked for, is one of the integers.
    #[inline]
    pub fn meets(&mut self, number: i64) -> bool {
        // Doubled steps, then halves: as fast as a merge where numbers are close together, and as a search where they are not.
        let (mut low, mut step) = (self.at, 1);
        while self.integers.get(low + step).is_some_and(|found| found <= number) {
            low += step;
            step *= 2;
        }
        let mut high = self.integers.len().min(low + step);
        while low < high {
            let middle = low.midpoint(high);
            if self.integers.get(middle).is_some_and(|found| found < number) { low = middle + 1 } else { high = middle }
        }
        self.at = low;
        self.integers.get(low) == Some(number)
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

    #[test]
    fn a_cursor_meets_what_is_there() {
        let numbers: Vec<i64> =
            (0..200).map(|i| i * i % 61 + i * 3).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        for step in [1, 2, 7, 100, 1000] {
            let mut cursor = IntegerCursor::new(Integers::new(&bytes, 8));
            for asked in (-50..800).step_by(step) {
                assert_eq!(cursor.meets(asked), numbers.contains(&asked), "{asked} by {step}");
            }
        }
    }
}
