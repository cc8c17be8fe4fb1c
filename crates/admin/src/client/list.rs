//! CLIENT LIST and KILL: finding connections, and closing them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_command_spec::{Arg, CommandSpec};
use almandine_handler::{AdminCall, Command, Handler, Options, Outcome, client_line, errors};
use almandine_instance::ClientShared;

use super::filter::{ClientFilter, Known};
use super::subcommand::{FOR_OPERATORS, SUBCOMMAND};
use crate::operators::caller;

/// Filters of one command, and behind them those that CLIENT LIST and CLIENT KILL have in common.
macro_rules! with_common_filters {
    ($($own:expr),* $(,)?) => {
        &[
            $($own,)*
            Arg::value("name").token("NAME").optional().since("8.1.0"),
            Arg::integer("idle").token("IDLE").optional().since("8.1.0"),
            Arg::value("flags").token("FLAGS").optional().since("8.1.0"),
            Arg::value("lib-name").token("LIB-NAME").optional().since("8.1.0"),
            Arg::value("lib-ver").token("LIB-VER").optional().since("8.1.0"),
            Arg::integer("db").token("DB").optional().since("8.1.0"),
            Arg::value("capa").token("CAPA").optional().since("8.1.0"),
            Arg::value("ip").token("IP").optional().since("8.1.0"),
            Arg::integer("not-client-id").token("NOT-ID").multiple().optional().since("9.0.0"),
            Arg::value("not-client-type").token("NOT-TYPE").optional().since("9.0.0"),
            Arg::value("not-username").token("NOT-USER").optional().since("9.0.0"),
            Arg::value("not-addr").token("NOT-ADDR").optional().since("9.0.0"),
            Arg::value("not-laddr").token("NOT-LADDR").optional().since("9.0.0"),
            Arg::value("not-name").token("NOT-NAME").optional().since("9.0.0"),
            Arg::value("not-flags").token("NOT-FLAGS").optional().since("9.0.0"),
            Arg::value("not-lib-name").token("NOT-LIB-NAME").optional().since("9.0.0"),
            Arg::value("not-lib-ver").token("NOT-LIB-VER").optional().since("9.0.0"),
            Arg::integer("not-db").token("NOT-DB").optional().since("9.0.0"),
            Arg::value("not-capa").token("NOT-CAPA").optional().since("9.0.0"),
            Arg::value("not-ip").token("NOT-IP").optional().since("9.0.0"),
        ]
    };
}

pub(super) const LIST: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|LIST",
        id: 81,
        since: "2.4.0",
        complexity: "O(N) where N is the number of client connections",
        summary: "Lists open connections.",
        args: with_common_filters![
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
            Arg::value("username").token("USER").optional().since("8.1.0"),
            Arg::value("addr").display("ip:port").token("ADDR").optional().since("8.1.0"),
            Arg::value("laddr").display("ip:port").token("LADDR").optional().since("8.1.0"),
            Arg::value("skipme").display("yes/no").token("SKIPME").optional().since("8.1.0"),
            Arg::integer("maxage").token("MAXAGE").optional().since("8.1.0"),
        ],
        traits: FOR_OPERATORS,
        tips: &["nondeterministic_output"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(list),
};

fn list(call: &mut AdminCall<'_>) -> Outcome {
    let instance = &call.context.instance;
    let filter = ClientFilter::for_list(
        Options::after(call.args, 2),
        Known { databases: instance.keyspace.databases(), users: &instance.acl.users() },
    )?;
    let clients = &instance.clients;
    // Those that are named come in the order of their names.
    let named = filter.ids.as_ref().map(|ids| ids.iter().filter_map(|id| clients.find(u64::try_from(*id).ok()?)).collect());
    let mut chosen: Vec<Arc<ClientShared>> = named.unwrap_or_else(|| clients.all());
    let is_left_out = |client: &ClientShared| filter.skip_me && client.id == call.client.shared.id;
    chosen.retain(|client| filter.matches(client, call.now_ms) && !is_left_out(client));
    let mut lines = String::new();
    for client in chosen {
        let asks = client.id == call.client.shared.id;
        let arguments_bytes = if asks { client_line::arguments_bytes(call.args) } else { 0 };
        client_line::write(&mut lines, &client, call.context.table, call.now_ms, arguments_bytes);
        lines.push('\n');
    }
    call.reply.verbatim(lines.as_bytes());
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
                    with_common_filters![
                        Arg::integer("client-id").token("ID").multiple().optional().since("2.8.12"),
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
    let instance = &call.context.instance;
    let known = Known { databases: instance.keyspace.databases(), users: &instance.acl.users() };
    let filter = ClientFilter::for_kill(Options::after(call.args, 2), known)?;
    let mut killed = 0;
    for client in instance.clients.all() {
        let me = client.id == call.client.shared.id;
        if (me && filter.skip_me) || !filter.matches(&client, call.now_ms) {
            continue;
        }
        killed += 1;
        tracing::debug!("CLIENT KILL of client {} at {} by {}", client.id, client.address, caller(call));
        if me { call.client.closing = true } else { instance.workers.kill(&client) }
    }
    call.reply.integer(killed);
    Ok(())
}

/// The old form. It may name the caller, which still gets the reply.
fn kill_address(call: &mut AdminCall<'_>, address: &[u8]) -> Outcome {
    let instance = &call.context.instance;
    let found =
        instance.clients.all().into_iter().find(|client| client.address.as_bytes() == address && !client.killed.load(Relaxed));
    let client = found.ok_or(errors::client::NO_SUCH_CLIENT)?;
    tracing::debug!("CLIENT KILL of client {} at {} by {}", client.id, client.address, caller(call));
    if client.id == call.client.shared.id {
        call.client.closing = true
    } else {
        instance.workers.kill(&client)
    }
    call.reply.ok();
    Ok(())
}
