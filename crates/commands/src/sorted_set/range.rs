//! ZRANGE and its older relatives: members in a row.

use std::ops::Range;

use almandine_base::output::{Broken, Stream};
use almandine_command_spec::{Access, Arg, CommandSpec, Deprecated};
use almandine_handler::{Command, Handler, Outcome, ReadCall, Stop};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::sorted_set::{SortedSet, SortedSetSnapshot, SortedSets};
use almandine_resp::Reply;

use super::access::{SORTED_SET, Shape};
use super::query::{By, Form, Query};
use crate::traits::SLOW_READ;

/// LIMIT in a spec.
pub(super) const LIMIT: Arg = Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional();
/// BYSCORE and BYLEX in a spec.
pub(super) const SORT_BY: Arg =
    Arg::one_of("sortby", &[Arg::pure_token("byscore", "BYSCORE"), Arg::pure_token("bylex", "BYLEX")]).optional();
const WITHSCORES: Arg = Arg::pure_token("withscores", "WITHSCORES").optional();

const LOG_AND_COUNT: &str =
    "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.";
const LOG_AND_LIMIT: &str = "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements \
                             being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you \
                             can consider it O(log(N)).";

pub(super) const ZRANGE: Command = Command {
    spec: CommandSpec {
        name: "ZRANGE",
        id: 759,
        complexity: LOG_AND_COUNT,
        summary: "Returns members in a sorted set within a range of indexes.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::value("start"),
            Arg::value("stop"),
            SORT_BY.since("6.2.0"),
            Arg::pure_token("rev", "REV").optional().since("6.2.0"),
            LIMIT.since("6.2.0"),
            WITHSCORES,
        ],
        traits: SLOW_READ,
        history: &[("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.")],
        ..SORTED_SET
    },
    run: Handler::Read(|call| answer(call, Form { at: 2, by: None, backwards: None, takes_scores: true })),
};

pub(super) const ZREVRANGE: Command = Command {
    spec: CommandSpec {
        name: "ZREVRANGE",
        id: 760,
        complexity: LOG_AND_COUNT,
        summary: "Returns members in a sorted set within a range of indexes in reverse order.",
        args: &[Arg::key("key", Access::Read), Arg::integer("start"), Arg::integer("stop"), WITHSCORES],
        traits: SLOW_READ,
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`ZRANGE` with the `REV` argument" }),
        ..SORTED_SET
    },
    run: Handler::Read(|call| answer(call, old(By::Index, true))),
};

pub(super) const ZRANGEBYSCORE: Command = Command {
    spec: CommandSpec {
        name: "ZRANGEBYSCORE",
        id: 761,
        since: "1.0.5",
        complexity: LOG_AND_LIMIT,
        summary: "Returns members in a sorted set within a range of scores.",
        args: &[Arg::key("key", Access::Read), Arg::double("min"), Arg::double("max"), WITHSCORES.since("2.0.0"), LIMIT],
        traits: SLOW_READ,
        history: &[("2.0.0", "Added the `WITHSCORES` modifier.")],
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`ZRANGE` with the `BYSCORE` argument" }),
        ..SORTED_SET
    },
    run: Handler::Read(|call| answer(call, old(By::Score, false))),
};

pub(super) const ZREVRANGEBYSCORE: Command = Command {
    spec: CommandSpec {
        name: "ZREVRANGEBYSCORE",
        id: 762,
        since: "2.2.0",
        complexity: LOG_AND_LIMIT,
        summary: "Returns members in a sorted set within a range of scores in reverse order.",
        args: &[Arg::key("key", Access::Read), Arg::double("max"), Arg::double("min"), WITHSCORES, LIMIT],
        traits: SLOW_READ,
        history: &[("2.1.6", "`min` and `max` can be exclusive.")],
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`ZRANGE` with the `REV` and `BYSCORE` arguments" }),
        ..SORTED_SET
    },
    run: Handler::Read(|call| answer(call, old(By::Score, true))),
};

pub(super) const ZRANGEBYLEX: Command = Command {
    spec: CommandSpec {
        name: "ZRANGEBYLEX",
        id: 763,
        since: "2.8.9",
        complexity: LOG_AND_LIMIT,
        summary: "Returns members in a sorted set within a lexicographical range.",
        args: &[Arg::key("key", Access::Read), Arg::value("min"), Arg::value("max"), LIMIT],
        traits: SLOW_READ,
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`ZRANGE` with the `BYLEX` argument" }),
        ..SORTED_SET
    },
    run: Handler::Read(|call| answer(call, old(By::Lex, false))),
};

pub(super) const ZREVRANGEBYLEX: Command = Command {
    spec: CommandSpec {
        name: "ZREVRANGEBYLEX",
        id: 764,
        summary: "Returns members in a sorted set within a lexicographical range in reverse order.",
        args: &[Arg::key("key", Access::Read), Arg::value("max"), Arg::value("min"), LIMIT],
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`ZRANGE` with the `REV` and `BYLEX` arguments" }),
        ..ZRANGEBYLEX.spec
    },
    run: Handler::Read(|call| answer(call, old(By::Lex, true))),
};

/// The form of a command whose name says all.
const fn old(by: By, backwards: bool) -> Form {
    Form { at: 2, by: Some(by), backwards: Some(backwards), takes_scores: true }
}

/// Bytes of a reply from which on it is made while it is sent.
pub(super) const STREAM_BYTES: usize = 256 << 10;

fn answer(call: &mut ReadCall<'_>, form: Form) -> Outcome {
    let query = Query::parse(call.args, form)?;
    let shape = Shape::of(&call.reply, query.with_scores);
    let key = call.key(1);
    let ReadCall { keys, reply, .. } = call;
    let found = keys.read_as::<SortedSets, _>(key, |set| {
        let ranks = query.ranks(set)?;
        if set.is_long(ranks.len()) {
            return Ok(false);
        }
        write(set, ranks, query.backwards, shape, reply)?;
        Ok(true)
    })?;
    call.looked_up(key, found.is_some());
    match found {
        None => call.reply.array(0),
        Some(true) => {}
        Some(false) => at_snapshot(call, &query, shape)?,
    }
    Ok(())
}

/// Answers a long range without holding writers up: all at once, or while the reply is sent.
fn at_snapshot(call: &mut ReadCall<'_>, query: &Query<'_>, shape: Shape) -> Result<(), Stop> {
    let key = call.key(1);
    let may_stream = call.reply.out.may_stream();
    let ReadCall { keys, reply, .. } = call;
    if may_stream
        && let Some(snapshot) = keys.snapshot_as::<SortedSets>(key)?
        && let Some((ranks, bytes)) =
            snapshot.view().map(|set| query.ranks(&set).map(|ranks| (ranks.clone(), set.bytes_of(ranks.len())))).transpose()?
        && bytes >= STREAM_BYTES
    {
        reply.array(shape.elements(ranks.len()));
        reply.out.end_with(Box::new(RangeStream { snapshot, left: Some(ranks), backwards: query.backwards, shape }));
        return Ok(());
    }
    let found = keys.read_whole_as::<SortedSets, _>(key, |set| {
        let ranks = query.ranks(set)?;
        write(set, ranks, query.backwards, shape, reply)
    })?;
    if found.is_none() {
        // It has gone meanwhile.
        reply.array(0);
    }
    Ok(())
}

/// Answers the members of some ranks.
pub(super) fn write(
    set: &SortedSet<'_>,
    ranks: Range<usize>,
    backwards: bool,
    shape: Shape,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    reply.array(shape.elements(ranks.len()));
    let members = if backwards { set.range_back(ranks) } else { set.range(ranks) };
    for entry in members {
        shape.write(reply, &entry?);
    }
    Ok(())
}

/// The rest of a reply with members in a row.
struct RangeStream {
    snapshot: SortedSetSnapshot,
    /// Ranks; None behind the last one.
    left: Option<Range<usize>>,
    backwards: bool,
    shape: Shape,
}

impl Stream for RangeStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let Some(ranks) = self.left.take() else { return Ok(false) };
        let (begin, shape) = (out.len(), self.shape);
        let visited = self.snapshot.visit(ranks, self.backwards, |entry| {
            shape.append(out, &entry);
            out.len() - begin < limit
        });
        self.left = visited.map_err(|_| Broken)?;
        Ok(self.left.is_some())
    }
}
