//! SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE, and Garnet's COMMITAOF. A thread of the server writes the snapshots.

use almandine_command_spec::{Arg, Category, CommandSpec, Group, Traits};
use almandine_handler::blocking::{Block, LogWait, Unanswered};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, ReadCall, Word, errors, number};
use almandine_instance::{Cancelled, Instance, RewriteBegun, SaveRefused, SaveTask};
use almandine_resp::Args;

use crate::operators::{FOR_OPERATORS, outside_epoch};

pub(super) const COMMANDS: &[&Command] = &[&SAVE, &BGSAVE, &BGREWRITEAOF, &LASTSAVE, &COMMITAOF];

const TRAITS: Traits = Traits { loading: false, stale: false, no_async_loading: true, ..FOR_OPERATORS };

const SAVE: Command = Command {
    spec: CommandSpec {
        name: "SAVE",
        id: 447,
        complexity: "O(N) where N is the total number of keys in all databases",
        summary: "Synchronously saves the database(s) to disk.",
        group: Group::Server,
        traits: Traits { no_multi: true, ..TRAITS },
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(save),
};

/// The connections of the client's worker wait with it; in Redis all do.
fn save(call: &mut AdminCall<'_>) -> Outcome {
    let mut saved = Ok(());
    outside_epoch(call, |instance| saved = instance.persistence.saves.run(SaveTask::Foreground));
    saved.map_err(|refused| match refused {
        SaveRefused::Running => errors::server::SAVE_RUNS,
        SaveRefused::Failed => errors::server::SAVE_FAILED,
    })?;
    call.reply.ok();
    Ok(())
}

const BGSAVE: Command = Command {
    spec: CommandSpec {
        name: "BGSAVE",
        id: 448,
        summary: "Asynchronously saves the database(s) to disk.",
        group: Group::Server,
        args: &[Arg::one_of(
            "operation",
            &[Arg::pure_token("schedule", "SCHEDULE").since("3.2.2"), Arg::pure_token("cancel", "CANCEL").since("8.1.0")],
        )
        .optional()],
        traits: TRAITS,
        history: &[("3.2.2", "Added the `SCHEDULE` option."), ("8.1.0", "Added the `CANCEL` option.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(bgsave),
};

/// What others write until the thread has begun is in the snapshot, too.
fn bgsave(call: &mut AdminCall<'_>) -> Outcome {
    let persistence = &call.context.instance.persistence;
    let saves = &persistence.saves;
    let mut waits = false;
    match (call.args.len(), call.args.get(1).map(Word)) {
        (1, _) => {}
        (2, Some(word)) if word.is("SCHEDULE") => waits = true,
        (2, Some(word)) if word.is("CANCEL") => {
            let cancelled = saves.cancel();
            call.reply.simple(match cancelled {
                Cancelled::None => return Err(errors::server::NO_SAVE.into()),
                Cancelled::Wanted if persistence.rewrites.is_running() => "Scheduled background saving cancelled",
                Cancelled::Wanted | Cancelled::Running => "Background saving cancelled",
            });
            return Ok(());
        }
        _ => return Err(CommandError::Syntax.into()),
    }
    let rewrites = persistence.rewrites.is_running();
    if rewrites && !waits && !saves.figures().in_background {
        return Err(errors::server::REWRITE_ACTIVE.into());
    }
    saves.begin(call.context.instance.keyspace.keys()).map_err(|_| errors::server::SAVE_RUNS)?;
    // It begins behind the transaction.
    let waits = rewrites || !call.reply.out.may_stream();
    call.reply.simple(if waits { "Background saving scheduled" } else { "Background saving started" });
    Ok(())
}

const BGREWRITEAOF: Command = Command {
    spec: CommandSpec {
        name: "BGREWRITEAOF",
        id: 449,
        summary: "Asynchronously rewrites the append-only file to disk.",
        group: Group::Server,
        traits: TRAITS,
        ..CommandSpec::BLANK
    },
    run: Handler::Admin(bgrewriteaof),
};

fn bgrewriteaof(call: &mut AdminCall<'_>) -> Outcome {
    let persistence = &call.context.instance.persistence;
    if persistence.backups.holds_log() {
        return Err(errors::server::BACKUP_ACTIVE.into());
    }
    let begun = persistence.rewrites.ask(persistence.saves.figures().in_background);
    call.reply.simple(match begun.map_err(|_| errors::server::REWRITE_RUNS)? {
        // It begins behind the transaction.
        RewriteBegun::Started if call.reply.out.may_stream() => "Background append only file rewriting started",
        RewriteBegun::Started | RewriteBegun::Scheduled => "Background append only file rewriting scheduled",
    });
    Ok(())
}

const LASTSAVE: Command = Command {
    spec: CommandSpec {
        name: "LASTSAVE",
        id: 450,
        summary: "Returns the Unix timestamp of the last successful save to disk.",
        args: &[Arg::integer("dbid").optional()],
        group: Group::Server,
        traits: Traits { loading: true, stale: true, fast: true, ..Traits::NONE },
        categories: Some(&[Category::Admin, Category::Dangerous]),
        tips: &["nondeterministic_output"],
        ..CommandSpec::BLANK
    },
    // As in Redis, the start counts as a save. Garnet names a database, and all are saved together.
    run: Handler::Read(|call| {
        check_database(call.args, &call.context.instance)?;
        call.reply.integer(call.context.instance.persistence.saves.figures().last_s);
        Ok(())
    }),
};

const COMMITAOF: Command = Command {
    spec: CommandSpec {
        name: "COMMITAOF",
        id: 500,
        since: "0.1.0",
        summary: "Makes durable what was written to the log before, in every mode of appendfsync.",
        group: Group::Server,
        args: &[Arg::integer("dbid").optional()],
        traits: Traits { no_multi: true, ..TRAITS },
        ..CommandSpec::BLANK
    },
    run: Handler::Read(commitaof),
};

/// There is one log of all databases, and clients that ask at once share a sync.
fn commitaof(call: &mut ReadCall<'_>) -> Outcome {
    check_database(call.args, &call.context.instance)?;
    let log = &call.context.instance.persistence.log;
    if !log.is_promised() {
        return Err(errors::server::COMMIT_WITHOUT_LOG.into());
    }
    let Some(seal) = log.unconfirmed() else {
        Unanswered::Committed.write(&mut call.reply);
        return Ok(());
    };
    if log.breaks().1 {
        return Err(errors::server::COMMIT_FAILED.into());
    }
    log.ask(seal, true);
    let log = Some(LogWait { seal, ends: true, reached: Unanswered::Committed });
    call.block(Block { log, ..Block::until_time(None, Unanswered::Uncommitted) })
}

/// Garnet names a database behind the command. What is asked of one is done, or told, of all.
fn check_database(args: Args<'_>, instance: &Instance) -> Outcome {
    if args.len() > 2 {
        return Err(CommandError::Syntax.into());
    }
    if let Some(db) = args.get(1) {
        let databases = instance.keyspace.databases() as u64;
        if u64::try_from(number::integer(db)?).map_or(true, |db| db >= databases) {
            return Err(CommandError::DatabaseOutOfRange.into());
        }
    }
    Ok(())
}
