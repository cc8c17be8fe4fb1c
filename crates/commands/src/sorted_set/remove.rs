//! ZREM and its relatives: members that go, by name or by range.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, Handler, Outcome, WriteCall, errors, number};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::sorted_set::{LexRange, ScoreRange, SortedSet};

use super::access::{SORTED_SET, change};
use super::query::indices;
use crate::traits::CHANGE;

pub(super) const ZREM: Command = Command {
    spec: CommandSpec {
        name: "ZREM",
        id: 765,
        complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.",
        summary: "Removes one or more members from a sorted set. Deletes the sorted set if all members were removed.",
        args: &[Arg::key("key", Access::Delete), Arg::value("member").multiple()],
        traits: Traits { element: true, ..CHANGE },
        history: &[("2.4.0", "Accepts multiple elements.")],
        ..SORTED_SET
    },
    run: Handler::Write(zrem),
};

fn zrem(call: &mut WriteCall<'_>) -> Outcome {
    let members = call.args.slice_from(2);
    let mut set = change(call)?;
    let mut removed = 0;
    for member in members.iter() {
        removed += u64::from(set.remove(member)?.is_some());
    }
    let emptied = set.is_empty();
    set.commit()?;
    if removed > 0 {
        let key = call.key(1);
        call.taken(Classes::SORTED_SET, "zrem", key, emptied);
    }
    call.reply.unsigned(removed);
    Ok(())
}

const RANGE: CommandSpec = CommandSpec {
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the \
                 operation.",
    traits: Traits { fast: false, ..CHANGE },
    ..SORTED_SET
};

pub(super) const ZREMRANGEBYRANK: Command = Command {
    spec: CommandSpec {
        name: "ZREMRANGEBYRANK",
        id: 766,
        since: "2.0.0",
        summary: "Removes members in a sorted set within a range of indexes. Deletes the sorted set if all members were removed.",
        args: &[Arg::key("key", Access::Delete), Arg::integer("start"), Arg::integer("stop")],
        ..RANGE
    },
    run: Handler::Write(|call| {
        let (start, stop) = (number::integer(call.args.at(2))?, number::integer(call.args.at(3))?);
        remove(call, "zremrangebyrank", |set| Ok(indices(start, stop, set.len())))
    }),
};

pub(super) const ZREMRANGEBYSCORE: Command = Command {
    spec: CommandSpec {
        name: "ZREMRANGEBYSCORE",
        id: 767,
        summary: "Removes members in a sorted set within a range of scores. Deletes the sorted set if all members were removed.",
        args: &[Arg::key("key", Access::Delete), Arg::double("min"), Arg::double("max")],
        ..RANGE
    },
    run: Handler::Write(|call| {
        let range = ScoreRange::parse(call.args.at(2), call.args.at(3)).ok_or(errors::sorted_set::SCORE_RANGE)?;
        remove(call, "zremrangebyscore", |set| set.by_score(&range))
    }),
};

pub(super) const ZREMRANGEBYLEX: Command = Command {
    spec: CommandSpec {
        name: "ZREMRANGEBYLEX",
        id: 768,
        since: "2.8.9",
        summary: "Removes members in a sorted set within a lexicographical range. Deletes the sorted set if all members were \
                  removed.",
        args: &[Arg::key("key", Access::Delete), Arg::value("min"), Arg::value("max")],
        ..RANGE
    },
    run: Handler::Write(|call| {
        let range = LexRange::parse(call.args.at(2), call.args.at(3)).ok_or(errors::sorted_set::LEX_RANGE)?;
        remove(call, "zremrangebylex", |set| set.by_lex(&range, false))
    }),
};

/// Removes the members of the ranks that are found, and answers how many they were.
fn remove(
    call: &mut WriteCall<'_>,
    event: &'static str,
    ranks: impl FnOnce(&SortedSet<'_>) -> Result<std::ops::Range<usize>, Refusal>,
) -> Outcome {
    let mut set = change(call)?;
    let ranks = ranks(&set.look())?;
    let count = ranks.len();
    set.remove_range(ranks, &mut |_| ())?;
    let emptied = set.is_empty();
    set.commit()?;
    if count > 0 {
        let key = call.key(1);
        call.taken(Classes::SORTED_SET, event, key, emptied);
    }
    call.reply.unsigned(count as u64);
    Ok(())
}
