//! FUNCTION: libraries of functions, which FCALL runs.

use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_commands::payload;
use almandine_datatypes::glob::{self, Case};
use almandine_handler::{AdminCall, Command, CommandError, Context, Handler, Outcome, ReadCall, Word, errors, help};
use almandine_io::clock;
use almandine_resp::Reply;
use almandine_script::{Library, ProgramKind, RestorePolicy, ScriptFlags};

use crate::script::kill;

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
    run: Handler::Admin(|call| {
        let name = call.args.at(2);
        let deleted = call.context.instance.scripts.libraries.delete(name);
        let change = deleted.ok_or(errors::server::NO_SUCH_LIBRARY)?;
        call.context.instance.log_library_change(call.accessor, change, &[name]);
        call.reply.ok();
        Ok(())
    }),
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
        let libraries = call.context.instance.scripts.libraries.all();
        call.reply.bulk(&payload::of_libraries(libraries.iter().map(|(_, library)| &*library.code)));
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
    if let Some(change) = call.context.instance.scripts.libraries.flush() {
        call.context.instance.log_library_change(call.accessor, change, &[[]]);
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
    run: Handler::Admin(|call| kill(call, ProgramKind::Function)),
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
    let (mut with_code, mut pattern) = (false, None);
    let mut arguments = call.args.slice_from(2).iter();
    while let Some(argument) = arguments.next() {
        match Word(argument) {
            word if word.is("WITHCODE") && !with_code => with_code = true,
            word if word.is("LIBRARYNAME") && pattern.is_none() => {
                pattern = Some(arguments.next().ok_or(errors::server::FUNCTION_LIST_NAME)?);
            }
            _ => return Err(errors::server::unknown_argument(argument).into()),
        }
    }
    let mut libraries = call.context.instance.scripts.libraries.all();
    libraries.retain(|(name, _)| pattern.is_none_or(|pattern| glob::matches(pattern, name, Case::Sensitive)));
    call.reply.array(libraries.len());
    for (name, library) in &libraries {
        call.reply.map(if with_code { 4 } else { 3 });
        describe(&mut call.reply, name, library);
        if with_code {
            call.reply.bulk(b"library_code");
            call.reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn describe(reply: &mut Reply<'_>, name: &[u8], library: &Library) {
    for (field, value) in [(&b"library_name"[..], name), (b"engine", b"LUA")] {
        reply.bulk(field);
        reply.bulk(value);
    }
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        let flags = || ScriptFlags::NAMES.iter().filter(|(_, flag)| function.flags.any(*flag));
        reply.set(flags().count());
        flags().for_each(|(name, _)| reply.simple(name));
    }
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
    run: Handler::Admin(load),
};

fn load(call: &mut AdminCall<'_>) -> Outcome {
    let last = call.args.len() - 1;
    let mut replace = false;
    for option in call.args.first(last).slice_from(2).iter() {
        if !Word(option).is("REPLACE") {
            return Err(errors::script::unknown_load_option(option).into());
        }
        replace = true;
    }
    let memory_limit = memory_limit(call.context);
    let code = call.args.at(last);
    let loaded = call.context.instance.scripts.libraries.load(code, replace, memory_limit);
    let (name, change) = loaded.map_err(|error| CommandError::new(error.0))?;
    call.context.instance.log_library_change(call.accessor, change, &[code]);
    call.reply.bulk(&name);
    Ok(())
}

fn memory_limit(context: &Context) -> usize {
    usize::try_from(context.settings().process.script_memory_limit_bytes).unwrap_or(usize::MAX)
}

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

fn restore(call: &mut AdminCall<'_>) -> Outcome {
    if call.args.len() > 4 {
        return Err(errors::subcommand_syntax("FUNCTION", call.args.at(1)).into());
    }
    let policy = match call.args.get(3).map(Word) {
        None => RestorePolicy::Append,
        Some(word) if word.is("APPEND") => RestorePolicy::Append,
        Some(word) if word.is("REPLACE") => RestorePolicy::Replace,
        Some(word) if word.is("FLUSH") => RestorePolicy::Flush,
        Some(_) => return Err(errors::server::FUNCTION_RESTORE_POLICY.into()),
    };
    let codes = payload::open_libraries(call.args.at(2))?;
    let restored = call.context.instance.scripts.libraries.restore(&codes, policy, memory_limit(call.context));
    let change = restored.map_err(|error| CommandError::new(error.0))?;
    call.context.instance.log_library_change(call.accessor, change, &codes);
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
    match call.context.instance.scripts.running.longest() {
        Some(running) => {
            call.reply.map(3);
            call.reply.bulk(b"name");
            call.reply.bulk(&running.name);
            call.reply.bulk(b"command");
            call.reply.array(running.command.len());
            running.command.iter().for_each(|word| call.reply.bulk(word));
            call.reply.bulk(b"duration_ms");
            call.reply.unsigned(clock::monotonic_ns().saturating_sub(running.start_ns) / 1_000_000);
        }
        None => call.reply.null(),
    }
    call.reply.bulk(b"engines");
    call.reply.map(1);
    call.reply.bulk(b"LUA");
    call.reply.map(2);
    let (libraries, functions, _) = call.context.instance.scripts.libraries.totals();
    for (name, count) in [("libraries_count", libraries), ("functions_count", functions)] {
        call.reply.bulk(name.as_bytes());
        call.reply.unsigned(count as u64);
    }
    Ok(())
}
