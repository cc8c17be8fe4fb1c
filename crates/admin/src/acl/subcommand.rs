//! What the subcommands of ACL have in common.

use almandine_command_spec::{CommandSpec, Group, Traits};

use crate::operators::FOR_OPERATORS;

pub(super) const FOR_ANYBODY: Traits = Traits { admin: false, ..FOR_OPERATORS };

pub(super) const SUBCOMMAND: CommandSpec =
    CommandSpec { since: "6.0.0", group: Group::Server, traits: FOR_OPERATORS, ..CommandSpec::BLANK };
