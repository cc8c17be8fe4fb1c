//! The opcode that a register is in: eight bytes of opcodes at a time, without a branch that depends on them.

use super::{Run, first};
use crate::hyperloglog::element::Observation;
use crate::hyperloglog::shape::Corrupted;

/// Where a register's opcode is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its offset.
    pub(super) at: usize,
    /// The first register of its run.
    pub(super) first: usize,
    /// The offset of the opcode before, and the first register of that.
    pub(super) before: Option<(usize, usize)>,
    pub(super) run: Run,
}

const LOW: u64 = 0x0101_0101_0101_0101;
const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
const LANES: u64 = 0x0001_0001_0001_0001;
/// Moves the lowest bit of each byte to the highest byte, that of the first byte lowest.
const GATHER: u64 = 0x0102_0408_1020_4080;
const STEP: usize = 8;

/// Which of eight bytes begin an XZERO, as a byte of ones each: by whether the first one is the second byte of an XZERO before,
/// and by which of them look like a first one. A byte behind a first one is a second one, whatever it looks like.
static HEADS: [[u64; 256]; 2] = {
    let mut all = [[0; 256]; 2];
    let mut case = 0;
    while case < 512 {
        let (mut byte, mut is_second) = (0, case >= 256);
        while byte < STEP {
            let is_head = !is_second && case >> byte & 1 == 1;
            if is_head {
                all[case / 256][case % 256] |= 0xff << (8 * byte);
            }
            is_second = is_head;
            byte += 1;
        }
        case += 1;
    }
    all
};

/// Registers that eight bytes describe, and whether the last one begins an XZERO, whose second byte the next eight count.
#[inline(always)]
fn registers_of_eight(opcodes: [u8; STEP], is_second: bool) -> (usize, bool) {
    let word = u64::from_le_bytes(opcodes);
    let like_heads = word >> 6 & !(word >> 7) & LOW;
    let heads = HEADS[usize::from(is_second)][(like_heads.wrapping_mul(GATHER) >> 56) as usize];
    let seconds = heads << 8 | (0xff * u64::from(is_second));
    let values = word >> 7 & LOW & !seconds;
    // Of a VAL the lower two bits are the length, of a ZERO the lower six, of a second byte all; one more for each opcode.
    let low = (word & ((LOW * 0x3f) & !(values * 0x3c) | seconds) & !heads) + (LOW & !seconds);
    let pairs = (low & EVEN) + (low >> 8 & EVEN);
    let high = (word & heads & (LOW * 0x3f)).wrapping_mul(LOW) >> 56;
    (((pairs.wrapping_mul(LANES) >> 48) + (high << 8)) as usize, heads >> 63 == 1)
}

/// From an opcode at `from`, whose first register is `register`, to one shortly before that of the register `index`: not that one,
/// unless it is the first.
#[inline]
fn skip(opcodes: &[u8], from: usize, register: usize, index: usize) -> (usize, usize) {
    let (eights, _) = opcodes.get(from..).unwrap_or_default().as_chunks::<STEP>();
    // What precedes these eight bytes, and the eight before them.
    let (mut passed, mut is_second) = (register, false);
    let (mut number, mut before) = (0, (register, false));
    for eight in eights {
        let (registers, ends_inside) = registers_of_eight(*eight, is_second);
        if passed + registers > index {
            break;
        }
        before = (passed, is_second);
        passed += registers;
        is_second = ends_inside;
        number += 1;
    }
    let at = from + usize::saturating_sub(number, 1) * STEP;
    match before {
        // Its first byte belongs to the opcode before.
        (register, true) => (at + 1, register + usize::from(opcodes[at])),
        (register, false) => (at, register),
    }
}

/// The opcode that has the register `index`, looked for from the one at `at` on, whose first register is `register`.
#[inline]
pub(super) fn find(opcodes: &[u8], at: usize, register: usize, index: usize) -> Result<Place, Corrupted> {
    let (mut at, mut register) = skip(opcodes, at, register, index);
    let mut before = None;
    loop {
        let run = opcodes.get(at..).and_then(first).ok_or(Corrupted)?;
        if index < register + run.len {
            return Ok(Place { at, first: register, before, run });
        }
        before = Some((at, register));
        at += run.bytes;
        register += run.len;
    }
}

/// Whether a register is less than what was observed.
///
/// # Errors
/// When there is no such register.
#[inline]
pub fn would_raise(opcodes: &[u8], observation: Observation) -> Result<bool, Corrupted> {
    find(opcodes, 0, 0, observation.index).map(|place| place.run.value < observation.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Eight bytes at a time find what one opcode after the other does, also among bytes that mean nothing.
        #[test]
        fn the_opcode_of_a_register_is_found(
            opcodes in prop::collection::vec(prop_oneof![any::<u8>(), 0x40u8..0x44, 0u8..4, Just(0x80)], 0..80),
            index in prop_oneof![0usize..200, 0usize..16_384],
        ) {
            let (mut at, mut register, mut before) = (0, 0, None);
            let expected = loop {
                let Some(run) = opcodes.get(at..).and_then(first) else { break None };
                if index < register + run.len {
                    break Some((at, register, before, run));
                }
                before = Some((at, register));
                at += run.bytes;
                register += run.len;
            };
            let found = find(&opcodes, 0, 0, index).ok().map(|place| (place.at, place.first, place.before, place.run));
            prop_assert_eq!(found, expected);
        }
    }
}
