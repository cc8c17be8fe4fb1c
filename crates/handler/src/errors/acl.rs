//! Users: names, passwords and rights.

use super::CommandError;

/// A command before AUTH.
pub const AUTHENTICATION_REQUIRED: CommandError = CommandError::Fixed(&"NOAUTH Authentication required.");
/// HELLO without AUTH before authentication.
pub const HELLO_NEEDS_AUTHENTICATION: CommandError = CommandError::Fixed(
    &"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be \
      used to authenticate the client and select the RESP protocol version at the same time",
);
/// A key that the user may not use.
pub const KEY_DENIED: CommandError = CommandError::Fixed(&"NOPERM No permissions to access a key");
/// A channel that the user may not use.
pub const CHANNEL_DENIED: CommandError = CommandError::Fixed(&"NOPERM No permissions to access a channel");
/// A database that the user may not use.
pub const DATABASE_DENIED: CommandError = CommandError::Fixed(&"NOPERM No permissions to access database");
/// ACL SETUSER with a name that cannot stand in a line of rules.
pub const INVALID_USER_NAME: CommandError = CommandError::Fixed(&"ERR Usernames can't contain spaces or null characters");
/// ACL DELUSER of the user that always is.
pub const DEFAULT_USER_STAYS: CommandError = CommandError::Fixed(&"ERR The 'default' user cannot be removed");
/// ACL LOAD or SAVE without a file.
pub const NO_FILE: CommandError = CommandError::Fixed(
    &"ERR This server is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then \
      issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in the configuration.",
);
/// ACL SAVE that could not write.
pub const FILE_NOT_SAVED: CommandError =
    CommandError::Fixed(&"ERR There was an error trying to save the ACLs. Please check the server logs for more information");
/// ACL GENPASS of no bits, or too many.
pub const PASSWORD_BITS: CommandError = CommandError::Fixed(
    &"ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
);
/// ACL GENPASS where the kernel gives no random bytes.
pub const NO_ENTROPY: CommandError = CommandError::Fixed(&"ERR the system has no source of random bytes");
/// Wrong user or password.
pub const WRONG_PASSWORD: CommandError = CommandError::Fixed(&"WRONGPASS invalid username-password pair or user is disabled.");
/// AUTH password when no password is set.
pub const NO_PASSWORD_SET: CommandError = CommandError::Fixed(
    &"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
);

/// A command that `user` may not run. `command` is the full name in lower case.
#[cold]
#[must_use]
pub fn command_denied(user: &[u8], command: &str) -> CommandError {
    CommandError::quoting("NOPERM User ", user, &format!(" has no permissions to run the '{command}' command"))
}

/// Rules of ACL SETUSER or of a file that are wrong; `problem` says how.
#[cold]
#[must_use]
pub fn rules(problem: &[u8]) -> CommandError {
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
