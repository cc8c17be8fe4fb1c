//! Elements by place, and how many there are.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, WriteCall, errors, number};
use almandine_keyspace::types::list::Lists;

use super::access::{LIST, change, place};
use crate::look::look;
use crate::traits::{READ, SLOW_READ, SLOW_WRITE};

pub(super) const LLEN: Command = Command {
    spec: CommandSpec {
        name: "LLEN",
        id: 826,
        summary: "Returns the length of a list.",
        args: &[Arg::key("key", Access::Inspect)],
        traits: READ,
        ..LIST
    },
    run: Handler::Read(|call| {
        let len = look::<Lists, _>(call, |list, _| Ok(list.len()))?;
        call.reply.unsigned(len.unwrap_or(0) as u64);
        Ok(())
    }),
};

pub(super) const LINDEX: Command = Command {
    spec: CommandSpec {
        name: "LINDEX",
        id: 827,
        complexity: "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for \
                     the first or the last element of the list O(1).",
        summary: "Returns an element from a list by its index.",
        args: &[Arg::key("key", Access::Read), Arg::integer("index")],
        traits: SLOW_READ,
        ..LIST
    },
    run: Handler::Read(lindex),
};

fn lindex(call: &mut ReadCall<'_>) -> Outcome {
    let index = number::integer(call.args.at(2));
    let found = look::<Lists, _>(call, |list, reply| {
        // Redis looks at the index once it has a list.
        let Ok(index) = index else { return Ok(false) };
        match place(index, list.len()) {
            Some(place) => reply.bulk(list.nth(place)?.as_deref().unwrap_or_default()),
            None => reply.null(),
        }
        Ok(true)
    })?;
    match found {
        Some(false) => return Err(CommandError::NotInteger.into()),
        Some(true) => {}
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) const LSET: Command = Command {
    spec: CommandSpec {
        name: "LSET",
        id: 828,
        complexity: "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).",
        summary: "Sets the value of an element in a list by its index.",
        args: &[Arg::key("key", Access::Update), Arg::integer("index"), Arg::value("element")],
        traits: SLOW_WRITE,
        ..LIST
    },
    run: Handler::Write(lset),
};

fn lset(call: &mut WriteCall<'_>) -> Outcome {
    let (index, element) = (call.args.at(2), call.args.at(3));
    let mut list = change(call)?;
    if !list.existed() {
        return Err(CommandError::NoSuchKey.into());
    }
    let index = number::integer(index)?;
    let place = place(index, list.len()).ok_or(errors::list::INDEX_OUT_OF_RANGE)?;
    list.reserve(element.len(), 1)?;
    list.set(place, element)?;
    list.settle()?;
    list.commit()?;
    let key = call.key(1);
    call.event(Classes::LIST, "lset", key);
    call.reply.ok();
    Ok(())
}
