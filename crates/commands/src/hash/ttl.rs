//! HTTL and its relatives: when fields will cease to exist; HPERSIST: that they will not.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, ReadCall, WriteCall};
use almandine_keyspace::types::hash::Hashes;

use super::access::{HASH, change};
use super::fields::{Element, FIELDS, NO_ELEMENT, NO_EXPIRY, only_fields, time_left};
use crate::expiry::Unit;
use crate::look::look;
use crate::traits::{CHANGE, READ};

pub(super) const HTTL: Command = Command {
    spec: CommandSpec {
        name: "HTTL",
        id: 620,
        since: "7.4.0",
        complexity: "O(N) where N is the number of specified fields",
        summary: "Returns the TTL in seconds of a hash field.",
        args: &[Arg::key("key", Access::Read), FIELDS],
        traits: READ,
        ..HASH
    },
    run: Handler::Read(|call| answer(call, call.now_ms(), Unit::Seconds)),
};

pub(super) const HPTTL: Command = Command {
    spec: CommandSpec { name: "HPTTL", id: 621, summary: "Returns the TTL in milliseconds of a hash field.", ..HTTL.spec },
    run: Handler::Read(|call| answer(call, call.now_ms(), Unit::Milliseconds)),
};

pub(super) const HEXPIRETIME: Command = Command {
    spec: CommandSpec {
        name: "HEXPIRETIME",
        id: 622,
        summary: "Returns the expiration time of a hash field as a Unix timestamp, in seconds.",
        ..HTTL.spec
    },
    run: Handler::Read(|call| answer(call, 0, Unit::Seconds)),
};

pub(super) const HPEXPIRETIME: Command = Command {
    spec: CommandSpec {
        name: "HPEXPIRETIME",
        id: 623,
        summary: "Returns the expiration time of a hash field as a Unix timestamp, in msec.",
        ..HEXPIRETIME.spec
    },
    run: Handler::Read(|call| answer(call, 0, Unit::Milliseconds)),
};

/// Answers each field's expiry as time since `base_ms`.
fn answer(call: &mut ReadCall<'_>, base_ms: i64, unit: Unit) -> Outcome {
    let fields = only_fields(call.args, Element::Field);
    // Redis looks at the key before it reads the arguments.
    let found = look::<Hashes, _>(call, |hash, reply| {
        let Ok(fields) = &fields else { return Ok(()) };
        reply.array(fields.len());
        for field in fields.iter() {
            reply.integer(time_left(hash.get(field)?.map(|entry| entry.due), base_ms, unit));
        }
        Ok(())
    })?;
    let fields = fields?;
    if found.is_none() {
        call.reply.array(fields.len());
        fields.iter().for_each(|_| call.reply.integer(NO_ELEMENT));
    }
    Ok(())
}

pub(super) const HPERSIST: Command = Command {
    spec: CommandSpec {
        name: "HPERSIST",
        id: 624,
        summary: "Removes the expiration time for each specified field",
        args: &[Arg::key("key", Access::Update), FIELDS],
        traits: CHANGE,
        ..HTTL.spec
    },
    run: Handler::Write(hpersist),
};

const PERSISTED: i64 = 1;

fn hpersist(call: &mut WriteCall<'_>) -> Outcome {
    let fields = only_fields(call.args, Element::Field);
    let mut told = call.told_elements(Classes::HASH);
    let mut hash = change(call)?;
    let fields = fields?;
    let mut answers = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        answers.push(match hash.get(field)?.map(|entry| entry.due) {
            None => NO_ELEMENT,
            Some(None) => NO_EXPIRY,
            Some(Some(_)) => {
                hash.set_due(field, None)?;
                told.push(field);
                PERSISTED
            }
        });
    }
    hash.count_once();
    hash.commit()?;
    if answers.contains(&PERSISTED) {
        let key = call.key(1);
        call.event_of(Classes::HASH, "hpersist", key, told.iter());
    }
    call.reply.array(answers.len());
    answers.into_iter().for_each(|answer| call.reply.integer(answer));
    Ok(())
}
