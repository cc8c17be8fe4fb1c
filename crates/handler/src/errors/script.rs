//! Scripts: EVAL, SCRIPT, FUNCTION, and the commands that a script calls.

use super::CommandError;

/// EVALSHA of a script that is not there: clients send the script then.
pub const NO_SCRIPT: CommandError = CommandError::Fixed(&"NOSCRIPT No matching script. Please use EVAL.");
/// SCRIPT SHOW of one.
pub const NO_SUCH_SCRIPT: CommandError = CommandError::Fixed(&"NOSCRIPT No matching script.");
/// FCALL of a function that there is not.
pub const NO_SUCH_FUNCTION: CommandError = CommandError::Fixed(&"ERR Function not found");
/// FCALL with a number of keys that is none.
pub const FUNCTION_KEY_COUNT: CommandError = CommandError::Fixed(&"ERR Bad number of keys provided");
/// FUNCTION RESTORE of what is no payload of functions.
pub const NO_FUNCTIONS: CommandError = CommandError::Fixed(&"ERR given type is not a function");
/// A negative number of keys.
pub const KEY_COUNT_NEGATIVE: CommandError = CommandError::Fixed(&"ERR Number of keys can't be negative");
/// A script that may write, by a command that only reads.
pub const WRITES_BY_READER: CommandError = CommandError::Fixed(&"ERR Can not execute a script with write flag using *_ro command.");
/// A script beyond the memory limit.
pub const OUT_OF_MEMORY: CommandError =
    CommandError::Fixed(&"OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'");
/// A script calls what no command is.
pub const UNKNOWN_COMMAND: CommandError = CommandError::Fixed(&"ERR Unknown Redis command called from script");
/// A script calls a command with a wrong number of arguments.
pub const ARITY: CommandError = CommandError::Fixed(&"ERR Wrong number of args calling Redis command from script");
/// A script calls a command that is not for scripts.
pub const NOT_ALLOWED: CommandError = CommandError::Fixed(&"ERR This Redis command is not allowed from script");
/// A script that only reads calls a command that writes.
pub const READS_ONLY: CommandError = CommandError::Fixed(&"ERR Write commands are not allowed from read-only scripts.");
/// FUNCTION KILL and SCRIPT KILL while nothing runs.
pub const NOTHING_RUNS: CommandError = CommandError::Fixed(&"NOTBUSY No scripts in execution right now.");
/// SCRIPT KILL of a script that has written.
pub const UNKILLABLE: CommandError = CommandError::Fixed(
    &"UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script \
      termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
);
/// Any command while a script runs for long.
pub const BUSY_SCRIPT: CommandError =
    CommandError::Fixed(&"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
/// Any command while a function runs for long.
pub const BUSY_FUNCTION: CommandError =
    CommandError::Fixed(&"BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.");
/// SCRIPT FLUSH with another word than ASYNC and SYNC.
pub const FLUSH_MODE: CommandError = CommandError::Fixed(&"ERR SCRIPT FLUSH only support SYNC|ASYNC option");
/// SCRIPT DEBUG with another word than YES, SYNC and NO.
pub const DEBUG_MODE: CommandError = CommandError::Fixed(&"ERR Use SCRIPT DEBUG YES/SYNC/NO");

/// FUNCTION LOAD with an option that there is not.
#[cold]
#[must_use]
pub fn unknown_load_option(option: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown option given: ", option, "")
}

/// What is denied to the user of a script.
#[cold]
#[must_use]
pub fn denied(denial: &CommandError) -> CommandError {
    let text = denial.bytes();
    CommandError::new([b"ERR ACL failure in script: ", text.strip_prefix(b"NOPERM ").unwrap_or(text)].concat())
}
