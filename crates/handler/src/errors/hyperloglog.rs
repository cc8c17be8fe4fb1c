//! HyperLogLogs.

use super::CommandError;

/// A HyperLogLog command on a string that is none.
pub const NOT_ONE: CommandError = CommandError::Fixed(&"WRONGTYPE Key is not a valid HyperLogLog string value.");
/// A HyperLogLog whose registers are not all there.
pub const CORRUPTED: CommandError = CommandError::Fixed(&"INVALIDOBJ Corrupted HLL object detected");
/// PFDEBUG of a key that does not exist.
pub const NO_KEY: CommandError = CommandError::Fixed(&"ERR The specified key does not exist");
/// PFDEBUG DECODE of a dense value.
pub const NOT_SPARSE: CommandError = CommandError::Fixed(&"ERR HLL encoding is not sparse");
/// PFDEBUG SIMD with another word.
pub const NOT_ON_OR_OFF: CommandError = CommandError::Fixed(&"ERR Argument must be ON or OFF");

/// PFDEBUG with a subcommand that does not exist.
#[cold]
#[must_use]
pub fn unknown_pfdebug(name: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown PFDEBUG subcommand '", name, "'")
}
