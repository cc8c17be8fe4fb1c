//! MODULE: there are none, and none can be loaded.

use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_handler::{AdminCall, Command, Handler, Outcome, errors, help};

use crate::operators::FOR_OPERATORS;

pub(super) const COMMANDS: &[&Command] = &[&MODULE, &HELP, &LIST, &LOAD, &LOADEX, &UNLOAD];

const MODULE: Command = Command {
    spec: CommandSpec {
        name: "MODULE",
        id: 454,
        since: "4.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for module commands.",
        group: Group::Server,
        subcommands: &[&HELP.spec, &LIST.spec, &LOAD.spec, &LOADEX.spec, &UNLOAD.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

/// What the subcommands have in common.
const SUBCOMMAND: CommandSpec = CommandSpec {
    since: "4.0.0",
    group: Group::Server,
    traits: Traits { loading: false, stale: false, no_async_loading: true, protected: true, ..FOR_OPERATORS },
    ..CommandSpec::BLANK
};

const LIST: Command = Command {
    spec: CommandSpec {
        name: "MODULE|LIST",
        id: 455,
        complexity: "O(N) where N is the number of loaded modules.",
        summary: "Returns all loaded modules.",
        traits: Traits { admin: true, noscript: true, ..Traits::NONE },
        tips: &["nondeterministic_output_order"],
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        call.reply.array(0);
        Ok(())
    }),
};

const LOAD: Command = Command {
    spec: CommandSpec {
        name: "MODULE|LOAD",
        id: 456,
        summary: "Loads a module.",
        args: &[Arg::value("path"), Arg::value("arg").multiple().optional()],
        ..SUBCOMMAND
    },
    run: Handler::Admin(refuse),
};

const LOADEX: Command = Command {
    spec: CommandSpec {
        name: "MODULE|LOADEX",
        id: 457,
        since: "7.0.0",
        summary: "Loads a module using extended parameters.",
        args: &[
            Arg::value("path"),
            Arg::block("configs", &[Arg::value("name"), Arg::value("value")]).token("CONFIG").multiple_token().optional(),
            Arg::block("args", &[Arg::value("arg")]).token("ARGS").multiple().optional(),
        ],
        ..SUBCOMMAND
    },
    run: Handler::Admin(refuse),
};

const UNLOAD: Command = Command {
    spec: CommandSpec { name: "MODULE|UNLOAD", id: 458, summary: "Unloads a module.", args: &[Arg::value("name")], ..SUBCOMMAND },
    run: Handler::Admin(refuse),
};

/// In the words with which Redis refuses unless `enable-module-command` says otherwise; here it never does.
fn refuse(_: &mut AdminCall<'_>) -> Outcome {
    Err(errors::server::protected_command("MODULE", "enable-module-command").into())
}

const HELP: Command = help::command("MODULE|HELP", 459, CommandSpec { since: "5.0.0", ..SUBCOMMAND });
