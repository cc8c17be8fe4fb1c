//! HSCAN: through the fields, some at a time.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, ReadCall};
use almandine_keyspace::types::hash::Hashes;

use super::access::HASH;
use crate::look::look_at_all;
use crate::scan::{self, Scan};
use crate::traits::SLOW_READ;

pub(super) const HSCAN: Command = Command {
    spec: CommandSpec {
        name: "HSCAN",
        id: 615,
        since: "2.8.0",
        complexity: scan::COMPLEXITY,
        summary: "Iterates over fields and values of a hash.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::pure_token("novalues", "NOVALUES").optional(),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        ..HASH
    },
    run: Handler::Read(hscan),
};

pub(crate) fn hscan(call: &mut ReadCall<'_>) -> Outcome {
    let scan = Scan::read(call.args, Some("NOVALUES"))?;
    let found = look_at_all::<Hashes, _>(call, 1, |hash, reply| {
        scan.answer(reply, |cursor, options, found| {
            hash.scan(cursor, options.count, &mut |entry| {
                if options.takes(entry.field) {
                    found.push(entry.field);
                    if options.values {
                        found.push(entry.value);
                    }
                }
            })
        })
    })?;
    scan.end(call, found)
}
