//! SMOVE: a member from one set to another.

use almandine_call::{Command, Handler, Outcome, WriteCall};
use almandine_command_spec::{Access, Arg, CommandSpec};

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
    call.reply.integer(i64::from(moved));
    Ok(())
}
