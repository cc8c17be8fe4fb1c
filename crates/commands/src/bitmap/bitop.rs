//! BITOP: bitwise operations between strings, into another string.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group};
use almandine_datatypes::bitmap::BitOperation;
use almandine_handler::computation::Computation;
use almandine_handler::{Command, CommandError, Handler, Outcome, WriteCall, errors};
use almandine_keyspace::types::Frozen;
use almandine_keyspace::{Kind, Put};

use crate::result::{self, Stored};
use crate::traits::SLOW_WRITE;

pub(super) const BITOP: Command = Command {
    spec: CommandSpec {
        name: "BITOP",
        id: 304,
        since: "2.6.0",
        complexity: "O(N)",
        summary: "Performs bitwise operations on multiple strings, and stores the result.",
        group: Group::Bitmap,
        args: &[
            Arg::one_of(
                "operation",
                &[
                    Arg::pure_token("and", "AND"),
                    Arg::pure_token("or", "OR"),
                    Arg::pure_token("xor", "XOR"),
                    Arg::pure_token("not", "NOT"),
                    Arg::pure_token("diff", "DIFF").since("8.2.0"),
                    Arg::pure_token("diff1", "DIFF1").since("8.2.0"),
                    Arg::pure_token("andor", "ANDOR").since("8.2.0"),
                    Arg::pure_token("one", "ONE").since("8.2.0"),
                ],
            ),
            Arg::key("destkey", Access::Overwrite),
            Arg::key("key", Access::Read).multiple(),
        ],
        traits: SLOW_WRITE,
        history: &[("8.2.0", "Added the `DIFF`, `DIFF1`, `ANDOR`, and `ONE` operations.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Write(bitop),
};

/// Bytes of all sources from which on the result is computed beside the commands of others.
const BESIDE_OTHERS: usize = 1 << 20;
/// Bytes of all sources that one step reads.
const STEP: usize = 64 << 10;

/// The result of an operation on strings as they were at one time.
struct Bits {
    operation: BitOperation,
    sources: Vec<Frozen>,
    /// Of the result.
    len: usize,
    /// Of each step.
    step: usize,
    result: Vec<u8>,
}

fn strings(sources: &[Frozen]) -> Vec<&[u8]> {
    sources.iter().map(|source| source.string().ok().flatten().unwrap_or_default()).collect()
}

impl Bits {
    fn new(operation: BitOperation, sources: Vec<Frozen>) -> Self {
        let len = BitOperation::result_len(&strings(&sources));
        let step = (STEP / sources.len().max(1)).next_multiple_of(4096);
        Self { operation, sources, len, step, result: Vec::new() }
    }
}

impl Computation for Bits {
    fn step(&mut self) -> bool {
        if self.result.capacity() == 0 {
            self.result.reserve_exact(self.len);
        }
        let start = self.result.len();
        self.operation.apply_part(&strings(&self.sources), start, self.step.min(self.len - start), &mut self.result);
        self.result.len() == self.len
    }

    fn memory(&self) -> usize {
        self.result.capacity()
    }
}

fn bitop(call: &mut WriteCall<'_>) -> Outcome {
    let operation = BitOperation::parse(call.args.at(1)).ok_or(CommandError::Syntax)?;
    let sources = call.args.slice_from(3);
    if operation.sources_max().is_some_and(|max| sources.len() > max) {
        return Err(errors::bitmap::NOT_OF_MANY_KEYS.into());
    }
    if sources.len() < operation.sources_min() {
        return Err(errors::bitmap::few_keys(operation.name()).into());
    }
    let mut round = 0;
    if let Some((bits, computed_in)) = call.computed::<Bits>()? {
        let mut same = true;
        for (source, before) in sources.iter().zip(&bits.sources) {
            let key = call.keys.key(source);
            same = same && call.keys.is_still(key, before)?;
        }
        if same {
            return store(call, *bits);
        }
        round = computed_in + 1;
    }
    let mut values = Vec::with_capacity(sources.len());
    for source in sources.iter() {
        let key = call.keys.key(source);
        let value = call.keys.freeze(key)?;
        value.string()?;
        values.push(value);
    }
    let mut bits = Bits::new(operation, values);
    if bits.len * sources.len() > BESIDE_OTHERS && call.may_compute(round) {
        return Err(call.compute(bits, round));
    }
    while !bits.step() {}
    store(call, bits)
}

fn store(call: &mut WriteCall<'_>, bits: Bits) -> Outcome {
    for (source, frozen) in call.args.slice_from(3).iter().zip(&bits.sources) {
        let key = call.keys.key(source);
        call.looked_up(key, matches!(frozen.string(), Ok(Some(_))));
    }
    let (destination, len) = (call.key(2), bits.result.len());
    let stored = Stored { kind: Kind::String, class: Classes::STRING, event: "set" };
    result::store(call, destination, len, stored, |keys| keys.upsert_owned(destination, bits.result, Put::EDITED))
}
