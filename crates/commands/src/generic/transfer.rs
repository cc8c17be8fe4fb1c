//! A value on its way to another key: RENAME and RENAMENX within a database, COPY and MOVE also between databases.
//!
//! The value is put to its destination before it is taken from its source, so that a full store loses nothing. Large values
//! travel by reference.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, Stop, WriteCall, database, errors};
use almandine_keyspace::{Kind, Missing};

use crate::traits::CHANGE;

pub(super) const RENAME: Command = Command {
    spec: CommandSpec {
        name: "RENAME",
        id: 214,
        summary: "Renames a key and overwrites the destination.",
        args: &[Arg::key("key", Access::Take), Arg::key("newkey", Access::Overwrite)],
        traits: Traits { fast: false, ..CHANGE },
        history: &[("3.2.0", "The command no longer returns an error when source and destination names are the same.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Write(rename),
};

fn rename(call: &mut WriteCall<'_>) -> Outcome {
    rename_unless(call, false)?;
    call.reply.ok();
    Ok(())
}

pub(super) const RENAMENX: Command = Command {
    spec: CommandSpec {
        name: "RENAMENX",
        id: 215,
        summary: "Renames a key only when the target key name doesn't exist.",
        args: &[Arg::key("key", Access::Take), Arg::key("newkey", Access::Create)],
        traits: CHANGE,
        ..RENAME.spec
    },
    run: Handler::Write(renamenx),
};

fn renamenx(call: &mut WriteCall<'_>) -> Outcome {
    let renamed = rename_unless(call, true)?;
    call.reply.integer(i64::from(renamed));
    Ok(())
}

/// Renames, unless the destination exists and may not be replaced; whether it did.
fn rename_unless(call: &mut WriteCall<'_>, keep_existing: bool) -> Result<bool, Stop> {
    let (db, source, destination) = (call.client.db, call.args.at(1), call.args.at(2));
    let value = call.keys.copy(db, source)?.ok_or(CommandError::NoSuchKey)?;
    if source == destination {
        return Ok(!keep_existing);
    }
    if keep_existing && call.keys.exists_in(db, destination)? {
        return Ok(false);
    }
    let (kind, before) = (value.kind, kind_at(call, db, destination)?);
    call.keys.transfer((db, source), (db, destination), value)?;
    tell_put(call, db, destination, before);
    call.event_in(db, Classes::GENERIC, "rename_from", source);
    call.event_in(db, Classes::GENERIC, "rename_to", destination);
    tell_replaced(call, db, destination, before, kind);
    Ok(true)
}

/// The type of the value that a latched key has; none while no events are told, too.
fn kind_at(call: &mut WriteCall<'_>, db: u16, key: &[u8]) -> Result<Option<Kind>, Missing> {
    if call.keys.published().is_empty() { Ok(None) } else { call.keys.kind_in(db, key) }
}

/// States that a key was made if it was there: its old value is removed first. Of others the store tells.
fn tell_put(call: &mut WriteCall<'_>, db: u16, key: &[u8], before: Option<Kind>) {
    if before.is_some() {
        call.event_in(db, Classes::NEW, "new", key);
    }
}

/// As [`WriteCall::replaced`], for a key of any database.
fn tell_replaced(call: &mut WriteCall<'_>, db: u16, key: &[u8], before: Option<Kind>, kind: Kind) {
    if let Some(before) = before {
        call.event_in(db, Classes::OVERWRITTEN, "overwritten", key);
        if before != kind {
            call.event_in(db, Classes::TYPE_CHANGED, "type_changed", key);
        }
    }
}

pub(super) const COPY: Command = Command {
    spec: CommandSpec {
        name: "COPY",
        id: 216,
        since: "6.2.0",
        complexity: "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.",
        summary: "Copies the value of a key to a new key.",
        args: &[
            Arg::key("source", Access::Read),
            Arg::key("destination", Access::Overwrite),
            Arg::integer("destination-db").token("DB").optional(),
            Arg::pure_token("replace", "REPLACE").optional(),
        ],
        // The destination may be in another database, which only the options tell: the session plans it by `database_option`.
        traits: Traits { fast: false, denyoom: true, self_locking: true, database_option: true, ..CHANGE },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(copy),
};

fn copy(call: &mut WriteCall<'_>) -> Outcome {
    let (source_db, source, destination) = (call.client.db, call.args.at(1), call.args.at(2));
    let databases = call.context.instance.keyspace.databases();
    let (mut destination_db, mut replace) = (source_db, false);
    let mut options = Options::after(call.args, 3);
    while let Some(option) = options.next() {
        match option {
            o if o.is("REPLACE") => replace = true,
            o if o.is("DB") => destination_db = database::parse(options.value()?, databases)?,
            _ => return Err(CommandError::Syntax.into()),
        }
    }
    if (source_db, source) == (destination_db, destination) {
        return Err(errors::generic::SAME_OBJECT.into());
    }
    call.keys.plan().hold([(source_db, source), (destination_db, destination)].into_iter())?;
    let value = call.keys.copy(source_db, source)?;
    let key = call.keys.key(source);
    call.looked_up(key, value.is_some());
    let copied = match value {
        Some(value) if replace || !call.keys.exists_in(destination_db, destination)? => {
            let (kind, before) = (value.kind, kind_at(call, destination_db, destination)?);
            call.keys.put(destination_db, destination, value)?;
            tell_put(call, destination_db, destination, before);
            call.event_in(destination_db, Classes::GENERIC, "copy_to", destination);
            tell_replaced(call, destination_db, destination, before, kind);
            true
        }
        _ => false,
    };
    call.reply.integer(i64::from(copied));
    Ok(())
}

pub(super) const MOVE: Command = Command {
    spec: CommandSpec {
        name: "MOVE",
        id: 217,
        summary: "Moves a key to another database.",
        args: &[Arg::key("key", Access::ReadUpdate), Arg::integer("db")],
        traits: Traits { self_locking: true, database_last: true, ..CHANGE },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(move_key),
};

fn move_key(call: &mut WriteCall<'_>) -> Outcome {
    let (from, name) = (call.client.db, call.args.at(1));
    let to = database::parse(call.args.at(2), call.context.instance.keyspace.databases())?;
    if from == to {
        return Err(errors::generic::SAME_OBJECT.into());
    }
    call.keys.plan().hold([(from, name), (to, name)].into_iter())?;
    let moved = match call.keys.copy(from, name)? {
        Some(value) if !call.keys.exists_in(to, name)? => {
            call.keys.transfer((from, name), (to, name), value)?;
            call.event_in(from, Classes::GENERIC, "move_from", name);
            call.event_in(to, Classes::GENERIC, "move_to", name);
            true
        }
        _ => false,
    };
    call.reply.integer(i64::from(moved));
    Ok(())
}
