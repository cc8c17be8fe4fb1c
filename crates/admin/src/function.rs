//! FUNCTION: there is no library, and none can be loaded yet. All answers are those of a server that holds none.

use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_commands::payload;
use almandine_handler::{AdminCall, Command, Handler, Outcome, ReadCall, Word, errors, help};

pub(super) const COMMANDS: &[&Command] = &[&FUNCTION, &DELETE, &DUMP, &FLUSH, &HELP, &KILL, &LIST, &LOAD, &RESTORE, &STATS];

const FUNCTION: Command = Command {
    spec: CommandSpec {
        name: "FUNCTION",
        id: 476,
        since: "7.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for function commands.",
        group: Group::Scripting,
        subcommands: &[
            &DELETE.spec,
            &DUMP.spec,
            &FLUSH.spec,
            &HELP.spec,
            &KILL.spec,
            &LIST.spec,
            &LOAD.spec,
            &RESTORE.spec,
            &STATS.spec,
        ],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

/// What the subcommands have in common.
const SUBCOMMAND: CommandSpec = CommandSpec {
    since: "7.0.0",
    group: Group::Scripting,
    traits: Traits { noscript: true, ..Traits::NONE },
    ..CommandSpec::BLANK
};

const WRITE: Traits = Traits { write: true, noscript: true, ..Traits::NONE };
const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

const DELETE: Command = Command {
    spec: CommandSpec {
        name: "FUNCTION|DELETE",
        id: 477,
        summary: "Deletes a library and its functions.",
        args: &[Arg::value("library-name")],
        traits: WRITE,
        tips: ALL_SHARDS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(|_| Err(errors::server::NO_SUCH_LIBRARY.into())),
};

const DUMP: Command = Command {
    spec: CommandSpec {
        name: "FUNCTION|DUMP",
        id: 478,
        complexity: "O(N) where N is the number of functions",
        summary: "Dumps all libraries into a serialized binary payload.",
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        call.reply.bulk(&payload::nothing());
        Ok(())
    }),
};

const FLUSH: Command = Command {
    spec: CommandSpec {
        name: "FUNCTION|FLUSH",
        id: 479,
        complexity: "O(N) where N is the number of functions deleted",
        summary: "Deletes all libraries and functions.",
        args: &[Arg::one_of("flush-type", &[Arg::pure_token("async", "ASYNC"), Arg::pure_token("sync", "SYNC")]).optional()],
        traits: WRITE,
        tips: ALL_SHARDS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(flush),
};

fn flush(call: &mut AdminCall<'_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(errors::subcommand_syntax("FUNCTION", call.args.at(1)).into());
    }
    match call.args.get(2).map(Word) {
        None => {}
        Some(word) if word.is("ASYNC") || word.is("SYNC") => {}
        Some(_) => return Err(errors::server::FUNCTION_FLUSH_MODE.into()),
    }
    call.reply.ok();
    Ok(())
}

const HELP: Command = help::command("FUNCTION|HELP", 480, SUBCOMMAND);

const KILL: Command = Command {
    spec: CommandSpec {
        name: "FUNCTION|KILL",
        id: 481,
        summary: "Terminates a function during execution.",
        traits: Traits { noscript: true, allow_busy: true, ..Traits::NONE },
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Read(|_| Err(errors::server::NOTHING_RUNS.into())),
};

const LIST: Command = Command {
    spec: CommandSpec {
        name: "FUNCTION|LIST",
        id: 482,
        complexity: "O(N) where N is the number of functions",
        summary: "Returns information about all libraries.",
        args: &[
            Arg::value("library-name-pattern").token("LIBRARYNAME").optional(),
            Arg::pure_token("withcode", "WITHCODE").optional(),
        ],
        tips: &["nondeterministic_output_order"],
        ..SUBCOMMAND
    },
    run: Handler::Read(list),
};

/// Each argument may be given once.
fn list(call: &mut ReadCall<'_>) -> Outcome {
    let (mut with_code, mut named) = (false, false);
    let mut arguments = call.args.slice_from(2).iter();
    while let Some(argument) = arguments.next() {
        match Word(argument) {
            word if word.is("WITHCODE") && !with_code => with_code = true,
            word if word.is("LIBRARYNAME") && !named => {
                arguments.next().ok_or(errors::server::FUNCTION_LIST_NAME)?;
                named = true;
            }
            _ => return Err(errors::server::unknown_argument(argument).into()),
        }
    }
    call.reply.array(0);
    Ok(())
}

const LOAD: Command = Command {
    spec: CommandSpec {
        name: "FUNCTION|LOAD",
        id: 483,
        complexity: "O(1) (considering compilation time is redundant)",
        summary: "Creates a library.",
        args: &[Arg::pure_token("replace", "REPLACE").optional(), Arg::value("function-code")],
        traits: Traits { denyoom: true, ..WRITE },
        tips: ALL_SHARDS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(|_| Err(errors::not_supported_yet("FUNCTION LOAD", NO_ENGINE).into())),
};

/// Why nothing can be loaded.
const NO_ENGINE: &str = "there is no scripting engine";

const RESTORE: Command = Command {
    spec: CommandSpec {
        name: "FUNCTION|RESTORE",
        id: 484,
        complexity: "O(N) where N is the number of functions on the payload",
        summary: "Restores all libraries from a payload.",
        args: &[
            Arg::value("serialized-value"),
            Arg::one_of(
                "policy",
                &[Arg::pure_token("flush", "FLUSH"), Arg::pure_token("append", "APPEND"), Arg::pure_token("replace", "REPLACE")],
            )
            .optional(),
        ],
        traits: Traits { denyoom: true, ..WRITE },
        tips: ALL_SHARDS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(restore),
};

/// Only what a server without libraries dumps can be restored.
fn restore(call: &mut AdminCall<'_>) -> Outcome {
    if call.args.len() > 4 {
        return Err(errors::subcommand_syntax("FUNCTION", call.args.at(1)).into());
    }
    let known = |word: Word<'_>| ["FLUSH", "APPEND", "REPLACE"].iter().any(|policy| word.is(policy));
    if call.args.get(3).map(Word).is_some_and(|policy| !known(policy)) {
        return Err(errors::server::FUNCTION_RESTORE_POLICY.into());
    }
    if !payload::is_nothing(call.args.at(2))? {
        return Err(errors::not_supported_yet("FUNCTION RESTORE of libraries", NO_ENGINE).into());
    }
    call.reply.ok();
    Ok(())
}

const STATS: Command = Command {
    spec: CommandSpec {
        name: "FUNCTION|STATS",
        id: 485,
        summary: "Returns information about a function during execution.",
        traits: Traits { noscript: true, allow_busy: true, ..Traits::NONE },
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        ..SUBCOMMAND
    },
    run: Handler::Read(stats),
};

/// Redis' only engine is Lua: tools that read its figures find them.
fn stats(call: &mut ReadCall<'_>) -> Outcome {
    call.reply.map(2);
    call.reply.bulk(b"running_script");
    call.reply.null();
    call.reply.bulk(b"engines");
    call.reply.map(1);
    call.reply.bulk(b"LUA");
    call.reply.map(2);
    for figure in ["libraries_count", "functions_count"] {
        call.reply.bulk(figure.as_bytes());
        call.reply.integer(0);
    }
    Ok(())
}
