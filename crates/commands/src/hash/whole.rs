//! All fields of a hash at once.

use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, Handler, Outcome, ReadCall, Stop};
use almandine_keyspace::types::hash::Hashes;

use super::access::HASH;
use super::stream::{self, Part};
use crate::look::look_at_all;
use crate::traits::SLOW_READ;

const ALL_FIELDS: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the size of the hash.",
    args: &[Arg::key("key", Access::Read)],
    traits: Traits { element: true, ..SLOW_READ },
    tips: &["nondeterministic_output_order"],
    ..HASH
};

pub(super) const HGETALL: Command = Command {
    spec: CommandSpec { name: "HGETALL", id: 605, summary: "Returns all fields and values in a hash.", ..ALL_FIELDS },
    run: Handler::Read(|call| all(call, Part::Both)),
};

pub(super) const HKEYS: Command = Command {
    spec: CommandSpec { name: "HKEYS", id: 606, summary: "Returns all fields in a hash.", ..ALL_FIELDS },
    run: Handler::Read(|call| all(call, Part::Fields)),
};

pub(super) const HVALS: Command = Command {
    spec: CommandSpec { name: "HVALS", id: 607, summary: "Returns all values in a hash.", ..ALL_FIELDS },
    run: Handler::Read(|call| all(call, Part::Values)),
};

/// Answers a part of each field: of a large hash while the reply is sent.
fn all(call: &mut ReadCall<'_>, part: Part) -> Outcome {
    let may_stream = call.reply.out.may_stream();
    if !answer(call, part, may_stream)? && !stream::begin(call, part)? {
        // It has become small meanwhile.
        answer(call, part, false)?;
    }
    Ok(())
}

/// Answers a part of each field. False if it is to be done by a stream; then nothing was written.
fn answer(call: &mut ReadCall<'_>, part: Part, may_stream: bool) -> Result<bool, Stop> {
    let found = look_at_all::<Hashes, _>(call, 1, |hash, reply| {
        if may_stream && hash.is_large() {
            return Ok(false);
        }
        let (array, mut len) = (reply.begin(), 0);
        hash.visit(|entry| {
            if !matches!(part, Part::Values) {
                reply.bulk(entry.field);
            }
            if !matches!(part, Part::Fields) {
                reply.bulk(entry.value);
            }
            len += 1;
        })?;
        if part.is_pairs() {
            array.end_map(reply, len)
        } else {
            array.end_array(reply, len)
        }
        Ok(true)
    })?;
    if found.is_none() {
        part.header(&mut call.reply, 0);
    }
    Ok(found != Some(false))
}
