//! SUNIONSTORE, SINTERSTORE and SDIFFSTORE: unions, intersections and differences as the value of a key.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::set::SetOperation;
use almandine_handler::{Command, Handler, Outcome, WriteCall};
use almandine_keyspace::{Kind, Put};

use super::access::{SET, freeze, look_up};
use super::compute::{Combination, Goal};
use super::limits;
use crate::result::{self, Stored};
use crate::traits::SLOW_WRITE;

pub(super) const SUNIONSTORE: Command = Command {
    spec: CommandSpec {
        name: "SUNIONSTORE",
        id: 716,
        complexity: "O(N) where N is the total number of elements in all given sets.",
        summary: "Stores the union of multiple sets in a key.",
        args: &[Arg::key("destination", Access::Overwrite), Arg::key("key", Access::Read).multiple()],
        traits: SLOW_WRITE,
        ..SET
    },
    run: Handler::Write(|call| store(call, SetOperation::Union, "sunionstore")),
};

pub(super) const SINTERSTORE: Command = Command {
    spec: CommandSpec {
        name: "SINTERSTORE",
        id: 717,
        complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
        summary: "Stores the intersect of multiple sets in a key.",
        ..SUNIONSTORE.spec
    },
    run: Handler::Write(|call| store(call, SetOperation::Intersection, "sinterstore")),
};

pub(super) const SDIFFSTORE: Command = Command {
    spec: CommandSpec {
        name: "SDIFFSTORE",
        id: 718,
        summary: "Stores the difference of multiple sets in a key.",
        ..SUNIONSTORE.spec
    },
    run: Handler::Write(|call| store(call, SetOperation::Difference, "sdiffstore")),
};

fn store(call: &mut WriteCall<'_>, operation: SetOperation, event: &'static str) -> Outcome {
    let (at, mut round) = (2..call.args.len(), 0);
    if let Some((combination, computed_in)) = call.computed::<Combination>()? {
        let mut same = true;
        for (position, before) in at.clone().zip(&combination.sources) {
            let key = call.key(position);
            same = same && call.keys.is_still(key, before)?;
        }
        if same {
            return put(call, *combination, event);
        }
        round = computed_in + 1;
    }
    let sources = freeze(call, at)?;
    let goal = Goal::Set(call.keys.new_set(limits(call.context.settings())));
    let combination = Combination::new(operation, sources, goal);
    if combination.is_large() && call.may_compute(round) {
        return Err(call.compute(combination, round));
    }
    put(call, combination, event)
}

/// Makes the result the value of the destination.
fn put(call: &mut WriteCall<'_>, mut combination: Combination, event: &'static str) -> Outcome {
    let len = combination.total()?;
    look_up(call, 2, &combination.sources);
    let destination = call.key(1);
    let stored = Stored { kind: Kind::Set, class: Classes::SET, event };
    result::store(call, destination, len, stored, |keys| {
        combination.into_set().map_or(Ok(()), |set| keys.put_set(destination, set, Put::default()))
    })
}
