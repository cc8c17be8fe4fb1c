//! Eight bytes that say which publisher sent a message, and its number among those of that sender.

use memchr::memchr;

/// Bytes of a mark.
pub const MARK_BYTES: usize = 8;
/// Senders that marks can tell apart.
pub const SENDERS_MAX: usize = 64 * 64;

const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// Two digits of the sender and six of the number.
pub fn mark(sender: usize, number: u64) -> [u8; MARK_BYTES] {
    let value = (sender as u64) << 36 | number;
    std::array::from_fn(|at| DIGITS[(value >> (6 * (MARK_BYTES - 1 - at)) & 63) as usize])
}

/// The sender and the number.
pub fn read_mark(bytes: &[u8]) -> Option<(usize, u64)> {
    let mut value = 0;
    for byte in bytes {
        value = value << 6 | memchr(*byte, DIGITS)? as u64;
    }
    Some(((value >> 36) as usize, value & ((1 << 36) - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_say_who_and_which() {
        for (sender, number) in [(0, 0), (1, 63), (4095, (1 << 36) - 1), (77, 1_234_567_890)] {
            assert_eq!(read_mark(&mark(sender, number)), Some((sender, number)));
        }
        assert_eq!(read_mark(b"00000 00"), None);
    }
}
