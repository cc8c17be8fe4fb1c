//! XREADGROUP: entries that a group has not read, or that a consumer has not acknowledged. With BLOCK it waits for new ones, or
//! until its group is gone.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Keys, Traits};
use almandine_datatypes::stream::{Pending, StreamId};
use almandine_handler::blocking::Block;
use almandine_handler::{Command, Handler, Outcome, WriteCall, errors};
use almandine_keyspace::types::stream::{StreamMut, Streams};
use almandine_keyspace::{Awaited, Concerns, Refusal};
use almandine_resp::Reply;

use super::access::STREAM;
use super::id;
use super::read::{Reading, STREAMS_ARG, Served, keys_spec, parse};
use super::reply::{write_entry, write_fields, write_gone, write_id};

pub(super) const XREADGROUP: Command = Command {
    spec: CommandSpec {
        name: "XREADGROUP",
        id: 889,
        complexity: "For each stream mentioned: O(M) with M being the number of elements returned. If M is constant (e.g. \
                     always asking for the first 10 elements with COUNT), you can consider it O(1). On the other side when \
                     XREADGROUP blocks, XADD will pay the O(N) time in order to serve the N clients blocked on the stream \
                     getting new data.",
        summary: "Returns new or historical messages from a stream for a consumer in a group. Blocks until a message is \
                  available otherwise.",
        args: &[
            Arg::block("group-block", &[Arg::value("group"), Arg::value("consumer")]).token("GROUP"),
            Arg::integer("count").token("COUNT").optional(),
            Arg::integer("milliseconds").token("BLOCK").optional(),
            Arg::integer("min-idle-time").token("CLAIM").optional().since("8.4.0"),
            Arg::pure_token("noack", "NOACK").optional(),
            STREAMS_ARG,
        ],
        traits: Traits { write: true, blocking: true, ..Traits::NONE },
        keys: Keys::Computed(&[keys_spec(4)], next_key),
        ..STREAM
    },
    run: Handler::Write(xreadgroup),
};

/// The keys, which the documentation says are read, and which change: the first half of what is behind STREAMS, the option.
/// Redis takes for it the first such word from the fourth argument on, which may be the name of a group or a consumer; of calls
/// that cannot be well-formed this says what Redis says.
fn next_key<'a>(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)> {
    let is = |at: usize, word: &str| arg(at).eq_ignore_ascii_case(word.as_bytes());
    let (mut streams, mut access) = (option_streams(count, &is, true).filter(|at| *at >= 4 && at + 2 < count), Access::ReadRepair);
    if streams.is_none() {
        let first = (4..count).find(|at| is(*at, "STREAMS"))?;
        // With a single argument behind it, Redis reads the options, and does not say what it does to their keys.
        (streams, access) = match first {
            _ if first + 2 < count => (Some(first), access),
            _ if first + 1 == count => return None,
            _ => (option_streams(count, &is, false).filter(|at| !(count - at).is_multiple_of(2)), Access::Inspect),
        };
    }
    let streams = streams?;
    let next = (after + 1).max(streams + 1);
    (next <= streams + (count - streams - 1) / 2).then_some((next, access))
}

/// Where STREAMS is, the option. `strictly`: none where STREAMS stands for a number, and with the options of later versions of
/// Redis.
fn option_streams(count: usize, is: &dyn Fn(usize, &str) -> bool, strictly: bool) -> Option<usize> {
    let mut at = 1;
    while at < count {
        at += match () {
            () if is(at, "STREAMS") => return Some(at),
            () if is(at, "GROUP") => 3,
            () if is(at, "COUNT") || is(at, "BLOCK") || strictly && is(at, "CLAIM") => {
                if strictly && at + 1 < count && is(at + 1, "STREAMS") {
                    return None;
                }
                2
            }
            () if is(at, "NOACK") => 1,
            () => return None,
        };
    }
    None
}

/// What is read of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// What no consumer of the group has read.
    New,
    /// What the consumer has not acknowledged, behind an id.
    Own(StreamId),
}

fn xreadgroup(call: &mut WriteCall<'_>) -> Outcome {
    let reading = parse(call.args, true)?;
    let Some((group, consumer)) = reading.group else { return Err(errors::stream::READ_GROUP_MISSING.into()) };
    let mut all = Vec::with_capacity(reading.len);
    // All is checked before anything changes.
    for position in call.candidates_together(reading.places()) {
        let (key, name, text) = (call.key(position), call.args.at(position), call.args.at(position + reading.len));
        let found = call.keys.read_as::<Streams, _>(key, |stream| Ok((*stream)?.groups().find(group).is_some()))?;
        call.looked_up(key, found.is_some());
        if found != Some(true) {
            return Err(errors::stream::no_group_to_read(name, group).into());
        }
        let from = match text {
            b"$" => return Err(errors::stream::READ_GROUP_LAST.into()),
            b">" => From::New,
            _ => From::Own(id::strict(text, 0)?),
        };
        all.push((position, from));
    }
    // The consumer of a waiter was made when its wait began.
    let is_served = call.client.blocking.serving.is_some();
    let mut served = Served::default();
    // When the first entry will have been pending long enough.
    let mut again_ms: Option<i64> = None;
    for (position, from) in all {
        let (key, name) = (call.key(position), call.args.at(position));
        let WriteCall { keys, reply, .. } = call;
        let mut stream = keys.write_as::<Streams>(key, ())?;
        let Some(number) = stream.look()?.groups().find(group) else {
            return Err(errors::stream::no_group_to_read(name, group).into());
        };
        let has_some = from != From::New || has_some(&stream, number, &reading)?;
        if !has_some {
            again_ms = again_ms.into_iter().chain(claimable_ms(&stream, number, &reading)?).min();
            if is_served {
                continue;
            }
        }
        // As in Redis 7.2, a consumer that is given nothing is made, and was seen, too.
        let (owner, is_new) = stream.groups().consumer(number, consumer)?;
        if has_some {
            served.begin(reply, name);
            match from {
                // The last of all ids stands for new entries in Redis.
                From::New | From::Own(StreamId::MAX) => new(&mut stream, (number, owner), &reading, reply)?,
                From::Own(after) => own(&mut stream, (number, owner), after, &reading, reply)?,
            }
            stream.count(1);
            stream.commit()?;
        } else {
            stream.commit_for(Concerns::Neither)?;
        }
        if is_new {
            call.event(Classes::STREAM, "xgroup-createconsumer", key);
        }
    }
    match reading.block().filter(|_| served.is_empty()) {
        Some(block) => {
            let awaited = Awaited { or_gone: true, ..block.awaited };
            call.block(Block { awaited, again_ms, ..block })
        }
        None => {
            served.finish(&mut call.reply);
            Ok(())
        }
    }
}

/// Whether there is something for a consumer to read, or to claim.
fn has_some(stream: &StreamMut<'_>, group: usize, reading: &Reading<'_>) -> Result<bool, Refusal> {
    let now = stream.now();
    let looked = stream.look()?;
    let Some(group) = looked.groups().nth(group) else { return Ok(false) };
    if looked.entries().last().is_some_and(|last| last.id > group.last_id()) {
        return Ok(true);
    }
    let Some(idle) = reading.claim else { return Ok(false) };
    Ok(group.oldest_pending()?.is_some_and(|oldest| now.saturating_sub(oldest.time) >= idle))
}

/// When the oldest entry of the group's list will have been pending long enough to be claimed, in Unix milliseconds.
fn claimable_ms(stream: &StreamMut<'_>, group: usize, reading: &Reading<'_>) -> Result<Option<i64>, Refusal> {
    let Some(idle) = reading.claim else { return Ok(None) };
    let looked = stream.look()?;
    let oldest = looked.groups().nth(group).map_or(Ok(None), |group| group.oldest_pending())?;
    Ok(oldest.and_then(|oldest| i64::try_from(oldest.time.saturating_add(idle)).ok()))
}

/// Answers what was pending too long, and then what is new.
fn new(
    stream: &mut StreamMut<'_>,
    (group, owner): (usize, u32),
    reading: &Reading<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let array = reply.begin();
    let mut left = reading.count.unwrap_or(u64::MAX);
    let mut len = 0;
    if let Some(idle) = reading.claim {
        let claimed = claim(stream, (group, owner), (idle, left), reply)?;
        left -= claimed;
        len += claimed;
    }
    let is_extended = reading.claim.is_some();
    if left > 0 {
        len += stream.groups().deliver(group, (!reading.acknowledged).then_some(owner), left, &mut |entry| {
            if is_extended {
                reply.array(4);
                write_id(reply, entry.id);
                write_fields(reply, &entry);
                reply.integer(0);
                reply.integer(0);
            } else {
                write_entry(reply, &entry);
            }
        })?;
    }
    if len > 0 {
        stream.groups().set_active(group, owner)?;
    }
    array.end_array(reply, len as usize);
    Ok(())
}

/// Claims at most a number of entries that were pending for a time, the oldest first. What is gone from the stream stays pending.
fn claim(
    stream: &mut StreamMut<'_>,
    (group, owner): (usize, u32),
    (idle, count): (u64, u64),
    reply: &mut Reply<'_>,
) -> Result<u64, Refusal> {
    let now = stream.now();
    let before = now.saturating_sub(idle);
    let (mut claimed, mut passed) = (0, Vec::new());
    while claimed < count {
        let oldest = stream.look()?.groups().nth(group).map_or(Ok(None), |group| group.oldest_pending())?;
        let Some(oldest) = oldest.filter(|oldest| oldest.time <= before && oldest.time < Pending::PASSED) else { break };
        // Until all are found, they are out of the way.
        stream.groups().pend(group, Pending { time: Pending::PASSED, ..oldest })?;
        let looked = stream.look()?;
        let Some(entry) = looked.entries().get(oldest.id)? else {
            passed.push(oldest);
            continue;
        };
        reply.array(4);
        write_id(reply, entry.id);
        write_fields(reply, &entry);
        reply.unsigned(now.saturating_sub(oldest.time));
        reply.integer(oldest.count.cast_signed());
        passed.push(Pending { time: now, count: oldest.count.saturating_add(1), owner, ..oldest });
        claimed += 1;
    }
    passed.into_iter().try_for_each(|pending| stream.groups().pend(group, pending))?;
    Ok(claimed)
}

/// Answers what a consumer has not acknowledged, which counts as delivered again.
fn own(
    stream: &mut StreamMut<'_>,
    (group, owner): (usize, u32),
    after: StreamId,
    reading: &Reading<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let (now, limit) = (stream.now(), reading.count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX)));
    let from = after.next().unwrap_or(StreamId::MAX);
    let looked = stream.look()?;
    let ids: Vec<StreamId> = match looked.groups().nth(group) {
        Some(group) => group.owned_from(owner, from).take(limit).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    reply.array(ids.len());
    for id in ids {
        let looked = stream.look()?;
        let Some(entry) = looked.entries().get(id)? else {
            write_gone(reply, id);
            continue;
        };
        write_entry(reply, &entry);
        let pending = looked.groups().nth(group).map_or(Ok(None), |group| group.get_pending(id))?;
        if let Some(pending) = pending {
            stream.groups().pend(group, Pending { time: now, count: pending.count.saturating_add(1), ..pending })?;
        }
    }
    Ok(())
}
