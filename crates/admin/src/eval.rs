//! EVAL, FCALL and their like: which script or function a call runs, on which keys. The session runs it.

use almandine_command_spec::{Access, Arg, CommandSpec, Group, KeySpec, Keys, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{Command, CommandError, Context, Handler, ScriptCall, errors};
use almandine_resp::Args;
use almandine_script::Program;

pub(super) const COMMANDS: &[&Command] = &[&EVAL, &EVALSHA, &EVAL_RO, &EVALSHA_RO, &FCALL, &FCALL_RO];

/// The keys are counted, and what a script does with them is not known before.
const WRITTEN: &[KeySpec] = &[KeySpec::counted(2, 1, Access::ReadUpdate)
    .notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")];
const READ: &[KeySpec] =
    &[KeySpec::counted(2, 1, Access::Read).notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")];

const TRAITS: Traits = Traits {
    noscript: true,
    stale: true,
    skip_monitor: true,
    no_mandatory_keys: true,
    may_replicate: true,
    runs_script: true,
    ..Traits::NONE
};
const READ_ONLY: Traits = Traits { readonly: true, may_replicate: false, ..TRAITS };

/// What the commands have in common.
const RUNS: CommandSpec = CommandSpec {
    since: "2.6.0",
    complexity: "Depends on the script that is executed.",
    group: Group::Scripting,
    traits: TRAITS,
    keys: Keys::Specs(WRITTEN),
    arity: -3,
    ..CommandSpec::BLANK
};

const NUMKEYS: Arg = Arg::integer("numkeys");
const KEY: Arg = Arg::key("key", Access::ReadUpdate).optional().multiple();
const ARG: Arg = Arg::value("arg").optional().multiple();

const EVAL: Command = Command {
    spec: CommandSpec {
        name: "EVAL",
        id: 493,
        summary: "Executes a server-side Lua script.",
        args: &[Arg::value("script"), NUMKEYS, KEY, ARG],
        ..RUNS
    },
    run: Handler::Script(|context, args| of_text(context, args, false)),
};

const EVALSHA: Command = Command {
    spec: CommandSpec {
        name: "EVALSHA",
        id: 494,
        summary: "Executes a server-side Lua script by SHA1 digest.",
        args: &[Arg::value("sha1"), NUMKEYS, KEY, ARG],
        ..RUNS
    },
    run: Handler::Script(|context, args| of_digits(context, args, false)),
};

const EVAL_RO: Command = Command {
    spec: CommandSpec {
        name: "EVAL_RO",
        id: 495,
        since: "7.0.0",
        summary: "Executes a read-only server-side Lua script.",
        args: &[Arg::value("script"), NUMKEYS, KEY, ARG],
        traits: READ_ONLY,
        keys: Keys::Specs(READ),
        ..RUNS
    },
    run: Handler::Script(|context, args| of_text(context, args, true)),
};

const EVALSHA_RO: Command = Command {
    spec: CommandSpec {
        name: "EVALSHA_RO",
        id: 496,
        since: "7.0.0",
        summary: "Executes a read-only server-side Lua script by SHA1 digest.",
        args: &[Arg::value("sha1"), NUMKEYS, KEY, ARG],
        traits: READ_ONLY,
        keys: Keys::Specs(READ),
        ..RUNS
    },
    run: Handler::Script(|context, args| of_digits(context, args, true)),
};

const FCALL: Command = Command {
    spec: CommandSpec {
        name: "FCALL",
        id: 498,
        since: "7.0.0",
        complexity: "Depends on the function that is executed.",
        summary: "Invokes a function.",
        args: &[Arg::value("function"), NUMKEYS, KEY, ARG],
        ..RUNS
    },
    run: Handler::Script(|context, args| of_function(context, args, false)),
};

const FCALL_RO: Command = Command {
    spec: CommandSpec {
        name: "FCALL_RO",
        id: 499,
        since: "7.0.0",
        complexity: "Depends on the function that is executed.",
        summary: "Invokes a read-only function.",
        args: &[Arg::value("function"), NUMKEYS, KEY, ARG],
        traits: READ_ONLY,
        keys: Keys::Specs(READ),
        ..RUNS
    },
    run: Handler::Script(|context, args| of_function(context, args, true)),
};

/// The call of a function by its name.
fn of_function<'c>(context: &Context, args: Args<'c>, read_only: bool) -> Result<ScriptCall<'c>, CommandError> {
    let recent = &mut *context.recent_scripts.borrow_mut();
    let function = recent.function(&context.instance.scripts.libraries, args.at(1)).ok_or(errors::script::NO_SUCH_FUNCTION)?;
    let keys = match keys(args) {
        Err(CommandError::NotInteger) => return Err(errors::script::FUNCTION_KEY_COUNT),
        keys => keys?,
    };
    Ok(called(Program::Function(function), args, keys, read_only))
}

/// The call of a script by its text, which is loaded if it was not.
fn of_text<'c>(context: &Context, args: Args<'c>, read_only: bool) -> Result<ScriptCall<'c>, CommandError> {
    let keys = keys(args)?;
    let recent = &mut *context.recent_scripts.borrow_mut();
    let script = recent.evaluate(&context.instance.scripts, args.at(1)).map_err(|error| CommandError::new(error.0))?;
    Ok(called(Program::Script(script), args, keys, read_only))
}

/// The call of a script by its digits.
fn of_digits<'c>(context: &Context, args: Args<'c>, read_only: bool) -> Result<ScriptCall<'c>, CommandError> {
    if args.at(1).len() != 40 {
        return Err(errors::script::NO_SCRIPT);
    }
    let keys = keys(args)?;
    let recent = &mut *context.recent_scripts.borrow_mut();
    let script = recent.find(&context.instance.scripts, args.at(1)).ok_or(errors::script::NO_SCRIPT)?;
    Ok(called(Program::Script(script), args, keys, read_only))
}

/// How many keys a call declares.
fn keys(args: Args<'_>) -> Result<usize, CommandError> {
    let count = parse_i64(args.at(2)).ok_or(CommandError::NotInteger)?;
    let count = usize::try_from(count).map_err(|_| errors::script::KEY_COUNT_NEGATIVE)?;
    if count > args.len() - 3 { Err(CommandError::TooManyKeys) } else { Ok(count) }
}

fn called(program: Program, args: Args<'_>, keys: usize, read_only: bool) -> ScriptCall<'_> {
    let behind = args.slice_from(3);
    ScriptCall { program, keys: behind.first(keys), args: behind.slice_from(keys), read_only }
}
