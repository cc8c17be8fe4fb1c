//! INFO: sections of fields. Most are the rows of the metrics table; those that name commands, errors or databases are written
//! here.

use std::fmt::Write;

use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_config::sections::network::Network;
use almandine_handler::{AdminCall, Command, Handler, Outcome};
use almandine_instance::metrics::{self, Readings, Section};

pub(super) const COMMANDS: &[&Command] = &[&INFO];

const INFO: Command = Command {
    spec: CommandSpec {
        name: "INFO",
        id: 400,
        summary: "Returns information and statistics about the server.",
        group: Group::Server,
        args: &[Arg::value("section").multiple().optional()],
        traits: Traits { loading: true, stale: true, ..Traits::NONE },
        categories: Some(&[almandine_command_spec::Category::Dangerous]),
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        history: &[("7.0.0", "Added support for taking multiple section arguments.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(info),
};

/// A section of INFO.
struct Part {
    title: &'static str,
    shown: Shown,
    content: Content,
}

/// When a section is shown without being named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// By INFO alone.
    Default,
    /// By INFO ALL and INFO EVERYTHING.
    All,
}

enum Content {
    /// The rows of the metrics table.
    Metrics(Section),
    /// Only the title: there is nothing of the kind yet.
    Nothing,
    /// Whatever this writes.
    Written(fn(&mut String, &mut AdminCall<'_>)),
}

/// All sections, in the order of the reply. A section's name is its title in any case.
const PARTS: &[Part] = &[
    part("Server", Shown::Default, Content::Metrics(Section::Server)),
    part("Clients", Shown::Default, Content::Metrics(Section::Clients)),
    part("Memory", Shown::Default, Content::Metrics(Section::Memory)),
    part("Persistence", Shown::Default, Content::Metrics(Section::Persistence)),
    part("Stats", Shown::Default, Content::Metrics(Section::Stats)),
    part("Replication", Shown::Default, Content::Metrics(Section::Replication)),
    part("CPU", Shown::Default, Content::Metrics(Section::Cpu)),
    part("Modules", Shown::Default, Content::Nothing),
    part("Commandstats", Shown::All, Content::Written(write_commandstats)),
    part("Errorstats", Shown::Default, Content::Written(write_errorstats)),
    part("Latencystats", Shown::All, Content::Written(write_latencystats)),
    part("Cluster", Shown::Default, Content::Metrics(Section::Cluster)),
    part("Storage", Shown::All, Content::Metrics(Section::Storage)),
    part("Keyspace", Shown::Default, Content::Written(write_keyspace)),
];

const fn part(title: &'static str, shown: Shown, content: Content) -> Part {
    Part { title, shown, content }
}

fn info(call: &mut AdminCall<'_>) -> Outcome {
    let names = call.args.slice_from(1);
    let is_named = |name: &str| names.iter().any(|argument| argument.eq_ignore_ascii_case(name.as_bytes()));
    let all = is_named("all") || is_named("everything");
    let default = all || names.is_empty() || is_named("default");
    let context = call.context;
    let readings = Readings::take(&context.instance);
    let mut text = String::with_capacity(8 * 1024);
    for part in PARTS {
        let shown = match part.shown {
            Shown::Default => default,
            Shown::All => all,
        };
        if !shown && !is_named(part.title) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        // Writing to a String does not fail.
        let _ = write!(text, "# {}\r\n", part.title);
        match part.content {
            Content::Metrics(section) => {
                for (name, value) in metrics::section(&readings, section) {
                    let _ = write!(text, "{name}:{value}\r\n");
                }
                if section == Section::Server {
                    write_listeners(&mut text, &readings.config.settings.network, readings.config.settings.tls.port);
                }
            }
            Content::Nothing => {}
            Content::Written(write) => write(&mut text, call),
        }
    }
    call.reply.verbatim(text.as_bytes());
    Ok(())
}

/// A line for each kind of listener, as Redis has them since 7.2.
fn write_listeners(text: &mut String, network: &Network, tls_port: u16) {
    let mut lines = Vec::new();
    let addresses: String = network.bind.iter().map(|address| format!(",bind={address}")).collect();
    for (name, port) in [("tcp", network.port), ("tls", tls_port)] {
        if port != 0 {
            lines.push(format!("name={name}{addresses},port={port}"));
        }
    }
    if !network.unix_socket.is_empty() {
        lines.push(format!("name=unix,bind={}", network.unix_socket));
    }
    for (number, line) in lines.iter().enumerate() {
        // Writing to a String does not fail.
        let _ = write!(text, "listener{number}:{line}\r\n");
    }
}

#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn write_commandstats(text: &mut String, call: &mut AdminCall<'_>) {
    for (index, entry) in call.context.table.rows().iter().enumerate() {
        let totals = call.context.instance.statistics.command(index);
        if totals.is_empty() {
            continue;
        }
        let us_per_call = if totals.calls == 0 { 0.0 } else { totals.elapsed_ns as f64 / 1000.0 / totals.calls as f64 };
        let _ = write!(
            text,
            "cmdstat_{}:calls={},usec={},usec_per_call={us_per_call:.2},rejected_calls={},failed_calls={}\r\n",
            entry.name,
            totals.calls,
            totals.elapsed_ns / 1000,
            totals.rejected,
            totals.failed
        );
    }
}

fn write_errorstats(text: &mut String, call: &mut AdminCall<'_>) {
    for (prefix, count) in call.context.instance.statistics.errors() {
        let _ = write!(text, "errorstat_{prefix}:count={count}\r\n");
    }
}

#[expect(clippy::cast_precision_loss, reason = "three decimals are shown")]
fn write_latencystats(text: &mut String, call: &mut AdminCall<'_>) {
    let observe = &call.context.settings().observe;
    if !observe.latency_tracking {
        return;
    }
    for (index, entry) in call.context.table.rows().iter().enumerate() {
        let Some(latency) = call.context.instance.statistics.latency(index) else { continue };
        let percentiles = observe.latency_percentiles.iter();
        let percentiles = percentiles.map(|p| format!("p{p}={:.3}", latency.percentile_ns(*p) as f64 / 1000.0));
        let _ = write!(text, "latency_percentiles_usec_{}:{}\r\n", entry.name, percentiles.collect::<Vec<_>>().join(","));
    }
}

fn write_keyspace(text: &mut String, call: &mut AdminCall<'_>) {
    let keyspace = &call.context.instance.keyspace;
    for db in (0..keyspace.databases()).filter_map(|db| u16::try_from(db).ok()) {
        let keys = keyspace.dbsize(db);
        if keys == 0 {
            continue;
        }
        let expires = keyspace.expires(db);
        let average_ttl_ms = if expires == 0 { 0 } else { average_ttl_ms(call, db) };
        let _ = write!(text, "db{db}:keys={keys},expires={expires},avg_ttl={average_ttl_ms}\r\n");
    }
}

/// Keys that are looked at to estimate how long the keys of a database have left.
const SAMPLED_KEYS: usize = 64;

/// The mean time to live of some keys with an expiry, from a place of the keyspace that changes with time; 0 when there was none.
fn average_ttl_ms(call: &mut AdminCall<'_>, db: u16) -> i64 {
    let now_ms = call.now_ms;
    let start = now_ms.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
    let (mut sum_ms, mut keys) = (0_i64, 0_i64);
    if call.accessor.cold().is_possible() {
        // An estimate is not worth reads of the device.
        return 0;
    }
    let mut reader = call.accessor.reader(db);
    for cursor in [start, 0] {
        let _ = reader.scan(cursor, SAMPLED_KEYS, &mut |_, metadata| {
            if let Some(expiry_ms) = metadata.expiry_ms {
                sum_ms = sum_ms.saturating_add(expiry_ms - now_ms);
                keys += 1;
            }
        });
        if keys > 0 {
            return sum_ms / keys;
        }
    }
    0
}
