//! CLIENT PAUSE, UNPAUSE and UNBLOCK: connections that wait.

use almandine_base::sometimes;
use almandine_command_spec::{Arg, CommandSpec};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, Word, errors, number};
use almandine_instance::{ClientShared, Instance, Message, PauseScope, Unblock, UnblockAnswer};
use almandine_io::thread;
use almandine_keyspace::{Accessor, EndOfWait};

use super::subcommand::{FOR_OPERATORS, SUBCOMMAND};

pub(super) const PAUSE: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|PAUSE",
        id: 84,
        since: "3.0.0",
        summary: "Suspends commands processing.",
        args: &[
            Arg::integer("timeout"),
            Arg::one_of("mode", &[Arg::pure_token("write", "WRITE"), Arg::pure_token("all", "ALL")]).optional().since("6.2.0"),
        ],
        traits: FOR_OPERATORS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(pause),
};

fn pause(call: &mut AdminCall<'_>) -> Outcome {
    let scope = match call.args.get(3).map(Word) {
        None => PauseScope::All,
        Some(mode) if mode.is("ALL") && call.args.len() == 4 => PauseScope::All,
        Some(mode) if mode.is("WRITE") && call.args.len() == 4 => PauseScope::Writes,
        Some(_) => return Err(errors::client::PAUSE_MODE.into()),
    };
    let timeout_ms = parse_i64(call.args.at(2)).ok_or(CommandError::TimeoutNotInteger)?;
    if timeout_ms < 0 {
        return Err(CommandError::TimeoutNegative.into());
    }
    let until_ms = timeout_ms.checked_add(call.now_ms).ok_or(CommandError::TimeoutOutOfRange)?;
    let instance = &call.context.instance;
    instance.pause.start(scope, until_ms, call.now_ms);
    // Until it is seen that the pause is over.
    instance.keyspace.settings().hold_expiry(true);
    call.reply.ok();
    Ok(())
}

pub(super) const UNPAUSE: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|UNPAUSE",
        id: 91,
        since: "6.2.0",
        complexity: "O(N) Where N is the number of paused clients",
        summary: "Resumes processing commands from paused clients.",
        traits: FOR_OPERATORS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let instance = &call.context.instance;
        instance.pause.stop();
        instance.keyspace.settings().hold_expiry(false);
        instance.workers.broadcast(&almandine_instance::Message::Resume);
        call.reply.ok();
        Ok(())
    }),
};

pub(super) const UNBLOCK: Command = Command {
    spec: CommandSpec {
        name: "CLIENT|UNBLOCK",
        id: 90,
        since: "5.0.0",
        complexity: "O(log N) where N is the number of client connections",
        summary: "Unblocks a client blocked by a blocking command from a different connection.",
        args: &[
            Arg::integer("client-id"),
            Arg::one_of("unblock-type", &[Arg::pure_token("timeout", "TIMEOUT"), Arg::pure_token("error", "ERROR")]).optional(),
        ],
        traits: FOR_OPERATORS,
        ..SUBCOMMAND
    },
    run: Handler::Admin(unblock),
};

fn unblock(call: &mut AdminCall<'_>) -> Outcome {
    let answer = match call.args.get(3).map(Word) {
        None => UnblockAnswer::TimedOut,
        Some(reason) if reason.is("TIMEOUT") => UnblockAnswer::TimedOut,
        Some(reason) if reason.is("ERROR") => UnblockAnswer::Error,
        Some(_) => return Err(errors::client::UNBLOCK_REASON.into()),
    };
    let id = number::integer(call.args.at(2))?;
    let client = u64::try_from(id).ok().and_then(|id| call.context.instance.clients.find(id));
    let unblocked = client.is_some_and(|client| end_wait(call.accessor, &call.context.instance, &client, answer));
    call.reply.integer(unblocked.into());
    Ok(())
}

/// Ends the wait of a client; false if it does not wait.
///
/// "Does not wait" is an answer only when the unit of work that has served the client has served all others, too: what a client
/// asks behind this answer finds all that the unit has done. The session is outside the epoch meanwhile, so that it holds none up
/// that the unit waits for.
fn end_wait(accessor: &mut Accessor, instance: &Instance, client: &ClientShared, answer: UnblockAnswer) -> bool {
    let Some(waiter) = client.blocked.waiter() else { return false };
    loop {
        match waiter.end() {
            EndOfWait::Now => break,
            EndOfWait::Before => return false,
            // All other sessions are outside their batches: the unit reads from the device, and all may see what it has done.
            EndOfWait::Served if accessor.unit().is_alone() => return false,
            EndOfWait::Served => {
                sometimes!("CLIENT UNBLOCK waits for a unit that has served the client");
                accessor.outside_epoch(thread::yield_now);
            }
            // Another worker tries whether there is something for it, which takes a moment.
            EndOfWait::Serving => thread::yield_now(),
        }
    }
    instance.workers.send(client.worker, Message::Unblock(Box::new(Unblock { client: client.id, answer })));
    true
}
