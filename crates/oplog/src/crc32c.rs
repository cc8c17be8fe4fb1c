//! CRC-32C, the checksum of the log, its bases and marks.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::{Digest, crc32_iscsi};

/// The checksum of `bytes`.
#[must_use]
pub fn sum(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// The checksum of `bytes` behind what has the checksum `before`: it differs where anything before them does.
#[must_use]
pub(crate) fn chained(before: u32, bytes: &[u8]) -> u32 {
    added(sum(&before.to_le_bytes()), bytes)
}

/// The checksum of what has the checksum `sum`, with `bytes` behind it.
#[must_use]
pub fn added(sum: u32, bytes: &[u8]) -> u32 {
    // The state is the checksum before its bits are turned over.
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!sum));
    digest.update(bytes);
    digest.finalize() as u32
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
        // However it is cut, and of all lengths that are summed in ways of their own.
        let bytes: Vec<u8> = (0..40_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for len in (0..600).chain([1024, 4096, 16 << 10, bytes.len()]) {
            let plain = bytes[..len].iter().fold(0, |sum, byte| by_bits(sum, *byte));
            assert_eq!(sum(&bytes[..len]), plain, "{len}");
            let (first, rest) = bytes[..len].split_at(len / 3);
            assert_eq!(added(sum(first), rest), plain, "{len}");
        }
    }

    /// By the definition: the polynomial 0x1EDC6F41, bits reversed.
    fn by_bits(sum: u32, byte: u8) -> u32 {
        let step = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0x82F6_3B78 } else { sum >> 1 };
        !(0..8).fold(!sum ^ u32::from(byte), step)
    }
}
