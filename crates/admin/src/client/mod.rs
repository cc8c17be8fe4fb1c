//! CLIENT: what a connection says about itself, and what operators do with connections.

mod filter;
mod identity;
mod list;
mod modes;
mod pause;
mod subcommand;
mod tracking;

use almandine_command_spec::{CommandSpec, Group};
use almandine_handler::{Command, Handler, help};

use subcommand::SUBCOMMAND;

/// CLIENT and its subcommands.
pub(crate) const COMMANDS: &[&Command] = &[
    &CLIENT,
    &tracking::CACHING,
    &modes::CAPA,
    &identity::GETNAME,
    &tracking::GETREDIR,
    &HELP,
    &identity::ID,
    &modes::IMPORT_SOURCE,
    &identity::INFO,
    &list::KILL,
    &list::LIST,
    &modes::NO_EVICT,
    &modes::NO_TOUCH,
    &pause::PAUSE,
    &modes::REPLY,
    &identity::SETINFO,
    &identity::SETNAME,
    &tracking::TRACKING,
    &tracking::TRACKINGINFO,
    &pause::UNBLOCK,
    &pause::UNPAUSE,
];

const CLIENT: Command = Command {
    spec: CommandSpec {
        name: "CLIENT",
        id: 71,
        since: "2.4.0",
        complexity: "Depends on subcommand.",
        summary: "A container for client connection commands.",
        group: Group::Connection,
        subcommands: &[
            &tracking::CACHING.spec,
            &modes::CAPA.spec,
            &identity::GETNAME.spec,
            &tracking::GETREDIR.spec,
            &HELP.spec,
            &identity::ID.spec,
            &modes::IMPORT_SOURCE.spec,
            &identity::INFO.spec,
            &list::KILL.spec,
            &list::LIST.spec,
            &modes::NO_EVICT.spec,
            &modes::NO_TOUCH.spec,
            &pause::PAUSE.spec,
            &modes::REPLY.spec,
            &identity::SETINFO.spec,
            &identity::SETNAME.spec,
            &tracking::TRACKING.spec,
            &tracking::TRACKINGINFO.spec,
            &pause::UNBLOCK.spec,
            &pause::UNPAUSE.spec,
        ],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

const HELP: Command = help::command("CLIENT|HELP", 76, CommandSpec { since: "5.0.0", ..SUBCOMMAND });
