//! What an allocation really takes.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_a_quarter_of_a_power_of_two_apart() {
        assert_eq!([1, 8, 9, 64, 65, 80, 81, 128, 129, 160, 161].map(size_class), [8, 8, 16, 64, 80, 80, 96, 128, 160, 160, 192]);
        assert_eq!([1024, 1025, 1280, 1281, 16_384, 16_385].map(size_class), [1024, 1280, 1280, 1536, 16_384, 20_480]);
    }
}
