//! ZRANGESTORE: a range as a sorted set of its own.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, WriteCall};
use almandine_keyspace::types::sorted_set::SortedSets;

use super::access::SORTED_SET;
use super::algebra::store_with;
use super::combination::Combination;
use super::query::{Form, Query};
use super::range::{LIMIT, SORT_BY};
use crate::traits::SLOW_WRITE;

pub(super) const ZRANGESTORE: Command = Command {
    spec: CommandSpec {
        name: "ZRANGESTORE",
        id: 774,
        since: "6.2.0",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into \
                     the destination key.",
        summary: "Stores a range of members from sorted set in a key.",
        args: &[
            Arg::key("dst", Access::Overwrite),
            Arg::key("src", Access::Read),
            Arg::value("min"),
            Arg::value("max"),
            SORT_BY,
            Arg::pure_token("rev", "REV").optional(),
            LIMIT,
        ],
        traits: SLOW_WRITE,
        ..SORTED_SET
    },
    run: Handler::Write(zrangestore),
};

fn zrangestore(call: &mut WriteCall<'_>) -> Outcome {
    let query = Query::parse(call.args, Form { at: 3, by: None, backwards: None, takes_scores: false })?;
    let source = call.key(2);
    store_with(call, &[source], "zrangestore", |call| {
        let frozen = call.keys.freeze(source)?;
        let ranks = frozen.collection::<SortedSets>()?.map_or(Ok(0..0), |set| query.ranks(&set))?;
        Ok(Combination::part(frozen, ranks, call.keys.new_tally()))
    })
}
