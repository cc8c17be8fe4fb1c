//! What an element says about a register: MurmurHash64A of it, as read by a machine whose lowest byte comes first.

use super::shape::{INDEX_BITS, REGISTERS, RUN_BITS};

const SEED: u64 = 0xadc8_3b19;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// What an element says: its register is at least `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The register's number.
    pub index: usize,
    /// 1 to 51.
    pub count: u8,
}

impl Observation {
    /// What `element` says.
    #[inline]
    #[must_use]
    pub fn of(element: &[u8]) -> Self {
        let hash = murmur(element);
        // A one behind the last bit ends each run.
        let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
        Self { index: hash as usize % REGISTERS, count: rest.trailing_zeros() as u8 + 1 }
    }
}

fn murmur(bytes: &[u8]) -> u64 {
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut mixed = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        hash = (hash ^ mixed.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}
