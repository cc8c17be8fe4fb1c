//! XINFO: what there is to know of streams, groups and consumers.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::stream::StreamObject;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, errors, help, number};
use almandine_keyspace::Refusal;
use almandine_resp::Reply;

use super::access::{STREAM, look_at, look_at_all};
use super::full;
use super::reply::{write_entry, write_id};
use crate::traits::SLOW_READ;

pub(super) const XINFO: Command = Command {
    spec: CommandSpec {
        name: "XINFO",
        id: 903,
        complexity: "Depends on subcommand.",
        summary: "A container for stream introspection commands.",
        subcommands: &[&CONSUMERS.spec, &GROUPS.spec, &HELP.spec, &XINFO_STREAM.spec],
        ..STREAM
    },
    run: Handler::Container,
};

pub(super) const HELP: Command = help::command("XINFO|HELP", 904, STREAM);

pub(super) const XINFO_STREAM: Command = Command {
    spec: CommandSpec {
        name: "XINFO|STREAM",
        id: 905,
        summary: "Returns information about a stream.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::block("full-block", &[Arg::pure_token("full", "FULL"), Arg::integer("count").token("COUNT").optional()])
                .optional(),
        ],
        traits: SLOW_READ,
        history: &[
            ("6.0.0", "Added the `FULL` modifier."),
            (
                "7.0.0",
                "Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag` fields",
            ),
            ("7.2.0", "Added the `active-time` field, and changed the meaning of `seen-time`."),
        ],
        ..STREAM
    },
    run: Handler::Read(stream),
};

/// Entries and pending ones that FULL shows if nothing else is said.
const FULL_COUNT: u64 = 10;

fn stream(call: &mut ReadCall<'_>) -> Outcome {
    let mut options = Options::after(call.args, 3);
    // The key is looked at before the options are.
    let count = match (options.next(), options.next(), options.next(), options.next()) {
        (None, ..) => Ok(None),
        (Some(full), None, ..) if full.is("FULL") => Ok(Some(FULL_COUNT)),
        (Some(full), Some(word), Some(count), None) if full.is("FULL") && word.is("COUNT") => {
            number::integer(count.0).map(|count| Some(u64::try_from(count).unwrap_or(FULL_COUNT)))
        }
        _ => Err(errors::subcommand_syntax("XINFO", call.args.at(1))),
    };
    let known = count.as_ref().ok().copied();
    let found = match known {
        Some(Some(0)) => look_at_all(call, 2, |stream, reply| full::write(stream, 0, reply))?,
        Some(Some(count)) => look_at(call, 2, |stream, reply| full::write(stream, count, reply))?,
        Some(None) => look_at(call, 2, summary)?,
        None => look_at(call, 2, |_, _| Ok(()))?,
    };
    found.ok_or(CommandError::NoSuchKey)?;
    count?;
    Ok(())
}

/// What both forms begin with, in a map that has `more` pairs behind it.
pub(super) fn write_common(stream: &StreamObject, more: usize, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (counters, producers) = (stream.counters()?, stream.producers());
    reply.map(7 + if producers.is_some() { 6 } else { 0 } + more);
    reply.bulk(b"length");
    reply.unsigned(stream.len());
    let (keys, nodes) = stream.entries().radix_tree()?;
    reply.bulk(b"radix-tree-keys");
    reply.unsigned(keys as u64);
    reply.bulk(b"radix-tree-nodes");
    reply.unsigned(nodes as u64);
    reply.bulk(b"last-generated-id");
    write_id(reply, counters.last);
    reply.bulk(b"max-deleted-entry-id");
    write_id(reply, counters.max_deleted);
    reply.bulk(b"entries-added");
    // As Redis tells it, which knows it by 64 bits without a sign and writes it with one.
    reply.integer(counters.added.cast_signed());
    reply.bulk(b"recorded-first-entry-id");
    write_id(reply, counters.first);
    if let Some(producers) = producers {
        let limits = producers.limits();
        for (name, number) in [
            (&b"idmp-duration"[..], limits.seconds),
            (b"idmp-maxsize", limits.ids),
            (b"pids-tracked", producers.len() as u64),
            (b"iids-tracked", producers.ids() as u64),
            (b"iids-added", producers.added()),
            (b"iids-duplicates", producers.duplicates()),
        ] {
            reply.bulk(name);
            reply.unsigned(number);
        }
    }
    Ok(())
}

fn summary(stream: &StreamObject, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    write_common(stream, 3, reply)?;
    reply.bulk(b"groups");
    reply.unsigned(stream.groups().len() as u64);
    for (name, entry) in [(&b"first-entry"[..], stream.entries().first()?), (b"last-entry", stream.entries().last())] {
        reply.bulk(name);
        match entry {
            Some(entry) => write_entry(reply, &entry),
            None => reply.null(),
        }
    }
    Ok(())
}

pub(super) const GROUPS: Command = Command {
    spec: CommandSpec {
        name: "XINFO|GROUPS",
        id: 906,
        summary: "Returns a list of the consumer groups of a stream.",
        args: &[Arg::key("key", Access::Read)],
        traits: SLOW_READ,
        history: &[("7.0.0", "Added the `entries-read` and `lag` fields")],
        ..STREAM
    },
    run: Handler::Read(groups),
};

fn groups(call: &mut ReadCall<'_>) -> Outcome {
    let found = look_at(call, 2, |stream, reply| {
        let counters = stream.counters()?;
        reply.array(stream.groups().len());
        for group in stream.groups().iter() {
            reply.map(6 + usize::from(group.released() > 0));
            reply.bulk(b"name");
            reply.bulk(group.name());
            reply.bulk(b"consumers");
            reply.unsigned(group.consumers().len() as u64);
            reply.bulk(b"pending");
            reply.unsigned(group.pending());
            reply.bulk(b"last-delivered-id");
            write_id(reply, group.last_id());
            full::write_progress(&counters, group, reply);
        }
        Ok(())
    })?;
    found.ok_or(CommandError::NoSuchKey.into())
}

pub(super) const CONSUMERS: Command = Command {
    spec: CommandSpec {
        name: "XINFO|CONSUMERS",
        id: 907,
        summary: "Returns a list of the consumers in a consumer group.",
        args: &[Arg::key("key", Access::Read), Arg::value("group")],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        history: &[("7.2.0", "Added the `inactive` field, and changed the meaning of `idle`.")],
        ..STREAM
    },
    run: Handler::Read(consumers),
};

fn consumers(call: &mut ReadCall<'_>) -> Outcome {
    let (key, name, now) = (call.args.at(2), call.args.at(3), call.now_ms());
    let since = |time: u64| now.saturating_sub_unsigned(time).max(0);
    let found = look_at(call, 2, |stream, reply| {
        let Some(group) = stream.groups().get(name) else { return Ok(false) };
        reply.array(group.consumers().len());
        for (_, consumer) in group.consumers() {
            reply.map(4);
            reply.bulk(b"name");
            reply.bulk(&consumer.name);
            reply.bulk(b"pending");
            reply.unsigned(consumer.pending);
            reply.bulk(b"idle");
            reply.integer(since(consumer.seen));
            reply.bulk(b"inactive");
            reply.integer(consumer.active.map_or(-1, since));
        }
        Ok(true)
    })?;
    match found {
        None => Err(CommandError::NoSuchKey.into()),
        Some(false) => Err(errors::stream::no_group(name, key).into()),
        Some(true) => Ok(()),
    }
}
