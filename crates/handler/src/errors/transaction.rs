//! MULTI, EXEC, DISCARD and WATCH.

use super::CommandError;

/// MULTI inside a transaction.
pub const NESTED: CommandError = CommandError::Fixed(&"ERR MULTI calls can not be nested");
/// EXEC outside of one.
pub const EXEC_ALONE: CommandError = CommandError::Fixed(&"ERR EXEC without MULTI");
/// DISCARD outside of one.
pub const DISCARD_ALONE: CommandError = CommandError::Fixed(&"ERR DISCARD without MULTI");
/// WATCH inside of one.
pub const WATCH_INSIDE: CommandError = CommandError::Fixed(&"ERR WATCH inside MULTI is not allowed");
/// A command of a transaction uses a key that the transaction has not latched.
pub const UNPLANNED: CommandError = CommandError::Fixed(&"ERR the command uses a key that it does not declare");
/// A command was refused when it was queued.
pub const REFUSED: CommandError = CommandError::Fixed(&"EXECABORT Transaction discarded because of previous errors.");
/// A command that transactions may not have.
pub const NOT_ALLOWED: CommandError = CommandError::Fixed(&"ERR Command not allowed inside a transaction");

/// EXEC cannot run, for a reason that came up after the commands were queued.
#[must_use]
pub fn aborted(reason: &CommandError) -> CommandError {
    let reason = reason.text();
    CommandError::new(format!("EXECABORT Transaction discarded because of: {}", reason.strip_prefix("ERR ").unwrap_or(&reason)))
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
