//! BACKUP: a base of the log and what was logged behind it, as files that nothing changes any more.

use almandine_command_spec::{CommandSpec, Group, Traits};
use almandine_handler::blocking::{Block, Unanswered};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, help};
use almandine_instance::{Instance, Sealer, UploadState};

use crate::operators::outside_epoch;

pub(super) const COMMANDS: &[&Command] = &[&BACKUP, &ABORT, &CLEANUP, &HELP, &LIST, &SEAL, &START, &STATUS];

const BACKUP: Command = Command {
    spec: CommandSpec {
        name: "BACKUP",
        id: 1070,
        since: "8.10.0",
        complexity: "Depends on subcommand.",
        summary: "A container for backup management commands.",
        group: Group::Server,
        subcommands: &[&ABORT.spec, &CLEANUP.spec, &HELP.spec, &LIST.spec, &SEAL.spec, &START.spec, &STATUS.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

/// What the subcommands have in common that change something.
const CHANGES: CommandSpec = CommandSpec {
    since: "8.10.0",
    group: Group::Server,
    traits: Traits { admin: true, noscript: true, no_multi: true, ..Traits::NONE },
    ..CommandSpec::BLANK
};

/// And those that tell.
const TELLS: CommandSpec = CommandSpec { traits: Traits { admin: true, stale: true, ..Traits::NONE }, ..CHANGES };

const START: Command = Command {
    spec: CommandSpec {
        name: "BACKUP|START",
        id: 1076,
        summary: "Starts a new backup in the directory that backupdirname names.",
        ..CHANGES
    },
    run: Handler::Admin(|call| {
        changed(call, |instance| {
            instance.persistence.backups.start()?;
            instance.persistence.rewrites.wake();
            Ok(())
        })
    }),
};

const SEAL: Command = Command {
    spec: CommandSpec {
        name: "BACKUP|SEAL",
        id: 1075,
        summary: "Completes the current backup: its base, the log behind it, and a manifest.",
        ..CHANGES
    },
    // The thread that writes bases seals it, behind some syncs; only the client waits for that.
    run: Handler::Read(|call| {
        let persistence = &call.context.instance.persistence;
        let client = Sealer { id: call.client.shared.id, worker: call.client.shared.worker };
        let asked = persistence.backups.ask_to_seal(client, || persistence.rewrites.wake());
        asked.map_err(|why| CommandError::new(format!("ERR {why}")))?;
        call.block(Block::until_time(None, Unanswered::Unsealed))
    }),
};

const ABORT: Command = Command {
    spec: CommandSpec {
        name: "BACKUP|ABORT",
        id: 1071,
        summary: "Gives up a backup that is not sealed yet, or not in object storage.",
        ..CHANGES
    },
    run: Handler::Admin(|call| {
        changed(call, |instance| {
            if instance.persistence.backups.abort()? {
                instance.persistence.rewrites.cancel();
            }
            instance.persistence.rewrites.wake();
            Ok(())
        })
    }),
};

const CLEANUP: Command = Command {
    spec: CommandSpec {
        name: "BACKUP|CLEANUP",
        id: 1072,
        summary: "Removes the files of a backup that is sealed or has failed.",
        ..CHANGES
    },
    run: Handler::Admin(|call| changed(call, |instance| instance.persistence.backups.clean())),
};

/// Does something with the files of a backup: outside of the batch's epoch, for it may take as long as a sync.
fn changed(call: &mut AdminCall<'_>, change: impl FnOnce(&Instance) -> Result<(), String>) -> Outcome {
    let mut done = Ok(());
    outside_epoch(call, |instance| done = change(instance));
    done.map_err(|why| CommandError::new(format!("ERR {why}")))?;
    call.reply.ok();
    Ok(())
}

const LIST: Command = Command {
    spec: CommandSpec {
        name: "BACKUP|LIST",
        id: 1074,
        summary: "Returns the absolute paths of the files of the backup that nothing changes any more.",
        ..TELLS
    },
    run: Handler::Admin(|call| {
        let files = call.context.instance.persistence.backups.figures().files;
        call.reply.array(files.len());
        files.iter().for_each(|file| call.reply.bulk(file.as_os_str().as_encoded_bytes()));
        Ok(())
    }),
};

const STATUS: Command = Command {
    spec: CommandSpec { name: "BACKUP|STATUS", id: 1077, summary: "Returns how far the backup is.", ..TELLS },
    run: Handler::Admin(|call| {
        let backups = &call.context.instance.persistence.backups;
        let (figures, upload) = (backups.figures(), backups.uploads.figures());
        let (start, end, left) = (figures.start_s.to_string(), figures.end_s.to_string(), upload.left_bytes.to_string());
        let fields = [
            ("state", figures.state.name()),
            ("error", &*figures.error),
            ("start_time", &*start),
            ("end_time", &*end),
            // Beyond those of Redis, and only where backups go to object storage.
            ("upload_state", upload.state.name()),
            ("upload_name", &*upload.name),
            ("upload_left_bytes", &*left),
            ("upload_error", &*upload.last_error),
        ];
        let told = if upload.state == UploadState::Off { &fields[..4] } else { &fields };
        call.reply.map(told.len());
        for (name, value) in told {
            call.reply.bulk(name.as_bytes());
            call.reply.bulk(value.as_bytes());
        }
        Ok(())
    }),
};

const HELP: Command =
    help::command("BACKUP|HELP", 1073, CommandSpec { traits: Traits { loading: true, stale: true, ..Traits::NONE }, ..CHANGES });
