//! The digest of a value, by which `DIGEST` and `SET … IFDEQ` compare values without sending them.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// XXH3 (128 bits, no seed).
#[must_use]
pub fn wide(value: &[u8]) -> u128 {
    xxh3_128(value)
}

/// XXH3 (64 bits, no seed) of `value` as 16 lower-case hexadecimal digits, as Redis 8.4 replies it.
pub fn hex(value: &[u8]) -> [u8; 16] {
    let hash = xxh3_64(value);
    std::array::from_fn(|at| b"0123456789abcdef"[(hash >> (60 - 4 * at) & 15) as usize])
}

/// Whether `digest`, in either case of letters, is the digest of `value`. `None` when it is not 16 bytes
/// long; Redis checks no more of it.
pub fn matches(value: &[u8], digest: &[u8]) -> Option<bool> {
    (digest.len() == 16).then(|| digest.eq_ignore_ascii_case(&hex(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published test values of the hash.
    #[test]
    fn known_values() {
        assert_eq!(&hex(b""), b"2d06800538d394c2");
        assert_eq!(matches(b"", b"2D06800538d394c2"), Some(true));
        assert_eq!(matches(b"x", b"2d06800538d394c2"), Some(false));
        assert_eq!(matches(b"", b"2d06800538d394c"), None);
        assert_eq!(matches(b"", b"2d06800538d394cg"), Some(false));
    }
}
