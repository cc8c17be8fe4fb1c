//! How many registers have each value.
//!
//! Two neighbours at a time, as one number of 12 bits: half as many additions, and fewer of them wait for the one before on the same
//! counter. The 4096 counters of pairs are summed up at the end.

use super::shape::{Corrupted, REGISTERS, Way};
use super::{dense, sparse};

/// Registers by value.
pub(super) struct Histogram(pub(super) [u32; 64]);

/// Pairs by value: the first register is in the lower 6 bits.
struct Pairs([u16; 1 << PAIR_BITS]);

const PAIR_BITS: u32 = 12;
const PAIR_MASK: u64 = (1 << PAIR_BITS) - 1;

impl Pairs {
    fn new() -> Self {
        Self([0; 1 << PAIR_BITS])
    }

    /// Counts the pairs in the lower 60 bits.
    #[inline]
    fn count(&mut self, word: u64) {
        for place in 0..5 {
            self.0[(word >> (place * PAIR_BITS) & PAIR_MASK) as usize] += 1;
        }
    }

    fn sum(&self) -> Histogram {
        let (mut first, mut second) = ([0u16; 64], [0u32; 64]);
        for (row, sum) in self.0.as_chunks::<64>().0.iter().zip(&mut second) {
            first.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
            *sum = row.iter().sum::<u16>().into();
        }
        first.iter().zip(&mut second).for_each(|(&first, sum)| *sum += u32::from(first));
        Histogram(second)
    }
}

impl Histogram {
    pub(super) fn of_dense(registers: &[u8; dense::BYTES], way: Way) -> Self {
        if way == Way::Single {
            return Self::of((0..REGISTERS).map(|index| dense::get(registers, index)));
        }
        let mut pairs = Pairs::new();
        // 24 bytes are 16 pairs: five from each word, and one of the four bits that each leaves.
        for block in registers.as_chunks::<24>().0 {
            let word = |at: usize| dense::word(block, at);
            let (low, middle, high) = (word(0), word(8), word(16));
            pairs.count(low);
            pairs.count(middle >> 8 | (high & 0xf) << 56);
            pairs.count(high >> 4);
            pairs.0[((low >> 60 | middle << 4) & PAIR_MASK) as usize] += 1;
        }
        pairs.sum()
    }

    pub(super) fn of_raw(registers: &[u8; REGISTERS], way: Way) -> Self {
        if way == Way::Single {
            return Self::of(registers.iter().copied());
        }
        let mut pairs = Pairs::new();
        for &[first, second] in registers.as_chunks::<2>().0 {
            pairs.0[usize::from(first & 63) | usize::from(second & 63) << 6] += 1;
        }
        pairs.sum()
    }

    pub(super) fn of_sparse(opcodes: &[u8]) -> Result<Self, Corrupted> {
        let mut counts = [0; 64];
        for run in sparse::runs(opcodes) {
            let run = run?;
            counts[usize::from(run.value)] += run.len as u32;
        }
        Ok(Self(counts))
    }

    fn of(registers: impl Iterator<Item = u8>) -> Self {
        let mut counts = [0; 64];
        registers.for_each(|register| counts[usize::from(register)] += 1);
        Self(counts)
    }
}
