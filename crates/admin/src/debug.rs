//! DEBUG: the part that suites and tools use, behind `enable-debug-command`. Its subcommands are words here, not commands of their
//! own, as in Redis.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use almandine_command_spec::{CommandSpec, Group, Traits};
use almandine_commands::generic::encoding_of;
use almandine_commands::payload;
use almandine_config::Stated;
use almandine_datatypes::glob::{self, Case};
use almandine_datatypes::number::{parse_f64, parse_i64};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, Word, errors, number};
use almandine_keyspace::{Kind, Put, Slot};
use almandine_resp::{ProtocolVersion, Reply};

use crate::operators::{FOR_OPERATORS, is_local, outside_epoch};
use crate::{digest, reload};

pub(super) const COMMANDS: &[&Command] = &[&DEBUG];

const DEBUG: Command = Command {
    spec: CommandSpec {
        name: "DEBUG",
        id: 475,
        complexity: "Depends on subcommand.",
        summary: "A container for debugging commands.",
        group: Group::Server,
        arity: -2,
        traits: Traits { protected: true, system: true, ..FOR_OPERATORS },
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(debug),
};

/// One subcommand: its name, its syntax and meaning for HELP, how many arguments it takes behind its name, and what it does.
struct Subcommand {
    name: &'static str,
    syntax: &'static str,
    summary: &'static str,
    arguments: std::ops::RangeInclusive<usize>,
    run: fn(&mut AdminCall<'_>) -> Outcome,
}

/// How long DEBUG STORAGE EVICT waits for the device.
const EVICT_TIMEOUT: Duration = Duration::from_secs(5);

const ANY: usize = usize::MAX;

const SUBCOMMANDS: &[Subcommand] = &[
    subcommand(
        "AOF-FLUSH-SLEEP",
        "<microseconds>",
        "Has what is to be written to the log of writes wait for so long.",
        1..=1,
        |call| {
            let delay_us = u64::try_from(number::integer(call.args.at(2))?).unwrap_or(0);
            if let Some(progress) = call.context.instance.persistence.log.progress() {
                progress.set_delay_ns(delay_us.saturating_mul(1000));
            }
            call.reply.ok();
            Ok(())
        },
    ),
    subcommand("CHANGE-REPL-ID", "", "Gives the history of writes another name.", 0..=0, |call| {
        call.context.instance.change_replication_id();
        call.reply.ok();
        Ok(())
    }),
    subcommand("CLIENT-ENFORCE-REPLY-LIST", "<0|1>", "Does nothing: accepted for scripts.", 1..=1, accept),
    subcommand("CONFIG-REWRITE-FORCE-ALL", "", "CONFIG REWRITE that states every parameter.", 0..=0, |call| {
        let instance = &call.context.instance;
        let rewritten = instance.config.rewrite(Stated::All, &instance.user_lines());
        rewritten.map_err(|problem| errors::server::configuration(&problem))?;
        call.reply.ok();
        Ok(())
    }),
    subcommand("DICT-RESIZING", "<0|1>", "Does nothing: accepted for scripts.", 1..=1, accept),
    subcommand("DIGEST", "", "A signature of all databases; zeroes when they are empty.", 0..=0, |call| {
        let databases = call.context.instance.keyspace.databases() as u16;
        let signature = digest::of_databases(call.accessor, databases)?;
        call.reply.simple(&signature);
        Ok(())
    }),
    subcommand("DIGEST-VALUE", "<key> [<key> ...]", "A signature of each key's value.", 0..=ANY, |call| {
        let keys = call.args.slice_from(2);
        call.reply.array(keys.len());
        for key in keys.iter() {
            let signature = digest::of_value(call.accessor, call.client.db, key)?;
            call.reply.simple(&signature);
        }
        Ok(())
    }),
    subcommand("ERROR", "<string>", "Answers an error with this text.", 1..=1, |call| {
        Err(CommandError::new(call.args.at(2)).into())
    }),
    subcommand("HELP", "", "Prints this help.", 0..=0, help),
    #[cfg(debug_assertions)]
    subcommand(
        "LIMIT-ALLOCATIONS",
        "<count>",
        "Sets how often the worker may allocate, and answers how often it still could.",
        1..=1,
        limit_allocations,
    ),
    subcommand("LOADAOF", "", "Drops all data, and loads what the files of the log of writes have.", 0..=0, reload::load_log),
    subcommand("LOG", "<message>", "Writes a message to the log.", 1..=1, |call| {
        tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(call.args.at(2)));
        call.reply.ok();
        Ok(())
    }),
    subcommand("OBJECT", "<key>", "How a value is stored.", 1..=2, object),
    subcommand("PANIC", "", "Crashes the server by a panic.", 0..=0, |_| panic!("DEBUG PANIC was called")),
    subcommand(
        "PAUSE-CRON",
        "<0|1>",
        "Whether signals that ask for the end wait, until SHUTDOWN ABORT withdraws them.",
        1..=1,
        |call| {
            call.context.instance.shutdown.hold_signals(number::integer(call.args.at(2))? != 0);
            call.reply.ok();
            Ok(())
        },
    ),
    subcommand(
        "POPULATE",
        "<count> [<prefix>] [<size>]",
        "Creates keys <prefix>:<number>, the prefix being `key`.",
        1..=3,
        populate,
    ),
    subcommand("PROTOCOL", "<type>", "Answers a value of this type of the protocol.", 1..=1, protocol),
    subcommand("QUICKLIST-PACKED-THRESHOLD", "<size>", "Does nothing: accepted for scripts.", 1..=1, accept),
    subcommand(
        "RELOAD",
        "[NOSAVE] [NOFLUSH] [MERGE]",
        "Saves all data, drops it, and loads it from the snapshot.",
        0..=ANY,
        reload::reload,
    ),
    subcommand("REPLYBUFFER", "PEAK-RESET-TIME <time>|RESIZING <0|1>", "Does nothing: accepted for scripts.", 2..=2, reply_buffer),
    subcommand("SEGFAULT", "", "Crashes the server by a write to memory that cannot be written.", 0..=0, |_| {
        almandine_io::crash::segfault()
    }),
    subcommand("SET-ACTIVE-EXPIRE", "<0|1>", "Whether expired keys are removed in the background.", 1..=1, set_active_expire),
    subcommand("SET-DISABLE-DENY-SCRIPTS", "<0|1>", "Whether scripts may call any command.", 1..=1, |call| {
        let any = parse_i64(call.args.at(2)).is_some_and(|value| value != 0);
        call.context.instance.scripts.call_any.store(any, Relaxed);
        call.reply.ok();
        Ok(())
    }),
    subcommand(
        "SET-SKIP-CHECKSUM-VALIDATION",
        "<0|1>",
        "Whether RESTORE takes payloads whatever their checksum is.",
        1..=1,
        set_skip_checksum_validation,
    ),
    subcommand("SLEEP", "<seconds>", "Stops the worker that serves this connection for so long. Decimals allowed.", 1..=1, sleep),
    subcommand("STORAGE", "EVICT", "Lets all data leave memory for the storage device.", 1..=1, storage),
    subcommand("STRINGMATCH-LEN", "<len> <pattern>", "Whether the pattern matches that number of letters `a`.", 2..=2, |call| {
        let len = usize::try_from(number::integer_within(call.args.at(2), 0, 1 << 20)?).unwrap_or(0);
        call.reply.integer(glob::matches(call.args.at(3), &vec![b'a'; len], Case::Sensitive).into());
        Ok(())
    }),
];

const fn subcommand(
    name: &'static str,
    syntax: &'static str,
    summary: &'static str,
    arguments: std::ops::RangeInclusive<usize>,
    run: fn(&mut AdminCall<'_>) -> Outcome,
) -> Subcommand {
    Subcommand { name, syntax, summary, arguments, run }
}

fn debug(call: &mut AdminCall<'_>) -> Outcome {
    let allowed = call.context.settings().security.enable_debug_command;
    if !allowed.permits(is_local(&call.client.shared)) {
        return Err(errors::server::protected_command("DEBUG", "enable-debug-command").into());
    }
    let (name, arguments) = (call.args.at(1), call.args.len() - 2);
    let subcommand = SUBCOMMANDS.iter().find(|subcommand| subcommand.name.as_bytes().eq_ignore_ascii_case(name));
    match subcommand.filter(|subcommand| subcommand.arguments.contains(&arguments)) {
        Some(subcommand) => (subcommand.run)(call),
        None => Err(errors::subcommand_syntax("DEBUG", name).into()),
    }
}

fn accept(call: &mut AdminCall<'_>) -> Outcome {
    call.reply.ok();
    Ok(())
}

fn help(call: &mut AdminCall<'_>) -> Outcome {
    call.reply.array(1 + 2 * SUBCOMMANDS.len());
    call.reply.simple("DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    for subcommand in SUBCOMMANDS {
        call.reply.simple(format!("{} {}", subcommand.name, subcommand.syntax).trim_end());
        call.reply.simple(&format!("    {}", subcommand.summary));
    }
    Ok(())
}

/// Replies are not collected in buffers of a connection, so nothing of this has a meaning.
fn reply_buffer(call: &mut AdminCall<'_>) -> Outcome {
    let value = Word(call.args.at(3));
    match Word(call.args.at(2)) {
        word if word.is("RESIZING") => {}
        word if word.is("PEAK-RESET-TIME") && (value.is("NEVER") || value.is("RESET")) => {}
        word if word.is("PEAK-RESET-TIME") => {
            number::integer(value.0)?;
        }
        _ => return Err(errors::subcommand_syntax("DEBUG", call.args.at(1)).into()),
    }
    accept(call)
}

/// Connections of other workers are served meanwhile; in Redis none are.
fn sleep(call: &mut AdminCall<'_>) -> Outcome {
    let seconds = parse_f64(call.args.at(2)).filter(|seconds| *seconds > 0.0).unwrap_or(0.0);
    outside_epoch(call, |_| almandine_io::thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)));
    call.reply.ok();
    Ok(())
}

/// For tests: what follows meets cold keys only.
fn storage(call: &mut AdminCall<'_>) -> Outcome {
    if !Word(call.args.at(2)).is("EVICT") {
        return Err(errors::subcommand_syntax("DEBUG", call.args.at(1)).into());
    }
    if call.context.instance.keyspace.figures().tier().is_none() {
        return Err(errors::server::NO_STORAGE_DEVICE.into());
    }
    let mut emptied = false;
    outside_epoch(call, |instance| emptied = instance.keyspace.empty_memory(EVICT_TIMEOUT));
    if !emptied {
        return Err(errors::server::STORAGE_DEVICE_SLOW.into());
    }
    call.reply.ok();
    Ok(())
}

fn set_active_expire(call: &mut AdminCall<'_>) -> Outcome {
    let active = parse_i64(call.args.at(2)).is_some_and(|value| value != 0);
    call.context.instance.keyspace.settings().set_reclaiming(active);
    call.reply.ok();
    Ok(())
}

fn set_skip_checksum_validation(call: &mut AdminCall<'_>) -> Outcome {
    let skip = parse_i64(call.args.at(2)).is_some_and(|value| value != 0);
    call.context.instance.run.payloads_unsummed.store(skip, Relaxed);
    call.reply.ok();
    Ok(())
}

/// For tests: whatever allocates space more often fails. A negative count ends it.
#[cfg(debug_assertions)]
fn limit_allocations(call: &mut AdminCall<'_>) -> Outcome {
    let count = parse_i64(call.args.at(2)).ok_or(CommandError::NotInteger)?;
    let left = almandine_keyspace::limit_allocations(u64::try_from(count).ok());
    call.reply.integer(left.map_or(-1, u64::cast_signed));
    Ok(())
}

/// In Redis' form. A value has no address, and is not shared.
fn object(call: &mut AdminCall<'_>) -> Outcome {
    let mut reader = call.accessor.reader(call.client.db);
    let key = reader.key(call.args.at(2));
    let names = call.context.settings().values.encoding_names;
    let encoding = encoding_of(&mut reader, key, names)?.ok_or(CommandError::NoSuchKey)?;
    let len = payload::of_key(&mut reader, key)?.map_or(0, |payload| payload.len() - payload::ENVELOPE_BYTES);
    let line = format!("Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{len} lru:0 lru_seconds_idle:0");
    call.reply.simple(&line);
    Ok(())
}

/// Keys that may be on the device that DEBUG POPULATE asks for at once.
const POPULATE_COLD_MAX: usize = 4096;

/// Keys that exist are left as they are. A value is `value:<number>`, cut or filled with zero bytes to the size.
fn populate(call: &mut AdminCall<'_>) -> Outcome {
    let natural = |argument| parse_i64(argument).filter(|value| *value >= 0).ok_or(CommandError::NotPositive);
    let count = natural(call.args.at(2))?;
    let prefix = call.args.get(3).unwrap_or(b"key");
    let size = call.args.get(4).map(natural).transpose()?;
    let has_cold = call.accessor.cold().is_possible();
    let mut writer = call.accessor.writer(call.client.db);
    let (mut name, mut value) = (Vec::new(), Vec::new());
    let (mut outcome, mut refused): (Outcome, usize) = (Ok(()), 0);
    for number in 0..count {
        let digits = number.to_string();
        name.clear();
        name.extend_from_slice(prefix);
        name.push(b':');
        name.extend_from_slice(digits.as_bytes());
        value.clear();
        value.extend_from_slice(b"value:");
        value.extend_from_slice(digits.as_bytes());
        if let Some(size) = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0) {
            value.resize(size, 0);
        }
        let key = writer.key(&name);
        let set = match writer.modify(key)? {
            Slot::Vacant(vacant) => vacant.insert(Kind::String, &value, Put::default()).map(drop),
            Slot::Occupied(_) => Ok(()),
        };
        if let Err(full) = set {
            // What may exist on the device is not overwritten. It is read, many at once, and the command runs again.
            outcome = Err(full.into());
            refused += 1;
            if !has_cold || refused == POPULATE_COLD_MAX {
                break;
            }
        }
    }
    drop(writer);
    outcome?;
    call.reply.ok();
    Ok(())
}

fn protocol(call: &mut AdminCall<'_>) -> Outcome {
    let name = call.args.at(2).to_ascii_lowercase();
    if name == b"push" {
        return push(call);
    }
    let sample = SAMPLES.iter().find(|sample| sample.0.as_bytes() == name).ok_or(errors::server::PROTOCOL_TYPE)?;
    (sample.1)(&mut call.reply);
    Ok(())
}

/// A push is no reply, so one follows it.
fn push(call: &mut AdminCall<'_>) -> Outcome {
    if call.reply.version() == ProtocolVersion::Resp2 {
        return Err(errors::server::NEEDS_RESP3.into());
    }
    call.reply.push(2);
    call.reply.bulk(b"server-cpu-usage");
    call.reply.integer(42);
    call.reply.bulk(b"Some real reply following the push reply");
    Ok(())
}

/// The name of a type and what writes its sample.
type Sample = (&'static str, fn(&mut Reply<'_>));

/// Redis' samples.
#[expect(clippy::approx_constant, reason = "Redis' sample of a double")]
const SAMPLES: &[Sample] = &[
    ("string", |reply| reply.bulk(b"Hello World")),
    ("integer", |reply| reply.integer(12345)),
    ("double", |reply| reply.double(3.141)),
    ("null", |reply| reply.null()),
    ("array", |reply| {
        reply.array(3);
        (0..3).for_each(|element| reply.integer(element));
    }),
    ("set", |reply| {
        reply.set(3);
        (0..3).for_each(|element| reply.integer(element));
    }),
    ("map", |reply| {
        reply.map(3);
        for element in 0..3 {
            reply.integer(element);
            reply.boolean(element == 1);
        }
    }),
    ("attrib", |reply| {
        if reply.version() == ProtocolVersion::Resp3 {
            reply.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
        }
        reply.bulk(b"Some real reply following the attribute");
    }),
    ("verbatim", |reply| reply.verbatim(b"This is a verbatim\nstring")),
    ("true", |reply| reply.boolean(true)),
    ("false", |reply| reply.boolean(false)),
    ("bignum", |reply| match reply.version() {
        ProtocolVersion::Resp2 => reply.bulk(b"1234567999999999999999999999999999999"),
        ProtocolVersion::Resp3 => reply.raw(b"(1234567999999999999999999999999999999\r\n"),
    }),
];
