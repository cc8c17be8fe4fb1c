//! ACL DRYRUN: whether a user may run a command, without running it.

use almandine_acl::Reason;
use almandine_command_spec::{Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, ReadCall, errors, rights};

use super::subcommand::SUBCOMMAND;

pub(super) const DRYRUN: Command = Command {
    spec: CommandSpec {
        name: "ACL|DRYRUN",
        id: 468,
        since: "7.0.0",
        complexity: "O(1).",
        summary: "Simulates the execution of a command by a user, without executing the command.",
        args: &[Arg::value("username"), Arg::value("command"), Arg::value("arg").multiple().optional()],
        ..SUBCOMMAND
    },
    run: Handler::Read(dryrun),
};

fn dryrun(call: &mut ReadCall<'_>) -> Outcome {
    let (name, args) = (call.args.at(2), call.args.slice_from(3));
    let users = call.context.instance.acl.users();
    let user = users.find(name).ok_or_else(|| errors::acl::dryrun_user(name))?;
    let table = call.context.table;
    let dispatch = table.resolve_known(args.at(0), args.get(1)).ok_or_else(|| errors::acl::dryrun_command(args.at(0)))?;
    let command = &table.row(dispatch.index).name;
    if !dispatch.accepts(args.len()) {
        return Err(errors::wrong_arity(command).into());
    }
    let Some(denial) = rights::denial(user, table, dispatch, args, call.client.db) else {
        call.reply.ok();
        return Ok(());
    };
    let object = args.at(denial.at);
    let text = match denial.reason {
        Reason::Command | Reason::Authentication | Reason::Certificate => {
            [b"User ", name, b" has no permissions to run the '", command.as_bytes(), b"' command"].concat()
        }
        Reason::Key => [b"User ", name, b" has no permissions to access the '", object, b"' key"].concat(),
        Reason::Channel => [b"User ", name, b" has no permissions to access the '", object, b"' channel"].concat(),
        Reason::Database => [b"User ", name, b" has no permissions to access database ", object].concat(),
    };
    call.reply.bulk(&text);
    Ok(())
}
