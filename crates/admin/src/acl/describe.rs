//! ACL WHOAMI, USERS, LIST and GETUSER: which users there are.

use almandine_acl::Selector;
use almandine_command_spec::{Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, ReadCall};
use almandine_resp::Reply;

use super::subcommand::{FOR_ANYBODY, SUBCOMMAND};

pub(super) const WHOAMI: Command = Command {
    spec: CommandSpec {
        name: "ACL|WHOAMI",
        id: 461,
        summary: "Returns the authenticated username of the current connection.",
        traits: FOR_ANYBODY,
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        call.reply.bulk(&call.client.access.user().name);
        Ok(())
    }),
};

pub(super) const USERS: Command = Command {
    spec: CommandSpec {
        name: "ACL|USERS",
        id: 462,
        complexity: "O(N). Where N is the number of configured users.",
        summary: "Lists all ACL users.",
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        let users = call.context.instance.acl.users();
        call.reply.array(users.iter().len());
        users.iter().for_each(|user| call.reply.bulk(&user.name));
        Ok(())
    }),
};

pub(super) const LIST: Command = Command {
    spec: CommandSpec {
        name: "ACL|LIST",
        id: 463,
        complexity: "O(N). Where N is the number of configured users.",
        summary: "Dumps the effective rules in ACL file format.",
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        let users = call.context.instance.acl.users();
        call.reply.array(users.iter().len());
        users.iter().for_each(|user| call.reply.bulk(&user.describe()));
        Ok(())
    }),
};

pub(super) const GETUSER: Command = Command {
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
    let users = call.context.instance.acl.users();
    let Some(user) = users.find(call.args.at(2)) else {
        call.reply.null();
        return Ok(());
    };
    let reply = &mut call.reply;
    let Some((root, others)) = user.selectors().split_first() else { return Ok(()) };
    reply.map(3 + fields(root));
    reply.bulk(b"flags");
    reply.set(user.flags().count());
    user.flags().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|password| reply.bulk(password.hex().as_bytes()));
    describe(reply, root);
    reply.bulk(b"selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(fields(selector));
        describe(reply, selector);
    }
    Ok(())
}

/// How many fields describe a selector: one for databases only where it does not have all.
fn fields(selector: &Selector) -> usize {
    3 + usize::from(!selector.databases.are_all())
}

fn describe(reply: &mut Reply<'_>, selector: &Selector) {
    let mut field = |name: &[u8], rules: &[u8]| {
        reply.bulk(name);
        reply.bulk(rules);
    };
    field(b"commands", &selector.commands.describe());
    field(b"keys", &selector.describe_keys());
    field(b"channels", &selector.describe_channels());
    if !selector.databases.are_all() {
        // As Valkey has it: no rule where there is no database.
        field(b"databases", selector.databases.describe().trim_start_matches("resetdbs").as_bytes());
    }
}
