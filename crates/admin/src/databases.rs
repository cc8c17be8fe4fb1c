//! Whole databases: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB. All are O(1): a database is a namespace of the store, and emptying it takes
//! a fresh one.

use almandine_command_spec::{Arg, Category, CommandSpec, Group, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, ReadCall, Word, errors, tracking};
use almandine_instance::SaveTask;
use almandine_resp::Args;

use crate::operators::{caller, outside_epoch};

pub(super) const COMMANDS: &[&Command] = &[&DBSIZE, &FLUSHDB, &FLUSHALL, &SWAPDB];

const DBSIZE: Command = Command {
    spec: CommandSpec {
        name: "DBSIZE",
        id: 415,
        summary: "Returns the number of keys in the database.",
        group: Group::Server,
        traits: Traits { readonly: true, fast: true, all_keyspace: true, ..Traits::NONE },
        categories: Some(&[Category::Keyspace]),
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(dbsize),
};

fn dbsize(call: &mut ReadCall<'_>) -> Outcome {
    call.reply.unsigned(call.context.instance.keyspace.dbsize(call.client.db));
    Ok(())
}

/// What FLUSHDB and FLUSHALL have in common.
const FLUSH: CommandSpec = CommandSpec {
    group: Group::Server,
    args: &[Arg::one_of(
        "flush-type",
        &[Arg::pure_token("async", "ASYNC").since("4.0.0"), Arg::pure_token("sync", "SYNC").since("6.2.0")],
    )
    .optional()],
    traits: Traits { write: true, ..Traits::NONE },
    categories: Some(&[Category::Keyspace, Category::Dangerous]),
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[("4.0.0", "Added the `ASYNC` flushing mode modifier."), ("6.2.0", "Added the `SYNC` flushing mode modifier.")],
    ..CommandSpec::BLANK
};

const FLUSHDB: Command = Command {
    spec: CommandSpec { name: "FLUSHDB", id: 416, summary: "Removes all keys from the current database.", ..FLUSH },
    run: Handler::Admin(|call| {
        check_mode(call.args)?;
        let keys = call.context.instance.keyspace.dbsize(call.client.db);
        tracing::debug!("FLUSHDB of database {} with {keys} keys by {}", call.client.db, caller(call));
        call.accessor.flush(&[call.client.db]);
        tracking::emptied(call.client, &call.context.instance);
        call.reply.ok();
        Ok(())
    }),
};

const FLUSHALL: Command = Command {
    spec: CommandSpec {
        name: "FLUSHALL",
        id: 417,
        summary: "Removes all keys from all databases.",
        traits: Traits { all_databases: true, ..FLUSH.traits },
        ..FLUSH
    },
    run: Handler::Admin(|call| {
        check_mode(call.args)?;
        tracing::debug!("FLUSHALL by {}", caller(call));
        let dbs: Vec<u16> = (0..call.context.instance.keyspace.databases() as u16).collect();
        call.accessor.flush(&dbs);
        tracking::emptied(call.client, &call.context.instance);
        save_emptied(call);
        call.reply.ok();
        Ok(())
    }),
};

/// Behind FLUSHALL: a snapshot of what there was ends, and with save points the empty state is saved, so that a restart does not
/// bring the keys back.
fn save_emptied(call: &mut AdminCall<'_>) {
    let instance = &call.context.instance;
    instance.persistence.saves.cancel();
    if call.context.settings().persistence.save_points.is_empty() {
        return;
    }
    // A worker that keeps the others out cannot wait for the thread that saves: in a transaction, or while clients are to be
    // served.
    if !call.reply.out.may_stream() || call.accessor.serving().has_ready() {
        let _ = instance.persistence.saves.begin(instance.keyspace.keys());
        return;
    }
    // A failure is in the log, and the changes stay unsaved.
    outside_epoch(call, |instance| _ = instance.persistence.saves.run(SaveTask::Foreground));
}

/// Both modes do the same: the keys are gone at once, their memory is freed in the background.
fn check_mode(args: Args<'_>) -> Outcome {
    match (args.len(), args.get(1).map(Word)) {
        (1, _) => Ok(()),
        (2, Some(mode)) if mode.is("ASYNC") || mode.is("SYNC") => Ok(()),
        _ => Err(CommandError::Syntax.into()),
    }
}

const SWAPDB: Command = Command {
    spec: CommandSpec {
        name: "SWAPDB",
        id: 418,
        since: "4.0.0",
        complexity: "O(N) where N is the count of clients watching or blocking on keys from both databases.",
        summary: "Swaps two Redis databases.",
        group: Group::Server,
        args: &[Arg::integer("index1"), Arg::integer("index2")],
        traits: Traits { write: true, fast: true, databases: true, ..Traits::NONE },
        categories: Some(&[Category::Keyspace, Category::Dangerous]),
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(swapdb),
};

fn swapdb(call: &mut AdminCall<'_>) -> Outcome {
    let number = |argument, error| parse_i64(argument).and_then(|number| i32::try_from(number).ok()).ok_or(error);
    let left = number(call.args.at(1), errors::generic::INVALID_FIRST_DATABASE)?;
    let right = number(call.args.at(2), errors::generic::INVALID_SECOND_DATABASE)?;
    let keyspace = &call.context.instance.keyspace;
    let database = |number| u16::try_from(number).ok().filter(|db| usize::from(*db) < keyspace.databases());
    let (left, right) = database(left).zip(database(right)).ok_or(CommandError::DatabaseOutOfRange)?;
    call.accessor.swap(left, right);
    call.reply.ok();
    Ok(())
}
