//! The grammar of C's `strtod` and `strtold`, as far as Redis lets it through: no leading space, no NaN, nothing after the number.

/// Exponents are held to this, far beyond any that matters, so that arithmetic on them cannot overflow.
const EXPONENT_MAX: i64 = 1 << 40;

/// A number as it is written, before any rounding.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Literal<'t> {
    pub(super) negative: bool,
    pub(super) magnitude: Magnitude<'t>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Magnitude<'t> {
    Infinite,
    /// `integer.fraction × 10^exponent`; both are digits, and at least one is not empty.
    Decimal {
        integer: &'t [u8],
        fraction: &'t [u8],
        exponent: i64,
    },
    /// `mantissa × 2^exponent`, and a little more if `inexact`.
    Binary {
        mantissa: u128,
        exponent: i64,
        inexact: bool,
    },
}

impl<'t> Literal<'t> {
    pub(super) fn parse(text: &'t [u8]) -> Option<Self> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let magnitude = match text {
            [b'0', b'x' | b'X', rest @ ..] => hexadecimal(rest)?,
            _ if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") => Magnitude::Infinite,
            _ => decimal(text)?,
        };
        Some(Self { negative, magnitude })
    }
}

fn decimal(text: &[u8]) -> Option<Magnitude<'_>> {
    let (integer, fraction, rest) = digits_around_point(text, u8::is_ascii_digit)?;
    Some(Magnitude::Decimal { integer, fraction, exponent: exponent(rest, b'e')? })
}

fn hexadecimal(text: &[u8]) -> Option<Magnitude<'_>> {
    let (integer, fraction, rest) = digits_around_point(text, u8::is_ascii_hexdigit)?;
    let mut exponent = exponent(rest, b'p')?;
    let (mut mantissa, mut inexact) = (0u128, false);
    for (at, &digit) in integer.iter().chain(fraction).enumerate() {
        let value = (digit as char).to_digit(16)?;
        let in_fraction = at >= integer.len();
        if mantissa >> 124 == 0 {
            mantissa = mantissa << 4 | u128::from(value);
            exponent -= if in_fraction { 4 } else { 0 };
        } else {
            inexact |= value != 0;
            exponent += if in_fraction { 0 } else { 4 };
        }
    }
    Some(Magnitude::Binary { mantissa, exponent, inexact })
}

type Digits<'t> = (&'t [u8], &'t [u8], &'t [u8]);

/// The digits before and after the point, and what follows. `None` without a digit.
fn digits_around_point(text: &[u8], is_digit: fn(&u8) -> bool) -> Option<Digits<'_>> {
    let run = |text: &[u8]| text.iter().position(|byte| !is_digit(byte)).unwrap_or(text.len());
    let (integer, rest) = text.split_at(run(text));
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => rest.split_at(run(rest)),
        rest => (&rest[..0], rest),
    };
    (!integer.is_empty() || !fraction.is_empty()).then_some((integer, fraction, rest))
}

/// Reads `e±digits` to the end of the text; an empty text is zero.
fn exponent(text: &[u8], marker: u8) -> Option<i64> {
    let Some((&first, text)) = text.split_first() else { return Some(0) };
    if !first.eq_ignore_ascii_case(&marker) {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits.iter().fold(0, |sum: i64, digit| (sum * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused() {
        for text in
            ["", "-", ".", "e5", "1e", "1e+", "0x", "0xp1", "0x.", " 1", "1 ", "1_0", "--1", "nan", "nan(1)", "infinit", "1f"]
        {
            assert_eq!(Literal::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn accepted() {
        let of = |text: &'static str| Literal::parse(text.as_bytes()).unwrap();
        assert_eq!(of("-INF"), Literal { negative: true, magnitude: Magnitude::Infinite });
        let decimal = Magnitude::Decimal { integer: b"1", fraction: b"", exponent: -5 };
        assert_eq!(of("+1.e-05"), Literal { negative: false, magnitude: decimal });
        let binary = Magnitude::Binary { mantissa: 0x18, exponent: -1, inexact: false };
        assert_eq!(of("0X1.8p+3"), Literal { negative: false, magnitude: binary });
    }
}
