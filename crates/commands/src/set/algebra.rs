//! SUNION, SINTER and SDIFF: members of several sets.

use almandine_base::output::{Broken, Stream};
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::set::{Position, SetOperation};
use almandine_handler::{Command, Handler, Outcome, ReadCall};

use super::access::{SET, freeze, look_up};
use super::compute::{Combination, Goal, NO_LIMITS};
use super::stream::write_member;
use crate::traits::SLOW_READ;

pub(super) const SUNION: Command = Command {
    spec: CommandSpec {
        name: "SUNION",
        id: 710,
        complexity: "O(N) where N is the total number of elements in all given sets.",
        summary: "Returns the union of multiple sets.",
        args: &[Arg::key("key", Access::Read).multiple()],
        traits: SLOW_READ,
        tips: &["nondeterministic_output_order"],
        ..SET
    },
    run: Handler::Read(|call| answer(call, SetOperation::Union)),
};

pub(super) const SINTER: Command = Command {
    spec: CommandSpec {
        name: "SINTER",
        id: 711,
        complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
        summary: "Returns the intersect of multiple sets.",
        ..SUNION.spec
    },
    run: Handler::Read(|call| answer(call, SetOperation::Intersection)),
};

pub(super) const SDIFF: Command = Command {
    spec: CommandSpec { name: "SDIFF", id: 712, summary: "Returns the difference of multiple sets.", ..SUNION.spec },
    run: Handler::Read(|call| answer(call, SetOperation::Difference)),
};

fn answer(call: &mut ReadCall<'_>, operation: SetOperation) -> Outcome {
    if let Some((combination, _)) = call.computed::<Combination>()? {
        look_up(call, 1, &combination.sources);
        return begin(call, *combination);
    }
    let sources = freeze(call, 1..call.args.len())?;
    let goal = Goal::Count { limit: 0, gathered: call.keys.new_set(NO_LIMITS) };
    let combination = Combination::new(operation, sources, goal);
    if combination.is_large() {
        if call.may_compute(0) {
            return Err(call.compute(combination, 0));
        }
        look_up(call, 1, &combination.sources);
        return begin(call, combination);
    }
    look_up(call, 1, &combination.sources);
    let (reply, mut len) = (&mut call.reply, 0);
    let set = reply.begin();
    combination.visit(Position::default(), usize::MAX, &mut |member| {
        reply.bulk(member);
        len += 1;
        true
    })?;
    set.end_set(reply, len);
    Ok(())
}

/// Answers what has been counted, by a stream if that may be.
fn begin(call: &mut ReadCall<'_>, mut combination: Combination) -> Outcome {
    let total = combination.total()?;
    call.reply.set(total);
    let out = &mut call.reply.out;
    if out.may_stream() {
        out.end_with(Box::new(CombinationStream { combination, next: Position::default() }));
        return Ok(());
    }
    combination.visit(Position::default(), usize::MAX, &mut |member| {
        write_member(member, &mut out.bytes);
        true
    })?;
    Ok(())
}

/// The rest of a reply.
struct CombinationStream {
    combination: Combination,
    next: Position,
}

/// Members that a slice meets: it may give few of them.
const STEPS: usize = 2048;

impl Stream for CombinationStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let begin = out.len();
        let visited = self.combination.visit(self.next, STEPS, &mut |member| {
            write_member(member, out);
            out.len() - begin < limit
        });
        let next = visited.map_err(|_| Broken)?;
        self.next = next.unwrap_or_default();
        Ok(next.is_some())
    }
}
