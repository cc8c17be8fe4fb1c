//! The opcode that a register is in: eight opcodes at a time, as long as each of them is one byte.

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
const STEP: usize = 8;

/// Registers that eight opcodes describe; `None` if one of them is an XZERO.
#[inline]
fn registers_of_eight(opcodes: [u8; STEP]) -> Option<usize> {
    let word = u64::from_le_bytes(opcodes);
    let values = word >> 7 & LOW;
    if word >> 6 & LOW & !values != 0 {
        return None;
    }
    // Of a VAL the lower two bits are the length, of a ZERO the lower six.
    let lengths = word & (LOW * 0x3f) & !(values * 0x3c);
    let pairs = (lengths & EVEN) + (lengths >> 8 & EVEN);
    Some((pairs.wrapping_mul(LANES) >> 48) as usize + STEP)
}

/// The opcode that has the register `index`, looked for from the one at `at` on, whose first register is `register`.
#[inline]
pub(super) fn find(opcodes: &[u8], mut at: usize, mut register: usize, index: usize) -> Result<Place, Corrupted> {
    let mut before = None;
    loop {
        while let Some(eight) = opcodes.get(at..).and_then(<[u8]>::first_chunk)
            && let Some(registers) = registers_of_eight(*eight)
            && register + registers <= index
        {
            // The first register of the last opcode is looked for only if somebody asks.
            let last = opcodes.get(at + STEP - 1..).and_then(first).ok_or(Corrupted)?;
            at += STEP;
            register += registers;
            before = Some((at - 1, register - last.len));
        }
        for _ in 0..STEP {
            let run = opcodes.get(at..).and_then(first).ok_or(Corrupted)?;
            if index < register + run.len {
                return Ok(Place { at, first: register, before, run });
            }
            before = Some((at, register));
            at += run.bytes;
            register += run.len;
        }
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
