//! Strings and counters.

use super::CommandError;

/// DECRBY of the one number that has no opposite.
pub const DECREMENT_OVERFLOW: CommandError = CommandError::Fixed(&"ERR decrement would overflow");
/// SETRANGE, SETBIT … before the start of the string.
pub const OFFSET_OUT_OF_RANGE: CommandError = CommandError::Fixed(&"ERR offset is out of range");
/// LCS over something that is no string.
pub const LCS_NOT_STRINGS: CommandError = CommandError::Fixed(&"ERR The specified keys must contain string values");
/// LCS LEN together with IDX.
pub const LCS_LEN_AND_IDX: CommandError = CommandError::Fixed(&"ERR If you want both the length and indexes, please just use IDX.");
/// LCS over strings whose table would exceed `proto-max-bulk-len`.
pub const LCS_TOO_LARGE: CommandError =
    CommandError::Fixed(&"ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
/// IFDEQ and IFDNE with something that is no digest.
pub const NOT_A_DIGEST: CommandError = CommandError::Fixed(&"ERR must be exactly 16 hexadecimal characters");
/// DELEX with a condition, of a key of another type.
pub const CONDITION_NEEDS_STRING: CommandError =
    CommandError::Fixed(&"ERR Key should be of string type if conditions are specified");
/// DELEX with a word that is no condition.
pub const NOT_A_CONDITION: CommandError = CommandError::Fixed(&"ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
/// MSETEX with a bad count of keys.
pub const INVALID_KEY_COUNT: CommandError = CommandError::Fixed(&"ERR invalid numkeys value");
/// An entity tag that is no number, or negative. The prefix is Garnet's.
pub const INVALID_ETAG: CommandError = CommandError::Fixed(&"ETAG must be a numerical value greater than or equal to 0");
/// INCREX whose lower bound exceeds the upper one.
pub const BOUNDS_CROSSED: CommandError = CommandError::Fixed(&"ERR LBOUND can't be greater than UBOUND");
