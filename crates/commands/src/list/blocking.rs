//! Commands that wait until there is an element: BLPOP, BRPOP, BLMPOP.

use almandine_base::events::Classes;
use almandine_call::blocking::{Block, timeout_in_seconds};
use almandine_call::{Command, Handler, Outcome, WriteCall};
use almandine_command_spec::{Access, Arg, CommandSpec, KeySpec, Keys, Traits};
use almandine_keyspace::Kind;
use almandine_keyspace::types::list::End;

use super::access::{LIST, limits, popped};
use super::pop::{LMPOP, Pops};
use crate::traits::CHANGE;

/// What commands that wait and take no memory have in common.
const WAITS: Traits = Traits { fast: false, blocking: true, ..CHANGE };

pub(super) const BLPOP: Command = Command {
    spec: CommandSpec {
        name: "BLPOP",
        id: 1000,
        since: "2.0.0",
        complexity: "O(N) where N is the number of provided keys.",
        summary: "Removes and returns the first element in a list. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
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
        summary: "Removes and returns the last element in a list. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
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
        let mut list = call.keys.write_list(key, limits)?;
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
        summary: "Pops the first element from one of multiple lists. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
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
