//! A position.

use super::cell::{Cell, STEPS_MAX};

/// The easternmost longitude; the westernmost one is its opposite.
pub const LONGITUDE_MAX: f64 = 180.0;
/// The northernmost latitude that can be indexed; the southernmost one is its opposite.
pub const LATITUDE_MAX: f64 = 85.051_128_78;

/// A position, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// East of Greenwich.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

impl Point {
    /// The position, if it can be indexed.
    #[must_use]
    pub fn new(longitude: f64, latitude: f64) -> Option<Self> {
        let inside = longitude.abs() <= LONGITUDE_MAX && latitude.abs() <= LATITUDE_MAX;
        inside.then_some(Self { longitude, latitude })
    }

    /// The score that stands for it.
    #[must_use]
    pub fn score(self) -> f64 {
        Cell::of(self, STEPS_MAX).number as f64
    }

    /// The middle of the cell that a score stands for. Any double stands for one.
    #[must_use]
    pub fn of_score(score: f64) -> Self {
        Cell { number: truncated(score), steps: STEPS_MAX }.area().middle()
    }
}

/// A double as the integer that C's conversion makes of it on x86-64, which Redis takes for the cell: negative numbers become large
/// ones.
fn truncated(score: f64) -> u64 {
    const HALF: f64 = (1u64 << 63) as f64;
    if score >= HALF { integer_of_score(score - HALF) as u64 ^ 1 << 63 } else { integer_of_score(score) as u64 }
}

/// A score as the integer that WITHHASH answers; what is none is the least one.
#[must_use]
pub fn integer_of_score(score: f64) -> i64 {
    const HALF: f64 = (1u64 << 63) as f64;
    if (-HALF..HALF).contains(&score) { score as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_double_is_a_cell() {
        assert_eq!([truncated(-1.0), truncated(-0.5), truncated(1.9)], [u64::MAX, 0, 1]);
        assert_eq!([truncated(2f64.powi(63)), truncated(f64::NAN), truncated(f64::NEG_INFINITY)], [1 << 63; 3]);
        assert_eq!([truncated(2f64.powi(64)), truncated(f64::INFINITY)], [0, 0]);
        for score in [-1.0, 1e300, f64::NAN, 3e15] {
            let point = Point::of_score(score);
            assert!(Point::new(point.longitude, point.latitude).is_some(), "{score}: {point:?}");
        }
    }
}
