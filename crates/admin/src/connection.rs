//! The connection family: greeting, authentication, database selection. CLIENT and its subcommands are in
//! [`client`](crate::client).

use almandine_acl::DEFAULT_USER;
use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{
    AdminCall, Client, Command, CommandError, Handler, Options, Outcome, ReadCall, ReplyMode, Word, database, errors, follow,
    pubsub, tracking, transaction,
};
use almandine_resp::ProtocolVersion;

use crate::names::client_name;

/// The family.
pub(crate) const COMMANDS: &[&Command] = &[&PING, &ECHO, &QUIT, &HELLO, &AUTH, &RESET, &SELECT];

/// Allowed at any time: before authentication, while loading, in scripts only where Redis allows it.
const ANY_TIME: Traits =
    Traits { noscript: true, loading: true, stale: true, fast: true, no_auth: true, allow_busy: true, ..Traits::NONE };

const PING: Command = Command {
    spec: CommandSpec {
        name: "PING",
        id: 64,
        summary: "Returns the server's liveliness response.",
        group: Group::Connection,
        args: &[Arg::value("message").optional()],
        traits: Traits { fast: true, subscribed: true, health: true, ..Traits::NONE },
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(ping),
};

fn ping(call: &mut ReadCall<'_>) -> Outcome {
    let message = call.args.get(1);
    match call.args.len() {
        1 | 2 if call.client.only_listens() => {
            call.reply.array(2);
            call.reply.bulk(b"pong");
            call.reply.bulk(message.unwrap_or_default());
        }
        1 => call.reply.raw(b"+PONG\r\n"),
        2 => call.reply.bulk(call.args.at(1)),
        _ => return Err(errors::wrong_arity("ping").into()),
    }
    Ok(())
}

const ECHO: Command = Command {
    spec: CommandSpec {
        name: "ECHO",
        id: 65,
        summary: "Returns the given string.",
        group: Group::Connection,
        args: &[Arg::value("message")],
        traits: Traits { fast: true, loading: true, stale: true, ..Traits::NONE },
        ..CommandSpec::BLANK
    },
    run: Handler::Read(echo),
};

fn echo(call: &mut ReadCall<'_>) -> Outcome {
    call.reply.bulk(call.args.at(1));
    Ok(())
}

const QUIT: Command = Command {
    spec: CommandSpec {
        name: "QUIT",
        id: 66,
        summary: "Closes the connection.",
        group: Group::Connection,
        arity: -1,
        traits: Traits { subscribed: true, not_queued: true, ..ANY_TIME },
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(quit),
};

fn quit(call: &mut AdminCall<'_>) -> Outcome {
    call.client.closing = true;
    call.reply.ok();
    Ok(())
}

const HELLO: Command = Command {
    spec: CommandSpec {
        name: "HELLO",
        id: 67,
        since: "6.0.0",
        summary: "Handshakes with the Redis server.",
        group: Group::Connection,
        args: &[Arg::block(
            "arguments",
            &[
                Arg::integer("protover"),
                Arg::block("auth", &[Arg::value("username"), Arg::value("password")]).token("AUTH").optional(),
                Arg::value("clientname").token("SETNAME").optional(),
            ],
        )
        .optional()],
        secret: Some(secret_of_hello),
        traits: ANY_TIME,
        history: &[("6.2.0", "`protover` made optional; when called without arguments, reports the current connection's context.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(hello),
};

/// User and password behind AUTH.
fn secret_of_hello<'a>(arg: &dyn Fn(usize) -> &'a [u8], at: usize) -> bool {
    let mut option = 2;
    while option <= at {
        match Word(arg(option)) {
            word if word.is("AUTH") && (option + 1..=option + 2).contains(&at) => return true,
            word if word.is("AUTH") => option += 3,
            word if word.is("SETNAME") => option += 2,
            _ => option += 1,
        }
    }
    false
}

fn hello(call: &mut AdminCall<'_>) -> Outcome {
    let mut version = call.client.version;
    if let Some(argument) = call.args.get(1) {
        version = match parse_i64(argument).ok_or(errors::client::PROTOCOL_NOT_INTEGER)? {
            2 => ProtocolVersion::Resp2,
            3 => ProtocolVersion::Resp3,
            _ => return Err(errors::client::PROTOCOL_UNSUPPORTED.into()),
        };
    }
    let (mut credentials, mut name) = (None, None);
    let mut options = Options::after(call.args, 2);
    while let Some(option) = options.next() {
        if option.is("AUTH") && options.remaining() >= 2 {
            credentials = Some((options.value()?, options.value()?));
        } else if option.is("SETNAME") && options.remaining() >= 1 {
            name = Some(client_name(options.value()?)?);
        } else {
            return Err(errors::client::hello_option(option.0).into());
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(call, user, password)?;
    }
    if !call.client.access.is_authenticated() {
        return Err(errors::acl::HELLO_NEEDS_AUTHENTICATION.into());
    }
    if let Some(name) = name {
        call.client.shared.identity().name = name;
    }
    call.client.speak(version);
    reply_hello(call, version);
    Ok(())
}

fn reply_hello(call: &mut AdminCall<'_>, version: ProtocolVersion) {
    let zone = call.context.settings().connections.availability_zone.clone();
    let mut reply = almandine_resp::Reply::new(call.reply.out, version);
    reply.map(7 + usize::from(!zone.is_empty()));
    for (field, value) in [("server", "redis"), ("version", almandine_instance::REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if version == ProtocolVersion::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.unsigned(call.client.shared.id);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone.as_bytes());
    }
}

const AUTH: Command = Command {
    spec: CommandSpec {
        name: "AUTH",
        id: 68,
        complexity: "O(N) where N is the number of passwords defined for the user",
        summary: "Authenticates the connection.",
        group: Group::Connection,
        args: &[Arg::value("username").optional().since("6.0.0"), Arg::value("password")],
        secret: Some(|_, at| at > 0),
        traits: ANY_TIME,
        history: &[("6.0.0", "Added ACL style (username and password).")],
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(auth),
};

fn auth(call: &mut AdminCall<'_>) -> Outcome {
    match call.args.len() {
        2 if call.context.instance.acl.users().default_user().needs_no_password() => {
            return Err(errors::acl::NO_PASSWORD_SET.into());
        }
        2 => authenticate(call, DEFAULT_USER, call.args.at(1))?,
        3 => authenticate(call, call.args.at(1), call.args.at(2))?,
        _ => return Err(CommandError::Syntax.into()),
    }
    call.reply.ok();
    Ok(())
}

fn authenticate(call: &mut AdminCall<'_>, user: &[u8], password: &[u8]) -> Outcome {
    if !call.client.authenticate(&call.context.instance.acl, user, password) {
        follow::note_failed_authentication(call, user);
        return Err(errors::acl::WRONG_PASSWORD.into());
    }
    Ok(())
}

const RESET: Command = Command {
    spec: CommandSpec {
        name: "RESET",
        id: 69,
        since: "6.2.0",
        summary: "Resets the connection.",
        group: Group::Connection,
        traits: Traits { subscribed: true, not_queued: true, ..ANY_TIME },
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(reset),
};

fn reset(call: &mut AdminCall<'_>) -> Outcome {
    reset_client(call.client);
    call.client.forget_user(&call.context.instance.acl);
    call.accessor.set_quiet(false);
    call.context.instance.monitors.remove(&call.client.shared);
    tracking::stop(call.client, &call.context.instance);
    pubsub::unsubscribe_all(call.client, call.context);
    transaction::end(call.client, call.accessor);
    call.reply.simple("RESET");
    Ok(())
}

fn reset_client(client: &mut Client) {
    use std::sync::atomic::Ordering::Relaxed;
    client.select(0);
    client.speak(ProtocolVersion::Resp2);
    client.reply_mode = ReplyMode::On;
    client.no_touch = false;
    client.fieldsets = None;
    client.kept.protected = false;
    client.shared.modes.no_evict.store(false, Relaxed);
    client.shared.modes.no_touch.store(false, Relaxed);
    client.shared.modes.redirects.store(false, Relaxed);
    client.shared.identity().name.clear();
}

const SELECT: Command = Command {
    spec: CommandSpec {
        name: "SELECT",
        id: 70,
        summary: "Changes the selected database.",
        group: Group::Connection,
        args: &[Arg::integer("index")],
        traits: Traits { fast: true, loading: true, stale: true, databases: true, selects: true, ..Traits::NONE },
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(select),
};

fn select(call: &mut AdminCall<'_>) -> Outcome {
    let db = database::parse(call.args.at(1), call.context.instance.keyspace.databases())?;
    call.client.select(db);
    call.reply.ok();
    Ok(())
}
