//! Hashes, their fields that expire, and fieldsets.

use super::CommandError;

/// HINCRBY of a field that is no 64-bit integer.
pub const NOT_INTEGER: CommandError = CommandError::Fixed(&"ERR hash value is not an integer");
/// HINCRBYFLOAT of a field that is not a number.
pub const NOT_FLOAT: CommandError = CommandError::Fixed(&"ERR hash value is not a float");
/// HINCRBYFLOAT by an infinite number.
pub const NOT_FINITE: CommandError = CommandError::Fixed(&"ERR value is NaN or Infinity");
/// HEXPIRE and its relatives with a bad number of fields.
pub const FIELDS_TO_EXPIRE_NOT_POSITIVE: CommandError = CommandError::Fixed(&"ERR Parameter `numFields` should be greater than 0");
/// Other commands with a bad number of fields.
pub const FIELDS_NOT_POSITIVE: CommandError = CommandError::Fixed(&"ERR Number of fields must be a positive integer");
/// A number of fields that others follow than it says.
pub const FIELDS_MISMATCH: CommandError = CommandError::Fixed(&"ERR The `numfields` parameter must match the number of arguments");
/// A command on some fields that does not name them.
pub const FIELDS_MISSING: CommandError =
    CommandError::Fixed(&"ERR Mandatory argument FIELDS is missing or not at the right position");
/// A negative expiry of a field.
pub const EXPIRY_NEGATIVE: CommandError = CommandError::Fixed(&"ERR invalid expire time, must be >= 0");
/// HGETEX with two words about expiries.
pub const EXPIRY_OR_PERSIST: CommandError =
    CommandError::Fixed(&"ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified");
/// HSETEX with two words about expiries.
pub const EXPIRY_OR_KEEP: CommandError =
    CommandError::Fixed(&"ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");
/// HSETEX with two conditions on fields.
pub const CONDITIONS: CommandError = CommandError::Fixed(&"ERR Only one of FXX or FNX arguments can be specified");
/// HIMPORT PREPARE of a field twice.
pub const FIELD_TWICE: CommandError = CommandError::Fixed(&"ERR duplicate field name in fieldset");
/// HIMPORT SET of what was not prepared.
pub const NO_SUCH_FIELDSET: CommandError = CommandError::Fixed(&"ERR no such fieldset");
/// HIMPORT SET with more or fewer values than fields.
pub const FIELDSET_MISMATCH: CommandError = CommandError::Fixed(&"ERR value count does not match fieldset field count");
/// HIMPORT PREPARE beyond what one connection may keep.
pub const FIELDSETS_TOO_LARGE: CommandError =
    CommandError::Fixed(&"ERR the fieldsets of this connection are too large: 16 MiB may be prepared");

/// HGETEX or HSETEX with an argument that it does not take.
#[cold]
#[must_use]
pub fn unknown_option(argument: &[u8]) -> CommandError {
    CommandError::quoting("ERR unknown argument: ", argument, "")
}
