//! Counters: strings that hold a number.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group};
use almandine_datatypes::number::{Extended, FloatError, add_texts};
use almandine_handler::{Command, CommandError, Handler, Outcome, WriteCall, errors, number};
use almandine_keyspace::{Kind, Put, Slot};

use crate::traits::ONE_VERB;
use crate::value::{is_string, kept};

pub(super) const INCR: Command = Command {
    spec: CommandSpec {
        name: "INCR",
        id: 14,
        summary: "Increments the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
        group: Group::String,
        args: &[Arg::key("key", Access::ReadUpdate)],
        traits: ONE_VERB,
        ..CommandSpec::BLANK
    },
    run: Handler::Write(|call| increment(call, 1)),
};

pub(super) const DECR: Command = Command {
    spec: CommandSpec {
        name: "DECR",
        id: 15,
        summary: "Decrements the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
        ..INCR.spec
    },
    run: Handler::Write(|call| increment(call, -1)),
};

pub(super) const INCRBY: Command = Command {
    spec: CommandSpec {
        name: "INCRBY",
        id: 16,
        summary: "Increments the integer value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
        args: &[Arg::key("key", Access::ReadUpdate), Arg::integer("increment")],
        ..INCR.spec
    },
    run: Handler::Write(incrby),
};

fn incrby(call: &mut WriteCall<'_>) -> Outcome {
    let by = number::integer(call.args.at(2))?;
    increment(call, by)
}

pub(super) const DECRBY: Command = Command {
    spec: CommandSpec {
        name: "DECRBY",
        id: 17,
        summary: "Decrements a number from the integer value of a key. Uses 0 as initial value if the key doesn't exist.",
        args: &[Arg::key("key", Access::ReadUpdate), Arg::integer("decrement")],
        ..INCR.spec
    },
    run: Handler::Write(decrby),
};

fn decrby(call: &mut WriteCall<'_>) -> Outcome {
    let by = number::integer(call.args.at(2))?;
    increment(call, by.checked_neg().ok_or(errors::string::DECREMENT_OVERFLOW)?)
}

fn increment(call: &mut WriteCall<'_>, by: i64) -> Outcome {
    let key = call.key(1);
    let mut digits = itoa::Buffer::new();
    let value = match call.keys.modify(key)? {
        Slot::Vacant(vacant) => {
            vacant.insert(Kind::String, digits.format(by).as_bytes(), Put::default())?;
            by
        }
        Slot::Occupied(mut occupied) => {
            is_string(occupied.kind())?;
            let value = number::integer(occupied.value())?.checked_add(by).ok_or(CommandError::IncrementOverflow)?;
            let put = kept(&occupied);
            occupied.replace(Kind::String, digits.format(value).as_bytes(), put)?;
            value
        }
    };
    call.event(Classes::STRING, "incrby", key);
    call.reply.integer(value);
    Ok(())
}

pub(super) const INCRBYFLOAT: Command = Command {
    spec: CommandSpec {
        name: "INCRBYFLOAT",
        id: 18,
        since: "2.6.0",
        summary: "Increment the floating point value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
        args: &[Arg::key("key", Access::ReadUpdate), Arg::double("increment")],
        ..INCR.spec
    },
    run: Handler::Write(incrbyfloat),
};

fn incrbyfloat(call: &mut WriteCall<'_>) -> Outcome {
    let (key, by) = (call.key(1), call.args.at(2));
    let sum = match call.keys.modify(key)? {
        Slot::Vacant(vacant) => {
            let sum = sum_text(b"0", by)?;
            vacant.insert(Kind::String, &sum, Put::default())?;
            sum
        }
        Slot::Occupied(mut occupied) => {
            is_string(occupied.kind())?;
            let sum = sum_text(occupied.value(), by)?;
            let put = kept(&occupied);
            occupied.replace(Kind::String, &sum, put)?;
            sum
        }
    };
    call.event(Classes::STRING, "incrbyfloat", key);
    call.reply.bulk(&sum);
    Ok(())
}

/// The sum of two numbers as Redis prints it.
pub(super) fn sum_text(value: &[u8], by: &[u8]) -> Result<Vec<u8>, CommandError> {
    let mut sum = Vec::new();
    add_texts(value, by, &mut sum).map_err(|error| match error {
        FloatError::NotAFloat => CommandError::NotFloat,
        FloatError::NotFinite => CommandError::IncrementNotFinite,
    })?;
    Ok(sum)
}

pub(super) fn float(text: &[u8]) -> Result<Extended, CommandError> {
    Extended::parse(text).ok_or(CommandError::NotFloat)
}
