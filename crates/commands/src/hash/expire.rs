//! HEXPIRE and its relatives: when fields cease to exist.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, WriteCall};

use super::access::{HASH, change};
use super::fields::{self, Element, FIELDS};
use crate::expiry::{Expiry, Unit};
use crate::traits::CHANGE;

pub(crate) const CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::pure_token("nx", "NX"), Arg::pure_token("xx", "XX"), Arg::pure_token("gt", "GT"), Arg::pure_token("lt", "LT")],
)
.optional();

pub(super) const HEXPIRE: Command = Command {
    spec: CommandSpec {
        name: "HEXPIRE",
        id: 616,
        since: "7.4.0",
        complexity: "O(N) where N is the number of specified fields",
        summary: "Set expiry for hash field using relative time to expire (seconds)",
        args: &[Arg::key("key", Access::Update), Arg::integer("seconds"), CONDITION, FIELDS],
        traits: CHANGE,
        ..HASH
    },
    run: Handler::Write(|call| expire(call, Unit::Seconds, false, "hexpire")),
};

pub(super) const HPEXPIRE: Command = Command {
    spec: CommandSpec {
        name: "HPEXPIRE",
        id: 617,
        summary: "Set expiry for hash field using relative time to expire (milliseconds)",
        args: &[Arg::key("key", Access::Update), Arg::integer("milliseconds"), CONDITION, FIELDS],
        ..HEXPIRE.spec
    },
    run: Handler::Write(|call| expire(call, Unit::Milliseconds, false, "hpexpire")),
};

pub(super) const HEXPIREAT: Command = Command {
    spec: CommandSpec {
        name: "HEXPIREAT",
        id: 618,
        summary: "Set expiry for hash field using an absolute Unix timestamp (seconds)",
        args: &[Arg::key("key", Access::Update), Arg::unix_time("unix-time-seconds"), CONDITION, FIELDS],
        ..HEXPIRE.spec
    },
    run: Handler::Write(|call| expire(call, Unit::Seconds, true, "hexpireat")),
};

pub(super) const HPEXPIREAT: Command = Command {
    spec: CommandSpec {
        name: "HPEXPIREAT",
        id: 619,
        summary: "Set expiry for hash field using an absolute Unix timestamp (milliseconds)",
        args: &[Arg::key("key", Access::Update), Arg::unix_time("unix-time-milliseconds"), CONDITION, FIELDS],
        ..HEXPIRE.spec
    },
    run: Handler::Write(|call| expire(call, Unit::Milliseconds, true, "hpexpireat")),
};

pub(crate) const NOT_ALLOWED: i64 = 0;
pub(crate) const SET: i64 = 1;
pub(crate) const DELETED: i64 = 2;

fn expire(call: &mut WriteCall<'_>, unit: Unit, absolute: bool, command: &str) -> Outcome {
    let now_ms = call.now_ms();
    let due = fields::due(Expiry { amount: call.args.at(2), unit, absolute }, now_ms, command);
    let arguments = fields::conditional(call.args, Element::Field);
    let mut told = call.told_elements(Classes::HASH);
    let mut hash = change(call)?;
    // Redis looks at the key before it reads the arguments.
    let (due, (condition, fields)) = (due?, arguments?);
    let is_past = due <= now_ms.unsigned_abs();
    let mut answers = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        answers.push(match hash.get(field)?.map(|entry| entry.due) {
            None => fields::NO_ELEMENT,
            Some(before) if !condition.holds(before.map(u64::cast_signed), due.cast_signed()) => NOT_ALLOWED,
            Some(_) if is_past => {
                hash.remove(field)?;
                told.push(field);
                DELETED
            }
            Some(_) => {
                hash.set_due(field, Some(due))?;
                told.push(field);
                SET
            }
        });
    }
    let emptied = hash.is_empty();
    hash.commit()?;
    let key = call.key(1);
    if answers.contains(&DELETED) {
        call.taken_elements(Classes::HASH, "hdel", key, &told, emptied);
    } else if answers.contains(&SET) {
        call.event_of(Classes::HASH, "hexpire", key, told.iter());
    }
    call.reply.array(answers.len());
    answers.into_iter().for_each(|answer| call.reply.integer(answer));
    Ok(())
}
