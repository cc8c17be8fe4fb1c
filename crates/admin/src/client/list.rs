//! CLIENT LIST and KILL: finding connections, and closing them.

use std::sync::atomic::Ordering::Relaxed;

use almandine_call::{AdminCall, Command, CommandError, Handler, Options, Outcome};
use almandine_command_spec::{Arg, CommandSpec};
use almandine_datatypes::number::parse_i64;

use super::filter::{ClientFilter, ClientKind};
use super::line;
use super::subcommand::{FOR_OPERATORS, SUBCOMMAND};

pub(super) const LIST: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|LIST",
        id: 81,
        since: "2.4.0",
        complexity: "O(N) where N is the number of client connections",
        summary: "Lists open connections.",
        args: &[
            Arg::one_of(
                "client-type",
                &[
                    Arg::pure_token("normal", "NORMAL"),
                    Arg::pure_token("master", "MASTER"),
                    Arg::pure_token("replica", "REPLICA"),
                    Arg::pure_token("pubsub", "PUBSUB"),
                ],
            )
            .token("TYPE")
            .optional()
            .since("5.0.0"),
            Arg::integer("client-id").token("ID").multiple().optional().since("6.2.0"),
        ],
        traits: FOR_OPERATORS,
        tips: &["nondeterministic_output"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(list),
};

fn list(call: &mut AdminCall<'_>) -> Outcome {
    let clients = &call.context.node.clients;
    let mut options = Options::after(call.args, 2);
    let chosen = match (options.next(), options.remaining()) {
        (None, _) => clients.all(),
        (Some(option), 1) if option.is("TYPE") => match ClientKind::parse(options.value()?)? {
            ClientKind::Normal => clients.all(),
            _ => Vec::new(),
        },
        (Some(option), 1..) if option.is("ID") => {
            let ids: Option<Vec<i64>> = options.map(|word| parse_i64(word.0)).collect();
            let ids = ids.ok_or(CommandError::InvalidClientIdList)?;
            ids.into_iter().filter_map(|id| u64::try_from(id).ok().and_then(|id| clients.find(id))).collect()
        }
        _ => return Err(CommandError::Syntax),
    };
    let mut lines = String::new();
    for client in chosen {
        line::write(&mut lines, &client, call.context.table, call.now_ms);
        lines.push('\n');
    }
    call.reply.verbatim("txt", lines.as_bytes());
    Ok(())
}

pub(super) const KILL: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|KILL",
        id: 80,
        since: "2.4.0",
        complexity: "O(N) where N is the number of client connections",
        summary: "Terminates open connections.",
        args: &[Arg::one_of(
            "filter",
            &[
                Arg::value("old-format").display("ip:port").deprecated_since("2.8.12"),
                Arg::one_of(
                    "new-format",
                    &[
                        Arg::integer("client-id").token("ID").optional().since("2.8.12"),
                        Arg::value("client-type").token("TYPE").optional().since("2.8.12"),
                        Arg::value("username").token("USER").optional(),
                        Arg::value("addr").display("ip:port").token("ADDR").optional(),
                        Arg::value("laddr").display("ip:port").token("LADDR").optional().since("6.2.0"),
                        Arg::value("skipme").display("yes/no").token("SKIPME").optional(),
                        Arg::integer("maxage").token("MAXAGE").optional().since("7.4.0"),
                    ],
                )
                .multiple(),
            ],
        )],
        arity: -3,
        traits: FOR_OPERATORS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(kill),
};

fn kill(call: &mut AdminCall<'_>) -> Outcome {
    if call.args.len() == 3 {
        return kill_address(call, call.args.at(2));
    }
    let filter = ClientFilter::parse(Options::after(call.args, 2))?;
    let node = &call.context.node;
    let mut killed = 0;
    for client in node.clients.all() {
        let me = client.id == call.client.shared.id;
        if (me && filter.skip_me) || !filter.matches(&client, call.now_ms) {
            continue;
        }
        killed += 1;
        if me { call.client.closing = true } else { node.workers.kill(&client) }
    }
    call.reply.integer(killed);
    Ok(())
}

/// The old form. It may be about the caller, who then still gets the answer.
fn kill_address(call: &mut AdminCall<'_>, address: &[u8]) -> Outcome {
    let node = &call.context.node;
    let found = node.clients.all().into_iter().find(|client| client.address.as_bytes() == address && !client.killed.load(Relaxed));
    let client = found.ok_or(CommandError::NoSuchClient)?;
    if client.id == call.client.shared.id {
        call.client.closing = true
    } else {
        node.workers.kill(&client)
    }
    call.reply.ok();
    Ok(())
}
