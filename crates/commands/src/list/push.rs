//! Elements put at an end.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, WriteCall};
use almandine_keyspace::types::list::End;

use super::access::{LIST, change, pushed};
use crate::traits::WRITE;

const PUSH: CommandSpec = CommandSpec {
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    args: &[Arg::key("key", Access::Insert), Arg::value("element").multiple()],
    traits: WRITE,
    history: &[("2.4.0", "Accepts multiple `element` arguments.")],
    ..LIST
};

/// What needs a list that is there.
const PUSH_EXISTING: CommandSpec =
    CommandSpec { since: "2.2.0", history: &[("4.0.0", "Accepts multiple `element` arguments.")], ..PUSH };

pub(super) const LPUSH: Command = Command {
    spec: CommandSpec {
        name: "LPUSH",
        id: 820,
        summary: "Prepends one or more elements to a list. Creates the key if it doesn't exist.",
        ..PUSH
    },
    run: Handler::Write(|call| push(call, End::Left, false)),
};

pub(super) const RPUSH: Command = Command {
    spec: CommandSpec {
        name: "RPUSH",
        id: 821,
        summary: "Appends one or more elements to a list. Creates the key if it doesn't exist.",
        ..PUSH
    },
    run: Handler::Write(|call| push(call, End::Right, false)),
};

pub(super) const LPUSHX: Command = Command {
    spec: CommandSpec {
        name: "LPUSHX",
        id: 822,
        summary: "Prepends one or more elements to a list only when the list exists.",
        ..PUSH_EXISTING
    },
    run: Handler::Write(|call| push(call, End::Left, true)),
};

pub(super) const RPUSHX: Command = Command {
    spec: CommandSpec {
        name: "RPUSHX",
        id: 823,
        summary: "Appends an element to a list only when the list exists.",
        ..PUSH_EXISTING
    },
    run: Handler::Write(|call| push(call, End::Right, true)),
};

fn push(call: &mut WriteCall<'_>, end: End, must_exist: bool) -> Outcome {
    let elements = call.args.slice_from(2);
    let mut list = change(call)?;
    let is_wanted = list.existed() || !must_exist;
    if is_wanted {
        list.reserve(elements.iter().map(<[u8]>::len).sum(), elements.len())?;
        elements.iter().try_for_each(|element| list.push(end, element))?;
    }
    let len = list.len();
    list.commit()?;
    if is_wanted {
        let key = call.key(1);
        call.event(Classes::LIST, pushed(end), key);
    }
    call.reply.unsigned(len as u64);
    Ok(())
}
