//! ACL: the one user that exists, `default`, who may do everything. Commands that would make others refuse.

use almandine_call::{AdminCall, Command, Handler, Outcome, ReadCall, errors, help};
use almandine_command_spec::{Arg, Category, CommandSpec, Group, Traits};

use crate::names::DEFAULT_USER;
use crate::operators::FOR_OPERATORS;

pub(super) const COMMANDS: &[&Command] =
    &[&ACL, &CAT, &DELUSER, &DRYRUN, &GENPASS, &GETUSER, &HELP, &LIST, &LOAD, &LOG, &SAVE, &SETUSER, &USERS, &WHOAMI];

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
            &DELUSER.spec,
            &DRYRUN.spec,
            &GENPASS.spec,
            &GETUSER.spec,
            &HELP.spec,
            &LIST.spec,
            &LOAD.spec,
            &LOG.spec,
            &SAVE.spec,
            &SETUSER.spec,
            &USERS.spec,
            &WHOAMI.spec,
        ],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

const FOR_ANYBODY: Traits = Traits { admin: false, ..FOR_OPERATORS };

/// What the subcommands have in common.
const SUBCOMMAND: CommandSpec = CommandSpec { since: "6.0.0", group: Group::Server, traits: FOR_OPERATORS, ..CommandSpec::BLANK };

const WHOAMI: Command = Command {
    spec: CommandSpec {
        name: "ACL|WHOAMI",
        id: 461,
        summary: "Returns the authenticated username of the current connection.",
        traits: FOR_ANYBODY,
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let user = call.client.shared.identity().user.clone();
        call.reply.bulk(user.as_bytes());
        Ok(())
    }),
};

const USERS: Command = Command {
    spec: CommandSpec {
        name: "ACL|USERS",
        id: 462,
        complexity: "O(N). Where N is the number of configured users.",
        summary: "Lists all ACL users.",
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        call.reply.array(1);
        call.reply.bulk(DEFAULT_USER);
        Ok(())
    }),
};

const LIST: Command = Command {
    spec: CommandSpec {
        name: "ACL|LIST",
        id: 463,
        complexity: "O(N). Where N is the number of configured users.",
        summary: "Dumps the effective rules in ACL file format.",
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        let flags = flags(call).join(" ");
        call.reply.array(1);
        call.reply.bulk(format!("user default {flags} ~* &* +@all").as_bytes());
        Ok(())
    }),
};

/// The default user's flags. The hash of a password is not shown.
fn flags(call: &ReadCall<'_>) -> &'static [&'static str] {
    if call.context.required_password().is_empty() { &["on", "nopass"] } else { &["on"] }
}

const GETUSER: Command = Command {
    spec: CommandSpec {
        name: "ACL|GETUSER",
        id: 464,
        complexity: "O(N). Where N is the number of password, command and pattern rules that the user has.",
        summary: "Lists the ACL rules of a user.",
        args: &[Arg::value("username")],
        history: &[
            ("6.2.0", "Added Pub/Sub channel patterns."),
            (
                "7.0.0",
                "Added selectors and changed the format of key and channel patterns from a list to their rule representation.",
            ),
        ],
        ..SUBCOMMAND
    },
    run: Handler::Read(getuser),
};

fn getuser(call: &mut ReadCall<'_>) -> Outcome {
    if call.args.at(2) != DEFAULT_USER {
        call.reply.null();
        return Ok(());
    }
    let flags = flags(call);
    call.reply.map(6);
    call.reply.bulk(b"flags");
    call.reply.set(flags.len());
    flags.iter().for_each(|flag| call.reply.bulk(flag.as_bytes()));
    call.reply.bulk(b"passwords");
    call.reply.array(0);
    for (field, rule) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        call.reply.bulk(field.as_bytes());
        call.reply.bulk(rule.as_bytes());
    }
    call.reply.bulk(b"selectors");
    call.reply.array(0);
    Ok(())
}

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
            let category = category.ok_or_else(|| errors::unknown_category(wanted))?;
            let entries = call.context.table.rows().iter();
            entries.filter(|entry| entry.shape.categories.contains(category)).map(|entry| entry.name.as_str()).collect()
        }
        Some(_) => return Err(errors::subcommand_syntax("ACL", call.args.at(1))),
    };
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

const SETUSER: Command = Command {
    spec: CommandSpec {
        name: "ACL|SETUSER",
        id: 466,
        complexity: "O(N). Where N is the number of rules provided.",
        summary: "Creates and modifies an ACL user and its rules.",
        args: &[Arg::value("username"), Arg::value("rule").multiple().optional()],
        history: &[("6.2.0", "Added Pub/Sub channel patterns."), ("7.0.0", "Added selectors and key based permissions.")],
        secret: Some(|_, at| at > 1),
        ..SUBCOMMAND
    },
    run: Handler::Admin(refuse),
};

const DELUSER: Command = Command {
    spec: CommandSpec {
        name: "ACL|DELUSER",
        id: 467,
        complexity: "O(1) amortized time considering the typical user.",
        summary: "Deletes ACL users, and terminates their connections.",
        args: &[Arg::value("username").multiple()],
        ..SUBCOMMAND
    },
    run: Handler::Admin(refuse),
};

const DRYRUN: Command = Command {
    spec: CommandSpec {
        name: "ACL|DRYRUN",
        id: 468,
        since: "7.0.0",
        complexity: "O(1).",
        summary: "Simulates the execution of a command by a user, without executing the command.",
        args: &[Arg::value("username"), Arg::value("command"), Arg::value("arg").multiple().optional()],
        ..SUBCOMMAND
    },
    run: Handler::Admin(refuse),
};

const GENPASS: Command = Command {
    spec: CommandSpec {
        name: "ACL|GENPASS",
        id: 469,
        summary: "Generates a pseudorandom, secure password that can be used to identify ACL users.",
        args: &[Arg::integer("bits").optional()],
        traits: FOR_ANYBODY,
        ..SUBCOMMAND
    },
    run: Handler::Admin(refuse),
};

const LOAD: Command = Command {
    spec: CommandSpec {
        name: "ACL|LOAD",
        id: 470,
        complexity: "O(N). Where N is the number of configured users.",
        summary: "Reloads the rules from the configured ACL file.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(refuse),
};

const SAVE: Command = Command {
    spec: CommandSpec {
        name: "ACL|SAVE",
        id: 471,
        complexity: "O(N). Where N is the number of configured users.",
        summary: "Saves the effective ACL rules in the configured ACL file.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(refuse),
};

const LOG: Command = Command {
    spec: CommandSpec {
        name: "ACL|LOG",
        id: 472,
        complexity: "O(N) with N being the number of entries shown.",
        summary: "Lists recent security events generated due to ACL rules.",
        args: &[Arg::one_of("operation", &[Arg::integer("count"), Arg::pure_token("reset", "RESET")]).optional()],
        ..SUBCOMMAND
    },
    run: Handler::Admin(refuse),
};

fn refuse(call: &mut AdminCall<'_>) -> Outcome {
    let command = format!("ACL {}", String::from_utf8_lossy(call.args.at(1)).to_ascii_uppercase());
    Err(errors::not_supported_yet(&command, "there is only the default user, whose password is `requirepass`"))
}

const HELP: Command = Command {
    spec: CommandSpec {
        name: "ACL|HELP",
        id: 473,
        summary: "Returns helpful text about the different subcommands.",
        traits: Traits { loading: true, stale: true, ..Traits::NONE },
        ..SUBCOMMAND
    },
    run: Handler::Admin(help::reply),
};
