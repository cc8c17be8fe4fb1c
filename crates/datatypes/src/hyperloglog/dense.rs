//! Registers of 6 bits, one behind the other, the lowest bits first.
//!
//! Whole blocks are taken apart and put together within words: 48 bits become eight bytes by moving halves apart three times.

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

/// Raises the register `index` to `count` if it is less: where, and which two bytes are to be written there. `None` if it is not
/// less.
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

/// Registers that are taken apart before they are looked at: words that are written are not read at once in other sizes.
const TILE: usize = 1024;
const PACKED_TILE: usize = TILE * BITS / 8;

/// Eight registers, one to a byte.
#[inline]
fn spread(packed: u64) -> u64 {
    let halves = packed & 0xff_ffff | (packed & 0xffff_ff00_0000) << 8;
    let quarters = halves & 0xfff_0000_0fff | (halves & 0xff_f000_00ff_f000) << 4;
    quarters & 0x3f_003f_003f_003f | (quarters & 0xfc0_0fc0_0fc0_0fc0) << 2
}

/// The opposite of [`spread`].
#[inline]
pub(super) fn gather(bytes: u64) -> u64 {
    let quarters = bytes & 0x3f_003f_003f_003f | (bytes & 0x3f00_3f00_3f00_3f00) >> 2;
    let halves = quarters & 0xfff_0000_0fff | (quarters & 0xfff_0000_0fff_0000) >> 4;
    halves & 0xff_ffff | (halves & 0xff_ffff_0000_0000) >> 8
}

/// Raises registers, one to a byte, to those of `packed`.
pub(super) fn merge(packed: &[u8; BYTES], raw: &mut [u8; REGISTERS]) {
    let mut tile = [0; TILE];
    for (packed, raw) in packed.as_chunks::<PACKED_TILE>().0.iter().zip(raw.as_chunks_mut::<TILE>().0) {
        unpack(packed, &mut tile);
        raw.iter_mut().zip(&tile).for_each(|(raw, byte)| *raw = (*byte).max(*raw));
    }
}

fn unpack(packed: &[u8; PACKED_TILE], tile: &mut [u8; TILE]) {
    for (block, bytes) in packed.as_chunks::<24>().0.iter().zip(tile.as_chunks_mut::<32>().0) {
        let (low, middle, high) = (word(block, 0), word(block, 8), word(block, 16));
        let eights = [low, low >> 48 | middle << 16, middle >> 32 | high << 32, high >> 16];
        for (bytes, eight) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(eights) {
            *bytes = spread(eight).to_le_bytes();
        }
    }
}

/// Packs registers.
pub(super) fn pack(raw: &[u8; REGISTERS], packed: &mut [u8; BYTES]) {
    for (raw, block) in raw.as_chunks::<32>().0.iter().zip(packed.as_chunks_mut::<24>().0) {
        let mut eights = [0; 4];
        for (eight, bytes) in eights.iter_mut().zip(raw.as_chunks::<8>().0) {
            *eight = gather(u64::from_le_bytes(*bytes));
        }
        let [first, second, third, fourth] = eights;
        let words = [first | second << 48, second >> 16 | third << 32, third >> 32 | fourth << 16];
        for (bytes, word) in block.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}
