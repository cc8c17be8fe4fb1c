//! ROLE, REPLICAOF, SLAVEOF: a primary without replicas.

use almandine_command_spec::{Arg, Category, CommandSpec, Deprecated, Group, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{AdminCall, Command, Handler, Outcome, Word, errors};

use crate::operators::FOR_OPERATORS;

pub(super) const COMMANDS: &[&Command] = &[&ROLE, &REPLICAOF, &SLAVEOF];

const ROLE: Command = Command {
    spec: CommandSpec {
        name: "ROLE",
        id: 451,
        since: "2.8.12",
        summary: "Returns the replication role.",
        group: Group::Server,
        traits: Traits { noscript: true, loading: true, stale: true, fast: true, ..Traits::NONE },
        categories: Some(&[Category::Admin, Category::Dangerous]),
        ..CommandSpec::BLANK
    },
    run: Handler::Read(|call| {
        call.reply.array(3);
        call.reply.bulk(b"master");
        call.reply.integer(0);
        call.reply.array(0);
        Ok(())
    }),
};

/// What REPLICAOF and its older name have in common.
const REPLICATE: CommandSpec = CommandSpec {
    group: Group::Server,
    args: &[Arg::one_of(
        "args",
        &[
            Arg::block("host-port", &[Arg::value("host"), Arg::integer("port")]),
            Arg::block("no-one", &[Arg::pure_token("no", "NO"), Arg::pure_token("one", "ONE")]),
        ],
    )],
    traits: Traits { loading: false, no_async_loading: true, ..FOR_OPERATORS },
    ..CommandSpec::BLANK
};

const REPLICAOF: Command = Command {
    spec: CommandSpec {
        name: "REPLICAOF",
        id: 452,
        since: "5.0.0",
        summary: "Configures a server as replica of another, or promotes it to a master.",
        ..REPLICATE
    },
    run: Handler::Admin(replicaof),
};

const SLAVEOF: Command = Command {
    spec: CommandSpec {
        name: "SLAVEOF",
        id: 453,
        summary: "Sets a Redis server as a replica of another, or promotes it to being a master.",
        deprecated: Some(Deprecated { since: "5.0.0", replaced_by: "`REPLICAOF`" }),
        ..REPLICATE
    },
    run: Handler::Admin(replicaof),
};

fn replicaof(call: &mut AdminCall<'_>) -> Outcome {
    let (host, port) = (call.args.at(1), call.args.at(2));
    if Word(host).is("no") && Word(port).is("one") {
        call.reply.ok();
        return Ok(());
    }
    parse_i64(port).and_then(|port| u16::try_from(port).ok()).ok_or(errors::server::PRIMARY_PORT)?;
    Err(errors::not_supported_yet("REPLICAOF", "this server cannot be a replica").into())
}
