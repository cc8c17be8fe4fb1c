//! Natural numbers of any size, just as far as decimal conversion of 80-bit floats needs them: a few thousand digits, rarely.

use std::cmp::Ordering;

/// Little-endian limbs; the last one is not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Natural(Vec<u64>);

/// The largest power of ten in a limb, and its exponent.
const CHUNK: u64 = 10_000_000_000_000_000_000;
const CHUNK_DIGITS: usize = 19;
/// The largest power of five in a limb, and its exponent.
const FIVES: u64 = 7_450_580_596_923_828_125;
const FIVES_EXPONENT: u64 = 27;

impl Natural {
    pub(super) fn from_u64(value: u64) -> Self {
        Self(if value == 0 { Vec::new() } else { vec![value] })
    }

    /// The number that the ASCII digits spell.
    pub(super) fn from_digits<'d>(digits: impl Iterator<Item = &'d u8>) -> Self {
        let mut number = Self(Vec::new());
        let (mut chunk, mut scale) = (0, 1);
        for digit in digits {
            chunk = chunk * 10 + u64::from(digit - b'0');
            scale *= 10;
            if scale == CHUNK {
                number.multiply_add(scale, chunk);
                (chunk, scale) = (0, 1);
            }
        }
        number.multiply_add(scale, chunk);
        number
    }

    pub(super) fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for limb in &mut self.0 {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = product as u64;
            carry = product >> 64;
        }
        if carry != 0 {
            self.0.push(carry as u64);
        }
    }

    pub(super) fn multiply_power_of_five(&mut self, exponent: u64) {
        for _ in 0..exponent / FIVES_EXPONENT {
            self.multiply_add(FIVES, 0);
        }
        self.multiply_add(5u64.pow((exponent % FIVES_EXPONENT) as u32), 0);
    }

    pub(super) fn shift_left(&mut self, bits: u64) {
        let (limbs, bits) = ((bits / 64) as usize, bits % 64);
        self.multiply_add(1 << bits, 0);
        if !self.0.is_empty() {
            self.0.splice(..0, std::iter::repeat_n(0, limbs));
        }
    }

    pub(super) fn bits(&self) -> u64 {
        self.0.last().map_or(0, |top| self.0.len() as u64 * 64 - u64::from(top.leading_zeros()))
    }

    /// The highest 128 bits, how far they were shifted down, and whether anything but zeros was below them.
    pub(super) fn top(&self) -> (u128, u64, bool) {
        let shift = self.bits().saturating_sub(128);
        let (limb, bits) = ((shift / 64) as usize, shift % 64);
        let at = |index: usize| u128::from(self.0.get(index).copied().unwrap_or(0));
        let low = at(limb) | at(limb + 1) << 64;
        let top = if bits == 0 { low } else { low >> bits | at(limb + 2) << (128 - bits) };
        let below = self.0[..limb].iter().any(|&limb| limb != 0) || at(limb) & ((1 << bits) - 1) != 0;
        (top, shift, below)
    }

    /// The quotient of this by `divisor`, which must fit 128 bits, and whether it has a remainder.
    pub(super) fn divide(mut self, divisor: &Self) -> (u128, bool) {
        let steps = (self.bits() + 1).saturating_sub(divisor.bits());
        let mut divisor = divisor.clone();
        divisor.shift_left(steps);
        let mut quotient = 0;
        for _ in 0..=steps {
            quotient <<= 1;
            if self.compare(&divisor) != Ordering::Less {
                self.subtract(&divisor);
                quotient |= 1;
            }
            self.multiply_add(2, 0);
        }
        (quotient, !self.0.is_empty())
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Takes `other`, which is not larger, away.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (at, limb) in self.0.iter_mut().enumerate() {
            (*limb, borrow) = limb.borrowing_sub(other.0.get(at).copied().unwrap_or(0), borrow);
        }
        debug_assert!(!borrow, "the subtrahend is larger");
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Appends the decimal digits.
    pub(super) fn write(mut self, out: &mut Vec<u8>) {
        let mut chunks = Vec::with_capacity(self.0.len() + 1);
        while !self.0.is_empty() {
            chunks.push(self.divide_chunk());
        }
        let mut buffer = itoa::Buffer::new();
        out.extend_from_slice(buffer.format(chunks.pop().unwrap_or(0)).as_bytes());
        for chunk in chunks.into_iter().rev() {
            let digits = buffer.format(chunk).as_bytes();
            out.extend(std::iter::repeat_n(b'0', CHUNK_DIGITS - digits.len()));
            out.extend_from_slice(digits);
        }
    }

    /// Divides by [`CHUNK`] and returns the remainder.
    fn divide_chunk(&mut self) -> u64 {
        let mut remainder = 0;
        for limb in self.0.iter_mut().rev() {
            let dividend = u128::from(remainder) << 64 | u128::from(*limb);
            *limb = (dividend / u128::from(CHUNK)) as u64;
            remainder = (dividend % u128::from(CHUNK)) as u64;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        remainder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Natural {
        Natural::from_digits(text.as_bytes().iter())
    }

    #[test]
    fn digits_there_and_back() {
        for text in ["0", "7", "18446744073709551616", "10000000000000000000", "100000000000000000000000000000000000000000000001"] {
            let mut out = Vec::new();
            of(text).write(&mut out);
            assert_eq!(out, text.as_bytes());
        }
        assert_eq!(of("00000000000000000000000"), Natural::from_u64(0));
    }

    #[test]
    fn quotients() {
        assert_eq!(of("1000000000000000000000000").divide(&of("1000000000000")), (1_000_000_000_000, false));
        assert_eq!(of("999999999999999999999999").divide(&of("1000000000000")), (999_999_999_999, true));
        assert_eq!(of("5").divide(&of("7")), (0, true));
        let mut power = Natural::from_u64(1);
        power.multiply_power_of_five(60);
        let mut shifted = power.clone();
        shifted.shift_left(100);
        assert_eq!(shifted.divide(&power), (1 << 100, false));
    }

    #[test]
    fn tops() {
        let mut number = Natural::from_u64(3);
        number.shift_left(300);
        assert_eq!(number.top(), (3 << 126, 174, false));
        number.multiply_add(1, 1);
        assert_eq!(number.top(), (3 << 126, 174, true));
        assert_eq!(Natural::from_u64(5).top(), (5, 0, false));
    }
}
