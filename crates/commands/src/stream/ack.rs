//! XACK and XACKDEL.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, Stop, WriteCall};
use almandine_keyspace::Concerns;

use super::access::{STREAM, change_existing, tell_miss};
use super::delete::{Fate, IDS_ARG, policy_and_ids, reply_fates};
use super::id;
use super::trim::{POLICY_ARGS, Policy};
use crate::traits::CHANGE;

pub(super) const XACK: Command = Command {
    spec: CommandSpec {
        name: "XACK",
        id: 890,
        complexity: "O(1) for each message ID processed.",
        summary: "Returns the number of messages that were successfully acknowledged by the consumer group member of a stream.",
        args: &[Arg::key("key", Access::Update), Arg::value("group"), Arg::value("id").multiple()],
        traits: CHANGE,
        ..STREAM
    },
    run: Handler::Write(xack),
};

fn xack(call: &mut WriteCall<'_>) -> Outcome {
    let acknowledged = acknowledge(call)?;
    call.reply.integer(acknowledged);
    Ok(())
}

/// How many of the entries were pending.
fn acknowledge(call: &mut WriteCall<'_>) -> Result<i64, Stop> {
    let (group, words, statistics) = (call.args.at(2), call.args.slice_from(3), call.context.statistics());
    tell_miss(call)?;
    let found = change_existing(call)?;
    statistics.looked_up(found.is_some());
    let Some(mut stream) = found else { return Ok(0) };
    let Some(group) = stream.look()?.groups().find(group) else { return Ok(0) };
    let mut acknowledged = 0;
    for id in id::all(words.iter())? {
        acknowledged += i64::from(stream.groups().acknowledge(group, id)?);
    }
    stream.commit_for(Concerns::Watchers)?;
    Ok(acknowledged)
}

pub(super) const XACKDEL: Command = Command {
    spec: CommandSpec {
        name: "XACKDEL",
        id: 891,
        since: "8.2.0",
        complexity: "O(1) for each message ID processed.",
        summary: "Acknowledges and conditionally deletes one or multiple entries for a stream consumer group.",
        args: &[Arg::key("key", Access::Delete), Arg::value("group"), Arg::one_of("condition", POLICY_ARGS).optional(), IDS_ARG],
        traits: CHANGE,
        ..STREAM
    },
    run: Handler::Write(xackdel),
};

fn xackdel(call: &mut WriteCall<'_>) -> Outcome {
    let (name, (policy, ids)) = (call.args.at(2), policy_and_ids(call.args, 3)?);
    let mut fates = vec![Fate::Absent; ids.len()];
    if let Some(mut stream) = change_existing(call)?
        && let Some(group) = stream.look()?.groups().find(name)
    {
        for (id, fate) in ids.iter().zip(&mut fates) {
            let acknowledged = stream.groups().acknowledge(group, *id)?;
            if policy == Policy::Drop {
                stream.groups().drop_references(*id)?;
            }
            if !acknowledged {
                continue;
            }
            *fate = if policy == Policy::Acknowledged && stream.groups().is_referenced(*id)? {
                Fate::Referenced
            } else {
                stream.remove(*id)?;
                Fate::Deleted
            };
        }
        stream.commit()?;
    }
    reply_fates(call, &fates);
    Ok(())
}
