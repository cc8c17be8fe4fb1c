//! Sorted sets.

use super::CommandError;

/// ZEXPIRE and its relatives without MEMBERS.
pub const MEMBERS_MISSING: CommandError =
    CommandError::Fixed(&"ERR Mandatory argument MEMBERS is missing or not at the right position");
/// ZEXPIRE and its relatives with a bad number of members.
pub const MEMBERS_NOT_POSITIVE: CommandError = CommandError::Fixed(&"ERR Parameter `numMembers` should be greater than 0");
/// A number of members that others follow than it says.
pub const MEMBERS_MISMATCH: CommandError =
    CommandError::Fixed(&"ERR The `numMembers` parameter must match the number of arguments");
/// ZADD NX together with XX.
pub const CONDITIONS: CommandError = CommandError::Fixed(&"ERR XX and NX options at the same time are not compatible");
/// ZADD with two of GT, LT and NX.
pub const COMPARISONS: CommandError = CommandError::Fixed(&"ERR GT, LT, and/or NX options at the same time are not compatible");
/// ZADD INCR of several members.
pub const INCREMENTS: CommandError = CommandError::Fixed(&"ERR INCR option supports a single increment-element pair");
/// An increment that makes a score no number.
pub const SCORE_NOT_A_NUMBER: CommandError = CommandError::Fixed(&"ERR resulting score is not a number (NaN)");
/// A range of scores with a limit that is no number.
pub const SCORE_RANGE: CommandError = CommandError::Fixed(&"ERR min or max is not a float");
/// A range of members with a limit that is none.
pub const LEX_RANGE: CommandError = CommandError::Fixed(&"ERR min or max not valid string range item");
/// ZRANGE LIMIT by index.
pub const LIMIT_OF_INDEXES: CommandError =
    CommandError::Fixed(&"ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
/// ZRANGE BYLEX WITHSCORES.
pub const SCORES_OF_LEX: CommandError =
    CommandError::Fixed(&"ERR syntax error, WITHSCORES not supported in combination with BYLEX");
/// WEIGHTS that are no numbers.
pub const WEIGHT_NOT_FLOAT: CommandError = CommandError::Fixed(&"ERR weight value is not a float");

/// ZUNION and its relatives of no key. `command` is the name in lower case.
#[cold]
#[must_use]
pub fn input_keys_missing(command: &str) -> CommandError {
    CommandError::new(format!("ERR at least 1 input key is needed for '{command}' command"))
}
