//! Raising a register: the run that it is in is split in up to three, and equal neighbours near by become one.

use super::find::{Place, find};
use super::{VALUE_MAX, VALUE_RUN_MAX, ZERO_MAX, first};
use crate::hyperloglog::element::Observation;
use crate::hyperloglog::header::HEADER_BYTES;
use crate::hyperloglog::shape::Corrupted;
use std::ops::Range;

/// Opcodes that are looked at for equal neighbours, from the one before the change on.
const MERGE_STEPS: usize = 5;

/// What became of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// The register is not less.
    Unchanged,
    /// These bytes, of the value as it is now, may be others; behind them nothing has moved.
    Changed(Range<usize>),
    /// It must become dense first. Nothing has changed.
    TooLarge,
}

/// What raising a register writes into a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseEdit {
    /// The register is not less.
    Unchanged,
    /// Bytes from here on, behind which nothing moves.
    Patch(usize),
    /// Bytes from here on to the end, which moves.
    Tail(usize),
    /// The value must become dense first.
    TooLarge,
}

/// Bytes that are looked at for equal neighbours behind a change: the opcodes of all steps, and the next ones.
const MERGE_BYTES: usize = 4 * MERGE_STEPS;

/// A place among the opcodes from which later registers can be looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    at: usize,
    register: usize,
}

/// New opcodes for a run: five bytes at most.
#[derive(Default)]
struct Sequence {
    bytes: [u8; 5],
    len: usize,
}

impl Sequence {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn zeroes(&mut self, len: usize) {
        match len {
            0 => {}
            1..=ZERO_MAX => self.push((len - 1) as u8),
            _ => {
                self.push(0x40 | ((len - 1) >> 8) as u8);
                self.push((len - 1) as u8);
            }
        }
    }

    fn values(&mut self, value: u8, len: usize) {
        if len != 0 {
            self.push(value_opcode(value, len));
        }
    }

    fn registers(&mut self, value: u8, len: usize) {
        if value == 0 { self.zeroes(len) } else { self.values(value, len) }
    }
}

fn value_opcode(value: u8, len: usize) -> u8 {
    debug_assert!((1..=VALUE_MAX).contains(&value) && (1..=VALUE_RUN_MAX).contains(&len), "a VAL says 1 to 32, 1 to 4 times");
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// Raises a register of a sparse value.
///
/// # Errors
/// When there is no such register.
pub fn raise(value: &mut Vec<u8>, observation: Observation, bytes_max: usize) -> Result<Set, Corrupted> {
    raise_from(&mut Cursor::default(), value, observation, bytes_max)
}

/// As [`raise`], for registers in ascending order, each looked for from where the one before was found.
///
/// # Errors
/// When there is no such register.
pub fn raise_from(cursor: &mut Cursor, value: &mut Vec<u8>, observation: Observation, bytes_max: usize) -> Result<Set, Corrupted> {
    let Observation { index, count } = observation;
    if count > VALUE_MAX {
        return Ok(Set::TooLarge);
    }
    let opcodes = value.get(HEADER_BYTES..).ok_or(Corrupted)?;
    let mut place = find(opcodes, cursor.at, cursor.register, index)?;
    if place.before.is_none() && cursor.at != 0 {
        // The opcode before it may have to be merged with it.
        place = find(opcodes, 0, 0, index)?;
    }
    let (at, register) = place.before.unwrap_or_default();
    *cursor = Cursor { at, register };
    if place.run.value >= count {
        return Ok(Set::Unchanged);
    }
    Ok(replace(value, place, observation, bytes_max))
}

/// Finds out what is to be written to raise a register of a sparse value, and puts that into `written`, which was empty.
///
/// # Errors
/// When there is no such register.
pub fn raised(value: &[u8], observation: Observation, bytes_max: usize, written: &mut Vec<u8>) -> Result<SparseEdit, Corrupted> {
    debug_assert!(written.is_empty(), "what is written begins with the edit");
    let Observation { index, count } = observation;
    if count > VALUE_MAX {
        return Ok(SparseEdit::TooLarge);
    }
    let opcodes = value.get(HEADER_BYTES..).ok_or(Corrupted)?;
    let place = find(opcodes, 0, 0, index)?;
    if place.run.value >= count {
        return Ok(SparseEdit::Unchanged);
    }
    let sequence = sequence(&place, observation);
    if sequence.len > place.run.bytes && value.len() + sequence.len - place.run.bytes > bytes_max {
        return Ok(SparseEdit::TooLarge);
    }
    let start = place.before.map_or(0, |(at, _)| at);
    let (before, behind) = (&opcodes[start..place.at], &opcodes[place.at + place.run.bytes..]);
    let (near, far) = behind.split_at(behind.len().min(MERGE_BYTES));
    let replaced = before.len() + place.run.bytes + near.len();
    for bytes in [before, &sequence.bytes[..sequence.len], near] {
        written.extend_from_slice(bytes);
    }
    merge_neighbours(written, 0);
    if written.len() == replaced {
        return Ok(SparseEdit::Patch(HEADER_BYTES + start));
    }
    written.extend_from_slice(far);
    Ok(SparseEdit::Tail(HEADER_BYTES + start))
}

/// The opcodes of a run with one register of it raised.
fn sequence(place: &Place, observation: Observation) -> Sequence {
    let (Observation { index, count }, Place { first, run, .. }) = (observation, place);
    let mut sequence = Sequence::default();
    sequence.registers(run.value, index - first);
    sequence.values(count, 1);
    sequence.registers(run.value, first + run.len - 1 - index);
    sequence
}

/// Puts the opcodes with the raised register in the place of the old one.
fn replace(value: &mut Vec<u8>, place: Place, observation: Observation, bytes_max: usize) -> Set {
    let sequence = sequence(&place, observation);
    let Place { at, before, run, .. } = place;
    if sequence.len > run.bytes && value.len() + sequence.len - run.bytes > bytes_max {
        return Set::TooLarge;
    }
    let at = HEADER_BYTES + at;
    let start = before.map_or(HEADER_BYTES, |(at, _)| HEADER_BYTES + at);
    let same_len = sequence.len == run.bytes;
    if same_len {
        value[at..at + run.bytes].copy_from_slice(&sequence.bytes[..sequence.len]);
    } else {
        value.splice(at..at + run.bytes, sequence.bytes[..sequence.len].iter().copied());
    }
    match (merge_neighbours(value, start), same_len) {
        (true, _) => Set::Changed(start..value.len()),
        (false, true) => Set::Changed(at..at + run.bytes),
        (false, false) => Set::Changed(at..value.len()),
    }
}

/// Makes one of equal VALs next to each other; whether there were any.
fn merge_neighbours(value: &mut Vec<u8>, mut at: usize) -> bool {
    let mut merged = false;
    for _ in 0..MERGE_STEPS {
        let Some(run) = value.get(at..).and_then(first) else { break };
        let next = value.get(at + 1..).and_then(first).filter(|next| next.value == run.value && next.value != 0);
        match next.map(|next| run.len + next.len).filter(|len| *len <= VALUE_RUN_MAX) {
            Some(len) => {
                value[at] = value_opcode(run.value, len);
                value.remove(at + 1);
                merged = true;
            }
            None => at += run.bytes,
        }
    }
    merged
}
