//! The set family: members, each once.
//!
//! All members at once are in [`whole`], members at random in [`random`] and [`pop`], SSCAN in [`scan`]. Commands on several
//! sets: [`algebra`] answers unions, intersections and differences, [`store`] keeps them, [`card`] counts them, [`transfer`]
//! moves a member.

mod access;
mod algebra;
mod card;
mod compute;
mod pop;
mod random;
mod scan;
mod store;
mod stream;
mod transfer;
mod whole;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, Handler, Outcome, ReadCall, WriteCall};
use almandine_keyspace::types::set::Sets;

use crate::look::look;
use crate::traits::{CHANGE, READ, WRITE};
pub(crate) use access::limits;
use access::{SET, change};
pub(crate) use scan::sscan;

/// The family.
pub const COMMANDS: &[&Command] = &[
    &SADD,
    &SREM,
    &SCARD,
    &SISMEMBER,
    &SMISMEMBER,
    &whole::SMEMBERS,
    &scan::SSCAN,
    &random::SRANDMEMBER,
    &pop::SPOP,
    &transfer::SMOVE,
    &algebra::SUNION,
    &algebra::SINTER,
    &algebra::SDIFF,
    &card::SINTERCARD,
    &card::SUNIONCARD,
    &card::SDIFFCARD,
    &store::SUNIONSTORE,
    &store::SINTERSTORE,
    &store::SDIFFSTORE,
];

const SADD: Command = Command {
    spec: CommandSpec {
        name: "SADD",
        id: 700,
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        summary: "Adds one or more members to a set. Creates the key if it doesn't exist.",
        args: &[Arg::key("key", Access::Insert), Arg::value("member").multiple()],
        traits: Traits { element: true, ..WRITE },
        history: &[("2.4.0", "Accepts multiple `member` arguments.")],
        ..SET
    },
    run: Handler::Write(sadd),
};

fn sadd(call: &mut WriteCall<'_>) -> Outcome {
    let members = call.args.slice_from(2);
    let mut set = change(call)?;
    if members.len() > 1 {
        set.reserve(members.at(0), members.len())?;
    }
    let mut added = 0;
    for member in members.iter() {
        added += u64::from(set.add(member)?);
    }
    set.commit()?;
    if added > 0 {
        let key = call.key(1);
        call.event(Classes::SET, "sadd", key);
    }
    call.reply.unsigned(added);
    Ok(())
}

const SREM: Command = Command {
    spec: CommandSpec {
        name: "SREM",
        id: 701,
        complexity: "O(N) where N is the number of members to be removed.",
        summary: "Removes one or more members from a set. Deletes the set if the last member was removed.",
        args: &[Arg::key("key", Access::Delete), Arg::value("member").multiple()],
        traits: Traits { element: true, ..CHANGE },
        history: &[("2.4.0", "Accepts multiple `member` arguments.")],
        ..SET
    },
    run: Handler::Write(srem),
};

fn srem(call: &mut WriteCall<'_>) -> Outcome {
    let members = call.args.slice_from(2);
    let mut set = change(call)?;
    let mut removed = 0;
    for member in members.iter() {
        removed += u64::from(set.remove(member)?);
    }
    let emptied = set.is_empty();
    set.commit()?;
    if removed > 0 {
        let key = call.key(1);
        call.taken(Classes::SET, "srem", key, emptied);
    }
    call.reply.unsigned(removed);
    Ok(())
}

const SCARD: Command = Command {
    spec: CommandSpec {
        name: "SCARD",
        id: 702,
        summary: "Returns the number of members in a set.",
        args: &[Arg::key("key", Access::Inspect)],
        traits: READ,
        ..SET
    },
    run: Handler::Read(|call| {
        let len = look::<Sets, _>(call, |set, _| Ok(set.len()))?;
        call.reply.unsigned(len.unwrap_or(0) as u64);
        Ok(())
    }),
};

const SISMEMBER: Command = Command {
    spec: CommandSpec {
        name: "SISMEMBER",
        id: 703,
        summary: "Determines whether a member belongs to a set.",
        args: &[Arg::key("key", Access::Inspect), Arg::value("member")],
        traits: Traits { element: true, ..READ },
        ..SET
    },
    run: Handler::Read(|call| {
        let member = call.args.at(2);
        let is_member = look::<Sets, _>(call, |set, _| set.contains(member))?;
        call.reply.integer(i64::from(is_member.unwrap_or(false)));
        Ok(())
    }),
};

const SMISMEMBER: Command = Command {
    spec: CommandSpec {
        name: "SMISMEMBER",
        id: 704,
        since: "6.2.0",
        complexity: "O(N) where N is the number of elements being checked for membership",
        summary: "Determines whether multiple members belong to a set.",
        args: &[Arg::key("key", Access::Read), Arg::value("member").multiple()],
        traits: Traits { element: true, ..READ },
        ..SET
    },
    run: Handler::Read(smismember),
};

fn smismember(call: &mut ReadCall<'_>) -> Outcome {
    let members = call.args.slice_from(2);
    let found = look::<Sets, _>(call, |set, reply| {
        reply.array(members.len());
        for member in members.iter() {
            reply.integer(i64::from(set.contains(member)?));
        }
        Ok(())
    })?;
    if found.is_none() {
        call.reply.array(members.len());
        members.iter().for_each(|_| call.reply.integer(0));
    }
    Ok(())
}
