//! The x87's 80-bit float, in software: what `INCRBYFLOAT` and `HINCRBYFLOAT` compute with.
//!
//! Redis reads both operands with `strtold`, adds them as `long double`, and prints `%.17Lf` without trailing zeros. On x86 that is
//! a float with a mantissa of 64 bits, and its results differ visibly from a double's: `0.1 + 0.2` is `0.3`. Effects in the
//! oplog and in files are such texts, so they must not depend on the processor; hence this module instead of a C type.
//!
//! Reading and printing are exact (correctly rounded), as glibc's are. What Redis prints, and whatever else has up to 38
//! digits and as many places as it prints, takes a path of 128-bit arithmetic without allocation; the rest goes through big
//! naturals.

use super::literal::{Literal, Magnitude};
use super::natural::Natural;
use super::rounding::{self, EXTENDED, Rounded};

/// Longer texts are not numbers to Redis, whose buffer for them ends here.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Decimal places that are printed, and their power of ten.
const PLACES: usize = 17;
const PLACES_POWER: u64 = 100_000_000_000_000_000;
/// 5^27 is the largest power of five in a word.
const FIVES_EXPONENT_MAX: i64 = 27;
/// Decimal exponents beyond which every number is infinite or zero.
const DECIMAL_EXPONENT_MAX: i64 = 4_940;
const DECIMAL_EXPONENT_MIN: i64 = -4_960;

/// An 80-bit float that is not NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    magnitude: Rounded,
}

/// Why two texts cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatError {
    /// One of them is not a number.
    NotAFloat,
    /// The sum is infinite or NaN.
    NotFinite,
}

/// Appends the sum of two numbers given as texts: all of `INCRBYFLOAT` but the storing.
pub fn add_texts(value: &[u8], increment: &[u8], out: &mut Vec<u8>) -> Result<(), FloatError> {
    let value = Extended::parse(value).ok_or(FloatError::NotAFloat)?;
    let increment = Extended::parse(increment).ok_or(FloatError::NotAFloat)?;
    value.checked_add(increment).ok_or(FloatError::NotFinite)?.write(out);
    Ok(())
}

impl Extended {
    /// Zero, from which missing values start.
    pub const ZERO: Self = Self { negative: false, magnitude: Rounded::Finite { mantissa: 0, exponent: EXTENDED.exponent_min } };

    /// The number nearest to `text`, if C's `strtold` takes all of it; it may be infinite.
    ///
    /// `None` for NaN, and for what is too large or too close to zero to be anything but infinity or zero.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let literal = Literal::parse(text)?;
        let (magnitude, is_zero) = match literal.magnitude {
            Magnitude::Infinite => return Some(Self { negative: literal.negative, magnitude: Rounded::Overflow }),
            Magnitude::Decimal { integer, fraction, exponent } => {
                let digits = || integer.iter().chain(fraction).skip_while(|&&digit| digit == b'0');
                (from_decimal(digits, exponent - fraction.len() as i64), digits().next().is_none())
            }
            Magnitude::Binary { mantissa, exponent, inexact } => {
                (rounding::round(mantissa, exponent, inexact, EXTENDED), mantissa == 0)
            }
        };
        match magnitude {
            Rounded::Overflow => None,
            Rounded::Finite { mantissa: 0, .. } if !is_zero => None,
            magnitude => Some(Self { negative: literal.negative, magnitude }),
        }
    }

    /// Whether it is not infinite.
    pub fn is_finite(self) -> bool {
        self.magnitude != Rounded::Overflow
    }

    /// The sum, rounded to the nearest. `None` when it is infinite or, of two infinities, NaN.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let (large, small) = if self.exponent()? >= other.exponent()? { (self, other) } else { (other, self) };
        // The larger operand keeps 62 bits of room below, and one above for a carry. What the smaller one loses
        // beyond that lies below half a unit of any result, and only has to break ties.
        let distance = large.exponent()? - small.exponent()?;
        let room = distance.min(62);
        let high = u128::from(large.mantissa()) << room;
        let lost_bits = (distance - room).min(64) as u32;
        let low = u128::from(small.mantissa());
        let (low, inexact) = (low >> lost_bits, low & ((1 << lost_bits) - 1) != 0);
        let exponent = large.exponent()? - room;
        let (negative, sum, exponent) = if large.negative == small.negative {
            (large.negative, high + low, exponent)
        } else if inexact {
            // high - (low + something): one below, and the rest of that one counts up again.
            (large.negative, high - low - 1, exponent)
        } else if high >= low {
            (large.negative, high - low, exponent)
        } else {
            (small.negative, low - high, exponent)
        };
        // An exact zero is positive unless both were negative.
        let negative = if sum == 0 { self.negative && other.negative } else { negative };
        let magnitude = rounding::round(sum, exponent, inexact, EXTENDED);
        (magnitude != Rounded::Overflow).then_some(Self { negative, magnitude })
    }

    /// Appends the number with up to 17 decimal places, and without trailing zeros: Redis' human-friendly form.
    pub fn write(self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.negative {
            out.push(b'-');
        }
        let Rounded::Finite { mantissa, exponent } = self.magnitude else { return out.extend_from_slice(b"inf") };
        if exponent >= 0 {
            // An integer of 64 bits or more.
            let mut number = Natural::from_u64(mantissa);
            number.shift_left(exponent as u64);
            return number.write(out);
        }
        let scaled = rounding::shift_right_to_even(u128::from(mantissa) * u128::from(PLACES_POWER), -exponent, false);
        if scaled == 0 {
            // Redis has no negative zero here.
            out.truncate(start);
            return out.push(b'0');
        }
        let mut buffer = itoa::Buffer::new();
        out.extend_from_slice(buffer.format(scaled / u128::from(PLACES_POWER)).as_bytes());
        write_fraction((scaled % u128::from(PLACES_POWER)) as u64, out);
    }

    fn exponent(self) -> Option<i64> {
        match self.magnitude {
            Rounded::Finite { exponent, .. } => Some(exponent),
            Rounded::Overflow => None,
        }
    }

    fn mantissa(self) -> u64 {
        match self.magnitude {
            Rounded::Finite { mantissa, .. } => mantissa,
            Rounded::Overflow => 0,
        }
    }
}

impl From<i64> for Extended {
    fn from(value: i64) -> Self {
        let magnitude = rounding::round(u128::from(value.unsigned_abs()), 0, false, EXTENDED);
        Self { negative: value < 0, magnitude }
    }
}

/// Exact. NaN, which this type does not have, becomes infinite.
impl From<f64> for Extended {
    fn from(value: f64) -> Self {
        let bits = value.to_bits();
        let (biased, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        let magnitude = match biased {
            0x7ff => Rounded::Overflow,
            0 => rounding::round(u128::from(fraction), -1074, false, EXTENDED),
            _ => rounding::round(u128::from(fraction | 1 << 52), biased as i64 - 1075, false, EXTENDED),
        };
        Self { negative: value.is_sign_negative(), magnitude }
    }
}

/// `.` and the 17 places of `places`, or nothing.
fn write_fraction(mut places: u64, out: &mut Vec<u8>) {
    if places == 0 {
        return;
    }
    let mut text = [b'0'; PLACES];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (places % 10) as u8;
        places /= 10;
    }
    let zeros = text.iter().rev().take_while(|&&digit| digit == b'0').count();
    out.push(b'.');
    out.extend_from_slice(&text[..PLACES - zeros]);
}

/// `digits × 10^exponent`, rounded. The digits have no leading zeros.
fn from_decimal<'d, I: Iterator<Item = &'d u8>>(digits: impl Fn() -> I, exponent: i64) -> Rounded {
    let count = digits().count() as i64;
    if count == 0 || count + exponent < DECIMAL_EXPONENT_MIN {
        return rounding::round(0, 0, false, EXTENDED);
    }
    if count + exponent > DECIMAL_EXPONENT_MAX {
        return Rounded::Overflow;
    }
    let digits_max = if exponent < 0 { 38 } else { 19 };
    if count <= digits_max && exponent.abs() <= FIVES_EXPONENT_MAX {
        let value = digits().fold(0, |sum: u128, digit| sum * 10 + u128::from(digit - b'0'));
        return from_short_decimal(value, exponent);
    }
    let mut number = Natural::from_digits(digits());
    if exponent >= 0 {
        number.multiply_power_of_five(exponent as u64);
        let (top, shift, inexact) = number.top();
        return rounding::round(top, shift as i64 + exponent, inexact, EXTENDED);
    }
    let mut divisor = Natural::from_u64(1);
    divisor.multiply_power_of_five(exponent.unsigned_abs());
    // A quotient of 70 bits or so holds the mantissa and the bit that rounds it.
    let shift = divisor.bits() as i64 + 70 - number.bits() as i64;
    if shift >= 0 {
        number.shift_left(shift as u64)
    } else {
        divisor.shift_left(shift.unsigned_abs())
    }
    let (quotient, inexact) = number.divide(&divisor);
    rounding::round(quotient, exponent - shift, inexact, EXTENDED)
}

/// As [`from_decimal`], where everything fits 128 bits.
fn from_short_decimal(value: u128, exponent: i64) -> Rounded {
    let fives = u128::from(5u64.pow(exponent.unsigned_abs() as u32));
    if exponent >= 0 {
        return rounding::round(value * fives, exponent, false, EXTENDED);
    }
    // 128 bits divided by at most 63 leave at least 65.
    let shift = value.leading_zeros();
    let value = value << shift;
    rounding::round(value / fives, exponent - i64::from(shift), !value.is_multiple_of(fives), EXTENDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(value: &str, increment: &str) -> Result<String, FloatError> {
        let mut out = Vec::new();
        add_texts(value.as_bytes(), increment.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    /// The right-hand sides are what redis-server 7.0.15 replied on x86-64.
    #[test]
    fn sums() {
        for (value, increment, expected) in [
            ("0.1", "0.2", "0.3"),
            ("3.0e3", "200", "3200"),
            ("10.50", "-5", "5.5"),
            ("0", "-0", "0"),
            ("-0", "-0", "0"),
            ("0", "1e-400", "0"),
            ("0", "-1e-18", "0"),
            ("0", "0x1p-2", "0.25"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1e30", "0", "1000000000000000000024696061952"),
        ] {
            assert_eq!(sum(value, increment).as_deref(), Ok(expected), "{value} + {increment}");
        }
    }

    #[test]
    fn errors() {
        for (value, increment) in [("x", "1"), ("1", "nan"), ("1", ""), ("1", "1e5000"), ("1e-5000", "1"), ("1", " 1")] {
            assert_eq!(sum(value, increment), Err(FloatError::NotAFloat), "{value} + {increment}");
        }
        for (value, increment) in [("1", "inf"), ("-inf", "inf"), ("1.1e4932", "1.1e4932")] {
            assert_eq!(sum(value, increment), Err(FloatError::NotFinite), "{value} + {increment}");
        }
        assert_eq!(Extended::parse(&[b'1'; TEXT_BYTES_MAX + 1]), None);
    }

    #[test]
    fn short_and_long_paths_agree() {
        for exponent in -27..=27 {
            for value in [1u64, 7, 10, 12_345, 9_007_199_254_740_993, 9_999_999_999_999_999_999] {
                // Leading zeros are dropped, but trailing ones of the fraction force the long path.
                let short = format!("{value}e{exponent}");
                let long = format!("{value}.{}e{exponent}", "0".repeat(60));
                assert_eq!(Extended::parse(short.as_bytes()), Extended::parse(long.as_bytes()), "{short}");
            }
        }
    }

    #[test]
    fn conversions() {
        let text = |value: Extended| {
            let mut out = Vec::new();
            value.write(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Extended::from(i64::MIN)), i64::MIN.to_string());
        assert_eq!(text(Extended::from(0.1)), "0.10000000000000001");
        assert_eq!(text(Extended::from(-0.0)), "0");
        assert_eq!(text(Extended::from(f64::MAX)), format!("{:.0}", f64::MAX));
        assert_eq!(text(Extended::from(f64::INFINITY)), "inf");
        assert_eq!(text(Extended::ZERO), "0");
    }
}
