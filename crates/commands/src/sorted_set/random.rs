//! ZRANDMEMBER: members at random, each as likely as any other.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::sorted_set::{SortedSet, SortedSets};
use almandine_resp::Reply;

use super::access::{SORTED_SET, Shape};
use crate::look::{look, look_at_all};
use crate::random::{Random, Sample, are_too_many, draw_each};
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

fn zrandmember(call: &mut ReadCall<'_>) -> Outcome {
    let mut random = Random::new();
    if call.args.len() == 2 {
        let found = look::<SortedSets, _>(call, |set, reply| {
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
    let sample = Sample::parse(call.args, "WITHSCORES")?;
    let (shape, size) = (Shape::of(&call.reply, sample.with_values), sample.size);
    let found = if sample.independent {
        look::<SortedSets, _>(call, |set, reply| independent(set, size, shape, &mut random, reply))?
    } else {
        look_at_all::<SortedSets, _>(call, 1, |set, reply| different(set, size, shape, &mut random, reply).map(|()| true))?
    };
    match found {
        None => call.reply.array(0),
        Some(true) => {}
        Some(false) => return Err(CommandError::OutOfRange.into()),
    }
    Ok(())
}

/// Answers `count` different members, or all.
fn different(set: &SortedSet<'_>, count: usize, shape: Shape, random: &mut Random, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    reply.array(shape.elements(count.min(set.len())));
    set.sample(count, &mut || random.next(), &mut |entry| shape.write(reply, &entry))
}

/// Answers `count` members, each drawn from all of them. False if that is too much.
fn independent(
    set: &SortedSet<'_>,
    count: usize,
    shape: Shape,
    random: &mut Random,
    reply: &mut Reply<'_>,
) -> Result<bool, Refusal> {
    if are_too_many(count) {
        return Ok(false);
    }
    reply.array(shape.elements(count));
    draw_each(reply, count, |reply| {
        let drawn = set.nth(random.below(set.len()))?;
        drawn.iter().for_each(|entry| shape.write(reply, entry));
        Ok(drawn.is_some())
    })
}
