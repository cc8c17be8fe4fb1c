//! HGETEX and HGETDEL: fields that are read for the last time, or for the last time before they expire.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, WriteCall, errors};
use almandine_keyspace::types::hash::Hashes;

use super::access::{HASH, limits, reply_value};
use super::fields::{self, Element, FIELDS, Form, only_fields};
use crate::expiry::{EXPIRY_OR_PERSIST, Expiry, ExpiryChange};
use crate::traits::CHANGE;

pub(super) const HGETDEL: Command = Command {
    spec: CommandSpec {
        name: "HGETDEL",
        id: 625,
        since: "8.0.0",
        complexity: "O(N) where N is the number of specified fields",
        summary: "Returns the value of a field and deletes it from the hash.",
        args: &[Arg::key("key", Access::Take), FIELDS],
        traits: CHANGE,
        ..HASH
    },
    run: Handler::Write(hgetdel),
};

fn hgetdel(call: &mut WriteCall<'_>) -> Outcome {
    let fields = only_fields(call.args, Element::Field)?;
    let (key, limits) = (call.key(1), limits(call.context.settings()));
    let (mut told, mut removed) = (call.told_elements(Classes::HASH), false);
    let WriteCall { keys, reply, .. } = call;
    let mut hash = keys.write_as::<Hashes>(key, limits)?;
    let found = hash.existed();
    reply.array(fields.len());
    for field in fields.iter() {
        reply_value(reply, hash.get(field)?);
        if hash.remove(field)? {
            told.push(field);
            removed = true;
        }
    }
    let emptied = hash.is_empty();
    hash.commit()?;
    if removed {
        call.taken_elements(Classes::HASH, "hdel", key, &told, emptied);
    }
    // As in Redis, no miss is told of these two.
    call.context.statistics().looked_up(found);
    Ok(())
}

pub(super) const HGETEX: Command = Command {
    spec: CommandSpec {
        name: "HGETEX",
        id: 626,
        summary: "Get the value of one or more fields of a given hash key, and optionally set their expiration.",
        args: &[Arg::key("key", Access::ReadUpdate).notes("RW and UPDATE because it changes the TTL"), EXPIRY_OR_PERSIST, FIELDS],
        ..HGETDEL.spec
    },
    run: Handler::Write(hgetex),
};

fn hgetex(call: &mut WriteCall<'_>) -> Outcome {
    let mut change = ExpiryChange::Unstated;
    let form = Form { at: 2, width: 1, element: Element::Field, bad_count: Some(errors::hash::FIELDS_NOT_POSITIVE) };
    let fields = fields::parse(call.args, form, errors::hash::unknown_option, |word, options| {
        let given = if word.is("PERSIST") {
            ExpiryChange::Persist
        } else if let Some(expiry) = Expiry::option(word, options)? {
            ExpiryChange::Set(expiry)
        } else {
            return Ok(false);
        };
        change = change.joined(given).ok_or(errors::hash::EXPIRY_OR_PERSIST)?;
        Ok(true)
    })?;
    let now_ms = call.now_ms();
    let due = match change {
        ExpiryChange::Set(expiry) => Some(fields::due(expiry, now_ms, "hgetex")?),
        _ => None,
    };
    let is_past = due.is_some_and(|due| due <= now_ms.unsigned_abs());
    let (key, limits) = (call.key(1), limits(call.context.settings()));
    let (mut told, mut changed) = (call.told_elements(Classes::HASH), false);
    let WriteCall { keys, reply, .. } = call;
    let mut hash = keys.write_as::<Hashes>(key, limits)?;
    let found = hash.existed();
    reply.array(fields.len());
    for field in fields.iter() {
        let entry = hash.get(field)?;
        reply_value(reply, entry);
        let Some(before) = entry.map(|entry| entry.due) else { continue };
        let done = match change {
            ExpiryChange::Set(_) if is_past => hash.remove(field)?,
            ExpiryChange::Set(_) => hash.set_due(field, due)?,
            ExpiryChange::Persist if before.is_some() => hash.set_due(field, None)?,
            _ => false,
        };
        if done {
            told.push(field);
            changed = true;
        }
    }
    let emptied = hash.is_empty();
    hash.commit()?;
    match change {
        _ if !changed => {}
        ExpiryChange::Set(_) if is_past => call.taken_elements(Classes::HASH, "hdel", key, &told, emptied),
        ExpiryChange::Set(_) => call.event_of(Classes::HASH, "hexpire", key, told.iter()),
        _ => call.event_of(Classes::HASH, "hpersist", key, told.iter()),
    }
    call.context.statistics().looked_up(found);
    Ok(())
}
