//! Every error text that a command answers, in one file.
//!
//! The texts are an interface: clients and suites compare prefix and wording with Redis. A fixed text is a variant of
//! [`CommandError`]; a text with something inserted is built by a function below. Nothing else in the workspace spells one.

use std::borrow::Cow;
use std::fmt;

use almandine_datatypes::hll::Corrupted;
use almandine_keyspace::{Full, Missing, Refusal, WrongKind};
use almandine_resp::Args;

/// What a handler answers instead of a reply. One word wide in the usual case, so that `Ok` costs a register.
pub type Outcome = Result<(), CommandError>;

/// Declares the fixed texts: variant and wording side by side.
macro_rules! fixed_errors {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)+) => {
        /// Why a command failed, as the client will read it.
        #[derive(Debug, PartialEq, Eq)]
        pub enum CommandError {
            $($(#[$doc])* $variant,)+
            /// A text with something inserted, made by a function of this module. Bytes, because a client's words need not be UTF-8.
            Text(Box<Vec<u8>>),
        }

        impl CommandError {
            /// The error line without the leading `-`.
            #[must_use]
            pub fn bytes(&self) -> &[u8] {
                match self {
                    $(Self::$variant => $text.as_bytes(),)+
                    Self::Text(text) => text,
                }
            }
        }
    };
}

fixed_errors! {
    /// A record must be read from the device first. Never replied: the command runs again.
    Cold => "ERR the storage device was not asked",
    /// A result is computed first, beside other work. Never replied: the command runs again.
    Computing => "ERR the result is not computed yet",
    /// The client waits until there is something for its command. Never replied: the command runs again then.
    Blocks => "ERR the command waits",
    /// A record cannot be read from the device, or is damaged.
    StorageUnreadable => "ERR the storage device cannot give a record that this command needs; see INFO storage",
    /// A command would bring too many records from the device into memory at once.
    TooManyCold => "ERR this needs too many keys from the storage device at once; use SCAN",
    /// A command needs values from the device that are too large to be in memory together.
    NoRoomForCold => "ERR what this command needs from the storage device does not fit into 'maxmemory'",
    /// MULTI inside a transaction.
    MultiNested => "ERR MULTI calls can not be nested",
    /// EXEC outside of one.
    ExecWithoutMulti => "ERR EXEC without MULTI",
    /// DISCARD outside of one.
    DiscardWithoutMulti => "ERR DISCARD without MULTI",
    /// WATCH inside of one.
    WatchInsideMulti => "ERR WATCH inside MULTI is not allowed",
    /// A command was refused when it was queued.
    TransactionRefused => "EXECABORT Transaction discarded because of previous errors.",
    /// A command that transactions may not have.
    NotInTransaction => "ERR Command not allowed inside a transaction",
    /// More waits for EXEC than a client may send.
    TransactionTooLarge => "ERR the transaction is too large: 1 GiB may wait for EXEC",
    /// The key holds another type than the command works on.
    WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
    /// A HyperLogLog command on a string that is none.
    NotHyperLogLog => "WRONGTYPE Key is not a valid HyperLogLog string value.",
    /// A HyperLogLog whose registers are not all there.
    CorruptedHyperLogLog => "INVALIDOBJ Corrupted HLL object detected",
    /// PFDEBUG of a key that does not exist.
    PfdebugNoKey => "ERR The specified key does not exist",
    /// PFDEBUG DECODE of a dense value.
    PfdebugNotSparse => "ERR HLL encoding is not sparse",
    /// PFDEBUG SIMD with another word.
    NotOnOrOff => "ERR Argument must be ON or OFF",
    /// Unknown, misplaced or contradicting options.
    Syntax => "ERR syntax error",
    /// An argument or a value that must be a 64-bit integer is not.
    NotInteger => "ERR value is not an integer or out of range",
    /// An argument or a value that must be a number is not.
    NotFloat => "ERR value is not a valid float",
    /// HINCRBY of a field that is no 64-bit integer.
    FieldNotInteger => "ERR hash value is not an integer",
    /// HINCRBYFLOAT of a field that is not a number.
    FieldNotFloat => "ERR hash value is not a float",
    /// HINCRBYFLOAT by an infinite number.
    NotFinite => "ERR value is NaN or Infinity",
    /// HEXPIRE and its relatives with a bad number of fields.
    FieldsToExpireNotPositive => "ERR Parameter `numFields` should be greater than 0",
    /// Other commands with a bad number of fields.
    FieldsNotPositive => "ERR Number of fields must be a positive integer",
    /// A number of fields that others follow than it says.
    FieldsMismatch => "ERR The `numfields` parameter must match the number of arguments",
    /// A command on some fields that does not name them.
    FieldsMissing => "ERR Mandatory argument FIELDS is missing or not at the right position",
    /// A negative expiry of a field.
    FieldExpiryNegative => "ERR invalid expire time, must be >= 0",
    /// ZEXPIRE and its relatives without MEMBERS.
    MembersMissing => "ERR Mandatory argument MEMBERS is missing or not at the right position",
    /// ZEXPIRE and its relatives with a bad number of members.
    MembersNotPositive => "ERR Parameter `numMembers` should be greater than 0",
    /// A number of members that others follow than it says.
    MembersMismatch => "ERR The `numMembers` parameter must match the number of arguments",
    /// ZADD NX together with XX.
    ScoreConditions => "ERR XX and NX options at the same time are not compatible",
    /// ZADD with two of GT, LT and NX.
    ScoreComparisons => "ERR GT, LT, and/or NX options at the same time are not compatible",
    /// ZADD INCR of several members.
    ScoreIncrements => "ERR INCR option supports a single increment-element pair",
    /// An increment that makes a score no number.
    ScoreNotANumber => "ERR resulting score is not a number (NaN)",
    /// A range of scores with a limit that is no number.
    ScoreRange => "ERR min or max is not a float",
    /// A range of members with a limit that is none.
    LexRange => "ERR min or max not valid string range item",
    /// ZRANGE LIMIT by index.
    RangeLimit => "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
    /// ZRANGE BYLEX WITHSCORES.
    RangeScores => "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
    /// WEIGHTS that are no numbers.
    WeightNotFloat => "ERR weight value is not a float",
    /// ZINTERCARD LIMIT below zero.
    LimitNegative => "ERR LIMIT can't be negative",
    /// ZMPOP COUNT that is no positive number.
    CountNotPositive => "ERR count should be greater than 0",
    /// HGETEX with two words about expiries.
    FieldExpiryOrPersist => "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
    /// HSETEX with two words about expiries.
    FieldExpiryOrKeep => "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
    /// HSETEX with two conditions on fields.
    FieldConditions => "ERR Only one of FXX or FNX arguments can be specified",
    /// What should be the id of a stream's entry is none.
    StreamId => "ERR Invalid stream ID specified as stream command argument",
    /// A range that begins behind the last id.
    StreamStart => "ERR invalid start ID for the interval",
    /// A range that ends before the first id.
    StreamEnd => "ERR invalid end ID for the interval",
    /// XADD of the id that no entry has.
    StreamIdZero => "ERR The ID specified in XADD must be greater than 0-0",
    /// XADD behind the last id.
    StreamExhausted => "ERR The stream has exhausted the last possible ID, unable to add more items",
    /// XADD of an id that is not above the last one.
    StreamIdNotAbove => "ERR The ID specified in XADD is equal or smaller than the target stream top item",
    /// XADD of more than a node could hold.
    StreamEntryTooLarge => "ERR Elements are too large to be stored",
    /// Two ways to trim.
    TrimTwice => "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
    /// A negative MAXLEN.
    TrimMaxLen => "ERR The MAXLEN argument must be >= 0.",
    /// A negative LIMIT.
    TrimLimit => "ERR The LIMIT argument must be >= 0.",
    /// LIMIT of nothing.
    TrimLimitAlone => "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
    /// LIMIT of an exact trim.
    TrimLimitExact => "ERR syntax error, LIMIT cannot be used without the special ~ option",
    /// XTRIM that does not say how.
    TrimMissing => "ERR syntax error, XTRIM must be called with a trimming strategy",
    /// XSETID ENTRIESADDED below 0.
    EntriesAddedNegative => "ERR entries_added must be positive",
    /// XSETID ENTRIESADDED below what there is.
    EntriesAddedBelowLength => "ERR The entries_added specified in XSETID is smaller than the target stream length",
    /// XSETID below MAXDELETEDID.
    LastIdBelowDeleted => "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
    /// XSETID below an entry.
    LastIdBelowTop => "ERR The ID specified in XSETID is smaller than the target stream top item",
    /// XREAD with more streams than ids, or fewer.
    StreamsUnbalanced => "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
    /// XREAD GROUP.
    ReadGroupOption => "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
    /// XREAD NOACK.
    ReadNoAckOption => "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
    /// XREAD of what only groups have.
    ReadNewOnly => "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
    /// XREADGROUP without a group.
    ReadGroupMissing => "ERR Missing GROUP option for XREADGROUP",
    /// XREADGROUP of what only XREAD has.
    ReadGroupLast => "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
    /// XREADGROUP CLAIM with something that is no integer.
    ClaimIdleTime => "ERR min-idle-time is not an integer",
    /// XREADGROUP CLAIM with a negative time.
    ClaimIdleNegative => "ERR min-idle-time must be a positive integer",
    /// XGROUP of a key that does not exist.
    GroupNeedsKey => "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
    /// XGROUP CREATE of a group that is there.
    GroupExists => "BUSYGROUP Consumer Group name already exists",
    /// XGROUP ENTRIESREAD below -1.
    EntriesRead => "ERR value for ENTRIESREAD must be positive or -1",
    /// XCLAIM with a time that is no integer.
    ClaimMinIdle => "ERR Invalid min-idle-time argument for XCLAIM",
    /// XCLAIM IDLE with something that is no integer.
    ClaimIdle => "ERR Invalid IDLE option argument for XCLAIM",
    /// XCLAIM TIME with something that is no integer.
    ClaimTime => "ERR Invalid TIME option argument for XCLAIM",
    /// XCLAIM RETRYCOUNT with something that is no integer.
    ClaimRetryCount => "ERR Invalid RETRYCOUNT option argument for XCLAIM",
    /// XAUTOCLAIM with a time that is no integer.
    AutoClaimMinIdle => "ERR Invalid min-idle-time argument for XAUTOCLAIM",
    /// XAUTOCLAIM COUNT without sense.
    ClaimCount => "ERR COUNT must be > 0",
    /// XDELEX, XACKDEL IDS with no count.
    IdsNotPositive => "ERR Number of IDs must be a positive integer",
    /// XDELEX, XACKDEL IDS with fewer ids than it says.
    IdsMismatch => "ERR The `numids` parameter must match the number of arguments",
    /// XNACK without ids.
    IdsExpected => "ERR syntax error, expected IDS keyword",
    /// XNACK IDS with no count.
    ReleasedNotPositive => "ERR numids must be a positive integer",
    /// XNACK IDS with fewer ids than it says.
    ReleasedMismatch => "ERR number of IDs doesn't match numids",
    /// XNACK with another word.
    ReleaseMode => "ERR mode must be SILENT, FAIL, or FATAL",
    /// XNACK RETRYCOUNT below 0.
    RetryCountNegative => "ERR Invalid RETRYCOUNT value, must be >= 0",
    /// XADD IDMP with an id.
    ProducerWithId => "ERR IDMP/IDMPAUTO can be used only with auto-generated IDs",
    /// XADD with two producers.
    ProducerTwice => "ERR IDMP/IDMPAUTO specified multiple times",
    /// XADD IDMP of nobody.
    ProducerEmpty => "ERR IDMP requires a non-empty producer ID",
    /// XADD IDMP of nothing.
    ProducerIdEmpty => "ERR IDMP requires a non-empty idempotent ID",
    /// XADD IDMPAUTO of nobody.
    AutoProducerEmpty => "ERR IDMPAUTO requires a non-empty producer ID",
    /// XCFGSET IDMP-DURATION beyond its range.
    ProducerDuration => "ERR IDMP-DURATION must be between 1 and 86400 seconds",
    /// XCFGSET IDMP-MAXSIZE beyond its range.
    ProducerMaxSize => "ERR IDMP-MAXSIZE must be between 1 and 10000 entries",
    /// XIDMPRECORD of an entry that does not exist.
    ProducerNoEntry => "ERR The specified stream ID does not exist",
    /// XIDMPRECORD of an id that another entry has.
    ProducerOtherEntry => "ERR The idempotent ID already belongs to another stream ID",
    /// HIMPORT PREPARE of a field twice.
    FieldTwice => "ERR duplicate field name in fieldset",
    /// HIMPORT SET of what was not prepared.
    NoSuchFieldset => "ERR no such fieldset",
    /// HIMPORT SET with more or fewer values than fields.
    FieldsetMismatch => "ERR value count does not match fieldset field count",
    /// HIMPORT PREPARE beyond what one connection may keep.
    FieldsetsTooLarge => "ERR the fieldsets of this connection are too large: 16 MiB may be prepared",
    /// INCR and its relatives would leave the 64-bit range.
    IncrementOverflow => "ERR increment or decrement would overflow",
    /// DECRBY of the one number that has no opposite.
    DecrementOverflow => "ERR decrement would overflow",
    /// INCRBYFLOAT would leave the range of numbers.
    IncrementNotFinite => "ERR increment would produce NaN or Infinity",
    /// A string would exceed `proto-max-bulk-len`.
    StringTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    /// SETRANGE, SETBIT … before the start of the string.
    OffsetOutOfRange => "ERR offset is out of range",
    /// A number that must be ≥ 0 is not.
    NotPositive => "ERR value is out of range, must be positive",
    /// An index beyond the collection or its type.
    OutOfRange => "ERR value is out of range",
    /// LSET beyond the list.
    IndexOutOfRange => "ERR index out of range",
    /// LPOS RANK 0.
    RankZero => "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
    /// LPOS RANK with the one number that has no opposite.
    RankTooLow => "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    /// LPOS with a bad COUNT.
    CountNegative => "ERR COUNT can't be negative",
    /// LPOS with a bad MAXLEN.
    MaxLenNegative => "ERR MAXLEN can't be negative",
    /// RENAME, OBJECT … of a key that does not exist.
    NoSuchKey => "ERR no such key",
    /// Memory is used up because the storage device, where data would go, is full.
    StorageFull => "OOM command not allowed: memory is used up and the storage device is full; free space there or delete keys, see INFO storage",
    /// As above, but it refuses writes for another reason.
    StorageFailing => "OOM command not allowed: memory is used up and the storage device refuses writes; see the log and INFO storage",
    /// A command that grows memory while `maxmemory` is exceeded.
    OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
    /// SELECT, MOVE, COPY, SWAPDB outside `databases`.
    DatabaseOutOfRange => "ERR DB index is out of range",
    /// SELECT with something that is no integer.
    InvalidDatabase => "ERR invalid DB index",
    /// A command before AUTH.
    AuthenticationRequired => "NOAUTH Authentication required.",
    /// HELLO without AUTH before authentication.
    HelloNeedsAuthentication => "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
    /// A key that the user may not use.
    KeyDenied => "NOPERM this user has no permissions to access one of the keys used as arguments",
    /// A channel that the user may not use.
    ChannelDenied => "NOPERM this user has no permissions to access one of the channels used as arguments",
    /// A database that the user may not use.
    DatabaseDenied => "NOPERM No permissions to access database",
    /// SORT BY by a user who may not read all keys.
    SortByDenied => "ERR BY option of SORT denied due to insufficient ACL permissions.",
    /// SORT GET by a user who may not read all keys.
    SortGetDenied => "ERR GET option of SORT denied due to insufficient ACL permissions.",
    /// ACL SETUSER with a name that cannot stand in a line of rules.
    InvalidUserName => "ERR Usernames can't contain spaces or null characters",
    /// ACL DELUSER of the user that always is.
    DefaultUserStays => "ERR The 'default' user cannot be removed",
    /// ACL LOAD or SAVE without a file.
    NoAclFile => "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.",
    /// ACL SAVE that could not write.
    AclFileNotSaved => "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
    /// ACL GENPASS of no bits, or too many.
    PasswordBits => "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
    /// ACL GENPASS where the kernel gives no random bytes.
    NoEntropy => "ERR the system has no source of random bytes",
    /// Wrong user or password.
    WrongPassword => "WRONGPASS invalid username-password pair or user is disabled.",
    /// AUTH password when no password is set.
    NoPasswordSet => "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
    /// HELLO with a version that is no integer.
    ProtocolVersionNotInteger => "ERR Protocol version is not an integer or out of range",
    /// HELLO with a version other than 2 and 3.
    ProtocolVersionUnsupported => "NOPROTO unsupported protocol version",
    /// CLIENT SETNAME or HELLO SETNAME with spaces or control characters.
    InvalidClientName => "ERR Client names cannot contain spaces, newlines or special characters.",
    /// CLIENT KILL ID with a bad id.
    InvalidClientId => "ERR client-id should be greater than 0",
    /// CLIENT LIST ID with something that is no integer.
    InvalidClientIdList => "ERR Invalid client ID",
    /// CLIENT KILL of the old form that met nobody.
    NoSuchClient => "ERR No such client",
    /// CLIENT UNBLOCK with an unknown reason.
    UnblockReason => "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
    /// CLIENT KILL MAXAGE with something that is no integer.
    MaxAgeNotInteger => "ERR maxage is not an integer or out of range",
    /// CLIENT KILL MAXAGE with zero or less.
    MaxAgeNotPositive => "ERR maxage should be greater than 0",
    /// CLIENT LIST or KILL IDLE with zero or less.
    IdleNotPositive => "ERR idle should be greater than 0",
    /// DEBUG STORAGE without a device.
    NoStorageDevice => "ERR There is no storage device",
    /// DEBUG STORAGE EVICT whose time is over.
    StorageDeviceSlow => "ERR The storage device has not taken all data in time",
    /// CLIENT PAUSE with an unknown mode.
    PauseMode => "ERR CLIENT PAUSE mode must be WRITE or ALL",
    /// A timeout beyond the range of times.
    TimeoutOutOfRange => "ERR timeout is out of range",
    /// CLIENT IMPORT-SOURCE outside import mode.
    NotInImportMode => "ERR Server is not in import mode",
    /// A command on keys by who runs MONITOR.
    MonitorOnData => "ERR Replica can't interact with the keyspace",
    /// HOTKEYS START while it is on.
    HotKeysActive => "ERR hotkey tracking session already in progress",
    /// HOTKEYS RESET while it is on.
    HotKeysNotStopped => "ERR hotkey tracking session in progress, stop tracking first",
    /// HOTKEYS START without METRICS.
    HotKeysMetricsMissing => "ERR METRICS parameter is required",
    /// HOTKEYS START with another number of metrics than there are.
    HotKeysMetricsCount => "ERR METRICS count must be > 0 and <= 2",
    /// HOTKEYS START with fewer metrics than announced.
    HotKeysMetricsTooFew => "ERR METRICS count does not match number of metric types provided",
    /// HOTKEYS START without a metric that is known.
    HotKeysMetricsUnknown => "ERR METRICS no valid metrics passed. Supported: CPU|NET",
    /// HOTKEYS START with CPU twice.
    HotKeysCpuTwice => "ERR METRICS CPU defined more than once!",
    /// HOTKEYS START with NET twice.
    HotKeysNetTwice => "ERR METRICS NET defined more than once!",
    /// HOTKEYS START COUNT out of range.
    HotKeysCount => "ERR COUNT must be between 1 and 64",
    /// HOTKEYS START DURATION out of range.
    HotKeysDuration => "ERR DURATION must be between 1 and 1000000",
    /// HOTKEYS START SAMPLE out of range.
    HotKeysSample => "ERR SAMPLE ratio must be positive",
    /// HOTKEYS START SLOTS, which is for clusters.
    HotKeysSlots => "ERR SLOTS parameter cannot be used in non-cluster mode",
    /// CLIENT PAUSE with something that is no integer.
    TimeoutNotInteger => "ERR timeout is not an integer or out of range",
    /// A time to wait that is no number of seconds.
    TimeoutNotFloat => "ERR timeout is not a float or out of range",
    /// CLIENT UNBLOCK with ERROR, for the client that waited.
    Unblocked => "UNBLOCKED client unblocked via CLIENT UNBLOCK",
    /// A negative time.
    TimeoutNegative => "ERR timeout is negative",
    /// CLIENT CACHING without the matching tracking mode.
    CachingNeedsTracking => "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    /// CLIENT CACHING YES without OPTIN.
    CachingYesNeedsOptIn => "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
    /// CLIENT CACHING NO without OPTOUT.
    CachingNoNeedsOptOut => "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
    /// CLIENT TRACKING with several redirections.
    TrackingRedirectTwice => "ERR A client can only redirect to a single other client",
    /// CLIENT TRACKING with a redirection to nobody.
    TrackingRedirectUnknown => "ERR The client ID you want redirect to does not exist",
    /// CLIENT TRACKING PREFIX without BCAST.
    TrackingPrefixNeedsBroadcast => "ERR PREFIX option requires BCAST mode to be enabled",
    /// CLIENT TRACKING with another mode than the one that is on.
    TrackingModeSwitch => "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
    /// CLIENT TRACKING BCAST together with OPTIN or OPTOUT.
    TrackingBroadcastOptions => "ERR OPTIN and OPTOUT are not compatible with BCAST",
    /// CLIENT TRACKING OPTIN together with OPTOUT.
    TrackingOptBoth => "ERR You can't specify both OPTIN mode and OPTOUT mode",
    /// CLIENT TRACKING OPTIN while OPTOUT is on, and the other way round.
    TrackingOptSwitch => "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
    /// LCS over something that is no string.
    LcsNotStrings => "ERR The specified keys must contain string values",
    /// LCS LEN together with IDX.
    LcsLenAndIdx => "ERR If you want both the length and indexes, please just use IDX.",
    /// LCS over strings whose table would exceed `proto-max-bulk-len`.
    LcsTooLarge => "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
    /// IFDEQ and IFDNE with something that is no digest.
    InvalidDigest => "ERR must be exactly 16 hexadecimal characters",
    /// A count of keys that is no positive integer.
    KeyCountNotPositive => "ERR numkeys should be greater than 0",
    /// A count of keys beyond the arguments.
    TooManyKeys => "ERR Number of keys can't be greater than number of args",
    /// MSETEX with a bad count of keys.
    InvalidKeyCount => "ERR invalid numkeys value",
    /// EXPIRE NX together with another condition.
    ExpireNxWithOthers => "ERR NX and XX, GT or LT options at the same time are not compatible",
    /// EXPIRE GT together with LT.
    ExpireGtWithLt => "ERR GT and LT options at the same time are not compatible",
    /// COPY and MOVE of a key onto itself.
    SameObject => "ERR source and destination objects are the same",
    /// SCAN with something that is no cursor.
    InvalidCursor => "ERR invalid cursor",
    /// OBJECT FREQ under a policy that does not count accesses.
    FrequencyNotTracked => "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
    /// OBJECT IDLETIME under a policy that counts accesses.
    IdleTimeNotTracked => "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
    /// RESTORE onto a key that exists.
    BusyKey => "BUSYKEY Target key name already exists.",
    /// RESTORE with a negative TTL.
    InvalidTimeToLive => "ERR Invalid TTL value, must be >= 0",
    /// RESTORE IDLETIME with a negative time.
    InvalidIdleTime => "ERR Invalid IDLETIME value, must be >= 0",
    /// RESTORE FREQ with something that is no byte.
    InvalidFrequency => "ERR Invalid FREQ value, must be >= 0 and <= 255",
    /// RESTORE of a payload whose footer is wrong.
    DumpNotVerified => "ERR DUMP payload version or checksum are wrong",
    /// RESTORE of a payload whose footer is right and whose value is not.
    DumpMalformed => "ERR Bad data format",
    /// WAITAOF for a file that does not exist.
    WaitWithoutAppendOnly => "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
    /// SETBIT, GETBIT, BITFIELD with an offset that is no integer, negative or beyond the longest string.
    BitOffset => "ERR bit offset is not an integer or out of range",
    /// SETBIT of something that is no bit.
    NotABit => "ERR bit is not an integer or out of range",
    /// BITPOS of something that is no bit.
    NotABitToFind => "ERR The bit argument must be 1 or 0.",
    /// BITOP NOT of several keys.
    BitopNotManyKeys => "ERR BITOP NOT must be called with a single source key.",
    /// BITFIELD with a type that does not exist.
    BitfieldType => "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
    /// BITFIELD OVERFLOW with a behaviour that does not exist.
    BitfieldOverflow => "ERR Invalid OVERFLOW type specified",
    /// BITFIELD_RO that writes.
    BitfieldReadOnly => "ERR BITFIELD_RO only supports the GET subcommand",
    /// SORT by numbers that are none.
    NotSortable => "ERR One or more scores can't be converted into double",
    /// A unit of length that does not exist.
    UnknownUnit => "ERR unsupported unit provided. please use M, KM, FT, MI",
    /// GEORADIUS and its relatives with a radius that is no number.
    RadiusNotNumeric => "ERR need numeric radius",
    /// With a radius below zero.
    RadiusNegative => "ERR radius cannot be negative",
    /// GEOSEARCH BYBOX with a width that is no number.
    WidthNotNumeric => "ERR need numeric width",
    /// With a height that is no number.
    HeightNotNumeric => "ERR need numeric height",
    /// With one of them below zero.
    SizeNegative => "ERR height or width cannot be negative",
    /// GEOSEARCH BYPOLYGON with a number of vertices that is none.
    VerticesNotANumber => "ERR invalid number of vertices",
    /// With fewer vertices than a polygon has.
    TooFewVertices => "ERR GEOSEARCH BYPOLYGON must have at least 3 vertices",
    /// A search around a member that is not there.
    MemberNotDecoded => "ERR could not decode requested zset member",
    /// A search for no member, or fewer.
    GeoCountNotPositive => "ERR COUNT must be > 0",
    /// A search with ANY alone.
    AnyWithoutCount => "ERR the ANY argument requires COUNT argument",
    /// GEORADIUS that both stores and answers more than members.
    GeoRadiusStoreWith => "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
    /// GEOSEARCHSTORE that is to answer more.
    GeoSearchStoreWith => "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
    /// An entity tag that is no number, or negative. The prefix is Garnet's.
    InvalidEtag => "ETAG must be a numerical value greater than or equal to 0",
    /// INCREX whose lower bound exceeds the upper one.
    BoundsCrossed => "ERR LBOUND can't be greater than UBOUND",
    /// SWAPDB with a first database that is no integer.
    InvalidFirstDatabase => "ERR invalid first DB index",
    /// SWAPDB with a second database that is no integer.
    InvalidSecondDatabase => "ERR invalid second DB index",
    /// COMMAND GETKEYS of a command that does not exist.
    NoSuchCommand => "ERR Invalid command specified",
    /// COMMAND GETKEYS of a command without keys.
    CommandWithoutKeys => "ERR The command has no key arguments",
    /// COMMAND GETKEYS of a call with a wrong number of arguments.
    CommandArity => "ERR Invalid number of arguments specified for command",
    /// COMMAND GETKEYS of a call whose keys cannot be found.
    CommandArguments => "ERR Invalid arguments specified for command",
    /// SLOWLOG GET with a bad number of entries.
    LogCount => "ERR count should be greater than or equal to -1",
    /// COMMANDLOG with a log that does not exist.
    CommandLogType => "ERR type should be one of the following: slow, large-request, large-reply",
    /// SHUTDOWN ABORT without a shutdown.
    NoShutdown => "ERR No shutdown in progress.",
    /// SHUTDOWN SAVE that could not save.
    ShutdownFailed => "ERR Errors trying to SHUTDOWN. Check logs.",
    /// REPLICAOF with a bad port.
    PrimaryPort => "ERR Invalid master port",
    /// FUNCTION FLUSH with another word than ASYNC and SYNC.
    FunctionFlushMode => "ERR FUNCTION FLUSH only supports SYNC|ASYNC option",
    /// FUNCTION LIST LIBRARYNAME without a name.
    FunctionListName => "ERR library name argument was not given",
    /// FUNCTION DELETE of a library that does not exist.
    NoSuchLibrary => "ERR Library not found",
    /// FUNCTION RESTORE with a policy that does not exist.
    FunctionRestorePolicy => "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
    /// FUNCTION KILL and SCRIPT KILL while nothing runs.
    NothingRuns => "NOTBUSY No scripts in execution right now.",
    /// SCRIPT FLUSH with another word than ASYNC and SYNC.
    ScriptFlushMode => "ERR SCRIPT FLUSH only support SYNC|ASYNC option",
    /// SCRIPT DEBUG with another word than YES, SYNC and NO.
    ScriptDebugMode => "ERR Use SCRIPT DEBUG YES/SYNC/NO",
    /// DEBUG PROTOCOL PUSH in RESP2.
    NeedsResp3 => "ERR RESP2 is not supported by this command",
    /// DEBUG PROTOCOL with a type that does not exist.
    ProtocolType => "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
}

// The pointer of `Text` and a tag: an outcome is returned in two registers.
const _: () = assert!(size_of::<Outcome>() == 16);

impl CommandError {
    /// An error whose text is put together. `text` starts with the prefix, as in `ERR …`.
    #[cold]
    #[must_use]
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Self::Text(Box::new(text.into()))
    }

    /// `before`, the beginning of a client's own words, `after`.
    fn quoting(before: &str, words: &[u8], after: &str) -> Self {
        Self::new([before.as_bytes(), &repeated(words, REPEATED_BYTES_MAX), after.as_bytes()].concat())
    }

    /// `before` and all of `words`.
    fn quoting_whole(before: &str, words: &[u8]) -> Self {
        Self::new([before.as_bytes(), &repeated(words, usize::MAX)].concat())
    }

    /// The error line for people.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl std::error::Error for CommandError {}

impl From<Missing> for CommandError {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Cold => Self::Cold,
            Missing::Unreadable => Self::StorageUnreadable,
        }
    }
}

impl From<WrongKind> for CommandError {
    fn from(_: WrongKind) -> Self {
        Self::WrongType
    }
}

impl From<Refusal> for CommandError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WrongKind => Self::WrongType,
            Refusal::Missing(missing) => missing.into(),
            Refusal::Full => Self::OutOfMemory,
        }
    }
}

impl From<Corrupted> for CommandError {
    fn from(_: Corrupted) -> Self {
        Self::CorruptedHyperLogLog
    }
}

impl From<Full> for CommandError {
    fn from(_: Full) -> Self {
        Self::OutOfMemory
    }
}

/// Most bytes of a client's own words that an error repeats.
const REPEATED_BYTES_MAX: usize = 128;

/// EXEC cannot run, for a reason that came up after the commands were queued.
#[must_use]
pub fn transaction_aborted(reason: &CommandError) -> CommandError {
    let reason = reason.text();
    CommandError::new(format!("EXECABORT Transaction discarded because of: {}", reason.strip_prefix("ERR ").unwrap_or(&reason)))
}

/// A name that no command has, with the first arguments, as the client sent them.
#[cold]
#[must_use]
pub fn unknown_command(args: Args<'_>) -> CommandError {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(&repeated(&args[0], REPEATED_BYTES_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let beginning = text.len();
    for argument in args.iter().skip(1) {
        let written = text.len() - beginning;
        if written >= REPEATED_BYTES_MAX {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(&repeated(argument, REPEATED_BYTES_MAX - written));
        text.extend_from_slice(b"' ");
    }
    CommandError::new(text)
}

/// A name that no subcommand of `container` has.
#[cold]
#[must_use]
pub fn unknown_subcommand(container: &str, name: &[u8]) -> CommandError {
    CommandError::quoting("ERR unknown subcommand '", name, &format!("'. Try {} HELP.", container.to_ascii_uppercase()))
}

/// A command to a RESP2 connection that listens, where replies cannot be told from messages. `command` is the full name in lower case.
#[cold]
#[must_use]
pub fn only_listens(command: &str) -> CommandError {
    let allowed = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
    CommandError::new(format!("ERR Can't execute '{command}': {allowed}"))
}

/// A wrong number of arguments. `command` is the full name in lower case, as in `client|kill`.
#[cold]
#[must_use]
pub fn wrong_arity(command: &str) -> CommandError {
    CommandError::new(format!("ERR wrong number of arguments for '{command}' command"))
}

/// An expiry that is zero, negative or too far away, for `command` in lower case.
#[cold]
#[must_use]
pub fn invalid_expiry(command: &str) -> CommandError {
    CommandError::new(format!("ERR invalid expire time in '{command}' command"))
}

/// An option of EXPIRE that does not exist.
#[cold]
#[must_use]
pub fn unsupported_option(option: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unsupported option ", option, "")
}

/// BITOP over fewer keys than the operation takes.
#[cold]
#[must_use]
pub fn bitop_few_keys(operation: &str) -> CommandError {
    CommandError::new(format!("ERR BITOP {operation} must be called with at least two source keys."))
}

/// A position beyond the map.
#[cold]
#[must_use]
pub fn invalid_position(longitude: f64, latitude: f64) -> CommandError {
    CommandError::new(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"))
}

/// GEOSEARCH or GEOSEARCHSTORE, as the client spells it, that does not say around what.
#[cold]
#[must_use]
pub fn search_without_centre(command: &[u8]) -> CommandError {
    CommandError::quoting("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ", command, "")
}

/// That does not say how far.
#[cold]
#[must_use]
pub fn search_without_shape(command: &[u8]) -> CommandError {
    CommandError::quoting("ERR exactly one of BYRADIUS and BYBOX can be specified for ", command, "")
}

/// PFDEBUG with a subcommand that does not exist.
#[cold]
#[must_use]
pub fn unknown_pfdebug(name: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown PFDEBUG subcommand '", name, "'")
}

/// An option of HELLO that does not exist.
#[cold]
#[must_use]
pub fn hello_option(option: &[u8]) -> CommandError {
    CommandError::quoting("ERR Syntax error in HELLO option '", option, "'")
}

/// A user that does not exist, in a filter of CLIENT KILL.
#[cold]
#[must_use]
pub fn no_such_user(user: &[u8]) -> CommandError {
    CommandError::quoting("ERR No such user '", user, "'")
}

/// A client type that does not exist.
#[cold]
#[must_use]
pub fn unknown_client_type(kind: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown client type '", kind, "'")
}

/// Flags of clients that do not exist, in a filter.
#[cold]
#[must_use]
pub fn unknown_client_flags(flags: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown flags found in the provided filter: ", flags, "")
}

/// Capabilities of clients that do not exist, in a filter.
#[cold]
#[must_use]
pub fn unknown_client_capability(capabilities: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown capa found in the provided filter: ", capabilities, "")
}

/// A database beyond the last one, in a filter of clients.
#[cold]
#[must_use]
pub fn database_beyond(last: usize) -> CommandError {
    CommandError::new(format!("ERR DB number should be between 0 and {last}"))
}

/// CLIENT SETINFO with an attribute that does not exist.
#[cold]
#[must_use]
pub fn unknown_client_attribute(attribute: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unrecognized option '", attribute, "'")
}

/// CLIENT SETINFO with a value that contains spaces or control characters.
#[cold]
#[must_use]
pub fn invalid_client_attribute(attribute: &str) -> CommandError {
    CommandError::new(format!("ERR {attribute} cannot contain spaces, newlines or special characters."))
}

/// A subcommand of `container` that does not exist, or does not take these arguments.
#[cold]
#[must_use]
pub fn subcommand_syntax(container: &str, name: &[u8]) -> CommandError {
    CommandError::quoting("ERR unknown subcommand or wrong number of arguments for '", name, &format!("'. Try {container} HELP."))
}

/// A command that the configuration does not allow; `parameter` would.
#[cold]
#[must_use]
pub fn protected_command(command: &str, parameter: &str) -> CommandError {
    CommandError::new(format!(
        "ERR {command} command not allowed. If the {parameter} option is set to \"local\", you can run it from a local connection, \
         otherwise you need to set this option in the configuration file, and then restart the server."
    ))
}

/// A command whose effect does not exist yet, and why.
#[cold]
#[must_use]
pub fn not_supported_yet(command: &str, reason: &str) -> CommandError {
    CommandError::new(format!("ERR {command} is not supported yet: {reason}"))
}

/// CLIENT TRACKING with a prefix of a prefix; `other` says which.
#[cold]
#[must_use]
pub fn prefixes_overlap(prefix: &[u8], which: &str, other: &[u8]) -> CommandError {
    let words = [b"ERR Prefix '", prefix, b"' overlaps with ", which.as_bytes(), b" prefix '", other];
    CommandError::new([&words.concat()[..], b"'. Prefixes for a single client must not overlap."].concat())
}

/// A problem of CONFIG SET or REWRITE.
#[cold]
#[must_use]
pub fn configuration(problem: &dyn fmt::Display) -> CommandError {
    CommandError::new(format!("ERR {problem}"))
}

/// LATENCY GRAPH of an event without samples.
#[cold]
#[must_use]
pub fn no_latency_samples(event: &[u8]) -> CommandError {
    CommandError::quoting("ERR No samples available for event '", event, "'")
}

/// FUNCTION LIST with an argument that it does not take.
#[cold]
#[must_use]
pub fn unknown_argument(argument: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown argument ", argument, "")
}

/// HGETEX or HSETEX with an argument that it does not take.
#[cold]
#[must_use]
pub fn unknown_field_option(argument: &[u8]) -> CommandError {
    CommandError::quoting("ERR unknown argument: ", argument, "")
}

/// ZUNION and its relatives of no key. `command` is the name in lower case.
#[cold]
#[must_use]
pub fn input_keys_missing(command: &str) -> CommandError {
    CommandError::new(format!("ERR at least 1 input key is needed for '{command}' command"))
}

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
pub fn unknown_stream_option(command: &str, option: &[u8]) -> CommandError {
    CommandError::quoting(&format!("ERR Unrecognized {command} option '"), option, "'")
}

/// A command that the user may not run. `command` is the full name in lower case.
#[cold]
#[must_use]
pub fn command_denied(command: &str) -> CommandError {
    CommandError::new(format!("NOPERM this user has no permissions to run the '{command}' command"))
}

/// A queued command that EXEC may not run any more.
#[cold]
#[must_use]
pub fn denied_since_queued(reason: &str) -> CommandError {
    CommandError::new(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer \
         allowed for the following reason: {reason}"
    ))
}

/// Rules of ACL SETUSER or of a file that are wrong; `problem` says how.
#[cold]
#[must_use]
pub fn acl_rules(problem: &[u8]) -> CommandError {
    CommandError::quoting_whole("ERR ", problem)
}

/// ACL DRYRUN of a user that does not exist.
#[cold]
#[must_use]
pub fn dryrun_user(name: &[u8]) -> CommandError {
    CommandError::quoting("ERR User '", name, "' not found")
}

/// ACL DRYRUN of a command that does not exist.
#[cold]
#[must_use]
pub fn dryrun_command(name: &[u8]) -> CommandError {
    CommandError::quoting("ERR Command '", name, "' not found")
}

/// ACL CAT of a category that does not exist.
#[cold]
#[must_use]
pub fn unknown_category(name: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown category '", name, "'")
}

/// A value longer than `proto-max-bulk-len`, or anything else that would be a protocol violation in a reply line, is cut and made
/// printable: line ends become spaces.
fn repeated(bytes: &[u8], bytes_max: usize) -> Vec<u8> {
    let cut = &bytes[..bytes.len().min(bytes_max)];
    let printable = cut.iter().take_while(|byte| **byte != 0);
    printable.map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}
