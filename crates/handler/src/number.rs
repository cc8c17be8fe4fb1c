//! Numbers as arguments: what [`almandine_datatypes::number`] reads, with Redis' errors.

use almandine_datatypes::number::{parse_f64, parse_i64};

use crate::errors::CommandError;

/// An integer argument, in the only form that Redis itself would write.
///
/// # Errors
/// "value is not an integer or out of range".
#[inline]
pub fn integer(bytes: &[u8]) -> Result<i64, CommandError> {
    parse_i64(bytes).ok_or(CommandError::NotInteger)
}

/// An integer argument within `min..=max`.
///
/// # Errors
/// When it is no integer, or outside the range.
pub fn integer_within(bytes: &[u8], min: i64, max: i64) -> Result<i64, CommandError> {
    let value = integer(bytes)?;
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(CommandError::new(format!("ERR value is out of range, value must between {min} and {max}")))
}

/// A double argument; it may be infinite.
///
/// # Errors
/// "value is not a valid float".
pub fn double(bytes: &[u8]) -> Result<f64, CommandError> {
    parse_f64(bytes).ok_or(CommandError::NotFloat)
}
