//! WAIT and WAITAOF: how many replicas have confirmed what was written, and whether it is durable here. There are no replicas
//! yet, so none has, and none will: a client that waits for one waits until the time is up.

use almandine_command_spec::{Arg, Category, CommandSpec, Traits};
use almandine_handler::blocking::{Block, LogWait, Unanswered, timeout_in_milliseconds};
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
    if replicas > 0 {
        return call.block(Block::until_time(timeout_ms, Unanswered::Zero));
    }
    call.reply.integer(0);
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
    let log = &call.context.instance.persistence.log;
    if local != 0 && !log.is_promised() {
        return Err(errors::generic::WAIT_WITHOUT_APPEND_ONLY.into());
    }
    let seal = log.unconfirmed();
    let confirmed = if log.is_promised() && seal.is_none() { Unanswered::OneAndZero } else { Unanswered::TwoZeroes };
    let seal = seal.filter(|_| local != 0);
    if seal.is_none() && replicas == 0 {
        confirmed.write(&mut call.reply);
        return Ok(());
    }
    if let Some(seal) = seal {
        log.ask(seal, false);
    }
    let log = seal.map(|seal| LogWait { seal, ends: replicas == 0, reached: Unanswered::OneAndZero });
    call.block(Block { log, ..Block::until_time(timeout_ms, confirmed) })
}
