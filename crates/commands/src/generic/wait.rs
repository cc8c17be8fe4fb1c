//! WAIT and WAITAOF: how many replicas have confirmed what was written. There are no replicas yet, so none
//! has, and none will: a client that waits for one waits until the time is up.

use almandine_command_spec::{Arg, Category, CommandSpec, Traits};
use almandine_handler::blocking::{Block, Unanswered, timeout_in_milliseconds};
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, errors, number};

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
    let replicas = number::integer(call.args.at(1))?;
    let timeout_ms = timeout_in_milliseconds(call.args.at(2))?;
    answer(call, replicas > 0, timeout_ms, Unanswered::Zero)
}

/// Answers that no replica has confirmed anything; at once, unless the client waits for one.
fn answer(call: &mut ReadCall<'_>, waits: bool, timeout_ms: Option<u64>, nobody: Unanswered) -> Outcome {
    if waits {
        return call.block(Block::until_time(timeout_ms, nobody));
    }
    nobody.write(&mut call.reply);
    Ok(())
}

pub(super) const WAITAOF: Command = Command {
    spec: CommandSpec {
        name: "WAITAOF",
        id: 233,
        since: "7.2.0",
        summary: "Blocks until all of the preceding write commands sent by the connection are written to the append-only file \
                  of the master and/or replicas.",
        args: &[Arg::integer("numlocal"), Arg::integer("numreplicas"), Arg::integer("timeout")],
        ..WAIT.spec
    },
    run: Handler::Read(waitaof),
};

fn waitaof(call: &mut ReadCall<'_>) -> Outcome {
    let local = number::integer_within(call.args.at(1), 0, 1)?;
    let replicas = number::integer(call.args.at(2))?;
    if replicas < 0 {
        return Err(CommandError::NotPositive.into());
    }
    let timeout_ms = timeout_in_milliseconds(call.args.at(3))?;
    if local != 0 && call.context.instance.persistence.log.is_on() {
        return Err(errors::not_supported_yet("WAITAOF", "with 'appendfsync always' replies wait for the log by themselves").into());
    }
    if local != 0 {
        return Err(errors::generic::WAIT_WITHOUT_APPEND_ONLY.into());
    }
    answer(call, replicas > 0, timeout_ms, Unanswered::TwoZeroes)
}
