//! Numbers as text: what `%.14g` writes, and what `strtod` reads.

/// Integers of this many digits are below 2^53.
const PLAIN_DIGITS_MAX: usize = 15;

/// Appends a number as `tostring` shows it.
pub(crate) fn write(out: &mut Vec<u8>, number: f64) {
    if number.trunc() == number && number.abs() < 1e14 && (number != 0.0 || number.is_sign_positive()) {
        write_integer(out, number as i64);
        return;
    }
    out.extend(general(number, 14, false).bytes());
}

/// Appends an integer in decimal.
pub(crate) fn write_integer(out: &mut Vec<u8>, integer: i64) {
    let (mut digits, mut at, mut rest) = ([0_u8; 20], 20, integer.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if integer < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// What `inf` and `nan` are called; `None` for finite numbers.
pub(crate) fn not_finite(number: f64) -> Option<&'static str> {
    match (number.is_nan(), number.is_sign_negative()) {
        _ if number.is_finite() => None,
        (true, true) => Some("-nan"),
        (true, false) => Some("nan"),
        (false, true) => Some("-inf"),
        (false, false) => Some("inf"),
    }
}

/// `%e`: with `precision` digits behind the point; `alternate` keeps a point without digits.
pub(crate) fn exponential(number: f64, precision: usize, alternate: bool) -> String {
    if let Some(name) = not_finite(number) {
        return name.to_owned();
    }
    let text = format!("{number:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = if alternate && precision == 0 { "." } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{point}e{sign}{:02}", exponent.abs())
}

/// `%f`
pub(crate) fn fixed(number: f64, precision: usize, alternate: bool) -> String {
    let text = not_finite(number).map_or_else(|| format!("{number:.precision$}"), str::to_owned);
    if alternate && precision == 0 && number.is_finite() { text + "." } else { text }
}

/// `%g`: the shorter of both with `precision` digits; without `alternate`, zeros at the end go.
pub(crate) fn general(number: f64, precision: usize, alternate: bool) -> String {
    if let Some(name) = not_finite(number) {
        return name.to_owned();
    }
    let precision = precision.max(1);
    let scientific = format!("{number:.*e}", precision - 1);
    let exponent: i32 = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let text = exponential(number, precision - 1, alternate);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{exponent}", if alternate { mantissa } else { without_zeros(mantissa) });
    }
    let text = fixed(number, (precision as i32 - 1 - exponent).max(0) as usize, alternate);
    if alternate { text } else { without_zeros(&text).to_owned() }
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The number that a text is, with blanks around it; `None` when it is not one.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    if let Some(integer) = plain_integer(text) {
        return Some(integer as f64);
    }
    // The reader that Lua uses ends at a zero byte.
    let text = &text[..text.iter().position(|b| *b == 0).unwrap_or(text.len())];
    let text = text.trim_ascii_start();
    let (text, _) = trim_vertical(text);
    let text = trim_end(text);
    let (value, length) = parse_prefix(text)?;
    (length == text.len()).then_some(value)
}

/// The value of a text that is nothing but some decimal digits, few enough for each value to be a number.
fn plain_integer(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > PLAIN_DIGITS_MAX {
        return None;
    }
    text.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0')))
}

/// The number that a text begins with, as `strtod` finds it, and its length; `None` when it begins with none.
pub(crate) fn parse_prefix(text: &[u8]) -> Option<(f64, usize)> {
    let (negative, sign) = match text.first()? {
        b'-' => (true, 1),
        b'+' => (false, 1),
        _ => (false, 0),
    };
    let rest = &text[sign..];
    let found = match rest {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits).map(|(value, length)| (value, length + 2)),
        [b'i' | b'I' | b'n' | b'N', ..] => named(rest),
        _ => None,
    };
    let (value, length) = found.or_else(|| decimal(rest))?;
    Some((if negative { -value } else { value }, sign + length))
}

fn trim_vertical(text: &[u8]) -> (&[u8], usize) {
    let blanks = text.iter().take_while(|b| is_space(**b)).count();
    (&text[blanks..], blanks)
}

fn trim_end(text: &[u8]) -> &[u8] {
    let blanks = text.iter().rev().take_while(|b| is_space(**b)).count();
    &text[..text.len() - blanks]
}

/// `isspace` of the C locale.
pub(crate) fn is_space(byte: u8) -> bool {
    byte == b' ' || (9..=13).contains(&byte)
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut length = whole;
    if text.get(whole) == Some(&b'.') {
        let behind = digits(whole + 1);
        length += if whole + behind > 0 { 1 + behind } else { 0 };
    }
    if length == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(length) {
        let sign = usize::from(matches!(text.get(length + 1), Some(b'+' | b'-')));
        let exponent = text.get(length + 1 + sign).map_or(0, |_| digits(length + 1 + sign));
        length += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    let value = std::str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    Some((value, length))
}

fn named(text: &[u8]) -> Option<(f64, usize)> {
    let begins = |name: &[u8]| text.len() >= name.len() && text[..name.len()].eq_ignore_ascii_case(name);
    if begins(b"inf") {
        return Some((f64::INFINITY, if begins(b"infinity") { 8 } else { 3 }));
    }
    if !begins(b"nan") {
        return None;
    }
    let payload = text[3..].strip_prefix(b"(").and_then(|rest| {
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        (rest.get(length) == Some(&b')')).then_some(length + 2)
    });
    Some((f64::NAN, 3 + payload.unwrap_or(0)))
}

/// What follows `0x`.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let (mut mantissa, mut scale, mut at, mut any, mut behind_point) = (0_u64, 0_i64, 0, false, false);
    while let Some(byte) = text.get(at) {
        if let Some(digit) = char::from(*byte).to_digit(16) {
            any = true;
            if mantissa >> 60 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
                scale -= if behind_point { 4 } else { 0 };
            } else {
                // Only whether there is more decides about the rounding.
                mantissa |= u64::from(digit != 0);
                scale += if behind_point { 0 } else { 4 };
            }
        } else if *byte == b'.' && !behind_point {
            behind_point = true;
        } else {
            break;
        }
        at += 1;
    }
    if !any {
        return None;
    }
    if let Some(b'p' | b'P') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let digits = text.get(at + 1 + sign..).unwrap_or_default();
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length > 0 {
            let exponent = digits[..length].iter().fold(0_i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1 << 40));
            scale += if text[at + 1] == b'-' { -exponent } else { exponent };
            at += 1 + sign + length;
        }
    }
    Some((scaled(mantissa as f64, scale), at))
}

/// A number times a power of two.
fn scaled(number: f64, exponent: i64) -> f64 {
    let (mut number, mut exponent) = (number, exponent.clamp(-5000, 5000));
    while exponent != 0 {
        let step = exponent.clamp(-1000, 1000);
        number *= 2.0_f64.powi(step as i32);
        exponent -= step;
    }
    number
}

/// An integer in a base from 2 to 36, as `strtoul` reads it.
pub(crate) fn parse_in_base(text: &[u8], base: u32) -> Option<f64> {
    let text = &text[..text.iter().position(|b| *b == 0).unwrap_or(text.len())];
    let (text, _) = trim_vertical(text);
    let text = trim_end(text);
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = match digits {
        [b'0', b'x' | b'X', rest @ ..] if base == 16 && rest.first().is_some_and(u8::is_ascii_hexdigit) => rest,
        _ => digits,
    };
    if digits.is_empty() {
        return None;
    }
    let (mut value, mut overflow) = (0_u64, false);
    for byte in digits {
        let digit = char::from(*byte).to_digit(36).filter(|digit| *digit < base)?;
        let next = value.checked_mul(u64::from(base)).and_then(|value| value.checked_add(u64::from(digit)));
        overflow |= next.is_none();
        value = next.unwrap_or(u64::MAX);
    }
    let value = if overflow { u64::MAX } else { value };
    Some(if negative && !overflow { value.wrapping_neg() as f64 } else { value as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: f64) -> String {
        let mut out = Vec::new();
        write(&mut out, number);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn numbers_are_written_with_fourteen_digits() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-15.0, "-15"),
            (0.1 + 0.2, "0.3"),
            (1e14, "1e+14"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "1.2345678901234e+14"),
            (99_999_999_999_999.0, "99999999999999"),
            (12.345_678_901_234_5, "12.345678901234"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1e100, "1e+100"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (1.0 / 3.0, "0.33333333333333"),
            (2.0_f64.powi(53), "9.007199254741e+15"),
        ] {
            assert_eq!(text(number), expected);
        }
    }

    #[test]
    fn numbers_are_read_as_by_strtod() {
        for (written, expected) in [
            ("1", 1.0),
            (" 10 ", 10.0),
            ("0x10", 16.0),
            ("-0xA", -10.0),
            ("1e1", 10.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("0x.8p1", 1.0),
            ("inf", f64::INFINITY),
            ("\t\u{b}7\n", 7.0),
        ] {
            assert_eq!(parse(written.as_bytes()), Some(expected), "{written}");
        }
        assert_eq!(parse(b"0x1p-1074"), Some(5e-324));
        assert_eq!(parse(b"0x20000000000001.8"), Some(9_007_199_254_740_994.0));
        for (written, expected, length) in [
            ("1e", 1.0, 1),
            ("0x", 0.0, 1),
            ("1.5e+x", 1.5, 3),
            ("infinit", f64::INFINITY, 3),
            ("-0x1p+", -1.0, 4),
            ("+.5.", 0.5, 3),
        ] {
            assert_eq!(parse_prefix(written.as_bytes()), Some((expected, length)), "{written}");
        }
        for written in ["", " ", "1e", "e1", "0x", "1 2", "- 1", "1_0", "--1", ".", "infx"] {
            assert_eq!(parse(written.as_bytes()), None, "{written}");
        }
    }

    #[test]
    fn integers_are_read_in_a_base() {
        assert_eq!(parse_in_base(b"ff", 16), Some(255.0));
        assert_eq!(parse_in_base(b"0xff", 16), Some(255.0));
        assert_eq!(parse_in_base(b" 7 ", 8), Some(7.0));
        assert_eq!(parse_in_base(b"8", 8), None);
        assert_eq!(parse_in_base(b"zz", 36), Some(1295.0));
    }
}
