//! SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE. Data is in memory only, so the first three refuse rather than pretend.

use almandine_command_spec::{Arg, Category, CommandSpec, Group, Traits};
use almandine_handler::{Command, CommandError, Handler, Word, errors};

use crate::operators::FOR_OPERATORS;

pub(super) const COMMANDS: &[&Command] = &[&SAVE, &BGSAVE, &BGREWRITEAOF, &LASTSAVE];

const TRAITS: Traits = Traits { loading: false, stale: false, no_async_loading: true, ..FOR_OPERATORS };

const SAVE: Command = Command {
    spec: CommandSpec {
        name: "SAVE",
        id: 447,
        complexity: "O(N) where N is the total number of keys in all databases",
        summary: "Synchronously saves the database(s) to disk.",
        group: Group::Server,
        traits: Traits { no_multi: true, ..TRAITS },
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(|_| Err(errors::not_supported_yet("SAVE", IN_MEMORY).into())),
};

/// Why nothing is saved.
const IN_MEMORY: &str = "data is in memory only";

const BGSAVE: Command = Command {
    spec: CommandSpec {
        name: "BGSAVE",
        id: 448,
        summary: "Asynchronously saves the database(s) to disk.",
        group: Group::Server,
        args: &[Arg::pure_token("schedule", "SCHEDULE").optional().since("3.2.2")],
        traits: TRAITS,
        history: &[("3.2.2", "Added the `SCHEDULE` option.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(|call| match (call.args.len(), call.args.get(1).map(Word)) {
        (1, _) => Err(errors::not_supported_yet("BGSAVE", IN_MEMORY).into()),
        (2, Some(word)) if word.is("SCHEDULE") => Err(errors::not_supported_yet("BGSAVE", IN_MEMORY).into()),
        _ => Err(CommandError::Syntax.into()),
    }),
};

const BGREWRITEAOF: Command = Command {
    spec: CommandSpec {
        name: "BGREWRITEAOF",
        id: 449,
        summary: "Asynchronously rewrites the append-only file to disk.",
        group: Group::Server,
        traits: TRAITS,
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(|_| Err(errors::not_supported_yet("BGREWRITEAOF", IN_MEMORY).into())),
};

const LASTSAVE: Command = Command {
    spec: CommandSpec {
        name: "LASTSAVE",
        id: 450,
        summary: "Returns the Unix timestamp of the last successful save to disk.",
        group: Group::Server,
        traits: Traits { loading: true, stale: true, fast: true, ..Traits::NONE },
        categories: Some(&[Category::Admin, Category::Dangerous]),
        tips: &["nondeterministic_output"],
        ..CommandSpec::BLANK
    },
    // As in Redis, the start counts as a save.
    run: Handler::Read(|call| {
        call.reply.integer(call.context.instance.run.started_ms / 1000);
        Ok(())
    }),
};
