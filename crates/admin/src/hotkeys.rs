//! HOTKEYS: which keys take most of the time and of the network, from START to STOP.

use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{AdminCall, Command, CommandError, Handler, Options, Outcome, Word, errors, help};
use almandine_instance::{HotKeysOptions, HotKeysReport};

/// The family.
pub(crate) const COMMANDS: &[&Command] = &[&HOTKEYS, &GET, &HELP, &RESET, &START, &STOP];

const HOTKEYS: Command = Command {
    spec: CommandSpec {
        name: "HOTKEYS",
        id: 1060,
        since: "8.6.0",
        complexity: "Depends on subcommand.",
        summary: "A container for hotkeys tracking commands.",
        group: Group::Server,
        subcommands: &[&GET.spec, &HELP.spec, &RESET.spec, &START.spec, &STOP.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

/// What the subcommands have in common.
const SUBCOMMAND: CommandSpec = CommandSpec {
    since: "8.6.0",
    group: Group::Server,
    traits: Traits { admin: true, noscript: true, ..Traits::NONE },
    ..CommandSpec::BLANK
};

/// Keys of a list when no number is given.
const KEYS_DEFAULT: usize = 10;
const METRICS_MAX: i64 = 2;

const START: Command = Command {
    spec: CommandSpec {
        name: "HOTKEYS|START",
        id: 1061,
        complexity: "O(1)",
        summary: "Starts hotkeys tracking.",
        args: &[
            Arg::block(
                "metrics",
                &[Arg::integer("count"), Arg::pure_token("cpu", "CPU").optional(), Arg::pure_token("net", "NET").optional()],
            )
            .token("METRICS"),
            Arg::integer("k").token("COUNT").optional(),
            Arg::integer("seconds").token("DURATION").optional(),
            Arg::integer("ratio").token("SAMPLE").optional(),
            Arg::block("slots", &[Arg::integer("count"), Arg::integer("slot").multiple()]).token("SLOTS").optional(),
        ],
        arity: -2,
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(start),
};

fn start(call: &mut AdminCall<'_>) -> Outcome {
    let hot_keys = &call.context.instance.statistics.hot_keys;
    if hot_keys.is_active() {
        return Err(errors::server::HOT_KEYS_ACTIVE.into());
    }
    if !hot_keys.start(parse(call)?) {
        return Err(errors::server::HOT_KEYS_ACTIVE.into());
    }
    call.reply.ok();
    Ok(())
}

fn parse(call: &AdminCall<'_>) -> Result<HotKeysOptions, CommandError> {
    if call.args.len() < 4 || !Word(call.args.at(2)).is("METRICS") {
        return Err(errors::server::HOT_KEYS_METRICS_MISSING);
    }
    let metrics = within(call.args.at(3), 1, METRICS_MAX, errors::server::HOT_KEYS_METRICS_COUNT)?;
    let mut asked = HotKeysOptions { keys_max: KEYS_DEFAULT, sample_ratio: 1, ..HotKeysOptions::default() };
    let mut options = Options::after(call.args, 4);
    for _ in 0..metrics {
        match options.next().ok_or(errors::server::HOT_KEYS_METRICS_TOO_FEW)? {
            o if o.is("CPU") && asked.by_time => return Err(errors::server::HOT_KEYS_CPU_TWICE),
            o if o.is("CPU") => asked.by_time = true,
            o if o.is("NET") && asked.by_bytes => return Err(errors::server::HOT_KEYS_NET_TWICE),
            o if o.is("NET") => asked.by_bytes = true,
            // Counted, and not known.
            _ => {}
        }
    }
    if !asked.by_time && !asked.by_bytes {
        return Err(errors::server::HOT_KEYS_METRICS_UNKNOWN);
    }
    while let Some(option) = options.next() {
        match option {
            o if o.is("COUNT") && options.remaining() > 0 => {
                asked.keys_max = within(options.value()?, 1, 64, errors::server::HOT_KEYS_COUNT)? as usize;
            }
            o if o.is("DURATION") && options.remaining() > 0 => {
                asked.duration_ms = within(options.value()?, 1, 1_000_000, errors::server::HOT_KEYS_DURATION)? * 1000;
            }
            o if o.is("SAMPLE") && options.remaining() > 0 => {
                asked.sample_ratio = within(options.value()?, 1, i64::from(i32::MAX), errors::server::HOT_KEYS_SAMPLE)? as u32;
            }
            o if o.is("SLOTS") && options.remaining() > 0 => return Err(errors::server::HOT_KEYS_SLOTS),
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok(asked)
}

fn within(argument: &[u8], least: i64, most: i64, error: CommandError) -> Result<i64, CommandError> {
    parse_i64(argument).filter(|number| (least..=most).contains(number)).ok_or(error)
}

const STOP: Command = Command {
    spec: CommandSpec {
        name: "HOTKEYS|STOP",
        id: 1062,
        complexity: "O(1)",
        summary: "Stops hotkeys tracking.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    // Null when there is nothing to stop.
    run: Handler::Admin(|call| {
        if call.context.instance.statistics.hot_keys.stop() {
            call.reply.ok();
        } else {
            call.reply.null();
        }
        Ok(())
    }),
};

const RESET: Command = Command {
    spec: CommandSpec {
        name: "HOTKEYS|RESET",
        id: 1063,
        complexity: "O(1)",
        summary: "Releases the resources used for hotkey tracking.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        if !call.context.instance.statistics.hot_keys.reset() {
            return Err(errors::server::HOT_KEYS_NOT_STOPPED.into());
        }
        call.reply.ok();
        Ok(())
    }),
};

const GET: Command = Command {
    spec: CommandSpec {
        name: "HOTKEYS|GET",
        id: 1064,
        complexity: "O(K) where K is the number of hotkeys returned.",
        summary: "Returns lists of top K hotkeys depending on metrics chosen in HOTKEYS START command.",
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        match call.context.instance.statistics.hot_keys.report() {
            None => call.reply.null(),
            Some(report) => write(call, &report),
        }
        Ok(())
    }),
};

/// Of all slots, since there is no cluster: one report.
fn write(call: &mut AdminCall<'_>, report: &HotKeysReport) {
    let HotKeysOptions { by_time, by_bytes, sample_ratio, .. } = report.options;
    let unsigned = |number: i64| number.max(0).unsigned_abs();
    call.reply.array(1);
    call.reply.map(7 + if by_time { 3 } else { 0 } + if by_bytes { 2 } else { 0 });
    number(call, "tracking-active", report.active.into());
    number(call, "sample-ratio", sample_ratio.into());
    call.reply.bulk(b"selected-slots");
    call.reply.array(1);
    call.reply.array(2);
    call.reply.unsigned(0);
    call.reply.unsigned(SLOTS - 1);
    number(call, "all-commands-all-slots-us", report.elapsed_ns / 1000);
    number(call, "net-bytes-all-commands-all-slots", report.bytes);
    number(call, "collection-start-time-unix-ms", unsigned(report.start_ms));
    number(call, "collection-duration-ms", unsigned(report.duration_ms));
    if by_time {
        number(call, "total-cpu-time-user-ms", report.processor.user_us / 1000);
        number(call, "total-cpu-time-sys-ms", report.processor.system_us / 1000);
    }
    if by_bytes {
        number(call, "total-net-bytes", report.sampled_bytes);
    }
    if by_time {
        list(call, "by-cpu-time-us", report.by_time.iter().map(|(key, elapsed_ns)| (&**key, elapsed_ns / 1000)));
    }
    if by_bytes {
        list(call, "by-net-bytes", report.by_bytes.iter().map(|(key, bytes)| (&**key, *bytes)));
    }
}

/// Hash slots of a cluster.
const SLOTS: u64 = 16_384;

fn number(call: &mut AdminCall<'_>, name: &str, value: u64) {
    call.reply.bulk(name.as_bytes());
    call.reply.unsigned(value);
}

fn list<'r>(call: &mut AdminCall<'_>, name: &str, keys: impl ExactSizeIterator<Item = (&'r [u8], u64)>) {
    call.reply.bulk(name.as_bytes());
    call.reply.array(2 * keys.len());
    for (key, weight) in keys {
        call.reply.bulk(key);
        call.reply.unsigned(weight);
    }
}

const HELP: Command = help::command("HOTKEYS|HELP", 1065, CommandSpec { since: "8.6.1", ..SUBCOMMAND });
