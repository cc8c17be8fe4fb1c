//! Rounding a long binary number to a floating-point format: to the nearest, and to the even one of two that are equally near.

/// A binary floating-point format: finite values are `mantissa × 2^exponent` within these limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// Bits of the mantissa, the leading one included.
    pub(super) bits: u32,
    /// Least exponent of the mantissa's last bit; values that need less lose bits (they are *subnormal*).
    pub(super) exponent_min: i64,
    pub(super) exponent_max: i64,
}

/// IEEE 754 double precision.
pub(super) const DOUBLE: Format = Format { bits: 53, exponent_min: -1074, exponent_max: 971 };
/// The x87's 80-bit format, C's `long double` on x86.
pub(super) const EXTENDED: Format = Format { bits: 64, exponent_min: -16_445, exponent_max: 16_320 };

/// A rounded magnitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounded {
    /// `mantissa` has all of the format's bits, or fewer with the least exponent, or is zero.
    Finite {
        mantissa: u64,
        exponent: i64,
    },
    Overflow,
}

/// Rounds `mantissa × 2^exponent`, to which something below one unit of the mantissa is added if `inexact`.
///
/// An inexact mantissa must have more bits than the format.
pub(super) fn round(mantissa: u128, exponent: i64, inexact: bool, format: Format) -> Rounded {
    let length = u128::BITS - mantissa.leading_zeros();
    if length == 0 {
        return Rounded::Finite { mantissa: 0, exponent: format.exponent_min };
    }
    // How many low bits to give up: those beyond the format's length, and those below its least exponent.
    let excess = (i64::from(length) - i64::from(format.bits)).max(format.exponent_min - exponent);
    let (mut mantissa, mut exponent) = if excess <= 0 {
        // Exact. Fill the mantissa from below as far as the format goes.
        (mantissa << -excess, exponent + excess)
    } else {
        (shift_right_to_even(mantissa, excess, inexact), exponent + excess)
    };
    if mantissa >> format.bits != 0 {
        mantissa >>= 1;
        exponent += 1;
    }
    if exponent > format.exponent_max { Rounded::Overflow } else { Rounded::Finite { mantissa: mantissa as u64, exponent } }
}

/// `value / 2^shift` for a positive shift, rounded to the nearest and halves to even; `inexact` as for [`round`].
pub(super) fn shift_right_to_even(value: u128, shift: i64, inexact: bool) -> u128 {
    if shift > i64::from(u128::BITS) {
        return 0;
    }
    let kept = value.checked_shr(shift as u32).unwrap_or(0);
    let half = 1u128 << (shift - 1);
    let lost = value & (half | (half - 1));
    let up = lost > half || (lost == half && (inexact || kept & 1 == 1));
    kept + u128::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_even() {
        assert_eq!([1, 2, 3, 5, 6, 7].map(|value| shift_right_to_even(value, 2, false)), [0, 0, 1, 1, 2, 2]);
        assert_eq!(shift_right_to_even(2, 2, true), 1);
        assert_eq!(shift_right_to_even(u128::MAX, 128, false), 1);
        assert_eq!(shift_right_to_even(1 << 127, 128, false), 0);
        assert_eq!(shift_right_to_even(u128::MAX, 129, false), 0);
    }

    #[test]
    fn limits() {
        let finite = |mantissa, exponent| Rounded::Finite { mantissa, exponent };
        assert_eq!(round(1, 0, false, DOUBLE), finite(1 << 52, -52));
        assert_eq!(round(1, -1074, false, DOUBLE), finite(1, -1074));
        assert_eq!(round(1, -1075, false, DOUBLE), finite(0, -1074));
        assert_eq!(round(3, -1075, false, DOUBLE), finite(2, -1074));
        assert_eq!(round((1 << 53) - 1, 971, false, DOUBLE), finite((1 << 53) - 1, 971));
        assert_eq!(round((1 << 54) - 1, 970, false, DOUBLE), Rounded::Overflow);
    }
}
