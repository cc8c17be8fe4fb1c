//! SRANDMEMBER: members at random, each as likely as any other.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, number};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::set::{Set, Sets};
use almandine_resp::Reply;

use super::access::SET;
use crate::look::{look, look_at_all};
use crate::random::{Random, are_too_many, draw_each};
use crate::traits::SLOW_READ;

pub(super) const SRANDMEMBER: Command = Command {
    spec: CommandSpec {
        name: "SRANDMEMBER",
        id: 707,
        complexity: "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.",
        summary: "Get one or multiple random members from a set",
        args: &[Arg::key("key", Access::Read), Arg::integer("count").optional().since("2.6.0")],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        history: &[("2.6.0", "Added the optional `count` argument.")],
        ..SET
    },
    run: Handler::Read(srandmember),
};

fn srandmember(call: &mut ReadCall<'_>) -> Outcome {
    if call.args.len() == 2 {
        return one(call);
    }
    if call.args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    let count = number::integer_within(call.args.at(2), -i64::MAX, i64::MAX)?;
    let found = if count >= 0 {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        look_at_all::<Sets, _>(call, 1, |set, reply| different(set, count, reply))?
    } else {
        let count = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let picked = look::<Sets, _>(call, |set, reply| independent(set, count, reply))?;
        if picked == Some(false) {
            return Err(CommandError::OutOfRange.into());
        }
        picked.map(|_| ())
    };
    if found.is_none() {
        call.reply.array(0);
    }
    Ok(())
}

fn one(call: &mut ReadCall<'_>) -> Outcome {
    let found = look::<Sets, _>(call, |set, reply| {
        match set.nth(Random::new().below(set.len()))? {
            Some(member) => reply.bulk(&member),
            None => reply.null(),
        }
        Ok(())
    })?;
    if found.is_none() {
        call.reply.null();
    }
    Ok(())
}

/// Answers `count` different members, or all.
fn different(set: &Set<'_>, count: usize, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    reply.array(count.min(set.len()));
    if count < set.len() {
        let mut random = Random::new();
        return set.sample(count, &mut || random.next(), &mut |member| reply.bulk(member));
    }
    for member in set.try_iter() {
        reply.bulk(&member?);
    }
    Ok(())
}

/// Answers `count` members, each drawn from all of them. False if that is too much.
fn independent(set: &Set<'_>, count: usize, reply: &mut Reply<'_>) -> Result<bool, Refusal> {
    if are_too_many(count) {
        return Ok(false);
    }
    let mut random = Random::new();
    reply.array(count);
    draw_each(reply, count, |reply| {
        let drawn = set.nth(random.below(set.len()))?;
        drawn.iter().for_each(|member| reply.bulk(member));
        Ok(drawn.is_some())
    })
}
