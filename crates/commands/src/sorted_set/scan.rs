//! ZSCAN: through the members, some at a time.

use almandine_call::{Command, Handler, Outcome, ReadCall};
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_resp::number;

use super::access::{SORTED_SET, look_at_all};
use crate::scan::{self, ElementScan, Elements};
use crate::traits::SLOW_READ;

pub(super) const ZSCAN: Command = Command {
    spec: CommandSpec {
        name: "ZSCAN",
        id: 769,
        since: "2.8.0",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
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
    let cursor = scan::cursor(call.args.at(2))?;
    // Of a key that does not exist Redis does not read the options.
    let options = ElementScan::read(call.args, Some("NOSCORES"));
    let found = look_at_all(call, |set, reply| {
        let Ok(scan) = &options else { return Ok(()) };
        let (mut found, mut score) = (Elements::default(), Vec::new());
        let next = set.scan(cursor, scan.count, &mut |entry| {
            if scan.takes(entry.member) {
                found.push(entry.member);
                if scan.values {
                    score.clear();
                    number::write_double(&mut score, entry.score);
                    found.push(&score);
                }
            }
        })?;
        found.answer(next, reply);
        Ok(())
    })?;
    if found.is_some() {
        options?;
        return Ok(());
    }
    Elements::default().answer(0, &mut call.reply);
    Ok(())
}
