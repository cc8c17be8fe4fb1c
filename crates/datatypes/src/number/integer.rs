//! Integers: a text is one only if writing the integer gives that text back.

/// Digits of the longest `i64`, with its sign.
pub const TEXT_BYTES_MAX: usize = 20;

/// The integer that `text` is the decimal form of: no plus, no leading zeros, no spaces, no `-0`.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        b"0" => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) || digits.len() >= TEXT_BYTES_MAX {
        return None;
    }
    // At most 19 digits: they fit.
    let mut magnitude = 0u64;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(value);
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_texts() {
        for text in ["", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1a", "9223372036854775808", "-9223372036854775809"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_i64(b"99999999999999999999"), None);
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
    }
}
