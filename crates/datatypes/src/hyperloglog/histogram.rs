//! How many registers have each value.
//!
//! Two neighbours at a time, as one number of 12 bits: half as many additions, and fewer of them wait for the one before on the
//! same counter. Of two tables each gets every other pair, for the same reason, and words of zeroes are counted at once. At the
//! end the tables are summed up.

use super::shape::{Corrupted, REGISTERS, Way};
use super::{dense, sparse};

/// Registers by value.
pub(super) struct Histogram(pub(super) [u32; 64]);

/// Pairs by value: the first register is in the lower 6 bits.
struct Pairs {
    tables: [[u16; 1 << PAIR_BITS]; 2],
    /// Pairs of zeroes that are not in the tables.
    zeroes: u16,
}

const PAIR_BITS: u32 = 12;
const PAIR_MASK: u64 = (1 << PAIR_BITS) - 1;

impl Pairs {
    fn new() -> Self {
        Self { tables: [[0; 1 << PAIR_BITS]; 2], zeroes: 0 }
    }

    /// Counts the `N` pairs in the lower bits; above them there is nothing.
    #[inline]
    fn count<const N: usize>(&mut self, word: u64) {
        if word == 0 {
            self.zeroes += N as u16;
            return;
        }
        for place in 0..N {
            self.tables[place % 2][(word >> (place as u32 * PAIR_BITS) & PAIR_MASK) as usize] += 1;
        }
    }

    fn sum(&self) -> Histogram {
        let (mut first, mut second) = ([0u16; 64], [0u32; 64]);
        for table in &self.tables {
            for (row, sum) in table.as_chunks::<64>().0.iter().zip(&mut second) {
                first.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
                *sum += u32::from(row.iter().sum::<u16>());
            }
        }
        first.iter().zip(&mut second).for_each(|(&first, sum)| *sum += u32::from(first));
        second[0] += 2 * u32::from(self.zeroes);
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
            pairs.count::<5>(low & !(0xf << 60));
            pairs.count::<1>((low >> 60 | middle << 4) & PAIR_MASK);
            pairs.count::<5>(middle >> 8 | (high & 0xf) << 56);
            pairs.count::<5>(high >> 4);
        }
        pairs.sum()
    }

    pub(super) fn of_raw(registers: &[u8; REGISTERS], way: Way) -> Self {
        if way == Way::Single {
            return Self::of(registers.iter().copied());
        }
        let mut pairs = Pairs::new();
        for eight in registers.as_chunks::<8>().0 {
            pairs.count::<4>(dense::gather(u64::from_le_bytes(*eight)));
        }
        pairs.sum()
    }

    /// Of opcodes. Which comes next follows from the one before by arithmetic alone: a processor would guess wrong at every
    /// other one.
    pub(super) fn of_sparse(opcodes: &[u8]) -> Result<Self, Corrupted> {
        // Two bytes describe one register at least.
        if opcodes.len() > 2 * REGISTERS {
            return Err(Corrupted);
        }
        let (mut counts, mut described, mut at) = ([0; 64], 0, 0);
        while let Some(&opcode) = opcodes.get(at) {
            let second = opcodes.get(at + 1).copied().unwrap_or_default();
            let (value, len, bytes) = sparse::decode(opcode, second);
            counts[usize::from(value & 63)] += len;
            described += len;
            at += bytes;
        }
        // The last one is all there, and the registers are.
        if at != opcodes.len() || described != REGISTERS as u32 {
            return Err(Corrupted);
        }
        Ok(Self(counts))
    }

    /// Of no elements.
    pub(super) fn empty() -> Self {
        let mut counts = [0; 64];
        counts[0] = REGISTERS as u32;
        Self(counts)
    }

    /// Takes in that a register is raised.
    #[inline]
    pub(super) fn raised(&mut self, before: u8, after: u8) {
        self.0[usize::from(before & 63)] -= 1;
        self.0[usize::from(after & 63)] += 1;
    }

    fn of(registers: impl Iterator<Item = u8>) -> Self {
        let mut counts = [0; 64];
        registers.for_each(|register| counts[usize::from(register)] += 1);
        Self(counts)
    }
}
