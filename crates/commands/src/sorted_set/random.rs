//! ZRANDMEMBER: members at random, each as likely as any other.

use almandine_call::{Command, CommandError, Handler, Outcome, ReadCall, Word, number};
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::sorted_set::SortedSet;
use almandine_resp::Reply;

use super::access::{SORTED_SET, Shape, look, look_at_all};
use crate::random::{REPLY_BYTES_MAX, Random};
use crate::traits::SLOW_READ;

pub(super) const ZRANDMEMBER: Command = Command {
    spec: CommandSpec {
        name: "ZRANDMEMBER",
        id: 773,
        since: "6.2.0",
        complexity: "O(N) where N is the number of members returned",
        summary: "Returns one or more random members from a sorted set.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::block("options", &[Arg::integer("count"), Arg::pure_token("withscores", "WITHSCORES").optional()]).optional(),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        ..SORTED_SET
    },
    run: Handler::Read(zrandmember),
};

/// Bytes that an empty member takes in a reply.
const MEMBER_BYTES_MIN: usize = b"$0\r\n\r\n".len();

fn zrandmember(call: &mut ReadCall<'_>) -> Outcome {
    let mut random = Random::new();
    if call.args.len() == 2 {
        let found = look(call, |set, reply| {
            match set.nth(random.below(set.len()))? {
                Some(entry) => reply.bulk(entry.member),
                None => reply.null(),
            }
            Ok(())
        })?;
        if found.is_none() {
            call.reply.null();
        }
        return Ok(());
    }
    let count = number::integer_within(call.args.at(2), -i64::MAX, i64::MAX)?;
    let with_scores = match call.args.get(3) {
        None => false,
        Some(word) if call.args.len() == 4 && Word(word).is("WITHSCORES") => true,
        Some(_) => return Err(CommandError::Syntax),
    };
    if with_scores && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(CommandError::OutOfRange);
    }
    let shape = Shape::of(&call.reply, with_scores);
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let found = if count >= 0 {
        look_at_all(call, |set, reply| different(set, size, shape, &mut random, reply).map(|()| true))?
    } else {
        look(call, |set, reply| independent(set, size, shape, &mut random, reply))?
    };
    match found {
        None => call.reply.array(0),
        Some(true) => {}
        Some(false) => return Err(CommandError::OutOfRange),
    }
    Ok(())
}

/// Answers so many different members, or all.
fn different(set: &SortedSet<'_>, count: usize, shape: Shape, random: &mut Random, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    reply.array(shape.elements(count.min(set.len())));
    set.sample(count, &mut || random.next(), &mut |entry| shape.write(reply, &entry))
}

/// Answers so many members, each drawn from all of them. False if that is too much.
fn independent(
    set: &SortedSet<'_>,
    count: usize,
    shape: Shape,
    random: &mut Random,
    reply: &mut Reply<'_>,
) -> Result<bool, Refusal> {
    if count > REPLY_BYTES_MAX / MEMBER_BYTES_MIN {
        return Ok(false);
    }
    let begin = reply.out.len();
    reply.array(shape.elements(count));
    for _ in 0..count {
        let Some(entry) = set.nth(random.below(set.len()))? else { break };
        shape.write(reply, &entry);
        if reply.out.len() - begin > REPLY_BYTES_MAX {
            return Ok(false);
        }
    }
    Ok(true)
}
