//! From the histogram of registers to the estimate: Otmar Ertl, *New cardinality estimation algorithms for HyperLogLog sketches*
//! (arXiv:1702.01284), algorithm 6. Operations are in the order in which Redis makes them, so that every bit of the result is
//! the same.

use super::histogram::Histogram;
use super::shape::{REGISTERS, RUN_BITS};

/// 1 / (2 ln 2)
const ALPHA: f64 = 0.721_347_520_444_481_7;
const M: f64 = REGISTERS as f64;
/// What the x86 instruction answers for a number beyond all integers: Redis' estimate of registers that no elements leave behind.
const BEYOND: u64 = 1 << 63;

/// The estimated number of different elements.
pub(super) fn cardinality(histogram: &Histogram) -> u64 {
    let of = |value: u32| f64::from(histogram.0[value as usize]);
    let mut z = M * tau((M - of(RUN_BITS + 1)) / M);
    for value in (1..=RUN_BITS).rev() {
        z = (z + of(value)) * 0.5;
    }
    z += M * sigma(of(0) / M);
    let estimate = (ALPHA * M * M / z).round();
    if estimate < BEYOND as f64 { estimate as u64 } else { BEYOND }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        let before = z;
        x = x.sqrt();
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        let before = z;
        x *= x;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}
