//! The process: TIME, SHUTDOWN, MONITOR.

use almandine_command_spec::{Arg, CommandSpec, Group, Traits};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Options, Outcome, errors};
use almandine_instance::ShutdownRequest;
use almandine_io::clock;
use almandine_resp::Args;

use crate::operators::{FOR_OPERATORS, outside_epoch};

pub(super) const COMMANDS: &[&Command] = &[&TIME, &SHUTDOWN, &MONITOR];

const TIME: Command = Command {
    spec: CommandSpec {
        name: "TIME",
        id: 444,
        since: "2.6.0",
        summary: "Returns the server time.",
        group: Group::Server,
        traits: Traits { loading: true, stale: true, fast: true, ..Traits::NONE },
        tips: &["nondeterministic_output"],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(|call| {
        // Time stands still while a script runs.
        let now_us = if call.client.in_script { call.now_ms() * 1000 } else { clock::unix_us() };
        call.reply.array(2);
        [now_us / 1_000_000, now_us % 1_000_000].iter().for_each(|part| call.reply.bulk(part.to_string().as_bytes()));
        Ok(())
    }),
};

const SHUTDOWN: Command = Command {
    spec: CommandSpec {
        name: "SHUTDOWN",
        id: 445,
        complexity: "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
        summary: "Synchronously saves the database(s) to disk and shuts down the Redis server.",
        group: Group::Server,
        args: &[
            Arg::one_of("save-selector", &[Arg::pure_token("nosave", "NOSAVE"), Arg::pure_token("save", "SAVE")]).optional(),
            Arg::pure_token("now", "NOW").optional().since("7.0.0"),
            Arg::pure_token("force", "FORCE").optional().since("7.0.0"),
            Arg::pure_token("abort", "ABORT").optional().since("7.0.0"),
        ],
        traits: Traits { no_multi: true, allow_busy: true, ..FOR_OPERATORS },
        history: &[("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(shutdown),
};

/// Ends the process, once the data is saved that is to be. There is no answer then: the connection closes with it, and what the
/// client has sent behind is not run.
fn shutdown(call: &mut AdminCall<'_>) -> Outcome {
    let Some(request) = parse_shutdown(call.args)? else {
        // One that has begun waits for nothing: only a signal that is held can be withdrawn.
        if !call.context.instance.shutdown.abort() {
            return Err(errors::server::NO_SHUTDOWN.into());
        }
        tracing::warn!("Shutdown manually aborted.");
        call.reply.ok();
        return Ok(());
    };
    tracing::warn!("User requested shutdown...");
    let mut granted = false;
    outside_epoch(call, |instance| {
        instance.persistence.saves.cancel();
        granted = instance.shutdown.ask(request);
    });
    if !granted {
        return Err(errors::server::SHUTDOWN_FAILED.into());
    }
    call.client.closing = true;
    Ok(())
}

/// What is asked for; `None` is ABORT.
fn parse_shutdown(args: Args<'_>) -> Result<Option<ShutdownRequest>, CommandError> {
    let (mut request, mut abort) = (ShutdownRequest::default(), false);
    for option in Options::after(args, 1) {
        match option {
            o if o.is("NOSAVE") && request.save != Some(true) => request.save = Some(false),
            o if o.is("SAVE") && request.save != Some(false) => request.save = Some(true),
            o if o.is("NOW") => request.now = true,
            o if o.is("FORCE") => request.force = true,
            o if o.is("ABORT") => abort = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    match (abort, request == ShutdownRequest::default()) {
        (false, _) => Ok(Some(request)),
        (true, true) => Ok(None),
        (true, false) => Err(CommandError::Syntax),
    }
}

const MONITOR: Command = Command {
    spec: CommandSpec {
        name: "MONITOR",
        id: 446,
        complexity: "",
        summary: "Listens for all requests received by the server in real-time.",
        group: Group::Server,
        traits: FOR_OPERATORS,
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(|call| {
        // What it would be told has no place among the replies of EXEC.
        if !call.reply.out.may_stream() {
            return Err(errors::client::MONITOR_IN_TRANSACTION.into());
        }
        call.context.instance.monitors.add(&call.client.shared);
        call.reply.ok();
        Ok(())
    }),
};
