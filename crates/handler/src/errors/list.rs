//! Lists.

use super::CommandError;

/// LSET beyond the list.
pub const INDEX_OUT_OF_RANGE: CommandError = CommandError::Fixed(&"ERR index out of range");
/// LPOS RANK 0.
pub const RANK_ZERO: CommandError = CommandError::Fixed(
    &"ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of \
      the list",
);
/// LPOS RANK with the one number that has no opposite.
pub const RANK_TOO_LOW: CommandError =
    CommandError::Fixed(&"ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
/// LPOS with a bad COUNT.
pub const COUNT_NEGATIVE: CommandError = CommandError::Fixed(&"ERR COUNT can't be negative");
/// LPOS with a bad MAXLEN.
pub const MAX_LEN_NEGATIVE: CommandError = CommandError::Fixed(&"ERR MAXLEN can't be negative");
