//! XDEL and XDELEX.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::stream::StreamId;
use almandine_handler::{Command, CommandError, Handler, Outcome, Word, WriteCall, errors, number};
use almandine_resp::Args;

use super::access::{STREAM, change_existing};
use super::id;
use super::trim::{POLICY_ARGS, Policy};
use crate::traits::CHANGE;

pub(super) const XDEL: Command = Command {
    spec: CommandSpec {
        name: "XDEL",
        id: 884,
        complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
        summary: "Returns the number of messages after removing them from a stream.",
        args: &[Arg::key("key", Access::Delete), Arg::value("id").multiple()],
        traits: CHANGE,
        ..STREAM
    },
    run: Handler::Write(xdel),
};

fn xdel(call: &mut WriteCall<'_>) -> Outcome {
    let words = call.args.slice_from(2);
    let Some(mut stream) = change_existing(call)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let (ids, mut deleted) = (id::all(words.iter())?, 0);
    for id in ids {
        deleted += i64::from(stream.remove(id)?);
    }
    stream.commit()?;
    if deleted > 0 {
        let key = call.key(1);
        call.event(Classes::STREAM, "xdel", key);
    }
    call.reply.integer(deleted);
    Ok(())
}

pub(super) const IDS_ARG: Arg = Arg::block("ids", &[Arg::integer("numids"), Arg::value("id").multiple()]).token("IDS");

pub(super) const XDELEX: Command = Command {
    spec: CommandSpec {
        name: "XDELEX",
        id: 885,
        since: "8.2.0",
        complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
        summary: "Deletes one or multiple entries from the stream.",
        args: &[Arg::key("key", Access::Delete), Arg::one_of("condition", POLICY_ARGS).optional(), IDS_ARG],
        traits: CHANGE,
        ..STREAM
    },
    run: Handler::Write(xdelex),
};

/// What a command says of each id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Absent = -1,
    Deleted = 1,
    Referenced = 2,
}

/// Policy and ids, in either order, from an argument on.
pub(super) fn policy_and_ids(args: Args<'_>, from: usize) -> Result<(Policy, Vec<StreamId>), CommandError> {
    let (mut policy, mut ids, mut at) = (None, None, from);
    while let Some(word) = args.get(at).map(Word) {
        if let Some(named) = Policy::named(word).filter(|_| policy.is_none()) {
            policy = Some(named);
            at += 1;
        } else if word.is("IDS") && ids.is_none() && at + 1 < args.len() {
            let count = number::integer(args.at(at + 1)).ok().filter(|count| *count > 0);
            let count = count.ok_or(errors::stream::IDS_NOT_POSITIVE)?.unsigned_abs();
            let rest = args.slice_from(at + 2);
            if count > rest.len() as u64 {
                return Err(errors::stream::IDS_MISMATCH);
            }
            ids = Some(rest.iter().take(count as usize));
            at += 2 + count as usize;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok((policy.unwrap_or_default(), id::all(ids.ok_or(CommandError::Syntax)?)?))
}

fn xdelex(call: &mut WriteCall<'_>) -> Outcome {
    let (policy, ids) = policy_and_ids(call.args, 2)?;
    let Some(mut stream) = change_existing(call)? else {
        reply_fates(call, &vec![Fate::Absent; ids.len()]);
        return Ok(());
    };
    let mut fates = Vec::with_capacity(ids.len());
    for id in ids {
        let is_there = stream.has(id)?;
        fates.push(match policy {
            Policy::Acknowledged if is_there && stream.groups().is_referenced(id)? => Fate::Referenced,
            _ => {
                if policy == Policy::Drop {
                    stream.groups().drop_references(id)?;
                }
                if stream.remove(id)? { Fate::Deleted } else { Fate::Absent }
            }
        });
    }
    stream.commit()?;
    reply_fates(call, &fates);
    Ok(())
}

/// Answers what became of each entry, and states that some were deleted.
pub(super) fn reply_fates(call: &mut WriteCall<'_>, fates: &[Fate]) {
    if fates.contains(&Fate::Deleted) {
        let key = call.key(1);
        call.event(Classes::STREAM, "xdel", key);
    }
    call.reply.array(fates.len());
    fates.iter().for_each(|fate| call.reply.integer(*fate as i64));
}
