//! BITFIELD: integers of any width at any bit offset of a string, several at once.
//!
//! All operations are parsed before the first one runs, and a string that is to be written is first extended to hold the farthest
//! field, whether or not the write that needs it happens: OVERFLOW FAIL may leave zeros behind, as in Redis.

use almandine_call::{Command, CommandError, Handler, Options, Outcome, ReadCall, Word, WriteCall};
use almandine_command_spec::{Access, Arg, CommandSpec, Group, Keys, Traits};
use almandine_datatypes::bitfield::{Encoding, Overflow};
use almandine_keyspace::{Kind, Occupied, Put, Slot};
use almandine_resp::Args;

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
    encoding: Encoding,
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
            overflow = Overflow::parse(options.value()?).ok_or(CommandError::BitfieldOverflow)?;
            continue;
        }
        let words = if is_get { 2 } else { 3 };
        if !(is_get || is_set || option.is("INCRBY")) || options.remaining() < words {
            return Err(CommandError::Syntax);
        }
        let encoding = Encoding::parse(options.value()?).ok_or(CommandError::BitfieldType)?;
        let offset = encoding.parse_offset(options.value()?, string_bytes_max as u64).ok_or(CommandError::BitOffset)?;
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
        return Err(CommandError::BitfieldReadOnly);
    }
    let key = call.key(1);
    let value = call.keys.read(key);
    call.context.statistics().looked_up(value.is_some());
    let bits = bits(value.as_ref())?.unwrap_or_default();
    call.reply.array(operations.len());
    for operation in operations {
        call.reply.integer(operation.encoding.get(bits, operation.offset));
    }
    Ok(())
}

fn bitfield(call: &mut WriteCall<'_>) -> Outcome {
    let operations = parse(call.args, call.context.string_bytes_max())?;
    let bytes_needed = operations.iter().map(Operation::bytes_needed).max().unwrap_or(0);
    let key = call.key(1);
    if bytes_needed != 0
        && let Slot::Vacant(vacant) = call.keys.modify(key)
    {
        vacant.insert_at(Kind::String, bytes_needed, &[], Put::EDITED)?;
    }
    call.reply.array(operations.len());
    match call.keys.modify(key) {
        // Only GETs: a write has just created the key.
        Slot::Vacant(_) => operations.iter().for_each(|_| call.reply.integer(0)),
        Slot::Occupied(mut occupied) => {
            is_string(occupied.kind())?;
            if occupied.value().len() < bytes_needed {
                occupied.write_at(bytes_needed - 1, &[0])?;
            } else if bytes_needed != 0 {
                occupied.mark_edited()?;
            }
            for operation in &operations {
                match run(operation, &mut occupied)? {
                    Some(number) => call.reply.integer(number),
                    None => call.reply.null(),
                }
            }
        }
    }
    Ok(())
}

/// What the operation answers: the field, its old value for SET, its new one for INCRBY, `None` when OVERFLOW FAIL holds it back.
fn run(operation: &Operation, occupied: &mut Occupied<'_>) -> Result<Option<i64>, CommandError> {
    let Operation { action, encoding, offset } = *operation;
    let old = encoding.get(occupied.value(), offset);
    let (new, answer) = match action {
        Action::Get => return Ok(Some(old)),
        Action::Set(value, overflow) => (encoding.fit(value, overflow), old),
        Action::Increment(by, overflow) => {
            let new = encoding.increment(old, by, overflow);
            (new, new.unwrap_or(0))
        }
    };
    let Some(new) = new else { return Ok(None) };
    // The bytes that the field touches, at most nine, are changed aside and written back.
    let (first, after) = ((offset / 8) as usize, operation.bytes_needed());
    let mut bytes = [0; 9];
    let bytes = &mut bytes[..after - first];
    bytes.copy_from_slice(&occupied.value()[first..after]);
    encoding.put(bytes, offset % 8, new);
    if occupied.value()[first..after] != *bytes {
        occupied.write_at(first, bytes)?;
    }
    Ok(Some(answer))
}
