//! BITOP: bitwise operations between strings, into another string.

use almandine_call::{Command, CommandError, Handler, Outcome, WriteCall, errors};
use almandine_command_spec::{Access, Arg, CommandSpec, Group};
use almandine_datatypes::bitmap::Operation;
use almandine_keyspace::{Owned, Put};

use crate::traits::SLOW_WRITE;
use crate::value::is_string;

pub(super) const BITOP: Command = Command {
    spec: CommandSpec {
        name: "BITOP",
        id: 304,
        since: "2.6.0",
        complexity: "O(N)",
        summary: "Performs bitwise operations on multiple strings, and stores the result.",
        group: Group::Bitmap,
        args: &[
            Arg::one_of(
                "operation",
                &[
                    Arg::pure_token("and", "AND"),
                    Arg::pure_token("or", "OR"),
                    Arg::pure_token("xor", "XOR"),
                    Arg::pure_token("not", "NOT"),
                    Arg::pure_token("diff", "DIFF").since("8.2.0"),
                    Arg::pure_token("diff1", "DIFF1").since("8.2.0"),
                    Arg::pure_token("andor", "ANDOR").since("8.2.0"),
                    Arg::pure_token("one", "ONE").since("8.2.0"),
                ],
            ),
            Arg::key("destkey", Access::Overwrite),
            Arg::key("key", Access::Read).multiple(),
        ],
        traits: SLOW_WRITE,
        history: &[("8.2.0", "Added the `DIFF`, `DIFF1`, `ANDOR`, and `ONE` operations.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Write(bitop),
};

fn bitop(call: &mut WriteCall<'_>) -> Outcome {
    let operation = Operation::parse(call.args.at(1)).ok_or(CommandError::Syntax)?;
    let sources = call.args.slice_from(3);
    if operation.sources_max().is_some_and(|max| sources.len() > max) {
        return Err(CommandError::BitopNotManyKeys);
    }
    if sources.len() < operation.sources_min() {
        return Err(errors::bitop_few_keys(operation.name()));
    }
    let mut values = Vec::with_capacity(sources.len());
    for source in sources.iter() {
        let value = call.keys.copy(call.client.db, source);
        call.looked_up(value.is_some());
        value.as_ref().map_or(Ok(()), |value| is_string(value.kind))?;
        values.push(value);
    }
    let values: Vec<&[u8]> = values.iter().map(|value| value.as_ref().map_or(&[][..], Owned::bytes)).collect();
    let mut result = Vec::new();
    operation.apply(&values, &mut result);
    let destination = call.key(2);
    if result.is_empty() {
        call.keys.delete(destination);
    } else {
        call.keys.upsert(destination, &result, Put::EDITED)?;
    }
    call.reply.unsigned(result.len() as u64);
    Ok(())
}
