//! CLIENT ID, GETNAME, SETNAME, SETINFO and INFO: the names of a connection.

use almandine_command_spec::{Arg, CommandSpec};
use almandine_handler::{AdminCall, Command, Handler, Outcome, Word, client_line, errors};

use super::subcommand::SUBCOMMAND;
use crate::names::{client_name, printable};

pub(super) const ID: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|ID",
        id: 77,
        since: "5.0.0",
        summary: "Returns the unique client ID of the connection.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        call.reply.unsigned(call.client.shared.id);
        Ok(())
    }),
};

pub(super) const GETNAME: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|GETNAME",
        id: 74,
        since: "2.6.9",
        summary: "Returns the name of the connection.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let name = call.client.shared.identity().name.clone();
        if name.is_empty() {
            call.reply.null()
        } else {
            call.reply.bulk(name.as_bytes())
        }
        Ok(())
    }),
};

pub(super) const SETNAME: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|SETNAME",
        id: 87,
        since: "2.6.9",
        summary: "Sets the connection name.",
        args: &[Arg::value("connection-name")],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let name = client_name(call.args.at(2))?;
        call.client.shared.identity().name = name;
        call.reply.ok();
        Ok(())
    }),
};

pub(super) const SETINFO: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|SETINFO",
        id: 86,
        since: "7.2.0",
        summary: "Sets information specific to the client or connection.",
        args: &[Arg::one_of("attr", &[Arg::value("libname").token("LIB-NAME"), Arg::value("libver").token("LIB-VER")])],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(setinfo),
};

fn setinfo(call: &mut AdminCall<'_>) -> Outcome {
    let (attribute, value) = (Word(call.args.at(2)), printable(call.args.at(3)));
    let mut identity = call.client.shared.identity();
    match attribute {
        a if a.is("LIB-NAME") => {
            identity.library_name = value.ok_or_else(|| errors::client::invalid_attribute("lib-name"))?;
        }
        a if a.is("LIB-VER") => {
            identity.library_version = value.ok_or_else(|| errors::client::invalid_attribute("lib-ver"))?;
        }
        a => return Err(errors::client::unknown_attribute(a.0).into()),
    }
    drop(identity);
    call.reply.ok();
    Ok(())
}

pub(super) const INFO: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|INFO",
        id: 79,
        since: "6.2.0",
        summary: "Returns information about the connection.",
        tips: &["nondeterministic_output"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(info),
};

fn info(call: &mut AdminCall<'_>) -> Outcome {
    let mut text = String::new();
    let arguments_bytes = client_line::arguments_bytes(call.args);
    client_line::write(&mut text, &call.client.shared, call.context.table, call.now_ms, arguments_bytes);
    text.push('\n');
    call.reply.verbatim(text.as_bytes());
    Ok(())
}
