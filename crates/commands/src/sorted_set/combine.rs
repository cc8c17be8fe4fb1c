//! The commands of [`super::algebra`].

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_handler::{Command, Handler};

use super::access::SORTED_SET;
use super::algebra::{answer, count, store};
use super::combination::Operation;
use crate::traits::{SLOW_READ, SLOW_WRITE};

const DESTINATION: Arg = Arg::key("destination", Access::Overwrite);
const COUNT: Arg = Arg::key_count("numkeys");
const KEYS: Arg = Arg::key("key", Access::Read).multiple();
const WEIGHTS: Arg = Arg::integer("weight").token("WEIGHTS").optional().multiple();
const AGGREGATE: Arg = Arg::one_of(
    "aggregate",
    &[
        Arg::pure_token("sum", "SUM"),
        Arg::pure_token("min", "MIN"),
        Arg::pure_token("max", "MAX"),
        Arg::pure_token("count", "COUNT").since("8.8.0"),
    ],
)
.token("AGGREGATE")
.optional();
const WITHSCORES: Arg = Arg::pure_token("withscores", "WITHSCORES").optional();

const ANSWER: CommandSpec = CommandSpec { since: "6.2.0", traits: SLOW_READ, ..SORTED_SET };
const STORE: CommandSpec = CommandSpec { since: "2.0.0", traits: SLOW_WRITE, ..SORTED_SET };
const ADDED: &[(&str, &str)] = &[("8.8.0", "Added the `COUNT` aggregate.")];

const UNION: &str = "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of \
                     elements in the resulting sorted set.";
const INTERSECTION: &str = "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of \
                            input sorted sets and M being the number of elements in the resulting sorted set.";
const DIFFERENCE: &str = "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size \
                          of the first set, and K is the size of the result set.";

pub(super) const ZUNION: Command = Command {
    spec: CommandSpec {
        name: "ZUNION",
        id: 775,
        complexity: UNION,
        summary: "Returns the union of multiple sorted sets.",
        args: &[COUNT, KEYS, WEIGHTS, AGGREGATE, WITHSCORES],
        history: ADDED,
        ..ANSWER
    },
    run: Handler::Read(|call| answer(call, Operation::Union, "zunion")),
};

pub(super) const ZINTER: Command = Command {
    spec: CommandSpec {
        name: "ZINTER",
        id: 776,
        complexity: INTERSECTION,
        summary: "Returns the intersect of multiple sorted sets.",
        ..ZUNION.spec
    },
    run: Handler::Read(|call| answer(call, Operation::Intersection, "zinter")),
};

pub(super) const ZDIFF: Command = Command {
    spec: CommandSpec {
        name: "ZDIFF",
        id: 777,
        complexity: DIFFERENCE,
        summary: "Returns the difference between multiple sorted sets.",
        args: &[COUNT, KEYS, WITHSCORES],
        ..ANSWER
    },
    run: Handler::Read(|call| answer(call, Operation::Difference, "zdiff")),
};

pub(super) const ZUNIONSTORE: Command = Command {
    spec: CommandSpec {
        name: "ZUNIONSTORE",
        id: 778,
        complexity: UNION,
        summary: "Stores the union of multiple sorted sets in a key.",
        args: &[DESTINATION, COUNT, KEYS, WEIGHTS, AGGREGATE],
        history: ADDED,
        ..STORE
    },
    run: Handler::Write(|call| store(call, Operation::Union, "zunionstore")),
};

pub(super) const ZINTERSTORE: Command = Command {
    spec: CommandSpec {
        name: "ZINTERSTORE",
        id: 779,
        complexity: INTERSECTION,
        summary: "Stores the intersect of multiple sorted sets in a key.",
        ..ZUNIONSTORE.spec
    },
    run: Handler::Write(|call| store(call, Operation::Intersection, "zinterstore")),
};

pub(super) const ZDIFFSTORE: Command = Command {
    spec: CommandSpec {
        name: "ZDIFFSTORE",
        id: 780,
        since: "6.2.0",
        complexity: DIFFERENCE,
        summary: "Stores the difference of multiple sorted sets in a key.",
        args: &[DESTINATION, COUNT, KEYS],
        ..STORE
    },
    run: Handler::Write(|call| store(call, Operation::Difference, "zdiffstore")),
};

pub(super) const ZINTERCARD: Command = Command {
    spec: CommandSpec {
        name: "ZINTERCARD",
        id: 781,
        since: "7.0.0",
        complexity: "O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted sets.",
        summary: "Returns the number of members of the intersect of multiple sorted sets.",
        args: &[COUNT, KEYS, Arg::integer("limit").token("LIMIT").optional()],
        ..ANSWER
    },
    run: Handler::Read(|call| count(call, "zintercard")),
};
