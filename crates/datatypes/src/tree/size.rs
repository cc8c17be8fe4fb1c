//! What an allocation really takes.

use std::sync::Arc;

/// The source of bytes for new allocations.
static ZEROES: [u8; 16 * 1024] = [0; 16 * 1024];

/// Zeroes in an allocation of their own, which is made at once.
#[must_use]
pub fn zeroes(len: usize) -> Arc<[u8]> {
    ZEROES.get(..len).map_or_else(|| vec![0; len].into(), Arc::from)
}

/// Bytes that a shared allocation has before its contents: two counters.
pub const SHARED_BYTES: usize = 16;

/// The bytes that an allocator with four size classes per power of two sets aside for `bytes`, as mimalloc and jemalloc do.
#[must_use]
pub const fn size_class(bytes: usize) -> usize {
    if bytes <= 64 {
        return bytes.next_multiple_of(8);
    }
    let step = 1 << ((bytes - 1).ilog2() - 2);
    bytes.next_multiple_of(step)
}

/// The largest size class that is not above `bytes`.
#[must_use]
pub const fn size_class_below(bytes: usize) -> usize {
    if bytes <= 64 {
        return bytes - bytes % 8;
    }
    bytes - bytes % (1 << (bytes.ilog2() - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_a_quarter_of_a_power_of_two_apart() {
        assert_eq!([1, 8, 9, 64, 65, 80, 81, 128, 129, 160, 161].map(size_class), [8, 8, 16, 64, 80, 80, 96, 128, 160, 160, 192]);
        assert_eq!([1024, 1025, 1280, 1281, 16_384, 16_385].map(size_class), [1024, 1280, 1280, 1536, 16_384, 20_480]);
        for bytes in 0..20_000 {
            let below = size_class_below(bytes);
            assert!(below <= bytes && size_class(below) == below && size_class(below + 1) > bytes, "{bytes}");
        }
    }
}
