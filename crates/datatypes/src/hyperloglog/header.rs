//! The first 16 bytes of a value.

use std::ops::Range;

/// Length of the header.
pub const HEADER_BYTES: usize = 16;
/// Where the cached cardinality is.
pub const CACHE: Range<usize> = 8..16;

pub(super) const DENSE: u8 = 0;
pub(super) const SPARSE: u8 = 1;

const MAGIC: &[u8] = b"HYLL";
const ENCODING: usize = 4;
/// In the last byte of the cache: it is not valid.
const INVALID: u8 = 0x80;

/// A value without elements: one opcode for 16384 zeroes.
pub const EMPTY: [u8; HEADER_BYTES + 2] = *b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff";

pub(super) fn is_magic(header: &[u8]) -> bool {
    header.starts_with(MAGIC)
}

pub(super) fn encoding(value: &[u8]) -> u8 {
    value[ENCODING]
}

pub(super) fn set_dense(value: &mut [u8]) {
    value[ENCODING] = DENSE;
}

/// The cached cardinality of a value, when it is valid.
#[must_use]
pub fn cached(value: &[u8]) -> Option<u64> {
    let cache: [u8; 8] = value.get(CACHE)?.try_into().ok()?;
    (cache[7] & INVALID == 0).then(|| u64::from_le_bytes(cache))
}

/// Says that the cached cardinality of a value is not valid.
pub fn invalidate(value: &mut [u8]) {
    let (at, byte) = invalidated(value);
    value[at] = byte;
}

/// Which byte says that the cached cardinality of this value is not valid: where, and what is to be written there.
#[must_use]
pub fn invalidated(value: &[u8]) -> (usize, u8) {
    let at = CACHE.end - 1;
    (at, value[at] | INVALID)
}
