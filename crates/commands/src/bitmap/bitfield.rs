//! BITFIELD: integers of any width at any bit offset of a string, several at once.
//!
//! All operations are parsed before the first one runs, and a string that is to be written is first extended to hold the farthest
//! field, whether or not the write that needs it happens: OVERFLOW FAIL may leave zeros behind, as in Redis.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group, Keys, Traits};
use almandine_datatypes::bitmap::field::{IntegerType, Overflow};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, Word, WriteCall, errors};
use almandine_keyspace::{Kind, Put, Slot};
use almandine_resp::{Args, Reply};
use std::ops::Range;

use crate::traits::{SLOW_READ, SLOW_WRITE};
use crate::value::{bits, is_string};

const FIELD: [Arg; 2] = [Arg::value("encoding"), Arg::integer("offset")];
const GET: Arg = Arg::block("get-block", &FIELD).token("GET");

pub(super) const BITFIELD: Command = Command {
    spec: CommandSpec {
        name: "BITFIELD",
        id: 305,
        since: "3.2.0",
        complexity: "O(1) for each subcommand specified",
        summary: "Performs arbitrary bitfield integer operations on strings.",
        group: Group::Bitmap,
        args: &[
            Arg::key("key", Access::ReadUpdate).variable().notes("This command allows both access and modification of the key"),
            Arg::one_of(
                "operation",
                &[
                    GET,
                    Arg::block(
                        "write",
                        &[
                            Arg::one_of(
                                "overflow-block",
                                &[Arg::pure_token("wrap", "WRAP"), Arg::pure_token("sat", "SAT"), Arg::pure_token("fail", "FAIL")],
                            )
                            .token("OVERFLOW")
                            .optional(),
                            Arg::one_of(
                                "write-operation",
                                &[
                                    Arg::block("set-block", &[FIELD[0], FIELD[1], Arg::integer("value")]).token("SET"),
                                    Arg::block("incrby-block", &[FIELD[0], FIELD[1], Arg::integer("increment")]).token("INCRBY"),
                                ],
                            ),
                        ],
                    ),
                ],
            )
            .optional()
            .multiple(),
        ],
        traits: SLOW_WRITE,
        keys: Keys::ComputedAccess(access_of_bitfield),
        ..CommandSpec::BLANK
    },
    run: Handler::Write(bitfield),
};

/// A BITFIELD of nothing but GETs reads.
fn access_of_bitfield<'a>(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)> {
    let (mut at, mut writes) = (2, false);
    while at < count && !writes {
        match Word(arg(at)) {
            o if o.is("GET") && at + 2 < count => at += 3,
            o if o.is("OVERFLOW") && at + 1 < count => at += 2,
            _ => writes = true,
        }
    }
    (after == 0).then_some((1, if writes { Access::ReadUpdate } else { Access::Read }))
}

pub(super) const BITFIELD_RO: Command = Command {
    spec: CommandSpec {
        name: "BITFIELD_RO",
        id: 306,
        since: "6.0.0",
        complexity: "O(1) for each subcommand specified",
        summary: "Performs arbitrary read-only bitfield integer operations on strings.",
        group: Group::Bitmap,
        args: &[Arg::key("key", Access::Read), GET.optional().multiple_token()],
        traits: Traits { fast: true, ..SLOW_READ },
        ..CommandSpec::BLANK
    },
    run: Handler::Read(bitfield_ro),
};

/// One operation on one field.
struct Operation {
    action: Action,
    encoding: IntegerType,
    /// In bits.
    offset: u64,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

impl Operation {
    /// The bytes that a string must have for this write; 0 for GET.
    fn bytes_needed(&self) -> usize {
        match self.action {
            Action::Get => 0,
            _ => usize::try_from(self.encoding.bytes_needed(self.offset)).unwrap_or(usize::MAX),
        }
    }
}

/// The operations of a call, in order.
fn parse(args: Args<'_>, string_bytes_max: usize) -> Result<Vec<Operation>, CommandError> {
    let mut operations = Vec::with_capacity(args.len() / 3);
    let mut overflow = Overflow::Wrap;
    let mut options = Options::after(args, 2);
    while let Some(option) = options.next() {
        let (is_set, is_get) = (option.is("SET"), option.is("GET"));
        if option.is("OVERFLOW") {
            overflow = Overflow::parse(options.value()?).ok_or(errors::bitmap::FIELD_OVERFLOW)?;
            continue;
        }
        let words = if is_get { 2 } else { 3 };
        if !(is_get || is_set || option.is("INCRBY")) || options.remaining() < words {
            return Err(CommandError::Syntax);
        }
        let encoding = IntegerType::parse(options.value()?).ok_or(errors::bitmap::FIELD_TYPE)?;
        let offset = encoding.parse_offset(options.value()?, string_bytes_max as u64).ok_or(errors::bitmap::INVALID_OFFSET)?;
        let action = match (is_get, is_set) {
            (true, _) => Action::Get,
            (_, true) => Action::Set(options.integer()?, overflow),
            _ => Action::Increment(options.integer()?, overflow),
        };
        operations.push(Operation { action, encoding, offset });
    }
    Ok(operations)
}

fn bitfield_ro(call: &mut ReadCall<'_>) -> Outcome {
    let operations = parse(call.args, call.context.string_bytes_max())?;
    if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
        return Err(errors::bitmap::FIELD_READ_ONLY.into());
    }
    let key = call.key(1);
    let value = call.keys.read(key)?;
    let found = value.is_some();
    let bits = bits(value.as_ref())?.unwrap_or_default();
    call.reply.array(operations.len());
    for operation in operations {
        call.reply.integer(operation.encoding.get(bits, operation.offset));
    }
    drop(value);
    call.looked_up(key, found);
    Ok(())
}

fn bitfield(call: &mut WriteCall<'_>) -> Outcome {
    let operations = parse(call.args, call.context.string_bytes_max())?;
    let bytes_needed = operations.iter().map(Operation::bytes_needed).max().unwrap_or(0);
    let key = call.key(1);
    call.reply.array(operations.len());
    let (mut count, mut is_change) = (Count::default(), true);
    match call.keys.modify(key)? {
        Slot::Vacant(_) if bytes_needed == 0 => {
            is_change = false;
            operations.iter().for_each(|_| call.reply.integer(0));
        }
        Slot::Vacant(vacant) => {
            let mut stretches = Stretches::of(&operations, &[]);
            count = stretches.run(&operations, &mut call.reply);
            count.grows = true;
            vacant.insert_parts(Kind::String, bytes_needed, stretches.changed(bytes_needed), Put::EDITED)?;
        }
        Slot::Occupied(mut occupied) => {
            is_string(occupied.kind())?;
            let len = occupied.value().len();
            let new_len = len.max(bytes_needed);
            let mut stretches = Stretches::of(&operations, occupied.value());
            count = stretches.run(&operations, &mut call.reply);
            count.grows = new_len > len;
            is_change = count.grows || stretches.changed(new_len).next().is_some();
            if is_change {
                occupied.write_parts(new_len, new_len, stretches.changed(new_len))?;
            } else if bytes_needed != 0 {
                occupied.mark_edited()?;
            }
        }
    }
    let changes = count.changes();
    if changes > 0 {
        call.event(Classes::STRING, "setbit", key);
    }
    call.keys.count_changes(changes - i64::from(is_change));
    Ok(())
}

/// What is counted of a call.
#[derive(Default)]
struct Count {
    grows: bool,
    written: i64,
    changed: i64,
}

impl Count {
    /// Redis does not count that a value grows, but each field written then, changed or not.
    fn changes(&self) -> i64 {
        if self.grows { self.written } else { self.changed }
    }
}

/// The bytes that the fields of a call lie in. They are changed aside and written back together: all of them, or none.
struct Stretches(Vec<Stretch>);

/// Bytes without a gap, zeroes beyond the value's end.
struct Stretch {
    first: usize,
    before: Vec<u8>,
    bytes: Vec<u8>,
}

impl Stretches {
    fn of(operations: &[Operation], value: &[u8]) -> Self {
        let mut ranges: Vec<Range<usize>> = operations.iter().map(Operation::range).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|later, earlier| {
            let touch = later.start <= earlier.end;
            if touch {
                earlier.end = earlier.end.max(later.end);
            }
            touch
        });
        let stretch = |Range { start, end }: Range<usize>| {
            let mut bytes = vec![0; end - start];
            let there = value.get(start..end.min(value.len())).unwrap_or_default();
            bytes[..there.len()].copy_from_slice(there);
            Stretch { first: start, before: bytes.clone(), bytes }
        };
        Self(ranges.into_iter().map(stretch).collect())
    }

    /// Runs all operations and replies what each answers.
    fn run(&mut self, operations: &[Operation], reply: &mut Reply<'_>) -> Count {
        let mut count = Count::default();
        for operation in operations {
            let at = self.0.partition_point(|stretch| stretch.first <= operation.range().start);
            match operation.run(&mut self.0[at - 1], &mut count) {
                Some(number) => reply.integer(number),
                None => reply.null(),
            }
        }
        count
    }

    /// What has changed, as far as a value of this length has it.
    fn changed(&self, len: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let changed = self.0.iter().filter(|stretch| stretch.bytes != stretch.before);
        changed.map(move |stretch| (stretch.first, &stretch.bytes[..stretch.bytes.len().min(len - stretch.first)]))
    }
}

impl Operation {
    /// The bytes that the field touches, at most nine.
    fn range(&self) -> Range<usize> {
        let end = usize::try_from(self.encoding.bytes_needed(self.offset)).unwrap_or(usize::MAX);
        (self.offset / 8) as usize..end
    }

    /// Runs in the stretch that has the field, and says what to answer: the field, its old value for SET, its new one for
    /// INCRBY, `None` when OVERFLOW FAIL holds it back.
    fn run(&self, stretch: &mut Stretch, count: &mut Count) -> Option<i64> {
        let offset = self.offset - 8 * stretch.first as u64;
        let old = self.encoding.get(&stretch.bytes, offset);
        let (new, answer) = match self.action {
            Action::Get => return Some(old),
            Action::Set(value, overflow) => (self.encoding.fit(value, overflow), old),
            Action::Increment(by, overflow) => {
                let new = self.encoding.increment(old, by, overflow);
                (new, new.unwrap_or(0))
            }
        };
        let new = new?;
        self.encoding.put(&mut stretch.bytes, offset, new);
        count.written += 1;
        count.changed += i64::from(self.encoding.get(&stretch.bytes, offset) != old);
        Some(answer)
    }
}
