//! Finds a byte among those of a chunk's fields, eight at a time.

/// Bytes that are compared at once.
pub(super) const BLOCK: usize = 8;

const LOW_BITS: u64 = u64::from_le_bytes([0x7F; BLOCK]);

/// The bytes of a block, the first one the lowest, that equal a byte: the highest bit of each of them, and no other bit.
#[inline]
pub(super) fn matches(block: u64, tag: u8) -> u64 {
    let differs = block ^ u64::from_le_bytes([tag; BLOCK]);
    // Adding carries into the highest bit of a byte unless its other bits are 0, and into no other byte.
    !(((differs & LOW_BITS) + LOW_BITS) | differs | LOW_BITS)
}

/// A bit for each byte of what [`matches`] found.
#[inline]
pub(super) fn bits(found: u64) -> u64 {
    // Each of the eight bits is moved to the highest byte, to a place of its own; no two of the products overlap.
    (found >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_found() {
        for (tag, pattern) in (0..=0xFF).flat_map(|tag| (0..=0xFFu32).map(move |pattern| (tag, pattern))) {
            let is_equal = |i: usize| (pattern >> i) & 1 == 1;
            let block: [u8; BLOCK] = std::array::from_fn(|i| if is_equal(i) { tag } else { tag ^ (1 << i) });
            let expected = (0..BLOCK).filter(|i| is_equal(*i)).map(|i| 0x80 << (8 * i)).sum::<u64>();
            assert_eq!(bits(expected), u64::from(pattern));
            assert_eq!(matches(u64::from_le_bytes(block), tag), expected);
        }
    }
}
