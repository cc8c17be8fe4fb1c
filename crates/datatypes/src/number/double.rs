//! Doubles: scores, coordinates, timeouts.

use std::io::Write;

use super::literal::{Literal, Magnitude};
use super::rounding::{self, DOUBLE, Rounded};

/// The double nearest to `text`, if C's `strtod` takes all of it: decimal, hexadecimal (`0x1p-2`) or infinite.
///
/// `None` for NaN, and for what is too large or too close to zero to be anything but infinity or zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(value) = small_natural(text) {
        return Some(value);
    }
    read(text).filter(|(_, is_in_range)| *is_in_range).map(|(value, _)| value)
}

/// What C's `strtod` makes of a text where all that is asked is whether it read all of it, up to a zero byte: spaces may come
/// first, no text at all is 0, and what is too large or too close to zero is infinity or zero.
pub fn parse_f64_leniently(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let spaces = text.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b).count();
    let text = &text[spaces..];
    small_natural(text).or_else(|| read(text).map(|(value, _)| value))
}

/// The number that few digits are.
fn small_natural(text: &[u8]) -> Option<f64> {
    let is_small = (1..=15).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    is_small.then(|| text.iter().fold(0, |value: u64, digit| value * 10 + u64::from(digit - b'0')) as f64)
}

/// The double nearest to a text, and whether it is in the range of doubles.
fn read(text: &[u8]) -> Option<(f64, bool)> {
    let literal = Literal::parse(text)?;
    let (magnitude, is_in_range) = match literal.magnitude {
        Magnitude::Infinite => (f64::INFINITY, true),
        Magnitude::Decimal { integer, fraction, .. } => {
            let value: f64 = str::from_utf8(text).ok()?.parse().ok()?;
            let is_zero = integer.iter().chain(fraction).all(|&digit| digit == b'0');
            (value.abs(), value.is_finite() && (value != 0.0 || is_zero))
        }
        Magnitude::Binary { mantissa, exponent, inexact } => match from_binary(mantissa, exponent, inexact) {
            Some(value) => (value, true),
            None => (if exponent > 0 { f64::INFINITY } else { 0.0 }, false),
        },
    };
    Some((if literal.negative { -magnitude } else { magnitude }, is_in_range))
}

fn from_binary(mantissa: u128, exponent: i64, inexact: bool) -> Option<f64> {
    let is_zero = mantissa == 0;
    let Rounded::Finite { mantissa, exponent } = rounding::round(mantissa, exponent, inexact, DOUBLE) else { return None };
    if mantissa == 0 {
        return is_zero.then_some(0.0);
    }
    // A subnormal has no leading bit and the biased exponent 0; the leading bit of others makes it 1 or more by itself.
    let biased = (exponent - DOUBLE.exponent_min) as u64;
    Some(f64::from_bits((biased << (DOUBLE.bits - 1)) + mantissa))
}

/// Appends `value` as C's `%.17g` prints it, which is how Redis up to 7.0 replies scores.
pub fn write_g17(value: f64, out: &mut Vec<u8>) {
    if write_special(value, out) {
        return;
    }
    let mut buffer = [0; 32];
    let mut rest = &mut buffer[..];
    // 17 digits, sign, point and exponent take at most 24 bytes.
    let fits = write!(rest, "{value:.16e}");
    debug_assert!(fits.is_ok());
    let free = rest.len();
    let decimal = Decimal::read(&buffer[..buffer.len() - free]);
    if (-4..17).contains(&decimal.exponent) { decimal.write_plain(out) } else { decimal.write_scientific(2, out) }
}

/// Appends `value` with as few digits as tell it from its neighbours, laid out as Redis from 7.2 on does.
pub fn write_shortest(value: f64, out: &mut Vec<u8>) {
    if write_special(value, out) {
        return;
    }
    // Integers of this size are exact, and Redis writes them in full.
    if value.abs() < (i64::MAX / 2) as f64 && value == value.trunc() && (value != 0.0 || value.is_sign_positive()) {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let decimal = Decimal::read(buffer.format_finite(value).as_bytes());
    let last = decimal.exponent - (decimal.len as i32 - 1);
    let plain = if last >= 0 { decimal.exponent < decimal.len as i32 + 7 } else { last > -7 || decimal.exponent.abs() < 4 };
    if plain { decimal.write_plain(out) } else { decimal.write_scientific(1, out) }
}

/// Appends what is not a finite number.
fn write_special(value: f64, out: &mut Vec<u8>) -> bool {
    let text: &[u8] = match value {
        _ if value.is_nan() => b"nan",
        f64::INFINITY => b"inf",
        f64::NEG_INFINITY => b"-inf",
        _ => return false,
    };
    out.extend_from_slice(text);
    true
}

/// `d.ddd × 10^exponent`, without trailing zeros, with at least one digit.
struct Decimal {
    negative: bool,
    digits: [u8; 17],
    len: usize,
    exponent: i32,
}

impl Decimal {
    /// Reads what Rust's formatters write: `-12.5`, `1.25e-7`.
    fn read(text: &[u8]) -> Self {
        let mut decimal = Self { negative: false, digits: [b'0'; 17], len: 0, exponent: 0 };
        let (mut before_point, mut point_seen, mut leading_zeros) = (0, false, 0);
        let mut bytes = text.iter();
        while let Some(&byte) = bytes.next() {
            match byte {
                b'-' => decimal.negative = true,
                b'.' => point_seen = true,
                b'0'..=b'9' => {
                    before_point += i32::from(!point_seen);
                    if byte == b'0' && decimal.len == 0 {
                        leading_zeros += 1;
                    } else if let Some(digit) = decimal.digits.get_mut(decimal.len) {
                        *digit = byte;
                        decimal.len += 1;
                    }
                }
                _ => {
                    let exponent = str::from_utf8(bytes.as_slice()).ok().and_then(|text| text.parse().ok());
                    decimal.exponent = exponent.unwrap_or(0);
                    break;
                }
            }
        }
        if decimal.len == 0 {
            // Zero.
            decimal.len = 1;
            decimal.exponent = 0;
            return decimal;
        }
        decimal.exponent += before_point - leading_zeros - 1;
        while decimal.len > 1 && decimal.digits[decimal.len - 1] == b'0' {
            decimal.len -= 1;
        }
        decimal
    }

    fn write_plain(&self, out: &mut Vec<u8>) {
        self.write_sign(out);
        let digits = &self.digits[..self.len];
        let zeros = |count: i32| std::iter::repeat_n(b'0', count.max(0) as usize);
        if self.exponent < 0 {
            out.extend_from_slice(b"0.");
            out.extend(zeros(-self.exponent - 1));
            out.extend_from_slice(digits);
            return;
        }
        let before_point = self.exponent as usize + 1;
        let (integer, fraction) = digits.split_at(before_point.min(self.len));
        out.extend_from_slice(integer);
        out.extend(zeros(before_point as i32 - self.len as i32));
        if !fraction.is_empty() {
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
    }

    fn write_scientific(&self, exponent_digits_min: usize, out: &mut Vec<u8>) {
        self.write_sign(out);
        out.push(self.digits[0]);
        if self.len > 1 {
            out.push(b'.');
            out.extend_from_slice(&self.digits[1..self.len]);
        }
        out.extend_from_slice(if self.exponent < 0 { b"e-" } else { b"e+" });
        let mut buffer = itoa::Buffer::new();
        let exponent = buffer.format(self.exponent.unsigned_abs()).as_bytes();
        out.extend(std::iter::repeat_n(b'0', exponent_digits_min.saturating_sub(exponent.len())));
        out.extend_from_slice(exponent);
    }

    fn write_sign(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: fn(f64, &mut Vec<u8>), value: f64) -> String {
        let mut out = Vec::new();
        write(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn g17() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.10000000000000001"),
            (-2.5, "-2.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (5e-324, "4.9406564584124654e-324"),
            (1.0 + 1.0 / 131_072.0, "1.0000076293945312"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(written(write_g17, value), text);
        }
    }

    #[test]
    fn shortest() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (1e17, "100000000000000000"),
            (1e20, "1e+20"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (1.234_567e-5, "1.234567e-5"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(written(write_shortest, value), text);
        }
    }

    #[test]
    fn parsed() {
        for (text, value) in [
            ("1", 1.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("-1e3", -1000.0),
            ("0x10", 16.0),
            ("-0x1.8p1", -3.0),
            ("0x1p-1074", 5e-324),
            ("0x.fffffffffffff8p1024", f64::MAX),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080000000000000000000000001p0", 1.0 + f64::EPSILON),
            ("-infinity", f64::NEG_INFINITY),
            ("0e999999999999999", 0.0),
            ("1e-310", 1e-310),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), Some(value), "{text}");
        }
        assert!(parse_f64(b"-0").unwrap().is_sign_negative());
        for text in
            ["", "nan", "1e400", "-1e400", "1e-400", "0x1p1024", "0x1p-1076", "0x1p-99999999999999999999", " 1", "1 ", "1e", "0x"]
        {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn leniently_parsed() {
        for (text, value) in [
            ("", 0.0),
            (" \t1", 1.0),
            ("123456789012345", 123_456_789_012_345.0),
            ("1e400", f64::INFINITY),
            ("-1e400", f64::NEG_INFINITY),
            ("1e-400", 0.0),
            ("0x1p1024", f64::INFINITY),
            ("0x1p-1076", 0.0),
            ("2\0x", 2.0),
            ("\0", 0.0),
        ] {
            assert_eq!(parse_f64_leniently(text.as_bytes()), Some(value), "{text:?}");
        }
        for text in [" ", "nan", "1 ", "x", "1x\0"] {
            assert_eq!(parse_f64_leniently(text.as_bytes()), None, "{text:?}");
        }
    }
}
