//! SMOVE: a member from one set to another.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler, Outcome, WriteCall};
use almandine_keyspace::types::set::Moved;

use super::access::SET;
use super::limits;
use crate::traits::CHANGE;

pub(super) const SMOVE: Command = Command {
    spec: CommandSpec {
        name: "SMOVE",
        id: 709,
        summary: "Moves a member from one set to another.",
        args: &[Arg::key("source", Access::Take), Arg::key("destination", Access::Insert), Arg::value("member")],
        traits: CHANGE,
        ..SET
    },
    run: Handler::Write(smove),
};

fn smove(call: &mut WriteCall<'_>) -> Outcome {
    let (source, destination) = (call.key(1), call.key(2));
    let limits = limits(call.context.settings());
    let moved = call.keys.move_member(source, destination, call.args.at(3), limits)?;
    if let Some(moved) = moved {
        tell(call, moved);
    }
    call.reply.integer(i64::from(moved.is_some()));
    Ok(())
}

/// States what was done to either key: first what was to the source, although the member was put to its destination before.
fn tell(call: &mut WriteCall<'_>, moved: Moved) {
    let (source, destination) = (call.key(1), call.key(2));
    if call.keys.published().is_empty() || source.bytes == destination.bytes {
        return;
    }
    let is_made = !call.keys.events().take_created().is_empty();
    call.taken(Classes::SET, "srem", source, moved.emptied);
    if is_made {
        call.event(Classes::NEW, "new", destination);
    }
    if moved.added {
        call.event(Classes::SET, "sadd", destination);
    }
}
