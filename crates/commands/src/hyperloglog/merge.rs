//! PFMERGE: the union of several keys, into one of them or another.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group};
use almandine_datatypes::hyperloglog::{EMPTY, Merged};
use almandine_handler::{Command, CommandError, Handler, Outcome, WriteCall};
use almandine_keyspace::{Kind, Put, Slot};

use super::scratch::{self, Scratch};
use super::{debug, open, sparse_bytes_max};
use crate::traits::SLOW_WRITE;

pub(super) const PFMERGE: Command = Command {
    spec: CommandSpec {
        name: "PFMERGE",
        id: 562,
        since: "2.8.9",
        complexity: "O(N) to merge N HyperLogLogs, but with high constant times.",
        summary: "Merges one or more HyperLogLog values into a single key.",
        group: Group::HyperLogLog,
        args: &[Arg::key("destkey", Access::ReadInsert), Arg::key("sourcekey", Access::Read).multiple()],
        traits: SLOW_WRITE,
        arity: -2,
        ..CommandSpec::BLANK
    },
    run: Handler::Write(pfmerge),
};

fn pfmerge(call: &mut WriteCall<'_>) -> Outcome {
    scratch::with(|scratch| {
        merge(call, scratch)?;
        store(call, scratch)
    })?;
    call.reply.ok();
    Ok(())
}

/// Merges the keys that all arguments are into the registers.
pub(super) fn merge(call: &mut WriteCall<'_>, scratch: &mut Scratch) -> Outcome {
    scratch.registers.clear();
    for position in 1..call.args.len() {
        let key = call.key(position);
        let found = match call.keys.modify(key)? {
            Slot::Occupied(occupied) => {
                scratch.registers.merge(open(&occupied)?, debug::way(call.context))?;
                true
            }
            Slot::Vacant(_) => false,
        };
        call.looked_up(key, found);
    }
    Ok(())
}

fn store(call: &mut WriteCall<'_>, scratch: &mut Scratch) -> Outcome {
    let (key, bytes_max) = (call.key(1), sparse_bytes_max(call.context));
    let slot = call.keys.modify(key)?;
    let Scratch { registers, value } = scratch;
    value.clear();
    value.extend_from_slice(match &slot {
        Slot::Vacant(_) => &EMPTY,
        Slot::Occupied(occupied) => occupied.value(),
    });
    let merged = registers.write_to(value, bytes_max).map_err(CommandError::from)?;
    match (slot, merged) {
        (Slot::Vacant(vacant), _) => vacant.insert(Kind::String, value, Put::EDITED)?,
        (Slot::Occupied(mut occupied), Merged::Dense) => occupied.write_at(0, value)?,
        (Slot::Occupied(mut occupied), Merged::Other) => {
            occupied.replace(Kind::String, value, Put { edited: true, ..occupied.put() })?;
        }
    }
    call.event(Classes::STRING, "pfadd", key);
    Ok(())
}
