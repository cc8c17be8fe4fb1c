//! Runs of equal registers, for values with few elements.
//!
//! ```text
//! 00llllll              ZERO   l + 1 registers are zero: 1 to 64
//! 01llllll llllllll     XZERO  l + 1 registers are zero: 1 to 16384, the higher bits first
//! 1vvvvvll              VAL    l + 1 registers are v + 1: 1 to 4 of 1 to 32
//! ```
//!
//! The opcodes of a value describe 16384 registers. Which of several ways to write the same registers is taken follows from Redis: a run is
//! split where a register is raised ([`raise`]), and neighbours are merged near by ([`edit`]).

mod edit;
mod find;

pub use edit::{Cursor, Set, raise, raise_from};
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

/// The opcodes one after the other, whatever they add up to; an incomplete one ends them.
pub fn opcodes(mut opcodes: &[u8]) -> impl Iterator<Item = (Run, bool)> + '_ {
    std::iter::from_fn(move || {
        let run = first(opcodes)?;
        opcodes = &opcodes[run.bytes..];
        Some((run, run.bytes == 2))
    })
}

/// The runs, as long as they do not describe more registers than there are; an error at the end when they describe less.
pub(super) fn runs(mut opcodes: &[u8]) -> impl Iterator<Item = Result<Run, Corrupted>> + '_ {
    let mut left = Some(REGISTERS);
    std::iter::from_fn(move || {
        let after = left?;
        if opcodes.is_empty() && after == 0 {
            return None;
        }
        let run = first(opcodes).filter(|run| run.len <= after);
        left = run.map(|run| after - run.len);
        Some(run.inspect(|run| opcodes = &opcodes[run.bytes..]).ok_or(Corrupted))
    })
}

/// The registers that are not zero, in order.
pub(super) fn registers(opcodes: &[u8]) -> Result<impl Iterator<Item = (usize, u8)> + '_, Corrupted> {
    runs(opcodes).try_for_each(|run| run.map(|_| ()))?;
    let mut next = 0;
    Ok(runs(opcodes).flatten().flat_map(move |run| {
        let first = next;
        next += run.len;
        let len = if run.value == 0 { 0 } else { run.len };
        (first..first + len).map(move |index| (index, run.value))
    }))
}
