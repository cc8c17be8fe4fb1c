//! CONFIG: reading and changing the configuration, and the statistics' reset.

use std::collections::BTreeMap;
use std::time::Duration;

use almandine_command_spec::{Arg, CommandSpec, Group};
use almandine_config::{Snapshot, Stated, parameter};
use almandine_datatypes::glob::{self, Case};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, errors, help};

use crate::operators::{FOR_OPERATORS, caller, is_local, outside_epoch};

pub(super) const COMMANDS: &[&Command] = &[&CONFIG, &GET, &SET, &REWRITE, &RESETSTAT, &HELP];

const CONFIG: Command = Command {
    spec: CommandSpec {
        name: "CONFIG",
        id: 401,
        since: "2.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for server configuration commands.",
        group: Group::Server,
        subcommands: &[&GET.spec, &HELP.spec, &RESETSTAT.spec, &REWRITE.spec, &SET.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

const SUBCOMMAND: CommandSpec = CommandSpec { since: "2.0.0", group: Group::Server, traits: FOR_OPERATORS, ..CommandSpec::BLANK };

const GET: Command = Command {
    spec: CommandSpec {
        name: "CONFIG|GET",
        id: 402,
        complexity: "O(N) when N is the number of configuration parameters provided",
        summary: "Returns the effective values of configuration parameters.",
        args: &[Arg::block("parameter", &[Arg::value("parameter")]).multiple()],
        history: &[("7.0.0", "Added the ability to pass multiple pattern parameters in one call")],
        ..SUBCOMMAND
    },
    run: Handler::Admin(get),
};

fn get(call: &mut AdminCall<'_>) -> Outcome {
    let config = &call.context.instance.config;
    let matches = |pattern: &[u8], name: &[u8]| glob::matches(pattern, name, Case::Insensitive);
    // By name in lower case: the name as the client spells it, and the value.
    let mut found: BTreeMap<Vec<u8>, (&[u8], String)> = BTreeMap::new();
    for pattern in call.args.slice_from(2).iter() {
        for (name, value) in config.get([pattern], matches) {
            let name = name.as_bytes();
            let shown = if name.eq_ignore_ascii_case(pattern) { pattern } else { name };
            found.entry(name.to_vec()).or_insert((shown, value));
        }
    }
    call.reply.map(found.len());
    for (shown, value) in found.values() {
        call.reply.bulk(shown);
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

const SET: Command = Command {
    spec: CommandSpec {
        name: "CONFIG|SET",
        id: 403,
        complexity: "O(N) when N is the number of configuration parameters provided",
        summary: "Sets configuration parameters in-flight.",
        args: &[Arg::block("data", &[Arg::value("parameter"), Arg::value("value")]).multiple()],
        secret: Some(secret_of_set),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        history: &[("7.0.0", "Added the ability to set multiple parameters in one call.")],
        ..SUBCOMMAND
    },
    run: Handler::Admin(set),
};

/// Values of sensitive parameters.
fn secret_of_set<'a>(arg: &dyn Fn(usize) -> &'a [u8], at: usize) -> bool {
    at >= 3
        && at % 2 == 1
        && std::str::from_utf8(arg(at - 1))
            .ok()
            .and_then(|name| parameter::lookup(&name.to_ascii_lowercase()))
            .is_some_and(|(_, parameter)| parameter.flags.sensitive)
}

fn set(call: &mut AdminCall<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.slice_from(2).iter().collect();
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(CommandError::Syntax.into());
    }
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    let names_files = |name: &[u8]| FILES.iter().any(|file| name.eq_ignore_ascii_case(file));
    if call.context.instance.persistence.is_loading() && pairs.iter().any(|(name, _)| names_files(name)) {
        return Err(CommandError::Loading.into());
    }
    // A log begins and ends between units of work, and a transaction is one.
    if !call.reply.out.may_stream() && pairs.iter().any(|(name, value)| turns_log(call, name, value)) {
        return Err(errors::server::LOG_IN_TRANSACTION.into());
    }
    let local = is_local(&call.client.shared);
    let mut outcome = Ok(());
    outside_epoch(call, |instance| {
        // It waits for other changes, for the file system, and for workers that start.
        outcome = instance.configure(&pairs, local);
        if outcome.is_ok() && pairs.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"maxmemory")) {
            instance.keyspace.await_eviction(instance.config.snapshot().settings.memory.maxmemory, EVICTION_WAIT_MAX);
        }
    });
    outcome.map_err(|error| errors::server::configuration(&error))?;
    tracing::info!("CONFIG SET {} by {}", shown(&call.context.instance.config.snapshot(), &pairs), caller(call));
    call.reply.ok();
    Ok(())
}

/// Whether a parameter would turn the log on or off.
fn turns_log(call: &AdminCall<'_>, name: &[u8], value: &[u8]) -> bool {
    let other = if call.context.settings().persistence.append_only { b"no".as_slice() } else { b"yes" };
    name.eq_ignore_ascii_case(b"appendonly") && value.eq_ignore_ascii_case(other)
}

/// The parameters as they are now, for the log: secrets without their values.
fn shown(config: &Snapshot, pairs: &[(&[u8], &[u8])]) -> String {
    let pair = |(name, _): &(&[u8], &[u8])| {
        let (_, parameter) = parameter::lookup(&String::from_utf8_lossy(name))?;
        let value = if parameter.flags.sensitive { Some("(redacted)".to_owned()) } else { config.show(parameter.name) };
        Some(format!("{} '{}'", parameter.name, value?.escape_default()))
    };
    pairs.iter().filter_map(pair).collect::<Vec<_>>().join(" ")
}

/// What is not changed while the files are being loaded.
const FILES: [&[u8]; 2] = [b"dir", b"appendonly"];

/// How long CONFIG SET waits for others to evict what is beyond a lower `maxmemory`.
const EVICTION_WAIT_MAX: Duration = Duration::from_secs(1);

const REWRITE: Command = Command {
    spec: CommandSpec {
        name: "CONFIG|REWRITE",
        id: 404,
        since: "2.8.0",
        summary: "Persists the effective configuration to file.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let mut outcome = Ok(());
        outside_epoch(call, |instance| outcome = instance.config.rewrite(Stated::AsNeeded, &instance.user_lines()));
        outcome.map_err(|problem| errors::server::configuration(&problem))?;
        call.reply.ok();
        Ok(())
    }),
};

const RESETSTAT: Command = Command {
    spec: CommandSpec {
        name: "CONFIG|RESETSTAT",
        id: 405,
        summary: "Resets the server's statistics.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        call.context.instance.reset_statistics();
        call.reply.ok();
        Ok(())
    }),
};

const HELP: Command = help::command("CONFIG|HELP", 406, CommandSpec { since: "5.0.0", ..SUBCOMMAND });
