//! Registers of 6 bits, one behind the other, the lowest bits first.
//!
//! Whole blocks are taken apart and put together within words: 24 bits become four bytes by moving halves apart three times, and no
//! multiplication or table is in the way of the compiler's vectors.

use super::shape::REGISTERS;

/// Length of all registers.
pub const BYTES: usize = REGISTERS * BITS / 8;

const BITS: usize = 6;
const MAX: u16 = (1 << BITS) - 1;

/// The two bytes that have a register, and by how much it is shifted in them.
fn place(index: usize) -> (usize, u32) {
    let bit = index * BITS;
    // The last register is in the last byte, which has no next one.
    let at = (bit / 8).min(BYTES - 2);
    (at, (bit - at * 8) as u32)
}

/// The register `index`.
#[inline]
#[must_use]
pub fn get(registers: &[u8; BYTES], index: usize) -> u8 {
    let (at, shift) = place(index);
    (u16::from_le_bytes([registers[at], registers[at + 1]]) >> shift & MAX) as u8
}

/// Raises the register `index` to `count` if it is less: where, and which two bytes are to be written there. `None` if it is not less.
#[inline]
#[must_use]
pub fn raise(registers: &[u8; BYTES], index: usize, count: u8) -> Option<(usize, [u8; 2])> {
    let (at, shift) = place(index);
    let both = u16::from_le_bytes([registers[at], registers[at + 1]]);
    let raised = both & !(MAX << shift) | (u16::from(count) & MAX) << shift;
    ((both >> shift & MAX) < u16::from(count)).then(|| (at, raised.to_le_bytes()))
}

/// Sets the register `index`, whatever it was.
#[inline]
pub(super) fn write(registers: &mut [u8; BYTES], index: usize, value: u8) {
    let (at, shift) = place(index);
    let both = u16::from_le_bytes([registers[at], registers[at + 1]]);
    let written = both & !(MAX << shift) | (u16::from(value) & MAX) << shift;
    registers[at..at + 2].copy_from_slice(&written.to_le_bytes());
}

/// Eight bytes of a block from `at` on, as a number.
#[inline]
pub(super) fn word(block: &[u8; 24], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&block[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Four registers, one to a byte.
#[inline]
fn spread(packed: u32) -> u32 {
    let halves = packed & 0xfff | (packed & 0xff_f000) << 4;
    halves & 0x3f_003f | (halves & 0xfc0_0fc0) << 2
}

/// The opposite of [`spread`].
#[inline]
fn gather(bytes: u32) -> u32 {
    let halves = bytes & 0x3f_003f | (bytes & 0x3f00_3f00) >> 2;
    halves & 0xfff | (halves & 0xfff_0000) >> 4
}

/// Raises registers, one to a byte, to those of `packed`.
pub(super) fn merge(packed: &[u8; BYTES], raw: &mut [u8; REGISTERS]) {
    for (block, raw) in packed.as_chunks::<12>().0.iter().zip(raw.as_chunks_mut::<16>().0) {
        let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        let (low, middle, high) = (word(0), word(4), word(8));
        let four = [low & 0xff_ffff, low >> 24 | middle << 8 & 0xff_ffff, middle >> 16 | (high & 0xff) << 16, high >> 8];
        let mut bytes = [0; 16];
        for (bytes, packed) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(four) {
            *bytes = spread(packed).to_le_bytes();
        }
        raw.iter_mut().zip(bytes).for_each(|(raw, byte)| *raw = byte.max(*raw));
    }
}

/// Packs registers.
pub(super) fn pack(raw: &[u8; REGISTERS], packed: &mut [u8; BYTES]) {
    for (raw, block) in raw.as_chunks::<16>().0.iter().zip(packed.as_chunks_mut::<12>().0) {
        let mut four = [0; 4];
        for (packed, bytes) in four.iter_mut().zip(raw.as_chunks::<4>().0) {
            *packed = gather(u32::from_le_bytes(*bytes));
        }
        let words = [four[0] | four[1] << 24, four[1] >> 8 | four[2] << 16, four[2] >> 16 | four[3] << 8];
        for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}
