//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH. The session queues the commands between MULTI and EXEC, and executes them.

use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_handler::{AdminCall, Command, Handler, Outcome, errors, transaction};

/// The family.
pub(crate) const COMMANDS: &[&Command] = &[&MULTI, &EXEC, &DISCARD, &WATCH, &UNWATCH];

const AT_ONCE: Traits =
    Traits { noscript: true, loading: true, stale: true, fast: true, allow_busy: true, not_queued: true, ..Traits::NONE };

const MULTI: Command = Command {
    spec: CommandSpec {
        name: "MULTI",
        id: 550,
        since: "1.2.0",
        summary: "Starts a transaction.",
        group: Group::Transactions,
        traits: AT_ONCE,
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(multi),
};

fn multi(call: &mut AdminCall<'_>) -> Outcome {
    transaction::begin(call.client)?;
    call.reply.ok();
    Ok(())
}

const EXEC: Command = Command {
    spec: CommandSpec {
        name: "EXEC",
        id: 551,
        since: "1.2.0",
        complexity: "Depends on commands in the transaction",
        summary: "Executes all commands in a transaction.",
        group: Group::Transactions,
        traits: Traits { fast: false, allow_busy: false, skip_slowlog: true, executes: true, ..AT_ONCE },
        ..CommandSpec::BLANK
    },
    // The session executes what is queued, and runs this when nothing can be.
    run: Handler::Admin(|_| Err(errors::transaction::EXEC_ALONE.into())),
};

const DISCARD: Command = Command {
    spec: CommandSpec {
        name: "DISCARD",
        id: 552,
        since: "2.0.0",
        complexity: "O(N), when N is the number of queued commands",
        summary: "Discards a transaction.",
        group: Group::Transactions,
        traits: AT_ONCE,
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(discard),
};

fn discard(call: &mut AdminCall<'_>) -> Outcome {
    if call.client.transaction.is_none() {
        return Err(errors::transaction::DISCARD_ALONE.into());
    }
    transaction::end(call.client, call.accessor);
    call.reply.ok();
    Ok(())
}

const WATCH: Command = Command {
    spec: CommandSpec {
        name: "WATCH",
        id: 553,
        since: "2.2.0",
        complexity: "O(1) for every key.",
        summary: "Monitors changes to keys to determine the execution of a transaction.",
        group: Group::Transactions,
        args: &[Arg::key("key", Access::Inspect).multiple()],
        traits: AT_ONCE,
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(watch),
};

fn watch(call: &mut AdminCall<'_>) -> Outcome {
    if call.client.transaction.is_some() {
        return Err(errors::transaction::WATCH_INSIDE.into());
    }
    // What has changed already cannot be executed, whatever else is watched.
    if !call.client.watching.as_ref().is_some_and(|watching| watching.watcher.has_changed()) {
        for key in call.args.slice_from(1).iter() {
            transaction::watch(call.client, call.accessor, key)?;
        }
    }
    call.reply.ok();
    Ok(())
}

const UNWATCH: Command = Command {
    spec: CommandSpec {
        name: "UNWATCH",
        id: 554,
        since: "2.2.0",
        summary: "Forgets about watched keys of a transaction.",
        group: Group::Transactions,
        traits: Traits { not_queued: false, ..AT_ONCE },
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(unwatch),
};

fn unwatch(call: &mut AdminCall<'_>) -> Outcome {
    transaction::unwatch(call.client, call.accessor);
    call.reply.ok();
    Ok(())
}
