//! WAIT and WAITAOF: how far others have confirmed what was written. There are no replicas and no append-only file yet, so nobody has,
//! and nobody will: both answer at once.

use almandine_call::{Command, CommandError, Handler, Outcome, ReadCall, number};
use almandine_command_spec::{Arg, Category, CommandSpec, Traits};
use almandine_datatypes::number::parse_i64;

const CATEGORIES: &[Category] = &[Category::Connection];

pub(super) const WAIT: Command = Command {
    spec: CommandSpec {
        name: "WAIT",
        id: 232,
        since: "3.0.0",
        summary: "Blocks until the asynchronous replication of all preceding write commands sent by the connection is completed.",
        args: &[Arg::integer("numreplicas"), Arg::integer("timeout")],
        traits: Traits { noscript: true, ..Traits::NONE },
        categories: Some(CATEGORIES),
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(wait),
};

fn wait(call: &mut ReadCall<'_>) -> Outcome {
    number::integer(call.args.at(1))?;
    check_timeout(call.args.at(2))?;
    call.reply.integer(0);
    Ok(())
}

pub(super) const WAITAOF: Command = Command {
    spec: CommandSpec {
        name: "WAITAOF",
        id: 233,
        since: "7.2.0",
        summary: "Blocks until all of the preceding write commands sent by the connection are written to the append-only file of the master and/or replicas.",
        args: &[Arg::integer("numlocal"), Arg::integer("numreplicas"), Arg::integer("timeout")],
        ..WAIT.spec
    },
    run: Handler::Read(waitaof),
};

fn waitaof(call: &mut ReadCall<'_>) -> Outcome {
    let local = number::integer_within(call.args.at(1), 0, 1)?;
    if number::integer(call.args.at(2))? < 0 {
        return Err(CommandError::NotPositive);
    }
    check_timeout(call.args.at(3))?;
    if local != 0 {
        return Err(CommandError::WaitWithoutAppendOnly);
    }
    call.reply.array(2);
    call.reply.integer(0);
    call.reply.integer(0);
    Ok(())
}

/// Checks a time that nobody will wait for.
fn check_timeout(text: &[u8]) -> Outcome {
    let timeout_ms = parse_i64(text).ok_or(CommandError::TimeoutNotInteger)?;
    if timeout_ms < 0 { Err(CommandError::TimeoutNegative) } else { Ok(()) }
}
