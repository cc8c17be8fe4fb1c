//! Connections: HELLO and CLIENT.

use super::CommandError;

/// HELLO with a version that is no integer.
pub const PROTOCOL_NOT_INTEGER: CommandError = CommandError::Fixed(&"ERR Protocol version is not an integer or out of range");
/// HELLO with a version other than 2 and 3.
pub const PROTOCOL_UNSUPPORTED: CommandError = CommandError::Fixed(&"NOPROTO unsupported protocol version");
/// CLIENT SETNAME or HELLO SETNAME with spaces or control characters.
pub const INVALID_NAME: CommandError =
    CommandError::Fixed(&"ERR Client names cannot contain spaces, newlines or special characters.");
/// CLIENT KILL ID with a bad id.
pub const INVALID_ID: CommandError = CommandError::Fixed(&"ERR client-id should be greater than 0");
/// CLIENT LIST ID with something that is no integer.
pub const INVALID_ID_LIST: CommandError = CommandError::Fixed(&"ERR Invalid client ID");
/// CLIENT KILL of the old form that met no client.
pub const NO_SUCH_CLIENT: CommandError = CommandError::Fixed(&"ERR No such client");
/// CLIENT UNBLOCK with an unknown reason.
pub const UNBLOCK_REASON: CommandError = CommandError::Fixed(&"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
/// CLIENT KILL MAXAGE with something that is no integer.
pub const MAX_AGE_NOT_INTEGER: CommandError = CommandError::Fixed(&"ERR maxage is not an integer or out of range");
/// CLIENT KILL MAXAGE with zero or less.
pub const MAX_AGE_NOT_POSITIVE: CommandError = CommandError::Fixed(&"ERR maxage should be greater than 0");
/// CLIENT LIST or KILL IDLE with zero or less.
pub const IDLE_NOT_POSITIVE: CommandError = CommandError::Fixed(&"ERR idle should be greater than 0");
/// CLIENT PAUSE with an unknown mode.
pub const PAUSE_MODE: CommandError = CommandError::Fixed(&"ERR CLIENT PAUSE mode must be WRITE or ALL");
/// CLIENT IMPORT-SOURCE outside import mode.
pub const NOT_IN_IMPORT_MODE: CommandError = CommandError::Fixed(&"ERR Server is not in import mode");
/// MONITOR in a transaction.
pub const MONITOR_IN_TRANSACTION: CommandError = CommandError::Fixed(&"ERR MONITOR isn't allowed for DENY BLOCKING client");
/// A command on keys by a client that runs MONITOR.
pub const MONITOR_ON_DATA: CommandError = CommandError::Fixed(&"ERR Replica can't interact with the keyspace");

/// A command to a RESP2 connection that listens, where replies cannot be told from messages. `command` is the full name in lower
/// case.
#[cold]
#[must_use]
pub fn only_listens(command: &str) -> CommandError {
    let allowed = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
    CommandError::new(format!("ERR Can't execute '{command}': {allowed}"))
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
pub fn unknown_type(kind: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown client type '", kind, "'")
}

/// Flags of clients that do not exist, in a filter.
#[cold]
#[must_use]
pub fn unknown_flags(flags: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown flags found in the provided filter: ", flags, "")
}

/// Capabilities of clients that do not exist, in a filter.
#[cold]
#[must_use]
pub fn unknown_capability(capabilities: &[u8]) -> CommandError {
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
pub fn unknown_attribute(attribute: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unrecognized option '", attribute, "'")
}

/// CLIENT SETINFO with a value that contains spaces or control characters.
#[cold]
#[must_use]
pub fn invalid_attribute(attribute: &str) -> CommandError {
    CommandError::new(format!("ERR {attribute} cannot contain spaces, newlines or special characters."))
}
