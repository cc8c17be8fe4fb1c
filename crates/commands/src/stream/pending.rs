//! XPENDING: what a group has delivered and no consumer has acknowledged.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::stream::{Group, Pending, StreamId, UNOWNED};
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, Word, errors, number};
use almandine_keyspace::Refusal;
use almandine_resp::Reply;

use super::access::{STREAM, look};
use super::id;
use super::reply::write_id;
use crate::traits::SLOW_READ;

pub(super) const XPENDING: Command = Command {
    spec: CommandSpec {
        name: "XPENDING",
        id: 900,
        complexity: "O(N) with N being the number of elements returned, so asking for a small fixed number of entries per call \
                     is O(1). O(M), where M is the total number of entries scanned when used with the IDLE filter. When the \
                     command returns just the summary and the list of consumers is small, it runs in O(1) time; otherwise, an \
                     additional O(N) time for iterating every consumer.",
        summary: "Returns the information and entries from a stream consumer group's pending entries list.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::value("group"),
            Arg::block(
                "filters",
                &[
                    Arg::integer("min-idle-time").token("IDLE").optional().since("6.2.0"),
                    Arg::value("start"),
                    Arg::value("end"),
                    Arg::integer("count"),
                    Arg::value("consumer").optional(),
                ],
            )
            .optional(),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        history: &[("6.2.0", "Added the `IDLE` option and exclusive range intervals.")],
        ..STREAM
    },
    run: Handler::Read(xpending),
};

/// Which entries are asked for.
struct Filter<'c> {
    idle: i64,
    start: StreamId,
    end: StreamId,
    count: u64,
    consumer: Option<&'c [u8]>,
}

fn parse<'c>(call: &ReadCall<'c>) -> Result<Option<Filter<'c>>, CommandError> {
    let args = call.args;
    if args.len() == 3 {
        return Ok(None);
    }
    if !(6..=9).contains(&args.len()) {
        return Err(CommandError::Syntax);
    }
    let (mut idle, mut at) = (0, 3);
    if Word(args.at(3)).is("IDLE") {
        idle = number::integer(args.at(4))?;
        if args.len() < 8 {
            return Err(CommandError::Syntax);
        }
        at = 5;
    }
    let count = id::count(args.at(at + 2))?;
    let (start, end) = (id::start(args.at(at))?, id::end(args.at(at + 1))?);
    Ok(Some(Filter { idle, start, end, count, consumer: args.get(at + 3) }))
}

fn xpending(call: &mut ReadCall<'_>) -> Outcome {
    let filter = parse(call)?;
    let (key, name, now) = (call.args.at(1), call.args.at(2), call.now_ms());
    let found = look(call, |stream, reply| {
        let Some(group) = stream.groups().get(name) else { return Ok(false) };
        match &filter {
            None => summary(group, reply)?,
            Some(filter) => list(group, filter, now, reply)?,
        }
        Ok(true)
    })?;
    if found == Some(true) { Ok(()) } else { Err(errors::stream::no_key_or_group(key, name).into()) }
}

fn summary(group: &Group, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    reply.array(4);
    reply.unsigned(group.pending());
    let Some((first, last)) = group.pending_ends()? else {
        reply.null();
        reply.null();
        reply.null_array();
        return Ok(());
    };
    write_id(reply, first);
    write_id(reply, last);
    let (array, mut len) = (reply.begin(), 0);
    for (_, consumer) in group.consumers().filter(|(_, consumer)| consumer.pending > 0) {
        reply.array(2);
        reply.bulk(&consumer.name);
        reply.bulk(itoa::Buffer::new().format(consumer.pending).as_bytes());
        len += 1;
    }
    array.end_array(reply, len);
    Ok(())
}

fn list(group: &Group, filter: &Filter<'_>, now: i64, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let owner = match filter.consumer.map(|name| group.find_consumer(name)) {
        // There is no consumer of this name.
        Some(None) => {
            reply.array(0);
            return Ok(());
        }
        Some(owner) => owner,
        None => None,
    };
    let (array, mut len) = (reply.begin(), 0);
    let mut answer = |pending: Pending| {
        let idle = now.saturating_sub_unsigned(pending.time);
        reply.array(4);
        write_id(reply, pending.id);
        reply.bulk(group.consumer(pending.owner).map_or(&[][..], |consumer| &consumer.name));
        reply.integer(if pending.owner == UNOWNED { -1 } else { idle.max(0) });
        reply.integer(pending.count.cast_signed());
        len += 1;
    };
    // What is left out of a range by its idleness does not count.
    let mut left = filter.count;
    let mut visit = |pending: Pending| {
        let is_idle = filter.idle == 0 || now.saturating_sub_unsigned(pending.time) >= filter.idle;
        if is_idle && left > 0 {
            answer(pending);
            left -= 1;
        }
        left > 0
    };
    if filter.count > 0 {
        match owner {
            None => {
                for pending in group.pending_from(filter.start) {
                    let pending = pending?;
                    if pending.id > filter.end || !visit(pending) {
                        break;
                    }
                }
            }
            Some(owner) => {
                for id in group.owned_from(owner, filter.start) {
                    let id = id?;
                    let Some(pending) = group.get_pending(id)? else { continue };
                    if id > filter.end || !visit(pending) {
                        break;
                    }
                }
            }
        }
    }
    array.end_array(reply, len);
    Ok(())
}
