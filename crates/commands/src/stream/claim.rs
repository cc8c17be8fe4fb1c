//! XCLAIM and XAUTOCLAIM: what is pending becomes another consumer's.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::stream::{Pending, StreamId, UNOWNED};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Stop, WriteCall, errors, number};
use almandine_keyspace::types::stream::{StreamMut, Streams};
use almandine_keyspace::{Concerns, Refusal};
use almandine_resp::Reply;

use super::access::{STREAM, tell_miss};
use super::id;
use super::reply::{write_entry, write_id};
use crate::traits::CHANGE;

pub(super) const XCLAIM: Command = Command {
    spec: CommandSpec {
        name: "XCLAIM",
        id: 901,
        complexity: "O(log N) with N being the number of messages in the PEL of the consumer group.",
        summary: "Changes, or acquires, ownership of a message in a consumer group, as if the message was delivered a consumer \
                  group member.",
        args: &[
            Arg::key("key", Access::Update),
            Arg::value("group"),
            Arg::value("consumer"),
            Arg::value("min-idle-time"),
            Arg::value("id").multiple(),
            Arg::integer("ms").token("IDLE").optional(),
            Arg::unix_time("unix-time-milliseconds").token("TIME").optional(),
            Arg::integer("count").token("RETRYCOUNT").optional(),
            Arg::pure_token("force", "FORCE").optional(),
            Arg::pure_token("justid", "JUSTID").optional(),
            Arg::value("lastid").token("LASTID").optional(),
        ],
        traits: CHANGE,
        tips: &["nondeterministic_output"],
        ..STREAM
    },
    run: Handler::Write(xclaim),
};

/// The options of XCLAIM.
#[derive(Default)]
struct Claim {
    time: Option<i64>,
    count: Option<u64>,
    force: bool,
    ids_only: bool,
    last_id: StreamId,
}

fn claim_options(mut options: Options<'_>, now: i64) -> Result<Claim, CommandError> {
    let mut claim = Claim::default();
    let integer = |options: &mut Options<'_>, error| options.integer().map_err(|_| error);
    while let Some(word) = options.next() {
        let has_more = options.remaining() > 0;
        if word.is("FORCE") {
            claim.force = true;
        } else if word.is("JUSTID") {
            claim.ids_only = true;
        } else if has_more && word.is("IDLE") {
            claim.time = Some(now.wrapping_sub(integer(&mut options, errors::stream::CLAIM_IDLE)?));
        } else if has_more && word.is("TIME") {
            claim.time = Some(integer(&mut options, errors::stream::CLAIM_TIME)?);
        } else if has_more && word.is("RETRYCOUNT") {
            // A negative one is none.
            claim.count = u64::try_from(integer(&mut options, errors::stream::CLAIM_RETRY_COUNT)?).ok();
        } else if has_more && word.is("LASTID") {
            claim.last_id = id::strict(options.value()?, 0)?;
        } else {
            return Err(errors::stream::unknown_option("XCLAIM", word.0));
        }
    }
    Ok(claim)
}

/// Takes a group of the first key, and says its number. The errors are those of claims.
fn group_of(stream: &StreamMut<'_>, key: &[u8], name: &[u8]) -> Result<usize, Stop> {
    let group = if stream.existed() { stream.look()?.groups().find(name) } else { None };
    group.ok_or_else(|| errors::stream::no_key_or_group(key, name).into())
}

fn xclaim(call: &mut WriteCall<'_>) -> Outcome {
    let (args, now) = (call.args, call.now_ms());
    let key = call.key(1);
    tell_miss(call)?;
    let WriteCall { keys, reply, context, .. } = call;
    let mut stream = keys.write_as::<Streams>(key, ())?;
    context.statistics().looked_up(stream.existed());
    let group = group_of(&stream, args.at(1), args.at(2))?;
    let idle_min = number::integer(args.at(4)).map_err(|_| errors::stream::CLAIM_MIN_IDLE)?;
    let words = args.slice_from(5);
    let ids: Vec<StreamId> = words.iter().map_while(|text| StreamId::parse(text, 0)).collect();
    let claim = claim_options(Options::after(args, 5 + ids.len()), now)?;
    let time = claim.time.filter(|time| (0..=now).contains(time)).unwrap_or(now).unsigned_abs();
    let read = stream.look()?.groups().nth(group).map(|group| (group.last_id(), group.entries_read()));
    let mut claimed = Claimed::default();
    if let Some((_, read)) = read.filter(|(last_id, _)| claim.last_id > *last_id) {
        stream.groups().set(group, claim.last_id, read)?;
        stream.count(1);
        claimed.changes_group = true;
    }
    let (owner, is_new) = stream.groups().consumer(group, args.at(3))?;
    let array = reply.begin();
    for id in ids {
        let before = stream.groups().pending(group, id)?;
        if !stream.has(id)? {
            claimed.changes_group |= stream.groups().acknowledge(group, id)?;
            continue;
        }
        // What is claimed by FORCE was delivered once.
        let Some(before) = before.or(claim.force.then_some(Pending { id, time: 0, count: 1, owner: UNOWNED })) else { continue };
        if before.owner != UNOWNED && idle_min > 0 && now.saturating_sub_unsigned(before.time) < idle_min {
            continue;
        }
        let count = claim.count.unwrap_or(if claim.ids_only { before.count } else { before.count.saturating_add(1) });
        stream.groups().pend(group, Pending { id, time, count, owner })?;
        answer(&stream, id, claim.ids_only, reply)?;
        claimed.entries += 1;
    }
    claimed.finish(stream, (group, owner))?;
    array.end_array(reply, claimed.entries);
    if is_new {
        call.event(Classes::STREAM, "xgroup-createconsumer", key);
    }
    Ok(())
}

/// What a claim has done.
#[derive(Default)]
struct Claimed {
    /// Entries that have another consumer, or another time.
    entries: usize,
    /// Whether the group has changed otherwise: its last id, or entries that are gone are not pending any more.
    changes_group: bool,
}

impl Claimed {
    /// Ends the claim. Each entry counts as a change, and a consumer that got one is active. A claim of nothing only makes its
    /// consumer known, or seen: that concerns no client, so a consumer may poll without breaking any WATCH.
    fn finish(&self, mut stream: StreamMut<'_>, (group, owner): (usize, u32)) -> Result<(), Refusal> {
        if self.entries > 0 {
            stream.groups().set_active(group, owner)?;
            stream.count(self.entries as u64);
        }
        stream.commit_for(match self {
            // An entry that is claimed with an earlier time may be what a consumer waits for.
            Self { entries: 1.., .. } => Concerns::All,
            Self { changes_group: true, .. } => Concerns::Watchers,
            _ => Concerns::Neither,
        })
    }
}

fn answer(stream: &StreamMut<'_>, id: StreamId, id_only: bool, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    match stream.look()?.entries().get(id)? {
        Some(entry) if !id_only => write_entry(reply, &entry),
        _ => write_id(reply, id),
    }
    Ok(())
}

pub(super) const XAUTOCLAIM: Command = Command {
    spec: CommandSpec {
        name: "XAUTOCLAIM",
        id: 902,
        since: "6.2.0",
        complexity: "O(1) if COUNT is small.",
        summary: "Changes, or acquires, ownership of messages in a consumer group, as if the messages were delivered to as \
                  consumer group member.",
        args: &[
            Arg::key("key", Access::Delete),
            Arg::value("group"),
            Arg::value("consumer"),
            Arg::value("min-idle-time"),
            Arg::value("start"),
            Arg::integer("count").token("COUNT").optional(),
            Arg::pure_token("justid", "JUSTID").optional(),
        ],
        traits: CHANGE,
        tips: &["nondeterministic_output"],
        history: &[("7.0.0", "Added an element to the reply array, containing deleted entries the command cleared from the PEL")],
        ..STREAM
    },
    run: Handler::Write(xautoclaim),
};

/// Entries that are looked at for each that is claimed.
const ATTEMPTS: u64 = 10;
/// As many as Redis takes.
const COUNT_MAX: i64 = i64::MAX / 16;

fn xautoclaim(call: &mut WriteCall<'_>) -> Outcome {
    let (args, now) = (call.args, call.now_ms());
    let idle_min = number::integer(args.at(4)).map_err(|_| errors::stream::AUTO_CLAIM_MIN_IDLE)?;
    let start = id::start(args.at(5))?;
    let (mut count, mut ids_only, mut options) = (100, false, Options::after(args, 6));
    while let Some(word) = options.next() {
        if word.is("COUNT") && options.remaining() > 0 {
            let given = options.integer().ok().filter(|count| (1..=COUNT_MAX).contains(count));
            count = given.ok_or(errors::stream::CLAIM_COUNT)?.unsigned_abs();
        } else if word.is("JUSTID") {
            ids_only = true;
        } else {
            return Err(CommandError::Syntax.into());
        }
    }
    let key = call.key(1);
    tell_miss(call)?;
    let WriteCall { keys, reply, context, .. } = call;
    let mut stream = keys.write_as::<Streams>(key, ())?;
    context.statistics().looked_up(stream.existed());
    let group = group_of(&stream, args.at(1), args.at(2))?;
    let (seen, next) = candidates(&stream, group, start, (count, idle_min, now))?;
    let (owner, is_new) = stream.groups().consumer(group, args.at(3))?;
    let (mut gone, mut claimed) = (Vec::new(), Claimed::default());
    reply.array(3);
    write_id(reply, next);
    let array = reply.begin();
    for before in seen {
        if !stream.has(before.id)? {
            claimed.changes_group |= stream.groups().acknowledge(group, before.id)?;
            gone.push(before.id);
            continue;
        }
        let deliveries = if ids_only { before.count } else { before.count.saturating_add(1) };
        stream.groups().pend(group, Pending { id: before.id, time: now.unsigned_abs(), count: deliveries, owner })?;
        answer(&stream, before.id, ids_only, reply)?;
        claimed.entries += 1;
    }
    claimed.finish(stream, (group, owner))?;
    array.end_array(reply, claimed.entries);
    reply.array(gone.len());
    gone.into_iter().for_each(|id| write_id(reply, id));
    if is_new {
        call.event(Classes::STREAM, "xgroup-createconsumer", key);
    }
    Ok(())
}

/// What is to be claimed, or is gone, from an id on; and where to go on.
fn candidates(
    stream: &StreamMut<'_>,
    group: usize,
    start: StreamId,
    (count, idle_min, now): (u64, i64, i64),
) -> Result<(Vec<Pending>, StreamId), Refusal> {
    let looked = stream.look()?;
    let Some(group) = looked.groups().nth(group) else { return Ok((Vec::new(), StreamId::MIN)) };
    let (mut seen, mut attempts) = (Vec::new(), count.saturating_mul(ATTEMPTS));
    for pending in group.pending_from(start) {
        let pending = pending?;
        if attempts == 0 || seen.len() as u64 == count {
            return Ok((seen, pending.id));
        }
        attempts -= 1;
        let is_idle = idle_min <= 0 || now.saturating_sub_unsigned(pending.time) >= idle_min;
        if is_idle || looked.entries().get(pending.id)?.is_none() {
            seen.push(pending);
        }
    }
    Ok((seen, StreamId::MIN))
}
