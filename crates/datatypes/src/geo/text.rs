//! Positions and distances as texts.

use super::cell::{Cell, STEPS_MAX};
use super::point::{Point, integer_of_score};
use crate::number::Extended;

/// Characters of a geohash.
pub const HASH_BYTES: usize = 11;

const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// The geohash that everybody else uses, of a map that reaches to the poles. Its last character is always 0: there are only 52
/// bits.
#[must_use]
pub fn hash(point: Point) -> [u8; HASH_BYTES] {
    let number = Cell::within(point, STEPS_MAX, 90.0).number;
    std::array::from_fn(|at| match (at as u32 + 1) * 5 {
        read if read <= 2 * STEPS_MAX => ALPHABET[(number >> (2 * STEPS_MAX - read) & 31) as usize],
        _ => ALPHABET[0],
    })
}

/// Appends a distance with four decimals.
pub fn write_distance(distance: f64, out: &mut Vec<u8>) {
    // What is beyond all integers is the least of them, as the processor's conversion has it.
    let scaled = integer_of_score((distance * 10_000.0).round_ties_even());
    if scaled < 0 {
        out.push(b'-');
    }
    let scaled = scaled.unsigned_abs();
    out.extend_from_slice(itoa::Buffer::new().format(scaled / 10_000).as_bytes());
    let fraction = scaled % 10_000;
    let digits = [1000, 100, 10, 1].map(|place| b'0' + (fraction / place % 10) as u8);
    out.push(b'.');
    out.extend_from_slice(&digits);
}

/// Appends a longitude or latitude, with at most 17 decimals.
pub fn write_coordinate(degrees: f64, out: &mut Vec<u8>) {
    Extended::from(degrees).write(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geohashes() {
        // Wikipedia's example.
        assert_eq!(&hash(Point { longitude: -5.6, latitude: 42.6 }), b"ezs42e44yx0");
    }

    #[test]
    fn distances() {
        let text = |distance| {
            let mut out = Vec::new();
            write_distance(distance, &mut out);
            String::from_utf8(out).unwrap()
        };
        for (distance, expected) in [
            (0.0, "0.0000"),
            (-0.0, "0.0000"),
            (6.064_295_159_839_17e-5, "0.0001"),
            (0.00005, "0.0000"),
            (166_274.151_57, "166274.1516"),
        ] {
            assert_eq!(text(distance), expected);
        }
    }
}
