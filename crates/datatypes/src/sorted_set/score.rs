//! Scores in few bytes.
//!
//! Up to 4 bytes: an integer, least significant byte first; no bytes at all are 0. From 5 bytes on: the highest bytes of the
//! double, the most significant first, the others being zero. So small integers take one to four bytes, most times six or seven,
//! and other fractions eight.

/// Bytes of the widest integer.
const INTEGER_MAX: usize = 4;

/// A score's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreBytes {
    bytes: [u8; 8],
    len: usize,
}

impl ScoreBytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What orders scores: both zeroes are the same.
pub(crate) fn key(score: f64) -> u64 {
    // Adding 0 makes -0 to 0.
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The bytes that a score takes as an integer, if it is one of 32 bits. The negative zero is none.
fn integer_len(score: f64) -> Option<usize> {
    let number = score as i32;
    if f64::from(number).to_bits() != score.to_bits() {
        return None;
    }
    let bits = 33 - (if number < 0 { !number } else { number }).leading_zeros();
    Some(if number == 0 { 0 } else { bits.div_ceil(8) as usize })
}

fn double_len(score: f64) -> usize {
    (8 - score.to_bits().trailing_zeros().min(63) as usize / 8).max(INTEGER_MAX + 1)
}

/// The least bytes that a score takes.
pub(crate) fn len(score: f64) -> usize {
    integer_len(score).unwrap_or_else(|| double_len(score))
}

/// The least width that both a score and all that fit in `width` bytes fit in; `known` gives the latter.
pub(crate) fn common_width(scores: impl Iterator<Item = f64> + Clone) -> usize {
    let integers = scores.clone().try_fold(0, |width, score| integer_len(score).map(|len| width.max(len)));
    integers.unwrap_or_else(|| scores.map(double_len).max().unwrap_or(0))
}

/// Whether a score can be written in `width` bytes.
pub(crate) fn fits(score: f64, width: usize) -> bool {
    if width <= INTEGER_MAX { integer_len(score).is_some_and(|len| len <= width) } else { double_len(score) <= width }
}

/// The score in `width` bytes, in which it fits.
pub(crate) fn encode(score: f64, width: usize) -> ScoreBytes {
    debug_assert!(fits(score, width) && width <= 8, "{score} in {width} bytes");
    if width <= INTEGER_MAX {
        let mut bytes = [0; 8];
        bytes[..INTEGER_MAX].copy_from_slice(&(score as i32).to_le_bytes());
        return ScoreBytes { bytes, len: width };
    }
    ScoreBytes { bytes: score.to_bits().to_be_bytes(), len: width.min(8) }
}

/// The score that bytes are. What is too long, or no number, is 0.
pub(crate) fn decode(bytes: &[u8]) -> f64 {
    match bytes {
        [] => 0.0,
        [low] => f64::from(i8::from_le_bytes([*low])),
        &[a, b] => f64::from(i16::from_le_bytes([a, b])),
        &[a, b, c] => f64::from(i32::from_le_bytes([0, a, b, c]) >> 8),
        &[a, b, c, d] => f64::from(i32::from_le_bytes([a, b, c, d])),
        _ if bytes.len() <= 8 => {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            let score = f64::from_bits(u64::from_be_bytes(all));
            if score.is_nan() { 0.0 } else { score }
        }
        _ => 0.0,
    }
}

/// As [`decode`], of the `len` bytes that end at `end`: what stands before them is read along, so that all widths of a kind are
/// one.
#[inline]
pub(crate) fn decode_before(bytes: &[u8], end: usize, len: usize) -> f64 {
    let Some(before) = bytes.get(..end) else { return 0.0 };
    match (before.last_chunk(), before.last_chunk()) {
        (Some(four), _) if len <= INTEGER_MAX => {
            // Of no bytes nothing is left, not even the sign of what stands before.
            let number = (i64::from(i32::from_le_bytes(*four)) >> (8 * (INTEGER_MAX - len))) & -i64::from(len > 0);
            f64::from(number as i32)
        }
        (_, Some(eight)) if len > INTEGER_MAX && len <= 8 => {
            let score = f64::from_bits(u64::from_be_bytes(*eight) << (8 * (8 - len)));
            if score.is_nan() { 0.0 } else { score }
        }
        _ => decode(before.get(end.wrapping_sub(len)..).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCORES: [f64; 22] = [
        f64::NEG_INFINITY,
        f64::MIN,
        -2_147_483_649.0,
        -2_147_483_648.0,
        -32_769.0,
        -129.0,
        -128.0,
        -0.1,
        -f64::MIN_POSITIVE,
        0.0,
        5e-324,
        0.1,
        0.5,
        127.0,
        128.0,
        32_768.0,
        8_388_608.0,
        2_147_483_647.0,
        2_147_483_648.0,
        1_700_000_000_123.0,
        1e300,
        f64::INFINITY,
    ];

    #[test]
    fn scores_come_back_in_every_width_that_holds_them() {
        for score in SCORES.into_iter().chain([-0.0]) {
            for width in (0..=8).filter(|width| fits(score, *width)) {
                let bytes = encode(score, width);
                let behind = [&[0x5A; 9], bytes.as_slice(), &[0x5A; 3]].concat();
                assert_eq!(decode_before(&behind, 9 + width, width).to_bits(), score.to_bits(), "{score}");
                assert_eq!(decode_before(bytes.as_slice(), width, width).to_bits(), score.to_bits(), "{score} alone");
                assert_eq!((bytes.as_slice().len(), decode(bytes.as_slice()).to_bits()), (width, score.to_bits()), "{score}");
            }
            assert!(fits(score, len(score)) && fits(score, 8));
        }
        assert_eq!([0.0, 1.0, -128.0, 128.0, 70_000.0, 2e9, 0.5, -0.0, 0.1].map(len), [0, 1, 1, 2, 3, 4, 5, 5, 8]);
        assert_eq!(common_width([1.0, 300.0].into_iter()), 2);
        assert_eq!(common_width([1.0, 0.5].into_iter()), 5);
        assert_eq!(common_width([2e9, 0.1].into_iter()), 8);
    }

    #[test]
    fn keys_are_in_the_order_of_scores() {
        assert!(SCORES.map(key).is_sorted_by(|one, next| one < next));
        assert_eq!(key(-0.0), key(0.0));
        assert_eq!([decode(&[0xFF; 8]), decode(&[1; 9])], [0.0, 0.0]);
    }
}
