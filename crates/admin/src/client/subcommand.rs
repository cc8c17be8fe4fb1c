//! What CLIENT's subcommands have in common.

use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_handler::{CommandError, Word};

pub(super) const ABOUT_ME: Traits = Traits { noscript: true, loading: true, stale: true, ..Traits::NONE };
pub(super) const FOR_OPERATORS: Traits = Traits { admin: true, ..ABOUT_ME };

/// What the subcommands have in common.
pub(super) const SUBCOMMAND: CommandSpec = CommandSpec { group: Group::Connection, traits: ABOUT_ME, ..CommandSpec::BLANK };

pub(super) const ON_OFF: [Arg; 2] = [Arg::pure_token("on", "ON"), Arg::pure_token("off", "OFF")];

/// `ON` or `OFF`.
pub(super) fn on_or_off(argument: &[u8]) -> Result<bool, CommandError> {
    match Word(argument) {
        word if word.is("ON") => Ok(true),
        word if word.is("OFF") => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}
