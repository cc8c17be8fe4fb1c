//! The bitmap family: strings as arrays of bits. BITFIELD is in [`bitfield`], BITOP in [`bitop`].

mod bitfield;
mod bitop;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_datatypes::bitmap::{self, RangeUnit};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, Word, WriteCall, errors, number};
use almandine_keyspace::{Kind, Put, Slot};

use crate::traits::{READ, SLOW_READ, SLOW_WRITE};
use crate::value::{bits, is_string};

/// The family.
pub const COMMANDS: &[&Command] =
    &[&SETBIT, &GETBIT, &BITCOUNT, &BITPOS, &bitop::BITOP, &bitfield::BITFIELD, &bitfield::BITFIELD_RO];

const UNIT: Arg = Arg::one_of("unit", &[Arg::pure_token("byte", "BYTE"), Arg::pure_token("bit", "BIT")]).optional().since("7.0.0");
const UNIT_HISTORY: &[(&str, &str)] = &[("7.0.0", "Added the `BYTE|BIT` option.")];

const SETBIT: Command = Command {
    spec: CommandSpec {
        name: "SETBIT",
        id: 300,
        since: "2.2.0",
        summary: "Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist.",
        group: Group::Bitmap,
        args: &[Arg::key("key", Access::ReadUpdate), Arg::integer("offset"), Arg::integer("value")],
        traits: Traits { self_locking: true, ..SLOW_WRITE },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(setbit),
};

fn setbit(call: &mut WriteCall<'_>) -> Outcome {
    let offset = bit_offset(call.args.at(2), call.context.string_bytes_max())?;
    let bit = parse_bit(call.args.at(3)).ok_or(errors::bitmap::NOT_A_BIT)?;
    let (key, at) = (call.key(1), (offset / 8) as usize);
    let (old, changes) = match call.keys.modify(key)? {
        Slot::Vacant(vacant) => {
            let mut byte = [0];
            let old = bitmap::set_bit(&mut byte, offset % 8, bit);
            vacant.insert_at(Kind::String, at, &byte, Put::EDITED)?;
            (old, true)
        }
        Slot::Occupied(mut occupied) => {
            is_string(occupied.kind())?;
            let present = occupied.value().get(at).copied();
            let mut byte = [present.unwrap_or(0)];
            let old = bitmap::set_bit(&mut byte, offset % 8, bit);
            let changes = old != bit || present.is_none();
            if changes {
                occupied.write_at(at, &byte)?;
            } else {
                occupied.mark_edited()?;
            }
            (old, changes)
        }
    };
    if changes {
        call.event(Classes::STRING, "setbit", key);
    }
    call.reply.integer(i64::from(old));
    Ok(())
}

const GETBIT: Command = Command {
    spec: CommandSpec {
        name: "GETBIT",
        id: 301,
        since: "2.2.0",
        summary: "Returns a bit value by offset.",
        group: Group::Bitmap,
        args: &[Arg::key("key", Access::Read), Arg::integer("offset")],
        traits: READ,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(getbit),
};

fn getbit(call: &mut ReadCall<'_>) -> Outcome {
    let offset = bit_offset(call.args.at(2), call.context.string_bytes_max())?;
    let key = call.key(1);
    let value = call.keys.read(key)?;
    let found = value.is_some();
    let bit = bitmap::bit(bits(value.as_ref())?.unwrap_or_default(), offset);
    drop(value);
    call.looked_up(key, found);
    call.reply.integer(i64::from(bit));
    Ok(())
}

const BITCOUNT: Command = Command {
    spec: CommandSpec {
        name: "BITCOUNT",
        id: 302,
        since: "2.6.0",
        complexity: "O(N)",
        summary: "Counts the number of set bits (population counting) in a string.",
        group: Group::Bitmap,
        args: &[
            Arg::key("key", Access::Read),
            Arg::block("range", &[Arg::integer("start"), Arg::block("end-unit-block", &[Arg::integer("end"), UNIT]).optional()])
                .optional(),
        ],
        traits: SLOW_READ,
        history: UNIT_HISTORY,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(bitcount),
};

fn bitcount(call: &mut ReadCall<'_>) -> Outcome {
    let (key, args) = (call.key(1), call.args);
    // A range is an error whether or not the key is there, as in Redis 7.2.
    let range = match args.len() {
        2 => None,
        3..=5 => {
            let start = number::integer(args.at(2))?;
            // The end may be missing, as in Valkey 8.
            let end = args.get(3).map_or(Ok(-1), number::integer)?;
            Some((start, end, unit(args.get(4)).ok_or(CommandError::Syntax)?))
        }
        _ => return Err(CommandError::Syntax.into()),
    };
    let value = call.keys.read(key)?;
    let found = value.is_some();
    let count = match (bits(value.as_ref())?, range) {
        (None, _) => 0,
        (Some(bits), None) => bitmap::count(bits),
        (Some(_), Some((start, end, _))) if start < 0 && end < 0 && start > end => 0,
        (Some(bits), Some((start, end, unit))) => bitmap::count_range(bits, start, end, unit),
    };
    drop(value);
    call.looked_up(key, found);
    call.reply.unsigned(count);
    Ok(())
}

const BITPOS: Command = Command {
    spec: CommandSpec {
        name: "BITPOS",
        id: 303,
        since: "2.8.7",
        complexity: "O(N)",
        summary: "Finds the first set (1) or clear (0) bit in a string.",
        group: Group::Bitmap,
        args: &[
            Arg::key("key", Access::Read),
            Arg::integer("bit"),
            Arg::block("range", &[Arg::integer("start"), Arg::block("end-unit-block", &[Arg::integer("end"), UNIT]).optional()])
                .optional(),
        ],
        traits: SLOW_READ,
        history: UNIT_HISTORY,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(bitpos),
};

fn bitpos(call: &mut ReadCall<'_>) -> Outcome {
    let (key, args) = (call.key(1), call.args);
    let wanted = match number::integer(args.at(2))? {
        0 => false,
        1 => true,
        _ => return Err(errors::bitmap::NOT_A_BIT_TO_FIND.into()),
    };
    let range = match args.len() {
        3 => None,
        4 => Some((number::integer(args.at(3))?, None)),
        5 | 6 => {
            let start = number::integer(args.at(3))?;
            let unit = unit(args.get(5)).ok_or(CommandError::Syntax)?;
            Some((start, Some((number::integer(args.at(4))?, unit))))
        }
        _ => return Err(CommandError::Syntax.into()),
    };
    let value = call.keys.read(key)?;
    call.context.statistics().looked_up(value.is_some());
    let Some(bits) = bits(value.as_ref())? else {
        drop(value);
        call.event(Classes::MISS, "keymiss", key);
        // Nothing is an endless row of zeros.
        call.reply.integer(-i64::from(wanted));
        return Ok(());
    };
    let position = match range {
        None => bitmap::position(bits, 0, wanted),
        Some((start, None)) => bitmap::position(bits, start, wanted),
        Some((start, Some((end, unit)))) => bitmap::position_in(bits, start, end, unit, wanted),
    };
    call.reply.integer(position.map_or(-1, u64::cast_signed));
    Ok(())
}

/// What a range counts: bytes when nothing is said. `None` for an unknown unit.
fn unit(word: Option<&[u8]>) -> Option<RangeUnit> {
    match word.map(Word) {
        None => Some(RangeUnit::Byte),
        Some(word) if word.is("BYTE") => Some(RangeUnit::Byte),
        Some(word) if word.is("BIT") => Some(RangeUnit::Bit),
        Some(_) => None,
    }
}

/// A bit offset within a string of the longest length.
fn bit_offset(text: &[u8], string_bytes_max: usize) -> Result<u64, CommandError> {
    let offset = parse_i64(text).and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < string_bytes_max as u64).ok_or(errors::bitmap::INVALID_OFFSET)
}

fn parse_bit(text: &[u8]) -> Option<bool> {
    match text {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}
