//! The sorted set family: members in the order of their scores.
//!
//! Writes of scores are in [`add`], ranges in [`query`] (what they ask for), [`range`] (answers) and [`store`] (ZRANGESTORE),
//! removals in [`remove`] and [`pop`], those that wait in [`blocking`], members at random in [`random`], ZSCAN in [`scan`];
//! several sorted sets together in [`algebra`], computed in [`combination`], their commands in [`combine`].
//! Members that expire, as in Garnet: [`expire`], [`ttl`] and [`collect`].

mod access;
mod add;
mod algebra;
mod blocking;
mod collect;
mod combination;
mod combine;
mod expire;
mod pop;
mod query;
mod random;
mod range;
mod remove;
mod scan;
mod store;
mod ttl;

use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, Word, errors};
use almandine_keyspace::types::sorted_set::{LexRange, ScoreRange, SortedSets};

use crate::look::look;
use crate::traits::READ;
use access::SORTED_SET;
pub use access::limits;
pub(crate) use scan::zscan;

/// The family.
pub const COMMANDS: &[&Command] = &[
    &add::ZADD,
    &add::ZINCRBY,
    &ZCARD,
    &ZSCORE,
    &ZMSCORE,
    &ZRANK,
    &ZREVRANK,
    &ZCOUNT,
    &ZLEXCOUNT,
    &range::ZRANGE,
    &range::ZREVRANGE,
    &range::ZRANGEBYSCORE,
    &range::ZREVRANGEBYSCORE,
    &range::ZRANGEBYLEX,
    &range::ZREVRANGEBYLEX,
    &remove::ZREM,
    &remove::ZREMRANGEBYRANK,
    &remove::ZREMRANGEBYSCORE,
    &remove::ZREMRANGEBYLEX,
    &scan::ZSCAN,
    &pop::ZPOPMIN,
    &pop::ZPOPMAX,
    &pop::ZMPOP,
    &blocking::BZPOPMIN,
    &blocking::BZPOPMAX,
    &blocking::BZMPOP,
    &random::ZRANDMEMBER,
    &store::ZRANGESTORE,
    &combine::ZUNION,
    &combine::ZINTER,
    &combine::ZDIFF,
    &combine::ZUNIONSTORE,
    &combine::ZINTERSTORE,
    &combine::ZDIFFSTORE,
    &combine::ZINTERCARD,
    &expire::ZEXPIRE,
    &expire::ZPEXPIRE,
    &expire::ZEXPIREAT,
    &expire::ZPEXPIREAT,
    &ttl::ZTTL,
    &ttl::ZPTTL,
    &ttl::ZEXPIRETIME,
    &ttl::ZPEXPIRETIME,
    &ttl::ZPERSIST,
    &collect::ZCOLLECT,
];

const ZCARD: Command = Command {
    spec: CommandSpec {
        name: "ZCARD",
        id: 752,
        summary: "Returns the number of members in a sorted set.",
        args: &[Arg::key("key", Access::Inspect)],
        traits: READ,
        ..SORTED_SET
    },
    run: Handler::Read(|call| {
        let len = look::<SortedSets, _>(call, |set, _| Ok(set.len()))?;
        call.reply.unsigned(len.unwrap_or(0) as u64);
        Ok(())
    }),
};

const ZSCORE: Command = Command {
    spec: CommandSpec {
        name: "ZSCORE",
        id: 753,
        summary: "Returns the score of a member in a sorted set.",
        args: &[Arg::key("key", Access::Read), Arg::value("member")],
        traits: Traits { element: true, ..READ },
        ..SORTED_SET
    },
    run: Handler::Read(zscore),
};

fn zscore(call: &mut ReadCall<'_>) -> Outcome {
    let member = call.args.at(2);
    match look::<SortedSets, _>(call, |set, _| set.score(member))?.flatten() {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

const ZMSCORE: Command = Command {
    spec: CommandSpec {
        name: "ZMSCORE",
        id: 754,
        since: "6.2.0",
        complexity: "O(N) where N is the number of members being requested.",
        summary: "Returns the score of one or more members in a sorted set.",
        args: &[Arg::key("key", Access::Read), Arg::value("member").multiple()],
        traits: Traits { element: true, ..READ },
        ..SORTED_SET
    },
    run: Handler::Read(zmscore),
};

fn zmscore(call: &mut ReadCall<'_>) -> Outcome {
    let members = call.args.slice_from(2);
    call.reply.array(members.len());
    let found = look::<SortedSets, _>(call, |set, reply| {
        for member in members.iter() {
            match set.score(member)? {
                Some(score) => reply.double(score),
                None => reply.null(),
            }
        }
        Ok(())
    })?;
    if found.is_none() {
        members.iter().for_each(|_| call.reply.null());
    }
    Ok(())
}

const ZRANK: Command = Command {
    spec: CommandSpec {
        name: "ZRANK",
        id: 755,
        since: "2.0.0",
        complexity: "O(log(N))",
        summary: "Returns the index of a member in a sorted set ordered by ascending scores.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::value("member"),
            Arg::pure_token("withscore", "WITHSCORE").optional().since("7.2.0"),
        ],
        traits: Traits { element: true, ..READ },
        history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
        ..SORTED_SET
    },
    run: Handler::Read(|call| rank(call, false)),
};

const ZREVRANK: Command = Command {
    spec: CommandSpec {
        name: "ZREVRANK",
        id: 756,
        summary: "Returns the index of a member in a sorted set ordered by descending scores.",
        ..ZRANK.spec
    },
    run: Handler::Read(|call| rank(call, true)),
};

/// Answers a member's rank, counted from the highest score if `backwards`.
fn rank(call: &mut ReadCall<'_>, backwards: bool) -> Outcome {
    let member = call.args.at(2);
    let with_score = match call.args.get(3) {
        None => false,
        Some(word) if call.args.len() == 4 && Word(word).is("WITHSCORE") => true,
        Some(_) => return Err(CommandError::Syntax.into()),
    };
    let found = look::<SortedSets, _>(call, |set, _| {
        let found = set.rank(member)?;
        Ok(found.map(|(rank, entry)| (if backwards { set.len() - 1 - rank } else { rank }, entry.score)))
    })?;
    match found.flatten() {
        None if with_score => call.reply.null_array(),
        None => call.reply.null(),
        Some((rank, score)) => {
            if with_score {
                call.reply.array(2);
            }
            call.reply.unsigned(rank as u64);
            if with_score {
                call.reply.double(score);
            }
        }
    }
    Ok(())
}

const ZCOUNT: Command = Command {
    spec: CommandSpec {
        name: "ZCOUNT",
        id: 757,
        since: "2.0.0",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        summary: "Returns the count of members in a sorted set that have scores within a range.",
        args: &[Arg::key("key", Access::Read), Arg::double("min"), Arg::double("max")],
        traits: READ,
        ..SORTED_SET
    },
    run: Handler::Read(zcount),
};

fn zcount(call: &mut ReadCall<'_>) -> Outcome {
    let range = ScoreRange::parse(call.args.at(2), call.args.at(3)).ok_or(errors::sorted_set::SCORE_RANGE)?;
    let count = look::<SortedSets, _>(call, |set, _| Ok(set.by_score(&range)?.len()))?;
    call.reply.unsigned(count.unwrap_or(0) as u64);
    Ok(())
}

const ZLEXCOUNT: Command = Command {
    spec: CommandSpec {
        name: "ZLEXCOUNT",
        id: 758,
        since: "2.8.9",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        summary: "Returns the number of members in a sorted set within a lexicographical range.",
        args: &[Arg::key("key", Access::Read), Arg::value("min"), Arg::value("max")],
        traits: READ,
        ..SORTED_SET
    },
    run: Handler::Read(zlexcount),
};

fn zlexcount(call: &mut ReadCall<'_>) -> Outcome {
    let range = LexRange::parse(call.args.at(2), call.args.at(3)).ok_or(errors::sorted_set::LEX_RANGE)?;
    let count = look::<SortedSets, _>(call, |set, _| Ok(set.by_lex(&range, false)?.len()))?;
    call.reply.unsigned(count.unwrap_or(0) as u64);
    Ok(())
}
