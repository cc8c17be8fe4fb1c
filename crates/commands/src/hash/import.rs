//! HIMPORT: hashes with the same fields, of which a connection then sends only the values.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Outcome, WriteCall, errors};
use almandine_keyspace::types::hash::Hashes;
use almandine_keyspace::{Kind, Put};

use super::access::{HASH, limits};
use crate::traits::SLOW_WRITE;

pub(super) const HIMPORT: Command = Command {
    spec: CommandSpec {
        name: "HIMPORT",
        id: 628,
        complexity: "Depends on subcommand.",
        summary: "A container for session-based hash import commands using fieldsets.",
        subcommands: &[&DISCARD.spec, &DISCARDALL.spec, &PREPARE.spec, &SET.spec],
        ..SUBCOMMAND
    },
    run: Handler::Container,
};

const SUBCOMMAND: CommandSpec = CommandSpec { since: "8.10.0", ..HASH };

pub(super) const PREPARE: Command = Command {
    spec: CommandSpec {
        name: "HIMPORT|PREPARE",
        id: 629,
        complexity: "O(N*log(N)) where N is the number of fields.",
        summary: "Defines a session-local fieldset that maps a name to a sorted set of field names.",
        args: &[Arg::value("fieldset-name"), Arg::value("field").multiple()],
        traits: Traits { denyoom: true, ..Traits::NONE },
        ..SUBCOMMAND
    },
    run: Handler::Admin(prepare),
};

fn prepare(call: &mut AdminCall<'_>) -> Outcome {
    let fieldsets = call.client.fieldsets.get_or_insert_default();
    let prepared = fieldsets.prepare(call.args.at(2), call.args.slice_from(3));
    call.client.weigh();
    prepared?;
    call.reply.ok();
    Ok(())
}

pub(super) const SET: Command = Command {
    spec: CommandSpec {
        name: "HIMPORT|SET",
        id: 630,
        complexity: "O(N) where N is the number of fields in the fieldset.",
        summary: "Creates a fieldset-based hash from values supplied in the order matching a previously prepared fieldset.",
        args: &[Arg::key("key", Access::Update), Arg::value("fieldset-name"), Arg::value("value").multiple()],
        traits: SLOW_WRITE,
        ..SUBCOMMAND
    },
    run: Handler::Write(set),
};

fn set(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.key(2);
    // A value of another type is an error before the fieldset is looked at.
    if call.keys.metadata(key)?.is_some_and(|metadata| metadata.kind != Kind::Hash) {
        return Err(CommandError::WrongType.into());
    }
    let fieldset = call.client.fieldsets.as_deref().and_then(|sets| sets.get(call.args.at(3)));
    let (fields, values) = (fieldset.ok_or(errors::hash::NO_SUCH_FIELDSET)?, call.args.slice_from(4));
    if fields.len() != values.len() {
        return Err(errors::hash::FIELDSET_MISMATCH.into());
    }
    let mut hash = call.keys.new_value::<Hashes>(limits(call.context.settings()));
    for (field, value) in fields.iter().zip(values.iter()) {
        hash.set(field, value, None)?;
    }
    let before = call.replaces(key)?;
    call.keys.put_value::<Hashes>(key, hash, Put::default())?;
    call.replaced(key, before, Kind::Hash);
    call.event_of(Classes::HASH, "hset", key, fields.iter());
    call.reply.ok();
    Ok(())
}

pub(super) const DISCARD: Command = Command {
    spec: CommandSpec {
        name: "HIMPORT|DISCARD",
        id: 631,
        complexity: "O(N) where N is the number of session-local fieldsets.",
        summary: "Removes a single session-local fieldset by name.",
        args: &[Arg::value("fieldset-name")],
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let discarded = call.client.fieldsets.as_mut().is_some_and(|sets| sets.discard(call.args.at(2)));
        call.client.weigh();
        call.reply.integer(i64::from(discarded));
        Ok(())
    }),
};

pub(super) const DISCARDALL: Command = Command {
    spec: CommandSpec {
        name: "HIMPORT|DISCARDALL",
        id: 632,
        complexity: "O(N) where N is the number of session-local fieldsets.",
        summary: "Removes all session-local fieldsets for the connection.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        let discarded = call.client.fieldsets.take().map_or(0, |sets| sets.len());
        call.client.weigh();
        call.reply.unsigned(discarded as u64);
        Ok(())
    }),
};
