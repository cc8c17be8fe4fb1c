//! Numbers as text.
//!
//! Redis 7.0 prints a double with C's `%.17g`: 17 significant digits, trailing zeros dropped, an exponent below 10⁻⁴ and from 10¹⁷ on.
//! It is not the shortest text: 0.1 prints as `0.10000000000000001`.

use std::io::Write;

/// Significant digits.
const DIGITS: usize = 17;

/// From here on an integral double needs more than [`DIGITS`] digits.
const INTEGRAL_MAX: f64 = 1e17;

/// Appends a decimal integer.
#[inline]
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a decimal unsigned integer.
#[inline]
pub fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a double as `%.17g` would; the infinities are `inf` and `-inf`.
pub fn write_double(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        out.extend_from_slice(b"inf");
    } else if magnitude < INTEGRAL_MAX && magnitude.fract() == 0.0 {
        write_unsigned(out, magnitude as u64);
    } else {
        write_significant(out, magnitude);
    }
}

/// Appends a positive, finite, non-zero double.
fn write_significant(out: &mut Vec<u8>, magnitude: f64) {
    // `d.dddddddddddddddde-XXX`, correctly rounded, is 24 bytes at most.
    let mut text = [0; 32];
    let mut unwritten = &mut text[..];
    let written = write!(unwritten, "{magnitude:.precision$e}", precision = DIGITS - 1);
    debug_assert!(written.is_ok(), "the text fits");
    let len = 32 - unwritten.len();
    let (mantissa, exponent) = text[..len].split_at(DIGITS + 1);
    let exponent: i32 = str::from_utf8(&exponent[1..]).ok().and_then(|digits| digits.parse().ok()).unwrap_or_default();

    let mut digits = [0; DIGITS];
    digits[0] = mantissa[0];
    digits[1..].copy_from_slice(&mantissa[2..]);
    let significant = DIGITS - digits.iter().rev().take_while(|&&digit| digit == b'0').count();

    if !(-4..DIGITS as i32).contains(&exponent) {
        out.push(digits[0]);
        if significant > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..significant]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        write_integer(out, i64::from(exponent.abs()));
    } else if exponent < 0 {
        out.extend_from_slice(&b"0.000"[..(1 - exponent) as usize]);
        out.extend_from_slice(&digits[..significant]);
    } else {
        let integral = exponent as usize + 1;
        out.extend_from_slice(&digits[..integral]);
        if significant > integral {
            out.push(b'.');
            out.extend_from_slice(&digits[integral..significant]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_double(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    /// The right column is what `redis-cli ZSCORE` of Redis 7.0.15 prints, but for −0 and NaN, which C's printf decides.
    #[test]
    fn doubles_print_as_redis_does() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.10000000000000001"),
            (-0.1, "-0.10000000000000001"),
            (3.5, "3.5"),
            (3.25, "3.25"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012344999999999999"),
            (0.5, "0.5"),
            (0.05, "0.050000000000000003"),
            (1e-5, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (99_999_999_999_999_999.0, "1e+17"),
            (-99_999_999_999_999_984.0, "-99999999999999984"),
            (1234.5678, "1234.5678"),
            (1e300, "1.0000000000000001e+300"),
            (2.5e-310, "2.5000000000000171e-310"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn doubles_survive_the_round_trip() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(state);
            if value.is_finite() {
                assert_eq!(text(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
            }
        }
    }
}
