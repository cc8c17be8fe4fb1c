//! Lengths: one byte for what is usual, up to five for what is not.
//!
//! The first byte is the length itself if it is below a limit; the limit and the two values above it say that 1, 2 or 4 bytes
//! follow, least significant first. Those of one byte count from the limit on. The first byte stands apart from the others, so that
//! an entry's two first bytes usually say all about its size.

/// The bytes that follow a first byte, and how many they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    pub(crate) bytes: [u8; 4],
    pub(crate) len: usize,
}

/// The first byte of a length, and the rest. Lengths are below 2^32.
pub(crate) fn encode(len: usize, limit: u8) -> (u8, Rest) {
    let above = len.wrapping_sub(usize::from(limit));
    let (kind, bytes, rest) = match len {
        _ if len < usize::from(limit) => return (len as u8, Rest::default()),
        _ if above < 0x100 => (0, above as u32, 1),
        _ if len < 0x1_0000 => (1, len as u32, 2),
        _ => (2, len as u32, 4),
    };
    debug_assert!(u32::try_from(len).is_ok(), "a length of {len} bytes");
    (limit + kind, Rest { bytes: bytes.to_le_bytes(), len: rest })
}

/// How many bytes follow a first byte. None if there is no such first byte.
pub(crate) fn rest_len(first: u8, limit: u8) -> Option<usize> {
    match first.checked_sub(limit) {
        None => Some(0),
        Some(kind @ 0..=2) => Some(1 << kind),
        Some(_) => None,
    }
}

/// The length that a first byte and its rest mean; `rest` has the bytes that [`rest_len`] says.
pub(crate) fn decode(first: u8, limit: u8, rest: &[u8]) -> usize {
    match *rest {
        [] => usize::from(first),
        [above] => usize::from(limit) + usize::from(above),
        [low, high] => usize::from(u16::from_le_bytes([low, high])),
        _ => rest.iter().rev().fold(0, |len, byte| (len << 8) | usize::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_back() {
        for limit in [124, 252] {
            for len in (0..1000).chain([0xFFFF, 0x1_0000, 0xFF_FFFF, 0xFFFF_FFFF]) {
                let (first, rest) = encode(len, limit);
                assert_eq!(rest_len(first, limit), Some(rest.len), "{len}");
                assert_eq!(decode(first, limit, &rest.bytes[..rest.len]), len);
                assert_eq!(rest.len == 0, len < usize::from(limit));
            }
        }
        assert_eq!((rest_len(127, 124), rest_len(255, 252)), (None, None));
    }
}
