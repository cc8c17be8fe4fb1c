//! SLOWLOG, and COMMANDLOG of Valkey, whose log `slow` is the same log; it has two more, of large requests and of large replies.

use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{AdminCall, Command, CommandError, Handler, Word, errors, help};
use almandine_instance::slowlog::Shortened;
use almandine_instance::{CommandLogs, SlowEntry, SlowLog};

pub(super) const COMMANDS: &[&Command] = &[
    &SLOWLOG,
    &SLOWLOG_GET,
    &SLOWLOG_LEN,
    &SLOWLOG_RESET,
    &SLOWLOG_HELP,
    &COMMANDLOG,
    &COMMANDLOG_GET,
    &COMMANDLOG_LEN,
    &COMMANDLOG_RESET,
    &COMMANDLOG_HELP,
];

const FOR_OPERATORS: Traits = Traits { admin: true, loading: true, stale: true, ..Traits::NONE };

const SLOWLOG: Command = Command {
    spec: CommandSpec {
        name: "SLOWLOG",
        id: 419,
        since: "2.2.12",
        complexity: "Depends on subcommand.",
        summary: "A container for slow log commands.",
        group: Group::Server,
        subcommands: &[&SLOWLOG_GET.spec, &SLOWLOG_HELP.spec, &SLOWLOG_LEN.spec, &SLOWLOG_RESET.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

const SUBCOMMAND: CommandSpec = CommandSpec { since: "2.2.12", group: Group::Server, traits: FOR_OPERATORS, ..CommandSpec::BLANK };

const SLOWLOG_GET: Command = Command {
    spec: CommandSpec {
        name: "SLOWLOG|GET",
        id: 420,
        complexity: "O(N) where N is the number of entries returned",
        summary: "Returns the slow log's entries.",
        args: &[Arg::integer("count").optional()],
        tips: &["request_policy:all_nodes", "nondeterministic_output"],
        history: &[("4.0.0", "Added client IP address, port and name to the reply.")],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let count = match call.args.len() {
            2 => COUNT_DEFAULT,
            3 => count(call.args.at(2))?,
            _ => return Err(errors::subcommand_syntax("SLOWLOG", call.args.at(1)).into()),
        };
        reply_entries(call, call.context.instance.logs.slow.newest(count), true);
        Ok(())
    }),
};

/// Entries that are answered when no number is given.
const COUNT_DEFAULT: usize = 10;

/// A number of entries; -1 is all of them.
fn count(argument: &[u8]) -> Result<usize, CommandError> {
    match parse_i64(argument) {
        Some(-1) => Ok(usize::MAX),
        Some(count) => usize::try_from(count).map_err(|_| errors::server::LOG_COUNT),
        None => Err(errors::server::LOG_COUNT),
    }
}

/// `counted` entries end with the number of words that the command had.
fn reply_entries(call: &mut AdminCall<'_>, entries: Vec<SlowEntry>, counted: bool) {
    call.reply.array(entries.len());
    for SlowEntry { id, time_s, value, arguments: Shortened { words, count }, address, name } in entries {
        call.reply.array(6 + usize::from(counted));
        call.reply.unsigned(id);
        call.reply.integer(time_s);
        call.reply.unsigned(value);
        call.reply.array(words.len());
        words.iter().for_each(|word| call.reply.bulk(word));
        call.reply.bulk(address.as_bytes());
        call.reply.bulk(name.as_bytes());
        if counted {
            call.reply.unsigned(count as u64);
        }
    }
}

const SLOWLOG_LEN: Command = Command {
    spec: CommandSpec {
        name: "SLOWLOG|LEN",
        id: 421,
        summary: "Returns the number of entries in the slow log.",
        tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        call.reply.unsigned(call.context.instance.logs.slow.len() as u64);
        Ok(())
    }),
};

const SLOWLOG_RESET: Command = Command {
    spec: CommandSpec {
        name: "SLOWLOG|RESET",
        id: 422,
        complexity: "O(N) where N is the number of entries in the slowlog",
        summary: "Clears all entries from the slow log.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        call.context.instance.logs.slow.reset();
        call.reply.ok();
        Ok(())
    }),
};

const SLOWLOG_HELP: Command = help::command("SLOWLOG|HELP", 423, CommandSpec { since: "6.2.0", ..SUBCOMMAND });

const COMMANDLOG: Command = Command {
    spec: CommandSpec {
        name: "COMMANDLOG",
        id: 424,
        since: "8.1.0",
        complexity: "Depends on subcommand.",
        summary: "A container for command log commands.",
        group: Group::Server,
        subcommands: &[&COMMANDLOG_GET.spec, &COMMANDLOG_HELP.spec, &COMMANDLOG_LEN.spec, &COMMANDLOG_RESET.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

const COMMANDLOG_SUBCOMMAND: CommandSpec = CommandSpec { since: "8.1.0", ..SUBCOMMAND };

const TYPE: Arg = Arg::one_of(
    "type",
    &[
        Arg::pure_token("slow", "SLOW"),
        Arg::pure_token("large-request", "LARGE-REQUEST"),
        Arg::pure_token("large-reply", "LARGE-REPLY"),
    ],
);

/// The log that the argument names.
fn log<'n>(logs: &'n CommandLogs, argument: &[u8]) -> Result<&'n SlowLog, CommandError> {
    match Word(argument) {
        word if word.is("slow") => Ok(&logs.slow),
        word if word.is("large-request") => Ok(&logs.large_request),
        word if word.is("large-reply") => Ok(&logs.large_reply),
        _ => Err(errors::server::COMMAND_LOG_TYPE),
    }
}

const COMMANDLOG_GET: Command = Command {
    spec: CommandSpec {
        name: "COMMANDLOG|GET",
        id: 425,
        complexity: "O(N) where N is the number of entries returned",
        summary: "Returns the specified command log's entries.",
        args: &[Arg::integer("count"), TYPE],
        tips: &["request_policy:all_nodes", "nondeterministic_output"],
        ..COMMANDLOG_SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let count = count(call.args.at(2))?;
        reply_entries(call, log(&call.context.instance.logs, call.args.at(3))?.newest(count), false);
        Ok(())
    }),
};

const COMMANDLOG_LEN: Command = Command {
    spec: CommandSpec {
        name: "COMMANDLOG|LEN",
        id: 426,
        summary: "Returns the number of entries in the specified type of command log.",
        args: &[TYPE],
        tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
        ..COMMANDLOG_SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        call.reply.unsigned(log(&call.context.instance.logs, call.args.at(2))?.len() as u64);
        Ok(())
    }),
};

const COMMANDLOG_RESET: Command = Command {
    spec: CommandSpec {
        name: "COMMANDLOG|RESET",
        id: 427,
        complexity: "O(N) where N is the number of entries in the commandlog",
        summary: "Clears all entries from the specified type of command log.",
        args: &[TYPE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..COMMANDLOG_SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        log(&call.context.instance.logs, call.args.at(2))?.reset();
        call.reply.ok();
        Ok(())
    }),
};

const COMMANDLOG_HELP: Command = help::command("COMMANDLOG|HELP", 428, COMMANDLOG_SUBCOMMAND);
