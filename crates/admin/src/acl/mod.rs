//! ACL: users and what they may do.

mod describe;
mod dryrun;
mod file;
mod log;
mod subcommand;
mod users;

use almandine_command_spec::{Arg, Category, CommandSpec, Group};
use almandine_handler::{Command, Handler, Outcome, ReadCall, errors, help};

use subcommand::{FOR_ANYBODY, SUBCOMMAND};

pub(super) const COMMANDS: &[&Command] = &[
    &ACL,
    &CAT,
    &users::DELUSER,
    &dryrun::DRYRUN,
    &users::GENPASS,
    &describe::GETUSER,
    &HELP,
    &describe::LIST,
    &file::LOAD,
    &log::LOG,
    &file::SAVE,
    &users::SETUSER,
    &describe::USERS,
    &describe::WHOAMI,
];

const ACL: Command = Command {
    spec: CommandSpec {
        name: "ACL",
        id: 460,
        since: "6.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for Access List Control commands.",
        group: Group::Server,
        subcommands: &[
            &CAT.spec,
            &users::DELUSER.spec,
            &dryrun::DRYRUN.spec,
            &users::GENPASS.spec,
            &describe::GETUSER.spec,
            &HELP.spec,
            &describe::LIST.spec,
            &file::LOAD.spec,
            &log::LOG.spec,
            &file::SAVE.spec,
            &users::SETUSER.spec,
            &describe::USERS.spec,
            &describe::WHOAMI.spec,
        ],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

const CAT: Command = Command {
    spec: CommandSpec {
        name: "ACL|CAT",
        id: 465,
        complexity: "O(1) since the categories and commands are a fixed set.",
        summary: "Lists the ACL categories, or the commands inside a category.",
        args: &[Arg::value("category").optional()],
        traits: FOR_ANYBODY,
        ..SUBCOMMAND
    },
    run: Handler::Read(cat),
};

fn cat(call: &mut ReadCall<'_>) -> Outcome {
    let name = |category: Category| category.name().trim_start_matches('@');
    let names: Vec<&str> = match call.args.get(2) {
        None => Category::ALL.into_iter().map(name).collect(),
        Some(wanted) if call.args.len() == 3 => {
            let category = Category::ALL.into_iter().find(|category| name(*category).as_bytes().eq_ignore_ascii_case(wanted));
            let category = category.ok_or_else(|| errors::acl::unknown_category(wanted))?;
            let entries = call.context.table.known().iter();
            entries.filter(|entry| entry.shape.categories.contains(category)).map(|entry| entry.name.as_str()).collect()
        }
        Some(_) => return Err(errors::subcommand_syntax("ACL", call.args.at(1)).into()),
    };
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

const HELP: Command = help::command("ACL|HELP", 473, SUBCOMMAND);
