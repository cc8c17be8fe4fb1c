//! COSCAN, of Garnet: through the elements of a collection of any type that can be scanned.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, Stop};
use almandine_keyspace::Kind;

use crate::traits::SLOW_READ;
use crate::{hash, scan, set, sorted_set};

pub(super) const COSCAN: Command = Command {
    spec: CommandSpec {
        name: "COSCAN",
        id: 719,
        since: "7.4.0",
        complexity: scan::COMPLEXITY,
        summary: "Iterates over the elements of a collection, as HSCAN, SSCAN or ZSCAN would.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(coscan),
};

fn coscan(call: &mut ReadCall<'_>) -> Outcome {
    let key = call.key(1);
    // A key that becomes one of another type between two looks at it is looked at again.
    loop {
        let kind = call.keys.metadata(key)?.map(|metadata| metadata.kind);
        let scanned = match kind {
            Some(Kind::Hash) => hash::hscan(call),
            None | Some(Kind::Set) => set::sscan(call),
            Some(Kind::SortedSet) => sorted_set::zscan(call),
            Some(_) => return Err(CommandError::WrongType.into()),
        };
        match scanned {
            Err(Stop::Error(CommandError::WrongType)) => {}
            scanned => return scanned,
        }
    }
}
