//! ZSCAN: through the members, some at a time.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, ReadCall};
use almandine_keyspace::types::sorted_set::SortedSets;
use almandine_resp::number;

use super::access::SORTED_SET;
use crate::look::look_at_all;
use crate::scan::{self, Scan};
use crate::traits::SLOW_READ;

pub(super) const ZSCAN: Command = Command {
    spec: CommandSpec {
        name: "ZSCAN",
        id: 769,
        since: "2.8.0",
        complexity: scan::COMPLEXITY,
        summary: "Iterates over members and scores of a sorted set.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::pure_token("noscores", "NOSCORES").optional().since("8.0.0"),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        history: &[("8.0.0", "Added the `NOSCORES` option, which is Valkey's.")],
        ..SORTED_SET
    },
    run: Handler::Read(zscan),
};

pub(crate) fn zscan(call: &mut ReadCall<'_>) -> Outcome {
    let scan = Scan::read(call.args, Some("NOSCORES"))?;
    let found = look_at_all::<SortedSets, _>(call, 1, |set, reply| {
        scan.answer(reply, |cursor, options, found| {
            let mut score = Vec::new();
            set.scan(cursor, options.count, &mut |entry| {
                if options.takes(entry.member) {
                    found.push(entry.member);
                    if options.values {
                        score.clear();
                        number::write_double(&mut score, entry.score);
                        found.push(&score);
                    }
                }
            })
        })
    })?;
    scan.end(call, found)
}
