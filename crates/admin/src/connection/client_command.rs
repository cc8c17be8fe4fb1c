//! CLIENT and its subcommands, but for those about tracking.

use std::sync::atomic::Ordering::Relaxed;

use almandine_call::{AdminCall, Command, CommandError, Handler, Options, Outcome, ReplyMode, Word, errors, help, number};
use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_node::PauseScope;

use super::client_filter::{ClientFilter, ClientKind};
use super::client_tracking::{CACHING, GETREDIR, TRACKING, TRACKINGINFO};
use super::{client_line, client_name, printable};

pub(super) const CLIENT: Command = Command {
    spec: CommandSpec {
        name: "CLIENT",
        id: 71,
        since: "2.4.0",
        complexity: "Depends on subcommand.",
        summary: "A container for client connection commands.",
        group: Group::Connection,
        subcommands: &[
            &CACHING.spec,
            &CAPA.spec,
            &GETNAME.spec,
            &GETREDIR.spec,
            &HELP.spec,
            &ID.spec,
            &IMPORT_SOURCE.spec,
            &INFO.spec,
            &KILL.spec,
            &LIST.spec,
            &NO_EVICT.spec,
            &NO_TOUCH.spec,
            &PAUSE.spec,
            &REPLY.spec,
            &SETINFO.spec,
            &SETNAME.spec,
            &TRACKING.spec,
            &TRACKINGINFO.spec,
            &UNBLOCK.spec,
            &UNPAUSE.spec,
        ],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

const ABOUT_ME: Traits = Traits { noscript: true, loading: true, stale: true, ..Traits::NONE };
const FOR_OPERATORS: Traits = Traits { admin: true, ..ABOUT_ME };

/// What the subcommands have in common.
pub(super) const SUBCOMMAND: CommandSpec = CommandSpec { group: Group::Connection, traits: ABOUT_ME, ..CommandSpec::BLANK };

pub(super) const ON_OFF: [Arg; 2] = [Arg::pure_token("on", "ON"), Arg::pure_token("off", "OFF")];

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
            identity.library_name = value.ok_or_else(|| errors::invalid_client_attribute("lib-name"))?;
        }
        a if a.is("LIB-VER") => {
            identity.library_version = value.ok_or_else(|| errors::invalid_client_attribute("lib-ver"))?;
        }
        a => return Err(errors::unknown_client_attribute(a.0)),
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
    let mut line = String::new();
    client_line::write(&mut line, &call.client.shared, call.context.table, call.now_ms);
    line.push('\n');
    call.reply.verbatim("txt", line.as_bytes());
    Ok(())
}

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
        client_line::write(&mut lines, &client, call.context.table, call.now_ms);
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

pub(super) const PAUSE: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|PAUSE",
        id: 84,
        since: "3.0.0",
        summary: "Suspends commands processing.",
        args: &[
            Arg::integer("timeout"),
            Arg::one_of("mode", &[Arg::pure_token("write", "WRITE"), Arg::pure_token("all", "ALL")]).optional().since("6.2.0"),
        ],
        traits: FOR_OPERATORS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(pause),
};

fn pause(call: &mut AdminCall<'_>) -> Outcome {
    let scope = match call.args.get(3).map(Word) {
        None => PauseScope::All,
        Some(mode) if mode.is("ALL") && call.args.len() == 4 => PauseScope::All,
        Some(mode) if mode.is("WRITE") && call.args.len() == 4 => PauseScope::Writes,
        Some(_) => return Err(CommandError::PauseMode),
    };
    let timeout_ms = parse_i64(call.args.at(2)).ok_or(CommandError::TimeoutNotInteger)?;
    if timeout_ms < 0 {
        return Err(CommandError::TimeoutNegative);
    }
    let until_ms = timeout_ms.checked_add(call.now_ms).ok_or(CommandError::TimeoutOutOfRange)?;
    call.context.node.pause.start(scope, until_ms, call.now_ms);
    call.reply.ok();
    Ok(())
}

pub(super) const UNPAUSE: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|UNPAUSE",
        id: 91,
        since: "6.2.0",
        complexity: "O(N) Where N is the number of paused clients",
        summary: "Resumes processing commands from paused clients.",
        traits: FOR_OPERATORS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let node = &call.context.node;
        node.pause.stop();
        node.workers.broadcast(&almandine_node::Message::Resume);
        call.reply.ok();
        Ok(())
    }),
};

pub(super) const REPLY: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|REPLY",
        id: 85,
        since: "3.2.0",
        summary: "Instructs the server whether to reply to commands.",
        args: &[Arg::one_of("action", &[ON_OFF[0], ON_OFF[1], Arg::pure_token("skip", "SKIP")])],
        ..SUBCOMMAND
    },
    run: Handler::Admin(reply),
};

fn reply(call: &mut AdminCall<'_>) -> Outcome {
    match Word(call.args.at(2)) {
        word if word.is("ON") => {
            call.client.reply_mode = ReplyMode::On;
            call.reply.ok();
        }
        word if word.is("OFF") => call.client.reply_mode = ReplyMode::Off,
        word if word.is("SKIP") => {
            if call.client.reply_mode != ReplyMode::Off {
                call.client.reply_mode = ReplyMode::SkipNext;
            }
        }
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

pub(super) const NO_EVICT: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|NO-EVICT",
        id: 82,
        since: "7.0.0",
        summary: "Sets the client eviction mode of the connection.",
        args: &[Arg::one_of("enabled", &ON_OFF)],
        traits: FOR_OPERATORS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let on = on_or_off(call.args.at(2))?;
        call.client.shared.no_evict.store(on, Relaxed);
        call.reply.ok();
        Ok(())
    }),
};

pub(super) const NO_TOUCH: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|NO-TOUCH",
        id: 83,
        since: "7.2.0",
        summary: "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
        args: &[Arg::one_of("enabled", &ON_OFF)],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let on = on_or_off(call.args.at(2))?;
        call.client.no_touch = on;
        call.client.shared.no_touch.store(on, Relaxed);
        call.reply.ok();
        Ok(())
    }),
};

fn on_or_off(argument: &[u8]) -> Result<bool, CommandError> {
    match Word(argument) {
        word if word.is("ON") => Ok(true),
        word if word.is("OFF") => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

pub(super) const UNBLOCK: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|UNBLOCK",
        id: 90,
        since: "5.0.0",
        complexity: "O(log N) where N is the number of client connections",
        summary: "Unblocks a client blocked by a blocking command from a different connection.",
        args: &[
            Arg::integer("client-id"),
            Arg::one_of("unblock-type", &[Arg::pure_token("timeout", "TIMEOUT"), Arg::pure_token("error", "ERROR")]).optional(),
        ],
        traits: FOR_OPERATORS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(unblock),
};

/// No command blocks yet, so nobody is ever found.
fn unblock(call: &mut AdminCall<'_>) -> Outcome {
    match call.args.get(3).map(Word) {
        None => {}
        Some(reason) if reason.is("TIMEOUT") || reason.is("ERROR") => {}
        Some(_) => return Err(CommandError::UnblockReason),
    }
    number::integer(call.args.at(2))?;
    call.reply.integer(0);
    Ok(())
}

pub(super) const CAPA: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|CAPA",
        id: 73,
        since: "8.0.0",
        summary: "A client claims its capability.",
        args: &[Arg::value("capability").multiple()],
        ..SUBCOMMAND
    },
    // Capabilities change how a node redirects; unknown ones are ignored by definition.
    run: Handler::Admin(|call| {
        call.reply.ok();
        Ok(())
    }),
};

pub(super) const IMPORT_SOURCE: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|IMPORT-SOURCE",
        id: 78,
        since: "8.1.0",
        summary: "Marks this client as an import source when the server is in import mode.",
        args: &[Arg::one_of("enabled", &ON_OFF)],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        on_or_off(call.args.at(2))?;
        Err(CommandError::NotInImportMode)
    }),
};

pub(super) const HELP: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|HELP",
        id: 76,
        since: "5.0.0",
        summary: "Returns helpful text about the different subcommands.",
        traits: Traits { loading: true, stale: true, ..Traits::NONE },
        ..SUBCOMMAND
    },
    run: Handler::Admin(help::reply),
};
