//! HSETEX: fields with values and the time at which they expire, under a condition.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::packed::Due;
use almandine_handler::{Command, CommandError, Handler, Outcome, WriteCall, errors};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::hash::HashMut;

use super::access::{HASH, change};
use super::fields::{self, Element, Fields, Form};
use crate::expiry::{EXPIRY_OR_KEEP, Expiry, ExpiryChange};
use crate::traits::WRITE;

pub(super) const HSETEX: Command = Command {
    spec: CommandSpec {
        name: "HSETEX",
        id: 627,
        since: "8.0.0",
        complexity: "O(N) where N is the number of fields being set.",
        summary: "Set the value of one or more fields of a given hash key, and optionally set their expiration.",
        args: &[
            Arg::key("key", Access::Update),
            Arg::one_of("condition", &[Arg::pure_token("fnx", "FNX"), Arg::pure_token("fxx", "FXX")]).optional(),
            EXPIRY_OR_KEEP,
            Arg::block(
                "fields",
                &[Arg::integer("numfields"), Arg::block("data", &[Arg::value("field"), Arg::value("value")]).multiple()],
            )
            .token("FIELDS"),
        ],
        traits: WRITE,
        ..HASH
    },
    run: Handler::Write(hsetex),
};

/// What HSETEX's options say.
#[derive(Default)]
struct SetOptions<'c> {
    /// FXX: all fields; FNX: none of them.
    fields_exist: Option<bool>,
    /// XX and NX of Valkey: the key.
    key_exists: Option<bool>,
    expiry: ExpiryChange<'c>,
}

fn set_options<'c>(call: &WriteCall<'c>) -> Result<(SetOptions<'c>, Fields<'c>), CommandError> {
    let mut set = SetOptions::default();
    let form = Form { at: 2, width: 2, element: Element::Field, bad_count: Some(errors::hash::FIELDS_NOT_POSITIVE) };
    let fields = fields::parse(call.args, form, errors::hash::unknown_option, |word, options| {
        match word {
            w if w.is("FXX") => state(&mut set.fields_exist, true, errors::hash::CONDITIONS)?,
            w if w.is("FNX") => state(&mut set.fields_exist, false, errors::hash::CONDITIONS)?,
            w if w.is("XX") => state(&mut set.key_exists, true, CommandError::Syntax)?,
            w if w.is("NX") => state(&mut set.key_exists, false, CommandError::Syntax)?,
            w => {
                let given =
                    if w.is("KEEPTTL") { Some(ExpiryChange::Keep) } else { Expiry::option(w, options)?.map(ExpiryChange::Set) };
                let Some(given) = given else { return Ok(false) };
                set.expiry = set.expiry.joined(given).ok_or(errors::hash::EXPIRY_OR_KEEP)?;
            }
        }
        Ok(true)
    })?;
    Ok((set, fields))
}

fn state(condition: &mut Option<bool>, given: bool, contradiction: CommandError) -> Result<(), CommandError> {
    if condition.replace(given) == Some(!given) { Err(contradiction) } else { Ok(()) }
}

fn hsetex(call: &mut WriteCall<'_>) -> Outcome {
    let (options, fields) = set_options(call)?;
    let now_ms = call.now_ms();
    let due = match options.expiry {
        ExpiryChange::Set(expiry) => Due::At(fields::due(expiry, now_ms, "hsetex")?),
        ExpiryChange::Keep => Due::Keep,
        _ => Due::Never,
    };
    let mut hash = change(call)?;
    let existed = hash.existed();
    let holds = options.key_exists.is_none_or(|wanted| hash.existed() == wanted) && hold(&hash, options.fields_exist, fields)?;
    if holds {
        for (field, value) in fields.pairs() {
            match due {
                Due::At(due) if due <= now_ms.unsigned_abs() => hash.remove(field)?,
                due => hash.set(field, value, due)?,
            };
        }
    }
    let emptied = hash.is_empty();
    hash.commit()?;
    if holds {
        tell(call, fields, due, (existed, emptied));
    }
    call.reply.integer(i64::from(holds));
    Ok(())
}

/// States that the fields were set, and what became of them then: those that expire at once are gone, as is the key that was
/// made for them.
fn tell(call: &mut WriteCall<'_>, fields: Fields<'_>, due: Due, (existed, emptied): (bool, bool)) {
    let (key, now_ms) = (call.key(1), call.now_ms().unsigned_abs());
    let is_past = matches!(due, Due::At(due) if due <= now_ms);
    if is_past && !existed {
        call.event(Classes::NEW, "new", key);
    }
    let names = || fields.pairs().map(|(field, _)| field);
    call.event_of(Classes::HASH, "hset", key, names());
    match due {
        Due::At(_) if is_past => {
            call.event_of(Classes::HASH, "hdel", key, names());
            if emptied {
                call.event(Classes::GENERIC, "del", key);
            }
        }
        Due::At(_) => call.event_of(Classes::HASH, "hexpire", key, names()),
        _ => {}
    }
}

/// Whether all fields, or none of them, exist, as wanted.
fn hold(hash: &HashMut<'_>, wanted: Option<bool>, fields: Fields<'_>) -> Result<bool, Refusal> {
    let Some(wanted) = wanted else { return Ok(true) };
    for (field, _) in fields.pairs() {
        if hash.get(field)?.is_some() != wanted {
            return Ok(false);
        }
    }
    Ok(true)
}
