//! The server: logs, HOTKEYS, COMMAND, CONFIG, DEBUG, functions, shutdown.

use std::fmt;

use super::CommandError;

/// DEBUG STORAGE without a device.
pub const NO_STORAGE_DEVICE: CommandError = CommandError::Fixed(&"ERR There is no storage device");
/// DEBUG STORAGE EVICT whose time is over.
pub const STORAGE_DEVICE_SLOW: CommandError = CommandError::Fixed(&"ERR The storage device has not taken all data in time");
/// HOTKEYS START while it is on.
pub const HOT_KEYS_ACTIVE: CommandError = CommandError::Fixed(&"ERR hotkey tracking session already in progress");
/// HOTKEYS RESET while it is on.
pub const HOT_KEYS_NOT_STOPPED: CommandError = CommandError::Fixed(&"ERR hotkey tracking session in progress, stop tracking first");
/// HOTKEYS START without METRICS.
pub const HOT_KEYS_METRICS_MISSING: CommandError = CommandError::Fixed(&"ERR METRICS parameter is required");
/// HOTKEYS START with another number of metrics than there are.
pub const HOT_KEYS_METRICS_COUNT: CommandError = CommandError::Fixed(&"ERR METRICS count must be > 0 and <= 2");
/// HOTKEYS START with fewer metrics than announced.
pub const HOT_KEYS_METRICS_TOO_FEW: CommandError =
    CommandError::Fixed(&"ERR METRICS count does not match number of metric types provided");
/// HOTKEYS START without a metric that is known.
pub const HOT_KEYS_METRICS_UNKNOWN: CommandError = CommandError::Fixed(&"ERR METRICS no valid metrics passed. Supported: CPU|NET");
/// HOTKEYS START with CPU twice.
pub const HOT_KEYS_CPU_TWICE: CommandError = CommandError::Fixed(&"ERR METRICS CPU defined more than once!");
/// HOTKEYS START with NET twice.
pub const HOT_KEYS_NET_TWICE: CommandError = CommandError::Fixed(&"ERR METRICS NET defined more than once!");
/// HOTKEYS START COUNT out of range.
pub const HOT_KEYS_COUNT: CommandError = CommandError::Fixed(&"ERR COUNT must be between 1 and 64");
/// HOTKEYS START DURATION out of range.
pub const HOT_KEYS_DURATION: CommandError = CommandError::Fixed(&"ERR DURATION must be between 1 and 1000000");
/// HOTKEYS START SAMPLE out of range.
pub const HOT_KEYS_SAMPLE: CommandError = CommandError::Fixed(&"ERR SAMPLE ratio must be positive");
/// HOTKEYS START SLOTS, which is for clusters.
pub const HOT_KEYS_SLOTS: CommandError = CommandError::Fixed(&"ERR SLOTS parameter cannot be used in non-cluster mode");
/// COMMAND GETKEYS of a command that does not exist.
pub const NO_SUCH_COMMAND: CommandError = CommandError::Fixed(&"ERR Invalid command specified");
/// COMMAND GETKEYS of a command without keys.
pub const COMMAND_WITHOUT_KEYS: CommandError = CommandError::Fixed(&"ERR The command has no key arguments");
/// COMMAND GETKEYS of a call with a wrong number of arguments.
pub const COMMAND_ARITY: CommandError = CommandError::Fixed(&"ERR Invalid number of arguments specified for command");
/// COMMAND GETKEYS of a call whose keys cannot be found.
pub const COMMAND_ARGUMENTS: CommandError = CommandError::Fixed(&"ERR Invalid arguments specified for command");
/// SLOWLOG GET with a bad number of entries.
pub const LOG_COUNT: CommandError = CommandError::Fixed(&"ERR count should be greater than or equal to -1");
/// COMMANDLOG with a log that does not exist.
pub const COMMAND_LOG_TYPE: CommandError =
    CommandError::Fixed(&"ERR type should be one of the following: slow, large-request, large-reply");
/// SHUTDOWN ABORT without a shutdown.
pub const NO_SHUTDOWN: CommandError = CommandError::Fixed(&"ERR No shutdown in progress.");
/// SHUTDOWN SAVE that could not save.
pub const SHUTDOWN_FAILED: CommandError = CommandError::Fixed(&"ERR Errors trying to SHUTDOWN. Check logs.");
/// CONFIG SET appendonly within EXEC.
pub const LOG_IN_TRANSACTION: CommandError = CommandError::Fixed(
    &"ERR CONFIG SET failed (possibly related to argument 'appendonly') - The log is not turned on or off within a transaction. \
      Send it outside of MULTI.",
);
/// SAVE and BGSAVE while a snapshot is written in the background.
pub const SAVE_RUNS: CommandError = CommandError::Fixed(&"ERR Background save already in progress");
/// BGSAVE while the log is rewritten.
pub const REWRITE_ACTIVE: CommandError = CommandError::Fixed(
    &"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a BGSAVE \
      whenever possible.",
);
/// BGREWRITEAOF while it is done.
pub const REWRITE_RUNS: CommandError = CommandError::Fixed(&"ERR Background append only file rewriting already in progress");
/// BGREWRITEAOF while the log's files belong to a backup.
pub const BACKUP_ACTIVE: CommandError =
    CommandError::Fixed(&"ERR A backup is in progress: the log is rewritten behind BACKUP SEAL or BACKUP ABORT");
/// BGSAVE CANCEL without a snapshot to end.
pub const NO_SAVE: CommandError = CommandError::Fixed(&"ERR Background saving is currently not in progress or scheduled");
/// SAVE that could not save.
pub const SAVE_FAILED: CommandError = CommandError::Fixed(&"ERR The snapshot could not be written, see the log");
/// DEBUG RELOAD with another word than it takes.
pub const RELOAD_OPTIONS: CommandError =
    CommandError::Fixed(&"ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
/// DEBUG RELOAD in a transaction, which keeps all others out while it waits for them.
pub const RELOAD_IN_TRANSACTION: CommandError = CommandError::Fixed(&"ERR DEBUG RELOAD is not allowed in a transaction");
/// DEBUG RELOAD that could not load.
pub const RELOAD_FAILED: CommandError = CommandError::Fixed(&"ERR Error trying to load the RDB dump, check server logs.");
/// COMMITAOF without a log.
pub const COMMIT_WITHOUT_LOG: CommandError = CommandError::Fixed(&"ERR COMMITAOF cannot be used when appendonly is disabled");
/// CLIENT UNBLOCK of a client that waits for BACKUP SEAL.
pub const BACKUP_UNSEALED: CommandError =
    CommandError::Fixed(&"ERR the backup is not sealed yet; it will be, and BACKUP STATUS tells when it is");
/// COMMITAOF while the log is broken, or before its time.
pub const COMMIT_FAILED: CommandError =
    CommandError::Fixed(&"ERR The log of writes could not be made durable, see the server's log");
/// DEBUG LOADAOF in a transaction.
pub const LOADAOF_IN_TRANSACTION: CommandError = CommandError::Fixed(&"ERR DEBUG LOADAOF is not allowed in a transaction");
/// DEBUG LOADAOF that could not load.
pub const LOADAOF_FAILED: CommandError = CommandError::Fixed(&"ERR Error trying to load the AOF files, check server logs.");
/// REPLICAOF with a bad port.
pub const PRIMARY_PORT: CommandError = CommandError::Fixed(&"ERR Invalid master port");
/// FUNCTION FLUSH with another word than ASYNC and SYNC.
pub const FUNCTION_FLUSH_MODE: CommandError = CommandError::Fixed(&"ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
/// FUNCTION LIST LIBRARYNAME without a name.
pub const FUNCTION_LIST_NAME: CommandError = CommandError::Fixed(&"ERR library name argument was not given");
/// FUNCTION DELETE of a library that does not exist.
pub const NO_SUCH_LIBRARY: CommandError = CommandError::Fixed(&"ERR Library not found");
/// FUNCTION RESTORE with a policy that does not exist.
pub const FUNCTION_RESTORE_POLICY: CommandError =
    CommandError::Fixed(&"ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
/// DEBUG PROTOCOL PUSH in RESP2.
pub const NEEDS_RESP3: CommandError = CommandError::Fixed(&"ERR RESP2 is not supported by this command");
/// DEBUG PROTOCOL with a type that does not exist.
pub const PROTOCOL_TYPE: CommandError = CommandError::Fixed(
    &"ERR Wrong protocol type name. Please use one of the following: \
      string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);

/// A command that the configuration does not allow; `parameter` would.
#[cold]
#[must_use]
pub fn protected_command(command: &str, parameter: &str) -> CommandError {
    CommandError::new(format!(
        "ERR {command} command not allowed. If the {parameter} option is set to \"local\", you can run it from a local connection, \
         otherwise you need to set this option in the configuration file, and then restart the server."
    ))
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
