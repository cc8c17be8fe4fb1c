//! ZRANGESTORE: a range as a sorted set of its own.

use almandine_call::{Command, Handler, Outcome, WriteCall};
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_keyspace::Put;

use super::access::{SORTED_SET, limits};
use super::query::{Form, Query};
use super::range::{LIMIT, SORT_BY};
use crate::traits::SLOW_WRITE;

pub(super) const ZRANGESTORE: Command = Command {
    spec: CommandSpec {
        name: "ZRANGESTORE",
        id: 774,
        since: "6.2.0",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into the destination key.",
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
    let (destination, source) = (call.key(1), call.key(2));
    let limits = limits(call.context.settings());
    let mut new = call.keys.new_sorted_set(limits);
    let found = call.keys.read_whole_sorted_set(source, |set| {
        let ranks = query.ranks(set)?;
        new.fill(set.range(ranks))
    })?;
    call.looked_up(found.is_some());
    let len = new.len();
    if len == 0 {
        call.keys.delete(destination);
    } else {
        call.keys.put_sorted_set(destination, new, Put::default())?;
    }
    call.reply.unsigned(len as u64);
    Ok(())
}
