//! Adding an element to a value.

use super::dense;
use super::element::Observation;
use super::header::{self, HEADER_BYTES};
use super::shape::Corrupted;
use super::sparse::{self, Set};
use super::value::to_dense;
use std::ops::Range;

/// Raises a register of a value, which [`super::Hll`] has accepted, if it is less: which bytes of the value, as it is now, may
/// be others; behind them nothing has moved. A sparse value of more than `sparse_bytes_max` bytes becomes a dense one. The
/// cached cardinality is the caller's to say invalid.
///
/// # Errors
/// When the registers are not all there.
pub fn add(value: &mut Vec<u8>, observation: Observation, sparse_bytes_max: usize) -> Result<Option<Range<usize>>, Corrupted> {
    let mut promoted = false;
    if header::encoding(value) == header::SPARSE {
        match sparse::raise(value, observation, sparse_bytes_max)? {
            Set::Unchanged => return Ok(None),
            Set::Changed(range) => return Ok(Some(range)),
            Set::TooLarge => *value = to_dense(value)?,
        }
        promoted = true;
    }
    let len = value.len();
    let registers = value.get_mut(HEADER_BYTES..).and_then(|registers| registers.first_chunk_mut()).ok_or(Corrupted)?;
    let Some((at, bytes)) = dense::raise(registers, observation.index, observation.count) else { return Ok(None) };
    registers[at..at + 2].copy_from_slice(&bytes);
    let at = HEADER_BYTES + at;
    Ok(Some(if promoted { 0..len } else { at..at + 2 }))
}
