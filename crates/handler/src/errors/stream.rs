//! Streams, their groups and producers.

use super::{CommandError, REPEATED_BYTES_MAX, repeated};

/// What should be the id of a stream's entry is none.
pub const NOT_AN_ID: CommandError = CommandError::Fixed(&"ERR Invalid stream ID specified as stream command argument");
/// A range that begins behind the last id.
pub const START_BEHIND_LAST: CommandError = CommandError::Fixed(&"ERR invalid start ID for the interval");
/// A range that ends before the first id.
pub const END_BEFORE_FIRST: CommandError = CommandError::Fixed(&"ERR invalid end ID for the interval");
/// XADD of the id that no entry has.
pub const ID_ZERO: CommandError = CommandError::Fixed(&"ERR The ID specified in XADD must be greater than 0-0");
/// XADD behind the last id.
pub const EXHAUSTED: CommandError =
    CommandError::Fixed(&"ERR The stream has exhausted the last possible ID, unable to add more items");
/// XADD of an id that is not above the last one.
pub const ID_NOT_ABOVE: CommandError =
    CommandError::Fixed(&"ERR The ID specified in XADD is equal or smaller than the target stream top item");
/// XADD of more than a node could hold.
pub const ENTRY_TOO_LARGE: CommandError = CommandError::Fixed(&"ERR Elements are too large to be stored");
/// Two ways to trim.
pub const TRIM_TWICE: CommandError =
    CommandError::Fixed(&"ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
/// A negative MAXLEN.
pub const TRIM_MAX_LEN: CommandError = CommandError::Fixed(&"ERR The MAXLEN argument must be >= 0.");
/// A negative LIMIT.
pub const TRIM_LIMIT: CommandError = CommandError::Fixed(&"ERR The LIMIT argument must be >= 0.");
/// LIMIT of nothing.
pub const TRIM_LIMIT_ALONE: CommandError =
    CommandError::Fixed(&"ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
/// LIMIT of an exact trim.
pub const TRIM_LIMIT_EXACT: CommandError =
    CommandError::Fixed(&"ERR syntax error, LIMIT cannot be used without the special ~ option");
/// XTRIM that does not say how.
pub const TRIM_MISSING: CommandError = CommandError::Fixed(&"ERR syntax error, XTRIM must be called with a trimming strategy");
/// XSETID ENTRIESADDED below 0.
pub const ENTRIES_ADDED_NEGATIVE: CommandError = CommandError::Fixed(&"ERR entries_added must be positive");
/// XSETID ENTRIESADDED below what there is.
pub const ENTRIES_ADDED_BELOW_LENGTH: CommandError =
    CommandError::Fixed(&"ERR The entries_added specified in XSETID is smaller than the target stream length");
/// XSETID below MAXDELETEDID.
pub const LAST_ID_BELOW_DELETED: CommandError =
    CommandError::Fixed(&"ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id");
/// XSETID below an entry.
pub const LAST_ID_BELOW_TOP: CommandError =
    CommandError::Fixed(&"ERR The ID specified in XSETID is smaller than the target stream top item");
/// XREAD with more streams than ids, or fewer.
pub const READ_UNBALANCED: CommandError =
    CommandError::Fixed(&"ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.");
/// XREAD GROUP.
pub const READ_GROUP_OPTION: CommandError =
    CommandError::Fixed(&"ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
/// XREAD NOACK.
pub const READ_NO_ACK_OPTION: CommandError =
    CommandError::Fixed(&"ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
/// XREAD of what only groups have.
pub const READ_NEW_ONLY: CommandError =
    CommandError::Fixed(&"ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.");
/// XREADGROUP without a group.
pub const READ_GROUP_MISSING: CommandError = CommandError::Fixed(&"ERR Missing GROUP option for XREADGROUP");
/// XREADGROUP of what only XREAD has.
pub const READ_GROUP_LAST: CommandError = CommandError::Fixed(
    &"ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a \
      proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
);
/// XREADGROUP CLAIM with something that is no integer.
pub const CLAIM_IDLE_TIME: CommandError = CommandError::Fixed(&"ERR min-idle-time is not an integer");
/// XREADGROUP CLAIM with a negative time.
pub const CLAIM_IDLE_NEGATIVE: CommandError = CommandError::Fixed(&"ERR min-idle-time must be a positive integer");
/// XGROUP of a key that does not exist.
pub const GROUP_NEEDS_KEY: CommandError = CommandError::Fixed(
    &"ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create \
      an empty stream automatically.",
);
/// XGROUP CREATE of a group that is there.
pub const GROUP_EXISTS: CommandError = CommandError::Fixed(&"BUSYGROUP Consumer Group name already exists");
/// XGROUP ENTRIESREAD below -1.
pub const ENTRIES_READ: CommandError = CommandError::Fixed(&"ERR value for ENTRIESREAD must be positive or -1");
/// XCLAIM with a time that is no integer.
pub const CLAIM_MIN_IDLE: CommandError = CommandError::Fixed(&"ERR Invalid min-idle-time argument for XCLAIM");
/// XCLAIM IDLE with something that is no integer.
pub const CLAIM_IDLE: CommandError = CommandError::Fixed(&"ERR Invalid IDLE option argument for XCLAIM");
/// XCLAIM TIME with something that is no integer.
pub const CLAIM_TIME: CommandError = CommandError::Fixed(&"ERR Invalid TIME option argument for XCLAIM");
/// XCLAIM RETRYCOUNT with something that is no integer.
pub const CLAIM_RETRY_COUNT: CommandError = CommandError::Fixed(&"ERR Invalid RETRYCOUNT option argument for XCLAIM");
/// XAUTOCLAIM with a time that is no integer.
pub const AUTO_CLAIM_MIN_IDLE: CommandError = CommandError::Fixed(&"ERR Invalid min-idle-time argument for XAUTOCLAIM");
/// XAUTOCLAIM COUNT without sense.
pub const CLAIM_COUNT: CommandError = CommandError::Fixed(&"ERR COUNT must be > 0");
/// XDELEX, XACKDEL IDS with no count.
pub const IDS_NOT_POSITIVE: CommandError = CommandError::Fixed(&"ERR Number of IDs must be a positive integer");
/// XDELEX, XACKDEL IDS with fewer ids than it says.
pub const IDS_MISMATCH: CommandError = CommandError::Fixed(&"ERR The `numids` parameter must match the number of arguments");
/// XNACK without ids.
pub const IDS_EXPECTED: CommandError = CommandError::Fixed(&"ERR syntax error, expected IDS keyword");
/// XNACK IDS with no count.
pub const RELEASED_NOT_POSITIVE: CommandError = CommandError::Fixed(&"ERR numids must be a positive integer");
/// XNACK IDS with fewer ids than it says.
pub const RELEASED_MISMATCH: CommandError = CommandError::Fixed(&"ERR number of IDs doesn't match numids");
/// XNACK with another word.
pub const RELEASE_MODE: CommandError = CommandError::Fixed(&"ERR mode must be SILENT, FAIL, or FATAL");
/// XNACK RETRYCOUNT below 0.
pub const RETRY_COUNT_NEGATIVE: CommandError = CommandError::Fixed(&"ERR Invalid RETRYCOUNT value, must be >= 0");
/// XADD IDMP with an id.
pub const PRODUCER_WITH_ID: CommandError = CommandError::Fixed(&"ERR IDMP/IDMPAUTO can be used only with auto-generated IDs");
/// XADD with two producers.
pub const PRODUCER_TWICE: CommandError = CommandError::Fixed(&"ERR IDMP/IDMPAUTO specified multiple times");
/// XADD IDMP without a producer.
pub const PRODUCER_EMPTY: CommandError = CommandError::Fixed(&"ERR IDMP requires a non-empty producer ID");
/// XADD IDMP of nothing.
pub const PRODUCER_ID_EMPTY: CommandError = CommandError::Fixed(&"ERR IDMP requires a non-empty idempotent ID");
/// XADD IDMPAUTO without a producer.
pub const AUTO_PRODUCER_EMPTY: CommandError = CommandError::Fixed(&"ERR IDMPAUTO requires a non-empty producer ID");
/// XCFGSET IDMP-DURATION beyond its range.
pub const PRODUCER_DURATION: CommandError = CommandError::Fixed(&"ERR IDMP-DURATION must be between 1 and 86400 seconds");
/// XCFGSET IDMP-MAXSIZE beyond its range.
pub const PRODUCER_MAX_SIZE: CommandError = CommandError::Fixed(&"ERR IDMP-MAXSIZE must be between 1 and 10000 entries");
/// XIDMPRECORD of an entry that does not exist.
pub const PRODUCER_NO_ENTRY: CommandError = CommandError::Fixed(&"ERR The specified stream ID does not exist");
/// XIDMPRECORD of an id that another entry has.
pub const PRODUCER_OTHER_ENTRY: CommandError = CommandError::Fixed(&"ERR The idempotent ID already belongs to another stream ID");

/// A group that a stream does not have.
#[cold]
#[must_use]
pub fn no_group(group: &[u8], key: &[u8]) -> CommandError {
    no_group_text("NOGROUP No such consumer group '", group, "' for key name '", key, "'")
}

/// A stream or a group that does not exist.
#[cold]
#[must_use]
pub fn no_key_or_group(key: &[u8], group: &[u8]) -> CommandError {
    no_group_text("NOGROUP No such key '", key, "' or consumer group '", group, "'")
}

/// XREADGROUP of a stream or a group that does not exist.
#[cold]
#[must_use]
pub fn no_group_to_read(key: &[u8], group: &[u8]) -> CommandError {
    no_group_text("NOGROUP No such key '", key, "' or consumer group '", group, "' in XREADGROUP with GROUP option")
}

fn no_group_text(before: &str, one: &[u8], between: &str, other: &[u8], behind: &str) -> CommandError {
    let quoted = |words: &[u8]| repeated(words, REPEATED_BYTES_MAX);
    CommandError::new([before.as_bytes(), &quoted(one), between.as_bytes(), &quoted(other), behind.as_bytes()].concat())
}

/// XCLAIM or XNACK with an option that it does not take.
#[cold]
#[must_use]
pub fn unknown_option(command: &str, option: &[u8]) -> CommandError {
    CommandError::quoting(&format!("ERR Unrecognized {command} option '"), option, "'")
}
