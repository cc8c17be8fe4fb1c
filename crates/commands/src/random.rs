//! Chance: which elements commands choose.

use std::cell::Cell;

use almandine_io::entropy;

/// Bytes of the reply to a negative count at most: such a count may be beyond any bound.
pub(crate) const REPLY_BYTES_MAX: usize = 512 << 20;

thread_local! {
    /// Seeds of generators to come: asking the kernel for each would cost more than most commands.
    static SEEDS: Cell<u64> = Cell::new(entropy::seed());
}

/// Splitmix64, from a seed that nobody else knows.
pub(crate) struct Random(u64);

impl Random {
    /// A generator of its own.
    pub(crate) fn new() -> Self {
        let mut seeds = Self(SEEDS.get());
        let seed = seeds.next();
        SEEDS.set(seeds.0);
        Self(seed)
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `n`; 0 if there is none.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_below_their_bound_and_about_as_likely() {
        let (mut random, mut drawn) = (Random(7), [0; 5]);
        (0..5000).for_each(|_| drawn[random.below(5)] += 1);
        assert!(drawn.iter().all(|times| (850..1150).contains(times)), "{drawn:?}");
        assert_eq!(random.below(0), 0);
    }
}
