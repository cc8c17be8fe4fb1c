//! All fields of a hash at once.

use almandine_call::{Command, Handler, Outcome, ReadCall};
use almandine_command_spec::{Access, Arg, CommandSpec};

use super::access::{HASH, look_at_all};
use crate::traits::SLOW_READ;

const ALL_FIELDS: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the size of the hash.",
    args: &[Arg::key("key", Access::Read)],
    traits: SLOW_READ,
    tips: &["nondeterministic_output_order"],
    ..HASH
};

pub(super) const HGETALL: Command = Command {
    spec: CommandSpec { name: "HGETALL", id: 605, summary: "Returns all fields and values in a hash.", ..ALL_FIELDS },
    run: Handler::Read(hgetall),
};

fn hgetall(call: &mut ReadCall<'_>) -> Outcome {
    let found = look_at_all(call, |hash, reply| {
        let map = reply.begin_map();
        let mut fields = 0;
        for entry in hash.try_iter() {
            let entry = entry?;
            reply.bulk(entry.field);
            reply.bulk(entry.value);
            fields += 1;
        }
        reply.finish_map(map, fields);
        Ok(())
    })?;
    if found.is_none() {
        call.reply.map(0);
    }
    Ok(())
}

pub(super) const HKEYS: Command = Command {
    spec: CommandSpec { name: "HKEYS", id: 606, summary: "Returns all fields in a hash.", ..ALL_FIELDS },
    run: Handler::Read(|call| parts(call, Part::Fields)),
};

pub(super) const HVALS: Command = Command {
    spec: CommandSpec { name: "HVALS", id: 607, summary: "Returns all values in a hash.", ..ALL_FIELDS },
    run: Handler::Read(|call| parts(call, Part::Values)),
};

#[derive(Clone, Copy)]
enum Part {
    Fields,
    Values,
}

fn parts(call: &mut ReadCall<'_>, part: Part) -> Outcome {
    let found = look_at_all(call, |hash, reply| {
        let array = reply.begin_array();
        let mut fields = 0;
        for entry in hash.try_iter() {
            let entry = entry?;
            reply.bulk(match part {
                Part::Fields => entry.field,
                Part::Values => entry.value,
            });
            fields += 1;
        }
        reply.finish_array(array, fields);
        Ok(())
    })?;
    if found.is_none() {
        call.reply.array(0);
    }
    Ok(())
}
