//! SPOP: takes members at random out, each as likely as any other.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::set::SetEncoding;
use almandine_handler::{Command, CommandError, Handler, Outcome, WriteCall, number};
use almandine_keyspace::types::set::Sets;

use super::access::{SET, change};
use super::stream;
use crate::random::Random;
use crate::traits::CHANGE;

pub(super) const SPOP: Command = Command {
    spec: CommandSpec {
        name: "SPOP",
        id: 708,
        complexity: "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
        summary: "Returns one or more random members from a set after removing them. Deletes the set if the last member was \
                  popped.",
        args: &[Arg::key("key", Access::Take), Arg::integer("count").optional().since("3.2.0")],
        traits: CHANGE,
        tips: &["nondeterministic_output"],
        history: &[("3.2.0", "Added the `count` argument.")],
        ..SET
    },
    run: Handler::Write(spop),
};

/// Members that go for one that stays, from which on Redis makes a new set of those that stay, whose encoding is chosen anew.
const REMADE_FROM: usize = 5;

fn spop(call: &mut WriteCall<'_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    if call.args.len() == 3 {
        return several(call);
    }
    let key = call.key(1);
    let limits = super::limits(call.context.settings());
    let mut set = call.keys.write_as::<Sets>(key, limits)?;
    if set.is_empty() {
        drop(set);
        call.reply.null();
        return Ok(());
    }
    let rank = Random::new().below(set.len());
    let begin = call.reply.out.mark();
    let reply = &mut call.reply;
    set.remove_nth(rank, |member| reply.bulk(member))?;
    let emptied = set.is_empty();
    if let Err(refusal) = set.commit() {
        call.reply.out.truncate(begin);
        return Err(refusal.into());
    }
    call.taken(Classes::SET, "spop", key, emptied);
    Ok(())
}

fn several(call: &mut WriteCall<'_>) -> Outcome {
    let count = number::integer(call.args.at(2)).map_err(|_| CommandError::NotPositive)?;
    let count = usize::try_from(count).map_err(|_| CommandError::NotPositive)?;
    let set = change(call)?;
    let len = set.len();
    if count == 0 || len == 0 {
        drop(set);
        call.reply.set(0);
        return Ok(());
    }
    drop(set);
    if count >= len { all(call, len) } else { some(call, count, len) }
}

/// Takes all members: the key goes, and a large set is answered while it is sent.
fn all(call: &mut WriteCall<'_>, len: usize) -> Outcome {
    let key = call.key(1);
    let snapshot = if call.reply.out.may_stream() { call.keys.snapshot_as::<Sets>(key)? } else { None };
    match snapshot {
        Some(snapshot) => stream::begin(&mut call.reply, snapshot),
        None => {
            let (keys, reply) = (&mut call.keys, &mut call.reply);
            keys.read_whole_as::<Sets, _>(key, |set| {
                reply.set(len);
                set.try_iter().try_for_each(|member| member.map(|member| reply.bulk(&member)))
            })?;
        }
    }
    call.keys.delete(key)?;
    call.keys.count_changes(len as i64 - 1);
    call.taken(Classes::SET, "spop", key, true);
    Ok(())
}

fn some(call: &mut WriteCall<'_>, count: usize, len: usize) -> Outcome {
    let key = call.key(1);
    let limits = super::limits(call.context.settings());
    let (keys, reply) = (&mut call.keys, &mut call.reply);
    let (begin, mut random) = (reply.out.mark(), Random::new());
    reply.set(count);
    let mut set = keys.write_as::<Sets>(key, limits)?;
    let mut take = || -> Result<(), almandine_keyspace::Refusal> {
        for left in (len - count + 1..=len).rev() {
            set.remove_nth(random.below(left), |member| reply.bulk(member))?;
        }
        if set.look().encoding() == SetEncoding::HashTable && count >= REMADE_FROM * (len - count) {
            set.reset_encoding()?;
        }
        Ok(())
    };
    let taken = take().and_then(|()| set.commit());
    if taken.is_err() {
        call.reply.out.truncate(begin);
    }
    taken?;
    call.event(Classes::SET, "spop", key);
    Ok(())
}
