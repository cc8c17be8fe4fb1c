//! Runs of equal registers, for values with few elements.
//!
//! ```text
//! 00llllll              ZERO   l + 1 registers are zero: 1 to 64
//! 01llllll llllllll     XZERO  l + 1 registers are zero: 1 to 16384, the higher bits first
//! 1vvvvvll              VAL    l + 1 registers are v + 1: 1 to 4 of 1 to 32
//! ```
//!
//! The opcodes of a value describe 16384 registers. Which of several ways to write the same registers is taken follows from
//! Redis: a run is split where a register is raised ([`raise`]), and neighbours are merged near by ([`edit`]).

mod edit;
mod find;

pub use edit::{Cursor, Set, SparseEdit, raise, raise_from, raised};
pub use find::would_raise;

use super::shape::{Corrupted, REGISTERS};

/// Longest run of a ZERO.
const ZERO_MAX: usize = 64;
/// Longest run of a VAL.
const VALUE_RUN_MAX: usize = 4;
/// Largest register of a VAL.
const VALUE_MAX: u8 = 32;

/// Equal registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Their value.
    pub value: u8,
    /// How many.
    pub len: usize,
    /// Bytes of the opcode.
    pub(super) bytes: usize,
}

/// The opcode that `opcodes` begin with. `None` when it is not all there.
#[inline]
fn first(opcodes: &[u8]) -> Option<Run> {
    let &opcode = opcodes.first()?;
    let low = usize::from(opcode & 0x3f);
    Some(match opcode >> 6 {
        0 => Run { value: 0, len: low + 1, bytes: 1 },
        1 => Run { value: 0, len: (low << 8 | usize::from(*opcodes.get(1)?)) + 1, bytes: 2 },
        _ => Run { value: (opcode >> 2 & 0x1f) + 1, len: usize::from(opcode & 3) + 1, bytes: 1 },
    })
}

/// What each opcode says that is one byte: the value of its registers, and how many they are.
static SHORT: [(u8, u8); 256] = {
    let (mut all, mut opcode) = ([(0, 0); 256], 0);
    while opcode < all.len() {
        let byte = opcode as u8;
        all[opcode] = if byte < 0x80 { (0, (byte & 0x3f) + 1) } else { ((byte >> 2 & 0x1f) + 1, (byte & 3) + 1) };
        opcode += 1;
    }
    all
};

/// What an opcode with the byte behind it says, without a branch: the value of its registers, how many they are, and the bytes
/// that it takes.
#[inline]
pub(super) fn decode(opcode: u8, second: u8) -> (u8, u32, usize) {
    let (value, short) = SHORT[usize::from(opcode)];
    let is_long = opcode >> 6 == 1;
    let long = (u32::from(opcode & 0x3f) << 8 | u32::from(second)) + 1;
    (value, if is_long { long } else { u32::from(short) }, 1 + usize::from(is_long))
}

/// The opcodes one after the other, whatever they add up to; an incomplete one ends them.
pub fn opcodes(mut opcodes: &[u8]) -> impl Iterator<Item = (Run, bool)> + '_ {
    std::iter::from_fn(move || {
        let run = first(opcodes)?;
        opcodes = &opcodes[run.bytes..];
        Some((run, run.bytes == 2))
    })
}

/// Visits the runs that are not zero: their first register, length and value.
///
/// # Errors
/// When the opcodes do not describe all registers, and no more. Then some runs may have been visited.
#[inline]
pub(super) fn for_each_run(opcodes: &[u8], mut visit: impl FnMut(usize, usize, u8)) -> Result<(), Corrupted> {
    let (mut at, mut register) = (0, 0);
    while at < opcodes.len() {
        let Run { value, len, bytes } = first(&opcodes[at..]).ok_or(Corrupted)?;
        if register + len > REGISTERS {
            return Err(Corrupted);
        }
        if value != 0 {
            visit(register, len, value);
        }
        at += bytes;
        register += len;
    }
    if register == REGISTERS { Ok(()) } else { Err(Corrupted) }
}
