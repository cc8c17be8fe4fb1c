//! Keys of any type: expiry, copies, payloads, SCAN, SORT, WAIT.

use super::CommandError;

/// SORT BY by a user that may not read all keys.
pub const SORT_BY_DENIED: CommandError = CommandError::Fixed(&"ERR BY option of SORT denied due to insufficient ACL permissions.");
/// SORT GET by a user that may not read all keys.
pub const SORT_GET_DENIED: CommandError =
    CommandError::Fixed(&"ERR GET option of SORT denied due to insufficient ACL permissions.");
/// EXPIRE NX together with another condition.
pub const EXPIRE_NX_WITH_OTHERS: CommandError =
    CommandError::Fixed(&"ERR NX and XX, GT or LT options at the same time are not compatible");
/// EXPIRE GT together with LT.
pub const EXPIRE_GT_WITH_LT: CommandError = CommandError::Fixed(&"ERR GT and LT options at the same time are not compatible");
/// COPY and MOVE of a key onto itself.
pub const SAME_OBJECT: CommandError = CommandError::Fixed(&"ERR source and destination objects are the same");
/// SCAN with something that is no cursor.
pub const INVALID_CURSOR: CommandError = CommandError::Fixed(&"ERR invalid cursor");
/// OBJECT FREQ under a policy that does not count accesses.
pub const FREQUENCY_NOT_TRACKED: CommandError = CommandError::Fixed(
    &"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies \
      at runtime LRU and LFU data will take some time to adjust.",
);
/// OBJECT IDLETIME under a policy that counts accesses.
pub const IDLE_TIME_NOT_TRACKED: CommandError = CommandError::Fixed(
    &"ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime \
      LRU and LFU data will take some time to adjust.",
);
/// RESTORE onto a key that exists.
pub const BUSY_KEY: CommandError = CommandError::Fixed(&"BUSYKEY Target key name already exists.");
/// RESTORE with a negative TTL.
pub const INVALID_TIME_TO_LIVE: CommandError = CommandError::Fixed(&"ERR Invalid TTL value, must be >= 0");
/// RESTORE IDLETIME with a negative time.
pub const INVALID_IDLE_TIME: CommandError = CommandError::Fixed(&"ERR Invalid IDLETIME value, must be >= 0");
/// RESTORE FREQ with something that is no byte.
pub const INVALID_FREQUENCY: CommandError = CommandError::Fixed(&"ERR Invalid FREQ value, must be >= 0 and <= 255");
/// RESTORE of a payload whose footer is wrong.
pub const DUMP_NOT_VERIFIED: CommandError = CommandError::Fixed(&"ERR DUMP payload version or checksum are wrong");
/// RESTORE of a payload whose footer is right and whose value is not.
pub const DUMP_MALFORMED: CommandError = CommandError::Fixed(&"ERR Bad data format");
/// WAITAOF for a file that does not exist.
pub const WAIT_WITHOUT_APPEND_ONLY: CommandError =
    CommandError::Fixed(&"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
/// SORT by numbers that are none.
pub const NOT_SORTABLE: CommandError = CommandError::Fixed(&"ERR One or more scores can't be converted into double");
/// SWAPDB with a first database that is no integer.
pub const INVALID_FIRST_DATABASE: CommandError = CommandError::Fixed(&"ERR invalid first DB index");
/// SWAPDB with a second database that is no integer.
pub const INVALID_SECOND_DATABASE: CommandError = CommandError::Fixed(&"ERR invalid second DB index");

/// An option of EXPIRE that does not exist.
#[cold]
#[must_use]
pub fn unsupported_option(option: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unsupported option ", option, "")
}
