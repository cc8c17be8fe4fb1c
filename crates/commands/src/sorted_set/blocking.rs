//! Commands that wait until there is a member: BZPOPMIN, BZPOPMAX and BZMPOP.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, KeySpec, Keys, Traits};
use almandine_handler::blocking::{Block, timeout_in_seconds};
use almandine_handler::{Command, Handler, Outcome, WriteCall};
use almandine_keyspace::Kind;
use almandine_keyspace::types::sorted_set::SortedSets;

use super::access::{SORTED_SET, Shape, limits};
use super::pop::{Pops, ZMPOP, event};
use crate::traits::CHANGE;

pub(super) const BZPOPMIN: Command = Command {
    spec: CommandSpec {
        name: "BZPOPMIN",
        id: 1020,
        since: "5.0.0",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        summary: "Removes and returns the member with the lowest score from one or more sorted sets. Blocks until a member is \
                  available otherwise. Deletes the sorted set if the last element was popped.",
        args: &[Arg::key("key", Access::Take).multiple(), Arg::double("timeout")],
        traits: Traits { blocking: true, noscript: true, ..CHANGE },
        keys: Keys::Specs(&[KeySpec::range(1, -2, 1, Access::Take)]),
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        ..SORTED_SET
    },
    run: Handler::Write(|call| pop(call, false)),
};

pub(super) const BZPOPMAX: Command = Command {
    spec: CommandSpec {
        name: "BZPOPMAX",
        id: 1021,
        summary: "Removes and returns the member with the highest score from one or more sorted sets. Blocks until a member \
                  available otherwise.  Deletes the sorted set if the last element was popped.",
        ..BZPOPMIN.spec
    },
    run: Handler::Write(|call| pop(call, true)),
};

/// Takes one member out of the first key that is a sorted set, and answers the key, the member and its score.
fn pop(call: &mut WriteCall<'_>, highest: bool) -> Outcome {
    let keys = 1..call.args.len() - 1;
    let timeout_ms = timeout_in_seconds(call.args.at(keys.end))?;
    let limits = limits(call.context.settings());
    for at in call.candidates(keys.clone()) {
        let key = call.key(at);
        let WriteCall { keys, reply, args, .. } = call;
        let mut set = keys.write_as::<SortedSets>(key, limits)?;
        if !set.existed() {
            continue;
        }
        let rank = if highest { set.len() - 1 } else { 0 };
        reply.array(3);
        reply.bulk(args.at(at));
        for entry in set.look().range(rank..rank + 1) {
            Shape::Flat.write(reply, &entry?);
        }
        set.remove_range(rank..rank + 1, &mut |_| ())?;
        let emptied = set.is_empty();
        set.commit()?;
        call.taken(Classes::SORTED_SET, event(highest), key, emptied);
        return Ok(());
    }
    call.block(Block::on(Kind::SortedSet, keys, timeout_ms))
}

pub(super) const BZMPOP: Command = Command {
    spec: CommandSpec {
        name: "BZMPOP",
        id: 1022,
        summary: "Removes and returns a member by score from one or more sorted sets. Blocks until a member is available \
                  otherwise. Deletes the sorted set if the last element was popped.",
        args: &[
            Arg::double("timeout"),
            Arg::key_count("numkeys"),
            Arg::key("key", Access::Take).multiple(),
            Arg::one_of("where", &[Arg::pure_token("min", "MIN"), Arg::pure_token("max", "MAX")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        traits: Traits { blocking: true, ..ZMPOP.spec.traits },
        keys: Keys::Specs(&[KeySpec::counted(2, 1, Access::Take)]),
        ..ZMPOP.spec
    },
    run: Handler::Write(|call| {
        let timeout_ms = timeout_in_seconds(call.args.at(1))?;
        let pops = Pops::parse(call, 2)?;
        if pops.answer(call)? { Ok(()) } else { call.block(Block::on(Kind::SortedSet, pops.keys, timeout_ms)) }
    }),
};
