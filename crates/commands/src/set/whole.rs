//! SMEMBERS: all members of a set.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, ReadCall, Stop};
use almandine_keyspace::types::set::Sets;

use super::access::SET;
use super::stream;
use crate::look::look_at_all;
use crate::traits::SLOW_READ;

pub(super) const SMEMBERS: Command = Command {
    spec: CommandSpec {
        name: "SMEMBERS",
        id: 705,
        complexity: "O(N) where N is the set cardinality.",
        summary: "Returns all members of a set.",
        args: &[Arg::key("key", Access::Read)],
        traits: SLOW_READ,
        tips: &["nondeterministic_output_order"],
        ..SET
    },
    run: Handler::Read(smembers),
};

/// Answers all members: of a large set while the reply is sent.
fn smembers(call: &mut ReadCall<'_>) -> Outcome {
    let may_stream = call.reply.out.may_stream();
    if answer(call, may_stream)? {
        return Ok(());
    }
    let key = call.key(1);
    match call.keys.snapshot_as::<Sets>(key)? {
        Some(snapshot) => stream::begin(&mut call.reply, snapshot),
        // It has become small meanwhile.
        None => drop(answer(call, false)?),
    }
    Ok(())
}

/// Answers all members. False if it is to be done by a stream; then nothing was written.
fn answer(call: &mut ReadCall<'_>, may_stream: bool) -> Result<bool, Stop> {
    let found = look_at_all::<Sets, _>(call, 1, |set, reply| {
        if may_stream && set.is_large() {
            return Ok(false);
        }
        reply.set(set.len());
        for member in set.try_iter() {
            reply.bulk(&member?);
        }
        Ok(true)
    })?;
    if found.is_none() {
        call.reply.set(0);
    }
    Ok(found != Some(false))
}
