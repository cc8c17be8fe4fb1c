//! ZEXPIRE and its relatives, of Garnet: when members cease to exist. Their arguments and answers are those of HEXPIRE, with
//! MEMBERS for FIELDS.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, WriteCall};

use super::access::{SORTED_SET, change};
use crate::expiry::{Expiry, Unit};
use crate::hash::expire::{CONDITION, DELETED, NOT_ALLOWED, SET};
use crate::hash::fields::{self, Element, MEMBERS};
use crate::traits::CHANGE;

pub(super) const ZEXPIRE: Command = Command {
    spec: CommandSpec {
        name: "ZEXPIRE",
        id: 782,
        since: "1.0.0",
        complexity: "O(N*log(M)) where N is the number of specified members and M the number of members",
        summary: "Sets the expiry of members of a sorted set, as a time from now in seconds.",
        args: &[Arg::key("key", Access::Update), Arg::integer("seconds"), CONDITION, MEMBERS],
        traits: CHANGE,
        ..SORTED_SET
    },
    run: Handler::Write(|call| expire(call, Unit::Seconds, false, "zexpire")),
};

pub(super) const ZPEXPIRE: Command = Command {
    spec: CommandSpec {
        name: "ZPEXPIRE",
        id: 783,
        summary: "Sets the expiry of members of a sorted set, as a time from now in milliseconds.",
        args: &[Arg::key("key", Access::Update), Arg::integer("milliseconds"), CONDITION, MEMBERS],
        ..ZEXPIRE.spec
    },
    run: Handler::Write(|call| expire(call, Unit::Milliseconds, false, "zpexpire")),
};

pub(super) const ZEXPIREAT: Command = Command {
    spec: CommandSpec {
        name: "ZEXPIREAT",
        id: 784,
        summary: "Sets the expiry of members of a sorted set, as a Unix timestamp in seconds.",
        args: &[Arg::key("key", Access::Update), Arg::unix_time("unix-time-seconds"), CONDITION, MEMBERS],
        ..ZEXPIRE.spec
    },
    run: Handler::Write(|call| expire(call, Unit::Seconds, true, "zexpireat")),
};

pub(super) const ZPEXPIREAT: Command = Command {
    spec: CommandSpec {
        name: "ZPEXPIREAT",
        id: 785,
        summary: "Sets the expiry of members of a sorted set, as a Unix timestamp in milliseconds.",
        args: &[Arg::key("key", Access::Update), Arg::unix_time("unix-time-milliseconds"), CONDITION, MEMBERS],
        ..ZEXPIRE.spec
    },
    run: Handler::Write(|call| expire(call, Unit::Milliseconds, true, "zpexpireat")),
};

fn expire(call: &mut WriteCall<'_>, unit: Unit, absolute: bool, command: &str) -> Outcome {
    let now_ms = call.now_ms();
    let due = fields::due(Expiry { amount: call.args.at(2), unit, absolute }, now_ms, command)?;
    let (condition, members) = fields::conditional(call.args, Element::Member)?;
    let mut set = change(call)?;
    let is_past = due <= now_ms.unsigned_abs();
    let mut answers = Vec::with_capacity(members.len());
    for member in members.iter() {
        let before = set.look().find(member)?.map(|entry| entry.due);
        answers.push(match before {
            None => fields::NO_ELEMENT,
            Some(before) if !condition.holds(before.map(u64::cast_signed), due.cast_signed()) => NOT_ALLOWED,
            Some(_) if is_past => {
                set.remove(member)?;
                DELETED
            }
            Some(_) => {
                set.set_due(member, Some(due))?;
                SET
            }
        });
    }
    let emptied = set.is_empty();
    set.commit()?;
    let key = call.key(1);
    if answers.contains(&DELETED) {
        call.taken(Classes::SORTED_SET, "zrem", key, emptied);
    } else if answers.contains(&SET) {
        call.event(Classes::SORTED_SET, "zexpire", key);
    }
    call.reply.array(answers.len());
    answers.into_iter().for_each(|answer| call.reply.integer(answer));
    Ok(())
}
