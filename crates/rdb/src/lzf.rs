//! LZF, the compression of long strings in snapshots; only the way back.
//!
//! A control byte below 32 announces that many and one more literal bytes. Otherwise its three highest bits are a length and its
//! five lowest, with the byte that follows, a distance: copy length + 2 bytes from distance + 1 bytes back. The length 7 means
//! that another byte, before the last of the distance, is added to it. Source and copy may overlap.

/// What one compressed byte stands for at most: a reference of three bytes copies 264. Bounds what a forged length can reserve.
pub(super) const EXPANSION_MAX: usize = 88;

/// The `len` bytes that `input` stands for; `None` when it does not.
pub(super) fn decompress(mut input: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > input.len().checked_mul(EXPANSION_MAX)? {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    while let Some((&control, rest)) = input.split_first() {
        input = rest;
        if control < 32 {
            let (literal, rest) = input.split_at_checked(usize::from(control) + 1)?;
            out.extend_from_slice(literal);
            input = rest;
        } else {
            let mut count = usize::from(control >> 5) + 2;
            if control >> 5 == 7 {
                count += usize::from(*input.split_off_first()?);
            }
            let distance = usize::from(control & 31) << 8 | usize::from(*input.split_off_first()?);
            let from = out.len().checked_sub(distance + 1)?;
            if out.len() + count > len {
                return None;
            }
            for at in from..from + count {
                out.push(out[at]);
            }
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_may_overlap_themselves() {
        assert_eq!(decompress(&[0, b'a', 0xC0, 0], 9), Some(b"aaaaaaaaa".to_vec()));
        assert_eq!(decompress(&[1, b'a', b'b', 0xE0, 1, 1], 12), Some(b"abababababab".to_vec()));
        assert_eq!(decompress(&[2, b'x', b'y', b'z', 0x20, 2], 6), Some(b"xyzxyz".to_vec()));
    }

    #[test]
    fn lies_are_refused() {
        for (input, len) in [
            (&[0, b'a', 0xC0, 0][..], 8),
            (&[0, b'a', 0xC0, 0], 10),
            (&[0, b'a', 0xC0, 1], 9),
            (&[5, b'a'], 6),
            (&[0, b'a', 0xE0], 9),
            (&[0, b'a'], usize::MAX),
            (&[], 1),
        ] {
            assert_eq!(decompress(input, len), None, "{input:?}");
        }
    }
}
