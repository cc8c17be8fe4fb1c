//! SCRIPT: the cache of scripts, and the end of one that runs.

use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, ReadCall, Word, errors, footprint, help};
use almandine_script::{Footprint, KillRefused, Program, ProgramKind};

pub(super) const COMMANDS: &[&Command] = &[&SCRIPT, &DEBUG, &EXISTS, &FLUSH, &HELP, &KILL, &LOAD, &SHOW];

const SCRIPT: Command = Command {
    spec: CommandSpec {
        name: "SCRIPT",
        id: 486,
        since: "2.6.0",
        complexity: "Depends on subcommand.",
        summary: "A container for Lua scripts management commands.",
        group: Group::Scripting,
        subcommands: &[&DEBUG.spec, &EXISTS.spec, &FLUSH.spec, &HELP.spec, &KILL.spec, &LOAD.spec, &SHOW.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

/// What the subcommands have in common.
const SUBCOMMAND: CommandSpec = CommandSpec {
    since: "2.6.0",
    group: Group::Scripting,
    traits: Traits { noscript: true, ..Traits::NONE },
    ..CommandSpec::BLANK
};

const DEBUG: Command = Command {
    spec: CommandSpec {
        name: "SCRIPT|DEBUG",
        id: 487,
        since: "3.2.0",
        summary: "Sets the debug mode of server-side Lua scripts.",
        args: &[Arg::one_of(
            "mode",
            &[Arg::pure_token("yes", "YES"), Arg::pure_token("sync", "SYNC"), Arg::pure_token("no", "NO")],
        )],
        ..SUBCOMMAND
    },
    run: Handler::Admin(debug),
};

fn debug(call: &mut AdminCall<'_>) -> Outcome {
    match Word(call.args.at(2)) {
        word if word.is("NO") => call.reply.ok(),
        word if word.is("YES") || word.is("SYNC") => {
            return Err(errors::not_supported_yet("SCRIPT DEBUG", "there is no debugger").into());
        }
        _ => return Err(errors::script::DEBUG_MODE.into()),
    }
    Ok(())
}

const EXISTS: Command = Command {
    spec: CommandSpec {
        name: "SCRIPT|EXISTS",
        id: 488,
        complexity: "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
        summary: "Determines whether server-side Lua scripts exist in the script cache.",
        args: &[Arg::value("sha1").multiple()],
        tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
        ..SUBCOMMAND
    },
    run: Handler::Read(exists),
};

fn exists(call: &mut ReadCall<'_>) -> Outcome {
    let scripts = call.args.slice_from(2);
    call.reply.array(scripts.len());
    scripts.iter().for_each(|digits| call.reply.integer(call.context.instance.scripts.contains(digits).into()));
    Ok(())
}

const FLUSH: Command = Command {
    spec: CommandSpec {
        name: "SCRIPT|FLUSH",
        id: 489,
        complexity: "O(N) with N being the number of scripts in cache",
        summary: "Removes all server-side Lua scripts from the script cache.",
        args: &[Arg::one_of("flush-type", &[Arg::pure_token("async", "ASYNC"), Arg::pure_token("sync", "SYNC")])
            .optional()
            .since("6.2.0")],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        history: &[("6.2.0", "Added the `ASYNC` and `SYNC` flushing mode modifiers.")],
        ..SUBCOMMAND
    },
    run: Handler::Admin(flush),
};

fn flush(call: &mut AdminCall<'_>) -> Outcome {
    match call.args.get(2).map(Word) {
        None => {}
        Some(word) if call.args.len() == 3 && (word.is("ASYNC") || word.is("SYNC")) => {}
        Some(_) => return Err(errors::script::FLUSH_MODE.into()),
    }
    call.context.instance.scripts.flush();
    call.reply.ok();
    Ok(())
}

const HELP: Command = help::command("SCRIPT|HELP", 490, CommandSpec { since: "5.0.0", ..SUBCOMMAND });

const KILL: Command = Command {
    spec: CommandSpec {
        name: "SCRIPT|KILL",
        id: 491,
        summary: "Terminates a server-side Lua script during execution.",
        traits: Traits { noscript: true, allow_busy: true, ..Traits::NONE },
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| kill(call, ProgramKind::Script)),
};

/// Ends what runs for too long.
pub(crate) fn kill(call: &mut AdminCall<'_>, kind: ProgramKind) -> Outcome {
    let refusal = match call.context.instance.scripts.running.kill(kind) {
        Ok(()) => {
            call.reply.ok();
            return Ok(());
        }
        Err(KillRefused::NothingRuns) => errors::script::NOTHING_RUNS,
        Err(KillRefused::HasWritten) => errors::script::UNKILLABLE,
        Err(KillRefused::OtherKind(ProgramKind::Script)) => errors::script::BUSY_SCRIPT,
        Err(KillRefused::OtherKind(ProgramKind::Function)) => errors::script::BUSY_FUNCTION,
    };
    Err(refusal.into())
}

const LOAD: Command = Command {
    spec: CommandSpec {
        name: "SCRIPT|LOAD",
        id: 492,
        complexity: "O(N) with N being the length in bytes of the script body.",
        summary: "Loads a server-side Lua script to the script cache.",
        args: &[Arg::value("script")],
        traits: Traits { noscript: true, stale: true, ..Traits::NONE },
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let script = call.context.instance.scripts.load(call.args.at(2)).map_err(|error| CommandError::new(error.0))?;
        call.reply.bulk(&script.sha.hex());
        Ok(())
    }),
};

const SHOW: Command = Command {
    spec: CommandSpec {
        name: "SCRIPT|SHOW",
        id: 497,
        since: "8.0.0",
        summary: "Show server-side Lua script in the script cache.",
        args: &[Arg::value("sha1"), Arg::pure_token("class", "CLASS").optional()],
        ..SUBCOMMAND
    },
    run: Handler::Read(show),
};

/// The text of a script; or whether it runs beside others, and if not, which line is why.
fn show(call: &mut ReadCall<'_>) -> Outcome {
    let script = call.context.instance.scripts.find(call.args.at(2)).ok_or(errors::script::NO_SUCH_SCRIPT)?;
    match call.args.get(3).map(Word) {
        None => call.reply.bulk(&script.text),
        Some(word) if word.is("CLASS") && call.args.len() == 4 => show_class(call, &Program::Script(script)),
        Some(_) => return Err(CommandError::Syntax.into()),
    }
    Ok(())
}

fn show_class(call: &mut ReadCall<'_>, script: &Program) {
    let reply = &mut call.reply;
    match footprint::of(script, call.context.table) {
        Footprint::Any(unseen) => {
            reply.map(3);
            reply.bulk(b"class");
            reply.bulk(b"alone");
            reply.bulk(b"line");
            reply.integer(unseen.line.into());
            reply.bulk(b"why");
            reply.bulk(unseen.what.as_bytes());
        }
        Footprint::Declared { keys, constants, writes, grows, .. } => {
            reply.map(if grows.is_some() { 6 } else { 4 });
            reply.bulk(b"class");
            reply.bulk(if grows.is_some() { b"growing" } else { b"parallel" });
            if let Some(unseen) = grows {
                reply.bulk(b"line");
                reply.integer(unseen.line.into());
                reply.bulk(b"why");
                reply.bulk(unseen.what.as_bytes());
            }
            reply.bulk(b"declared-keys");
            reply.integer((*keys).into());
            reply.bulk(b"further-keys");
            reply.array(constants.len());
            constants.iter().for_each(|key| reply.bulk(key));
            reply.bulk(b"writes");
            reply.integer((*writes).into());
        }
    }
}
