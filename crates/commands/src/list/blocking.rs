//! Commands that wait until there is an element: BLPOP, BRPOP, BLMPOP, and those that move elements, BLMOVE, BRPOPLPUSH and
//! BLMOVEM.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Deprecated, KeySpec, Keys, Traits};
use almandine_handler::blocking::{Block, Unanswered, timeout_in_seconds};
use almandine_handler::{Command, Handler, Options, Outcome, WriteCall};
use almandine_keyspace::Kind;
use almandine_keyspace::types::list::{End, Lists};

use super::access::{LIST, end, limits, popped};
use super::pop::{LMPOP, Pops};
use super::transfer::{DESTINATION, Ends, FROM, HOW_MANY, HowMany, LMOVE, SOURCE, TO, transfer};
use crate::traits::{CHANGE, SLOW_WRITE};

/// What commands that wait and take no memory have in common.
const WAITS: Traits = Traits { fast: false, blocking: true, ..CHANGE };
/// What those have in common that take memory.
const MOVES: Traits = Traits { blocking: true, ..SLOW_WRITE };

pub(super) const BLPOP: Command = Command {
    spec: CommandSpec {
        name: "BLPOP",
        id: 1000,
        since: "2.0.0",
        complexity: "O(N) where N is the number of provided keys.",
        summary: "Removes and returns the first element in a list. Blocks until an element is available otherwise. Deletes the \
                  list if the last element was popped.",
        args: &[Arg::key("key", Access::Take).multiple(), Arg::double("timeout")],
        traits: Traits { noscript: true, ..WAITS },
        keys: Keys::Specs(&[KeySpec::range(1, -2, 1, Access::Take)]),
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        ..LIST
    },
    run: Handler::Write(|call| pop(call, End::Left)),
};

pub(super) const BRPOP: Command = Command {
    spec: CommandSpec {
        name: "BRPOP",
        id: 1001,
        summary: "Removes and returns the last element in a list. Blocks until an element is available otherwise. Deletes the \
                  list if the last element was popped.",
        ..BLPOP.spec
    },
    run: Handler::Write(|call| pop(call, End::Right)),
};

fn pop(call: &mut WriteCall<'_>, end: End) -> Outcome {
    let keys = 1..call.args.len() - 1;
    let timeout_ms = timeout_in_seconds(call.args.at(keys.end))?;
    let limits = limits(call.context.settings());
    for at in call.candidates(keys.clone()) {
        let key = call.key(at);
        let mut list = call.keys.write_as::<Lists>(key, limits)?;
        if list.existed() {
            call.reply.array(2);
            call.reply.bulk(call.args.at(at));
            list.pop(end, 1, |element| call.reply.bulk(element))?;
            list.settle()?;
            let emptied = list.is_empty();
            list.commit()?;
            call.taken(Classes::LIST, popped(end), key, emptied);
            return Ok(());
        }
    }
    call.block(Block::on(Kind::List, keys, timeout_ms))
}

pub(super) const BLMPOP: Command = Command {
    spec: CommandSpec {
        name: "BLMPOP",
        id: 1002,
        summary: "Pops the first element from one of multiple lists. Blocks until an element is available otherwise. Deletes \
                  the list if the last element was popped.",
        args: &[
            Arg::double("timeout"),
            Arg::key_count("numkeys"),
            Arg::key("key", Access::Take).multiple(),
            Arg::one_of("where", &[Arg::pure_token("left", "LEFT"), Arg::pure_token("right", "RIGHT")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        keys: Keys::Specs(&[KeySpec::counted(2, 1, Access::Take)]),
        traits: WAITS,
        ..LMPOP.spec
    },
    run: Handler::Write(|call| {
        let timeout_ms = timeout_in_seconds(call.args.at(1))?;
        let pops = Pops::parse(call, 2)?;
        if pops.answer(call)? { Ok(()) } else { call.block(Block::on(Kind::List, pops.keys(), timeout_ms)) }
    }),
};

pub(super) const BLMOVE: Command = Command {
    spec: CommandSpec {
        name: "BLMOVE",
        id: 1003,
        summary: "Pops an element from a list, pushes it to another list and returns it. Blocks until an element is available \
                  otherwise. Deletes the list if the last element was moved.",
        args: &[SOURCE, DESTINATION, FROM, TO, Arg::double("timeout")],
        traits: Traits { noscript: true, ..MOVES },
        ..LMOVE.spec
    },
    run: Handler::Write(|call| {
        let ends = Ends { from: end(call.args.at(3))?, to: end(call.args.at(4))? };
        let timeout_ms = timeout_in_seconds(call.args.at(5))?;
        move_one(call, ends, timeout_ms)
    }),
};

pub(super) const BRPOPLPUSH: Command = Command {
    spec: CommandSpec {
        name: "BRPOPLPUSH",
        id: 1004,
        since: "2.2.0",
        summary: "Pops an element from a list, pushes it to another list and returns it. Block until an element is available \
                  otherwise. Deletes the list if the last element was popped.",
        args: &[SOURCE, DESTINATION, Arg::double("timeout")],
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`BLMOVE` with the `RIGHT` and `LEFT` arguments" }),
        ..BLMOVE.spec
    },
    run: Handler::Write(|call| {
        let timeout_ms = timeout_in_seconds(call.args.at(3))?;
        move_one(call, Ends { from: End::Right, to: End::Left }, timeout_ms)
    }),
};

/// Moves an element, or waits for one.
fn move_one(call: &mut WriteCall<'_>, ends: Ends, timeout_ms: Option<u64>) -> Outcome {
    match transfer(call, ends, &HowMany::ONE)? {
        Some(moved) => moved.iter().for_each(|element| call.reply.bulk(element)),
        None => return call.block(Block { at_once: Unanswered::Null, ..for_source(timeout_ms) }),
    }
    Ok(())
}

/// Waits for the list at the first argument, to move what is in it to the second.
fn for_source(timeout_ms: Option<u64>) -> Block {
    Block { other: Some(2), ..Block::on(Kind::List, 1..2, timeout_ms) }
}

pub(super) const BLMOVEM: Command = Command {
    spec: CommandSpec {
        name: "BLMOVEM",
        id: 1005,
        since: "8.10.0",
        complexity: "O(N) where N is the number of elements moved.",
        summary: "Moves up to (or exactly) a number of elements from one list to another and returns them. Blocks until the \
                  elements are available otherwise. Deletes the source list if it becomes empty.",
        args: &[SOURCE, DESTINATION, FROM, TO, Arg::double("timeout"), HOW_MANY],
        traits: MOVES,
        ..BLMOVE.spec
    },
    run: Handler::Write(|call| {
        let ends = Ends { from: end(call.args.at(3))?, to: end(call.args.at(4))? };
        let timeout_ms = timeout_in_seconds(call.args.at(5))?;
        let how_many = HowMany::parse(Options::after(call.args, 6))?;
        match transfer(call, ends, &how_many)? {
            Some(moved) => {
                call.reply.array(moved.len());
                moved.iter().for_each(|element| call.reply.bulk(element));
                Ok(())
            }
            None => call.block(for_source(timeout_ms)),
        }
    }),
};
