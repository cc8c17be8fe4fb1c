//! SSCAN: through the members, some at a time.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, ReadCall};
use almandine_keyspace::types::set::Sets;

use super::access::SET;
use crate::look::look_at_all;
use crate::scan::{self, Scan};
use crate::traits::SLOW_READ;

pub(super) const SSCAN: Command = Command {
    spec: CommandSpec {
        name: "SSCAN",
        id: 706,
        since: "2.8.0",
        complexity: scan::COMPLEXITY,
        summary: "Iterates over members of a set.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        ..SET
    },
    run: Handler::Read(sscan),
};

pub(crate) fn sscan(call: &mut ReadCall<'_>) -> Outcome {
    let scan = Scan::read(call.args, None)?;
    let found = look_at_all::<Sets, _>(call, 1, |set, reply| {
        scan.answer(reply, |cursor, options, found| {
            set.scan(cursor, options.count, &mut |member| {
                if options.takes(member) {
                    found.push(member);
                }
            })
        })
    })?;
    scan.end(call, found)
}
