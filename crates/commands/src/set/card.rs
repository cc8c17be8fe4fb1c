//! SUNIONCARD, SINTERCARD and SDIFFCARD: how many members unions, intersections and differences have.

use almandine_command_spec::{Access, Arg, CommandSpec, KeySpec, Keys};
use almandine_datatypes::set::SetOperation;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, number};

use super::access::{SET, freeze, look_up};
use super::compute::{Combination, Goal, NO_LIMITS};
use crate::traits::SLOW_READ;

const APPROX: Arg = Arg::pure_token("approx", "APPROX").optional();
const LIMIT: Arg = Arg::integer("limit").token("LIMIT").optional();

pub(super) const SINTERCARD: Command = Command {
    spec: CommandSpec {
        name: "SINTERCARD",
        id: 713,
        since: "7.0.0",
        complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
        summary: "Returns the number of members of the intersect of multiple sets.",
        args: &[Arg::key_count("numkeys"), Arg::key("key", Access::Read).multiple(), LIMIT],
        keys: Keys::Specs(&[KeySpec::counted(1, 1, Access::Read)]),
        traits: SLOW_READ,
        ..SET
    },
    run: Handler::Read(|call| answer(call, SetOperation::Intersection)),
};

pub(super) const SUNIONCARD: Command = Command {
    spec: CommandSpec {
        name: "SUNIONCARD",
        id: 714,
        since: "8.10.0",
        complexity: "O(N) where N is the total number of elements in all given sets.",
        summary: "Returns the number of members of the union of multiple sets.",
        args: &[Arg::key_count("numkeys"), Arg::key("key", Access::Read).multiple(), APPROX, LIMIT],
        ..SINTERCARD.spec
    },
    run: Handler::Read(|call| answer(call, SetOperation::Union)),
};

pub(super) const SDIFFCARD: Command = Command {
    spec: CommandSpec {
        name: "SDIFFCARD",
        id: 715,
        summary: "Returns the number of members of the difference of multiple sets.",
        args: SINTERCARD.spec.args,
        ..SUNIONCARD.spec
    },
    run: Handler::Read(|call| answer(call, SetOperation::Difference)),
};

fn answer(call: &mut ReadCall<'_>, operation: SetOperation) -> Outcome {
    let count = number::integer(call.args.at(1)).ok().and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(CommandError::KeyCountNotPositive)?;
    if count > call.args.len() - 2 {
        return Err(CommandError::TooManyKeys.into());
    }
    let (mut limit, mut approximately) = (0, false);
    let mut options = Options::after(call.args, 2 + count);
    while let Some(option) = options.next() {
        match option {
            o if o.is("LIMIT") => {
                let given = number::integer(options.value()?).ok().and_then(|limit| usize::try_from(limit).ok());
                limit = given.ok_or(CommandError::LimitNegative)?;
            }
            o if o.is("APPROX") && operation == SetOperation::Union => approximately = true,
            _ => return Err(CommandError::Syntax.into()),
        }
    }
    if let Some((mut combination, _)) = call.computed::<Combination>()? {
        return reply(call, &mut combination);
    }
    let sources = freeze(call, 2..2 + count)?;
    let goal = match approximately {
        true => Goal::Estimate { limit },
        false => Goal::Count { limit, gathered: call.keys.new_set(NO_LIMITS) },
    };
    let mut combination = Combination::new(operation, sources, goal);
    if combination.is_large() && call.may_compute(0) {
        return Err(call.compute(combination, 0));
    }
    reply(call, &mut combination)
}

fn reply(call: &mut ReadCall<'_>, combination: &mut Combination) -> Outcome {
    look_up(call, 2, &combination.sources);
    call.reply.unsigned(combination.total()? as u64);
    Ok(())
}
