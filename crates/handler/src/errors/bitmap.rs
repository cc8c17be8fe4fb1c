//! Bitmaps.

use super::CommandError;

/// SETBIT, GETBIT, BITFIELD with an offset that is no integer, negative or beyond the longest string.
pub const INVALID_OFFSET: CommandError = CommandError::Fixed(&"ERR bit offset is not an integer or out of range");
/// SETBIT of something that is no bit.
pub const NOT_A_BIT: CommandError = CommandError::Fixed(&"ERR bit is not an integer or out of range");
/// BITPOS of something that is no bit.
pub const NOT_A_BIT_TO_FIND: CommandError = CommandError::Fixed(&"ERR The bit argument must be 1 or 0.");
/// BITOP NOT of several keys.
pub const NOT_OF_MANY_KEYS: CommandError = CommandError::Fixed(&"ERR BITOP NOT must be called with a single source key.");
/// BITFIELD with a type that does not exist.
pub const FIELD_TYPE: CommandError =
    CommandError::Fixed(&"ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");
/// BITFIELD OVERFLOW with a behaviour that does not exist.
pub const FIELD_OVERFLOW: CommandError = CommandError::Fixed(&"ERR Invalid OVERFLOW type specified");
/// BITFIELD_RO that writes.
pub const FIELD_READ_ONLY: CommandError = CommandError::Fixed(&"ERR BITFIELD_RO only supports the GET subcommand");

/// BITOP over fewer keys than the operation takes.
#[cold]
#[must_use]
pub fn few_keys(operation: &str) -> CommandError {
    CommandError::new(format!("ERR BITOP {operation} must be called with at least two source keys."))
}
