//! LZF, the compression of long strings in snapshots.
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

const LITERALS_MAX: usize = 32;
const REFERENCE_MIN: usize = 3;
const REFERENCE_MAX: usize = 264;
const DISTANCE_MAX: usize = 1 << 13;
const HEADS_BITS: u32 = 14;
/// Compressed bytes are at least this much shorter than what they stand for, as in Redis.
const SAVING_MIN: usize = 4;

/// Compresses strings. It finds a repetition by the last place where the same three bytes began, as far as a table of their hashes
/// remembers it.
#[derive(Clone, Debug, Default)]
pub(super) struct Compressor {
    /// Places as numbers that ascend over all strings, so that those of earlier strings are known by being too low.
    heads: Vec<u32>,
    /// The number of the string's first place; 0 is none.
    base: u32,
}

impl Compressor {
    /// Appends what stands for `input`. False, and nothing is appended, when that is hardly shorter.
    pub(super) fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(base) = self.begin(input.len()) else { return false };
        let (begin, len_max) = (out.len(), input.len().saturating_sub(SAVING_MIN));
        let (mut at, mut literals) = (0, 0);
        while at < input.len() && out.len() - begin <= len_max {
            match self.repetition(input, at, base) {
                None => at += 1,
                Some((from, len)) => {
                    write_literals(&input[literals..at], out);
                    write_reference(at - from - 1, len, out);
                    // The last places are the likeliest to begin the next repetition.
                    for inner in (at + 1).max(at + len - REFERENCE_MIN + 1)..at + len {
                        self.note(input, inner, base);
                    }
                    at += len;
                    literals = at;
                }
            }
        }
        if at == input.len() {
            write_literals(&input[literals..], out);
        }
        let is_shorter = at == input.len() && at > 0 && out.len() - begin <= len_max;
        if !is_shorter {
            out.truncate(begin);
        }
        is_shorter
    }

    /// Reserves numbers for the places of a string.
    fn begin(&mut self, len: usize) -> Option<u32> {
        let len = u32::try_from(len).ok().filter(|len| *len < u32::MAX)?;
        if self.heads.is_empty() || self.base.checked_add(len).is_none() {
            self.heads.clear();
            self.heads.resize(1 << HEADS_BITS, 0);
            self.base = 1;
        }
        let base = self.base;
        self.base = base.checked_add(len)?;
        Some(base)
    }

    /// Notes that a place of the string begins with its three bytes; the place that was noted for them before.
    fn note(&mut self, input: &[u8], at: usize, base: u32) -> Option<usize> {
        let [a, b, c] = *input.get(at..)?.first_chunk()?;
        let hash = u32::from_le_bytes([a, b, c, 0]).wrapping_mul(0x9E37_79B1) >> (u32::BITS - HEADS_BITS);
        let before = std::mem::replace(&mut self.heads[hash as usize], base + at as u32);
        before.checked_sub(base).map(|before| before as usize)
    }

    /// Where the longest beginning of the rest stood before, and how long it is.
    fn repetition(&mut self, input: &[u8], at: usize, base: u32) -> Option<(usize, usize)> {
        let from = self.note(input, at, base).filter(|from| *from < at && at - from <= DISTANCE_MAX)?;
        let rest = &input[at..input.len().min(at + REFERENCE_MAX)];
        let len = rest.iter().zip(&input[from..]).take_while(|(one, other)| one == other).count();
        (len >= REFERENCE_MIN).then_some((from, len))
    }
}

fn write_literals(literals: &[u8], out: &mut Vec<u8>) {
    for run in literals.chunks(LITERALS_MAX) {
        out.push((run.len() - 1) as u8);
        out.extend_from_slice(run);
    }
}

fn write_reference(distance: usize, len: usize, out: &mut Vec<u8>) {
    let (count, high) = (len - 2, (distance >> 8) as u8);
    if count < 7 {
        out.push((count as u8) << 5 | high);
    } else {
        out.extend_from_slice(&[7 << 5 | high, (count - 7) as u8]);
    }
    out.push(distance as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(compressor: &mut Compressor, input: &[u8]) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        let is_shorter = compressor.compress(input, &mut out);
        assert_eq!(&out[..6], b"before");
        assert_eq!(is_shorter, out.len() > 6);
        is_shorter.then(|| out.split_off(6))
    }

    #[test]
    fn what_is_compressed_is_decompressed() {
        let mut compressor = Compressor::default();
        let mut state = 7u64;
        for len in (0..300).chain([1000, 8192, 8193, 8194, 70_000]) {
            for alphabet in [1, 2, 4, 26, 256] {
                let input: Vec<u8> = (0..len)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        ((state >> 33) % alphabet) as u8
                    })
                    .collect();
                if let Some(short) = compressed(&mut compressor, &input) {
                    assert!(short.len() + 4 <= len);
                    assert_eq!(decompress(&short, len), Some(input), "{len} of {alphabet}");
                }
            }
        }
        assert_eq!(compressed(&mut compressor, &[b'a'; 9]), Some(vec![0, b'a', 0xC0, 0]));
        assert_eq!(compressed(&mut compressor, b"abcdefghijklmnopqrstuvwxyz"), None);
    }

    /// The numbers of places would run over.
    #[test]
    fn a_compressor_lasts() {
        let mut compressor = Compressor { base: u32::MAX - 10, ..Compressor::default() };
        compressor.heads = vec![u32::MAX - 12; 1 << HEADS_BITS];
        for _ in 0..3 {
            assert_eq!(decompress(&compressed(&mut compressor, &[b'x'; 50]).unwrap(), 50), Some(vec![b'x'; 50]));
        }
    }

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
