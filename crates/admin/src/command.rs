//! COMMAND: what commands there are, from their specs.

use std::borrow::Cow;

use almandine_command_spec::describe::{self, Data};
use almandine_command_spec::{Access, Arg, Category, CommandSpec, Group, Traits};
use almandine_datatypes::glob::{self, Case};
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, Row, Table, Word, errors, help};
use almandine_resp::{Args, Reply};

pub(super) const COMMANDS: &[&Command] = &[&COMMAND, &COUNT, &DOCS, &GETKEYS, &GETKEYSANDFLAGS, &HELP, &INFO, &LIST];

const TRAITS: Traits = Traits { loading: true, stale: true, ..Traits::NONE };

/// What the subcommands have in common.
const SUBCOMMAND: CommandSpec = CommandSpec {
    since: "2.8.13",
    group: Group::Server,
    traits: TRAITS,
    categories: Some(&[Category::Connection]),
    ..CommandSpec::BLANK
};

const COMMAND: Command = Command {
    spec: CommandSpec {
        name: "COMMAND",
        id: 407,
        complexity: "O(N) where N is the total number of Redis commands",
        summary: "Returns detailed information about all commands.",
        arity: -1,
        tips: &["nondeterministic_output_order"],
        subcommands: &[&COUNT.spec, &DOCS.spec, &GETKEYS.spec, &GETKEYSANDFLAGS.spec, &HELP.spec, &INFO.spec, &LIST.spec],
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        reply_all_info(call);
        Ok(())
    }),
};

fn reply_all_info(call: &mut ReadCall<'_>) {
    call.reply.array(top_level(call.context.table).count());
    top_level(call.context.table).for_each(|entry| write(&mut call.reply, &describe::info(&entry.command.spec)));
}

/// Commands that are no subcommands and can be called.
fn top_level(table: &'static Table) -> impl Iterator<Item = &'static Row> {
    table.rows().iter().filter(|entry| entry.available && !entry.command.spec.is_subcommand())
}

/// The command or subcommand that `name` names, as in `client|kill`.
fn find(table: &'static Table, name: &[u8]) -> Option<&'static Row> {
    let mut words = name.splitn(2, |byte| *byte == b'|');
    let (container, own) = (words.next()?, words.next());
    let plan = table.resolve(container, own)?;
    let entry = table.row(plan.index);
    (entry.command.spec.is_subcommand() == own.is_some()).then_some(entry)
}

const COUNT: Command = Command {
    spec: CommandSpec { name: "COMMAND|COUNT", id: 408, summary: "Returns a count of commands.", ..SUBCOMMAND },
    run: Handler::Read(|call| {
        call.reply.unsigned(top_level(call.context.table).count() as u64);
        Ok(())
    }),
};

const INFO: Command = Command {
    spec: CommandSpec {
        name: "COMMAND|INFO",
        id: 409,
        complexity: "O(N) where N is the number of commands to look up",
        summary: "Returns information about one, multiple or all commands.",
        args: &[Arg::value("command-name").multiple().optional()],
        tips: &["nondeterministic_output_order"],
        history: &[("7.0.0", "Allowed to be called with no argument to get info on all commands.")],
        ..SUBCOMMAND
    },
    run: Handler::Read(info),
};

fn info(call: &mut ReadCall<'_>) -> Outcome {
    let names = call.args.slice_from(2);
    if names.is_empty() {
        reply_all_info(call);
        return Ok(());
    }
    call.reply.array(names.len());
    for name in names.iter() {
        match find(call.context.table, name) {
            Some(entry) => write(&mut call.reply, &describe::info(&entry.command.spec)),
            None => call.reply.null(),
        }
    }
    Ok(())
}

const DOCS: Command = Command {
    spec: CommandSpec {
        name: "COMMAND|DOCS",
        id: 410,
        since: "7.0.0",
        complexity: "O(N) where N is the number of commands to look up",
        summary: "Returns documentary information about one, multiple or all commands.",
        args: &[Arg::value("command-name").multiple().optional()],
        tips: &["nondeterministic_output_order"],
        ..SUBCOMMAND
    },
    run: Handler::Read(docs),
};

/// Names that no command has are left out.
fn docs(call: &mut ReadCall<'_>) -> Outcome {
    let names = call.args.slice_from(2);
    let table = call.context.table;
    let entries: Vec<&Row> =
        if names.is_empty() { top_level(table).collect() } else { names.iter().filter_map(|name| find(table, name)).collect() };
    call.reply.map(entries.len());
    for entry in entries {
        call.reply.bulk(entry.name.as_bytes());
        write(&mut call.reply, &describe::docs(&entry.command.spec));
    }
    Ok(())
}

const LIST: Command = Command {
    spec: CommandSpec {
        name: "COMMAND|LIST",
        id: 411,
        since: "7.0.0",
        complexity: "O(N) where N is the total number of Redis commands",
        summary: "Returns a list of command names.",
        args: &[Arg::one_of(
            "filterby",
            &[
                Arg::value("module-name").token("MODULE"),
                Arg::value("category").token("ACLCAT"),
                Arg::pattern("pattern").token("PATTERN"),
            ],
        )
        .token("FILTERBY")
        .optional()],
        tips: &["nondeterministic_output_order"],
        ..SUBCOMMAND
    },
    run: Handler::Read(list),
};

/// Which commands COMMAND LIST answers.
enum Filter<'c> {
    All,
    /// No module is ever loaded.
    Module,
    Category(&'c [u8]),
    Pattern(&'c [u8]),
}

impl<'c> Filter<'c> {
    fn parse(args: Args<'c>) -> Result<Self, CommandError> {
        let word = |position| args.get(position).map(Word);
        match (args.len(), word(2), word(3)) {
            (2, ..) => Ok(Self::All),
            (5, Some(by), Some(what)) if by.is("FILTERBY") => match what {
                w if w.is("MODULE") => Ok(Self::Module),
                w if w.is("ACLCAT") => Ok(Self::Category(args.at(4))),
                w if w.is("PATTERN") => Ok(Self::Pattern(args.at(4))),
                _ => Err(CommandError::Syntax),
            },
            _ => Err(CommandError::Syntax),
        }
    }

    fn admits(&self, entry: &Row) -> bool {
        match self {
            Self::All => true,
            Self::Module => false,
            Self::Category(name) => entry
                .shape
                .categories
                .iter()
                .any(|category| category.name().trim_start_matches('@').as_bytes().eq_ignore_ascii_case(name)),
            Self::Pattern(pattern) => glob::matches(pattern, entry.name.as_bytes(), Case::Insensitive),
        }
    }
}

fn list(call: &mut ReadCall<'_>) -> Outcome {
    let filter = Filter::parse(call.args)?;
    let names: Vec<&str> =
        call.context.table.rows().iter().filter(|entry| filter.admits(entry)).map(|entry| entry.name.as_str()).collect();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

/// Redis' table gives these two no arguments; the arity is stated.
const FULL_COMMAND: CommandSpec =
    CommandSpec { complexity: "O(N) where N is the number of arguments to the command", arity: -4, ..SUBCOMMAND };

const GETKEYS: Command = Command {
    spec: CommandSpec {
        name: "COMMAND|GETKEYS",
        id: 412,
        summary: "Extracts the key names from an arbitrary command.",
        args: &[Arg::value("command"), Arg::value("arg").multiple().optional()],
        ..FULL_COMMAND
    },
    run: Handler::Read(getkeys),
};

fn getkeys(call: &mut ReadCall<'_>) -> Outcome {
    let (row, full) = described(call)?;
    let keys = keys_of(row, full)?;
    call.reply.array(keys.len());
    keys.iter().for_each(|(position, _)| call.reply.bulk(full.at(*position)));
    Ok(())
}

const GETKEYSANDFLAGS: Command = Command {
    spec: CommandSpec {
        name: "COMMAND|GETKEYSANDFLAGS",
        id: 413,
        since: "7.0.0",
        summary: "Extracts the key names and access flags for an arbitrary command.",
        args: &[Arg::value("command"), Arg::value("arg").multiple().optional()],
        ..FULL_COMMAND
    },
    run: Handler::Read(getkeysandflags),
};

fn getkeysandflags(call: &mut ReadCall<'_>) -> Outcome {
    let (row, full) = described(call)?;
    let keys = keys_of(row, full)?;
    call.reply.array(keys.len());
    for (position, access) in keys {
        // XREADGROUP, whose keys are latched like those that are written, is documented to read them.
        let access = if access == Access::ReadRepair { row.shape.key_specs()[0].access } else { access };
        call.reply.array(2);
        call.reply.bulk(full.at(position));
        call.reply.set(access.flags().len());
        access.flags().iter().for_each(|flag| call.reply.simple(flag));
    }
    Ok(())
}

/// The command that the arguments from the third on call.
fn described<'c>(call: &ReadCall<'c>) -> Result<(&'static Row, Args<'c>), CommandError> {
    let (table, full) = (call.context.table, call.args.slice_from(2));
    let plan = table.resolve_known(full.at(0), full.get(1)).ok_or(errors::server::NO_SUCH_COMMAND)?;
    let entry = table.row(plan.index);
    if entry.shape.key_specs().iter().all(|spec| spec.access == Access::NotKey) {
        return Err(errors::server::COMMAND_WITHOUT_KEYS);
    }
    if !plan.accepts(full.len()) {
        return Err(errors::server::COMMAND_ARITY);
    }
    Ok((entry, full))
}

fn keys_of(row: &Row, full: Args<'_>) -> Result<Vec<(usize, Access)>, CommandError> {
    let mut positions = row.shape.keys_exact(full.len(), |argument| full.at(argument));
    let keys: Vec<_> = positions.by_ref().collect();
    match positions.is_invalid() || keys.is_empty() {
        true if row.command.spec.traits.no_mandatory_keys => Ok(Vec::new()),
        true => Err(errors::server::COMMAND_ARGUMENTS),
        false => Ok(keys),
    }
}

const HELP: Command = help::command("COMMAND|HELP", 414, CommandSpec { since: "5.0.0", ..SUBCOMMAND });

/// Writes a description in the version of the protocol that the client speaks.
fn write(reply: &mut Reply<'_>, data: &Data) {
    let name = |reply: &mut Reply<'_>, text: &Cow<'static, str>| reply.bulk(text.as_bytes());
    match data {
        Data::Text(text) => name(reply, text),
        Data::Status(text) => reply.simple(text),
        Data::Integer(value) => reply.integer(*value),
        Data::Array(elements) => {
            reply.array(elements.len());
            elements.iter().for_each(|element| write(reply, element));
        }
        Data::Set(elements) => {
            reply.set(elements.len());
            elements.iter().for_each(|element| write(reply, element));
        }
        Data::Map(pairs) => {
            reply.map(pairs.len());
            for (key, value) in pairs {
                name(reply, key);
                write(reply, value);
            }
        }
    }
}
