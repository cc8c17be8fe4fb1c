//! ZTTL and its relatives, of Garnet: when members will cease to exist; ZPERSIST: that they will not.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, ReadCall, WriteCall};
use almandine_keyspace::types::sorted_set::SortedSets;

use super::access::{SORTED_SET, change};
use crate::expiry::Unit;
use crate::hash::fields::{Element, MEMBERS, NO_ELEMENT, NO_EXPIRY, only_fields, time_left};
use crate::look::look;
use crate::traits::{CHANGE, READ};

pub(super) const ZTTL: Command = Command {
    spec: CommandSpec {
        name: "ZTTL",
        id: 786,
        since: "1.0.0",
        complexity: "O(N) where N is the number of specified members",
        summary: "Returns the time to live of members of a sorted set in seconds.",
        args: &[Arg::key("key", Access::Read), MEMBERS],
        traits: READ,
        ..SORTED_SET
    },
    run: Handler::Read(|call| answer(call, call.now_ms(), Unit::Seconds)),
};

pub(super) const ZPTTL: Command = Command {
    spec: CommandSpec {
        name: "ZPTTL",
        id: 787,
        summary: "Returns the time to live of members of a sorted set in milliseconds.",
        ..ZTTL.spec
    },
    run: Handler::Read(|call| answer(call, call.now_ms(), Unit::Milliseconds)),
};

pub(super) const ZEXPIRETIME: Command = Command {
    spec: CommandSpec {
        name: "ZEXPIRETIME",
        id: 788,
        summary: "Returns the expiry of members of a sorted set as a Unix timestamp in seconds.",
        ..ZTTL.spec
    },
    run: Handler::Read(|call| answer(call, 0, Unit::Seconds)),
};

pub(super) const ZPEXPIRETIME: Command = Command {
    spec: CommandSpec {
        name: "ZPEXPIRETIME",
        id: 789,
        summary: "Returns the expiry of members of a sorted set as a Unix timestamp in milliseconds.",
        ..ZTTL.spec
    },
    run: Handler::Read(|call| answer(call, 0, Unit::Milliseconds)),
};

/// Answers each member's expiry as time since `base_ms`.
fn answer(call: &mut ReadCall<'_>, base_ms: i64, unit: Unit) -> Outcome {
    let members = only_fields(call.args, Element::Member)?;
    call.reply.array(members.len());
    let found = look::<SortedSets, _>(call, |set, reply| {
        for member in members.iter() {
            reply.integer(time_left(set.find(member)?.map(|entry| entry.due), base_ms, unit));
        }
        Ok(())
    })?;
    if found.is_none() {
        members.iter().for_each(|_| call.reply.integer(NO_ELEMENT));
    }
    Ok(())
}

pub(super) const ZPERSIST: Command = Command {
    spec: CommandSpec {
        name: "ZPERSIST",
        id: 790,
        summary: "Removes the expiry of members of a sorted set.",
        args: &[Arg::key("key", Access::Update), MEMBERS],
        traits: CHANGE,
        ..ZTTL.spec
    },
    run: Handler::Write(zpersist),
};

const PERSISTED: i64 = 1;

fn zpersist(call: &mut WriteCall<'_>) -> Outcome {
    let members = only_fields(call.args, Element::Member)?;
    let mut set = change(call)?;
    let mut answers = Vec::with_capacity(members.len());
    for member in members.iter() {
        let before = set.look().find(member)?.map(|entry| entry.due);
        answers.push(match before {
            None => NO_ELEMENT,
            Some(None) => NO_EXPIRY,
            Some(Some(_)) => {
                set.set_due(member, None)?;
                PERSISTED
            }
        });
    }
    set.count_once();
    set.commit()?;
    if answers.contains(&PERSISTED) {
        let key = call.key(1);
        call.event(Classes::SORTED_SET, "zpersist", key);
    }
    call.reply.array(answers.len());
    answers.into_iter().for_each(|answer| call.reply.integer(answer));
    Ok(())
}
