//! Numbers as text.
//!
//! A double is printed with as few digits as tell it from its neighbours, laid out as Redis does it from 7.2 on: integers in full,
//! an exponent where it is shorter. Redis 7.0 printed 17 digits, so that 0.1 was `0.10000000000000001`.

use std::io::Write;

/// Most significant digits of the shortest text.
const DIGITS_MAX: usize = 17;

/// Integral doubles up to this are printed as integers.
const INTEGRAL_MAX: f64 = (i64::MAX / 2) as f64;

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

/// Appends a double with as few digits as tell it from its neighbours; the infinities are `inf` and `-inf`.
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
    } else if magnitude <= INTEGRAL_MAX && magnitude.fract() == 0.0 {
        write_unsigned(out, magnitude as u64);
    } else {
        write_shortest(out, magnitude);
    }
}

/// Appends a positive, finite, non-zero double.
fn write_shortest(out: &mut Vec<u8>, magnitude: f64) {
    // `d.dddddddddddddddde-XXX` is 23 bytes at most.
    let mut text = [0; 32];
    let mut unwritten = &mut text[..];
    let written = write!(unwritten, "{magnitude:e}");
    debug_assert!(written.is_ok(), "the text fits");
    let mut len = 32 - unwritten.len();
    if text[..len].iter().take_while(|byte| **byte != b'e').filter(|byte| byte.is_ascii_digit()).count() == DIGITS_MAX {
        // Of the two that are as near, the even one, as Redis has it.
        let mut unwritten = &mut text[..];
        let written = write!(unwritten, "{magnitude:.*e}", DIGITS_MAX - 1);
        debug_assert!(written.is_ok(), "the text fits");
        len = 32 - unwritten.len();
    }
    let at = text[..len].iter().position(|byte| *byte == b'e').unwrap_or(len);
    let exponent: i32 =
        str::from_utf8(&text[(at + 1).min(len)..len]).ok().and_then(|digits| digits.parse().ok()).unwrap_or_default();
    let (mut digits, mut count) = ([b'0'; DIGITS_MAX], 0);
    for (place, digit) in digits.iter_mut().zip(text[..at].iter().filter(|byte| byte.is_ascii_digit())) {
        *place = *digit;
        count += 1;
    }
    let digits = &digits[..count];
    let last = exponent - (count as i32 - 1);
    let is_plain = if last >= 0 { exponent < count as i32 + 7 } else { last > -7 || exponent.abs() < 4 };
    let zeroes = |count: i32| std::iter::repeat_n(b'0', usize::try_from(count).unwrap_or(0));
    if !is_plain {
        out.push(digits[0]);
        if count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        write_integer(out, i64::from(exponent.abs()));
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(zeroes(-exponent - 1));
        out.extend_from_slice(digits);
    } else {
        let (integral, fraction) = digits.split_at(count.min(exponent as usize + 1));
        out.extend_from_slice(integral);
        out.extend(zeroes(exponent + 1 - count as i32));
        if !fraction.is_empty() {
            out.push(b'.');
            out.extend_from_slice(fraction);
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

    /// The layout of Redis 7.2 and later.
    #[test]
    fn doubles_are_as_short_as_they_can_be() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (-0.1, "-0.1"),
            (3.25, "3.25"),
            (7_863_543_780_136_489.0 / 4.0, "1965885945034122.2"),
            (0.0001, "0.0001"),
            (0.00012345, "1.2345e-4"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (1.234_567e-5, "1.234567e-5"),
            (1e16, "10000000000000000"),
            (1e17, "100000000000000000"),
            (4_611_686_018_427_387_904.0, "4611686018427387904"),
            (-4_611_686_018_427_387_904.0, "-4611686018427387904"),
            (4_611_686_018_427_388_928.0, "4611686018427389000"),
            (1e20, "1e+20"),
            (123_456_789_012_345_678.0, "123456789012345680"),
            (1234.5678, "1234.5678"),
            (1e300, "1e+300"),
            (2.5e-310, "2.5e-310"),
            (5e-324, "5e-324"),
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
