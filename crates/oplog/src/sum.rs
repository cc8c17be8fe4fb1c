//! The checksum of the log: CRC-32C.

use crc32c::{crc32c, crc32c_append};

/// The checksum of `bytes`.
#[must_use]
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    crc32c(bytes)
}

/// The checksum of `bytes` behind what has the checksum `before`: it differs where anything before them does.
#[must_use]
pub(crate) fn chained(before: u32, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&before.to_le_bytes()), bytes)
}

/// The sum of what has the sum `sum` with `bytes` behind it.
#[must_use]
pub(crate) fn added(sum: u32, bytes: &[u8]) -> u32 {
    crc32c_append(sum, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_and_chains() {
        assert_eq!(sum(b"123456789"), 0xE306_9283);
        assert_eq!(sum(&[0; 32]), 0x8A91_36AA);
        assert_eq!(chained(0, b"a"), sum(b"\0\0\0\0a"));
        assert_ne!(chained(1, b"a"), chained(2, b"a"));
        assert_eq!(added(chained(7, b"ab"), b"cd"), chained(7, b"abcd"));
    }
}
