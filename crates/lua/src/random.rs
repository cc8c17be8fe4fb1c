//! The random numbers of scripts: drand48, so that they do not depend on the system's library.

/// A 48-bit linear congruential generator.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

const MULTIPLIER: u64 = 0x5_deec_e66d;
const INCREMENT: u64 = 0xb;
const MASK: u64 = (1 << 48) - 1;

/// What `lrand48` may return at most.
pub(crate) const RANDOM_MAX: i32 = i32::MAX;

impl Default for Random {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Random {
    /// The generator after `srand48(seed)`.
    pub(crate) fn new(seed: i32) -> Self {
        Self { state: (u64::from(seed as u32) << 16) + 0x330e }
    }

    /// A number from 0 to [`RANDOM_MAX`].
    pub(crate) fn next(&mut self) -> i32 {
        self.state = (self.state.wrapping_mul(MULTIPLIER) + INCREMENT) & MASK;
        (self.state >> 17) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_lrand48() {
        let mut random = Random::new(0);
        assert_eq!([random.next(), random.next(), random.next()], [366_850_414, 1_610_402_240, 206_956_554]);
    }
}
