//! Conditions on a key's current value, for SET and DELEX: NX XX, IFEQ IFNE, and IFDEQ IFDNE, which compare a digest instead of
//! the value.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_datatypes::string::digest;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, Word, WriteCall, errors};
use almandine_keyspace::Value;

use crate::traits::{READ, WRITE};
use crate::value::string;

/// When to write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Condition<'c> {
    /// Always.
    #[default]
    Always,
    /// NX: the key does not exist.
    Absent,
    /// XX: the key exists.
    Present,
    /// IFEQ: the string equals this one.
    Equal(&'c [u8]),
    /// IFNE: it does not, or does not exist.
    NotEqual(&'c [u8]),
    /// IFDEQ: its digest is this one.
    DigestEqual(&'c [u8]),
    /// IFDNE: its digest is not, or the key does not exist.
    DigestNotEqual(&'c [u8]),
}

/// NX and XX in a spec.
pub(super) const EXISTENCE_ARGS: [Arg; 2] = [Arg::pure_token("nx", "NX"), Arg::pure_token("xx", "XX")];

const VALUE_ARGS: [Arg; 4] = [
    Arg::value("ifeq-value").token("IFEQ").since("8.4.0"),
    Arg::value("ifne-value").token("IFNE").since("8.4.0"),
    Arg::value("ifdeq-digest").token("IFDEQ").since("8.4.0"),
    Arg::value("ifdne-digest").token("IFDNE").since("8.4.0"),
];

/// All conditions in a spec.
pub(super) const CONDITION_ARGS: [Arg; 6] =
    [EXISTENCE_ARGS[0], EXISTENCE_ARGS[1], VALUE_ARGS[0], VALUE_ARGS[1], VALUE_ARGS[2], VALUE_ARGS[3]];

impl<'c> Condition<'c> {
    /// The condition that `word` starts, if it is one; its operand is taken from `options`.
    pub(super) fn option(word: Word<'_>, options: &mut Options<'c>) -> Result<Option<Self>, CommandError> {
        Ok(Some(match word {
            w if w.is("NX") => Self::Absent,
            w if w.is("XX") => Self::Present,
            w if w.is("IFEQ") => Self::Equal(options.value()?),
            w if w.is("IFNE") => Self::NotEqual(options.value()?),
            w if w.is("IFDEQ") => Self::DigestEqual(checked(options.value()?)?),
            w if w.is("IFDNE") => Self::DigestNotEqual(checked(options.value()?)?),
            _ => return Ok(None),
        }))
    }

    /// Both conditions, when they do not contradict each other: NX and XX may be repeated.
    pub(super) fn combined(self, other: Self) -> Result<Self, CommandError> {
        match (self, other) {
            (Self::Always, other) => Ok(other),
            (Self::Absent, Self::Absent) | (Self::Present, Self::Present) => Ok(other),
            _ => Err(CommandError::Syntax),
        }
    }

    /// Whether the key's value meets the condition.
    ///
    /// # Errors
    /// When the condition looks at the value and the value is no string.
    pub(super) fn holds(self, value: Option<&Value<'_>>) -> Result<bool, CommandError> {
        Ok(match self {
            Self::Always => true,
            Self::Absent => value.is_none(),
            Self::Present => value.is_some(),
            Self::Equal(operand) => string(value)?.is_some_and(|value| **value == *operand),
            Self::NotEqual(operand) => string(value)?.is_none_or(|value| **value != *operand),
            Self::DigestEqual(digest) => string(value)?.is_some_and(|value| digest::matches(value, digest) == Some(true)),
            Self::DigestNotEqual(digest) => string(value)?.is_none_or(|value| digest::matches(value, digest) != Some(true)),
        })
    }
}

/// A digest, which must be well-formed whether or not there is a value to compare.
fn checked(digest: &[u8]) -> Result<&[u8], CommandError> {
    digest::matches(b"", digest).map(|_| digest).ok_or(errors::string::NOT_A_DIGEST)
}

pub(super) const DELIFEQ: Command = Command {
    spec: CommandSpec {
        name: "DELIFEQ",
        id: 25,
        since: "9.0.0",
        summary: "Deletes a key if its string value is equal to the given one.",
        group: Group::String,
        args: &[Arg::key("key", Access::Take), Arg::value("value")],
        traits: Traits { denyoom: false, ..WRITE },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(|call| delete_when(call, Condition::Equal(call.args.at(2)))),
};

pub(super) const DELEX: Command = Command {
    spec: CommandSpec {
        name: "DELEX",
        id: 26,
        since: "8.4.0",
        summary: "Conditionally removes the specified key based on value or digest comparison.",
        group: Group::String,
        args: &[Arg::key("key", Access::Take), Arg::one_of("condition", &VALUE_ARGS).optional()],
        traits: Traits { denyoom: false, ..WRITE },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(delex),
};

fn delex(call: &mut WriteCall<'_>) -> Outcome {
    let (key, mut options) = (call.key(1), Options::after(call.args, 2));
    let condition = match (call.args.len(), options.next()) {
        (2, _) => Condition::Always,
        (4, Some(option)) => match call.keys.read(key)? {
            // The condition of a missing key is not looked at.
            None => Condition::Always,
            value => {
                string(value.as_ref()).map_err(|_| errors::string::CONDITION_NEEDS_STRING)?;
                match Condition::option(option, &mut options)? {
                    None | Some(Condition::Absent | Condition::Present) => return Err(errors::string::NOT_A_CONDITION.into()),
                    Some(condition) => condition,
                }
            }
        },
        _ => return Err(errors::wrong_arity("delex").into()),
    };
    delete_when(call, condition)
}

fn delete_when(call: &mut WriteCall<'_>, condition: Condition<'_>) -> Outcome {
    let key = call.key(1);
    let deleted = match call.keys.read(key)? {
        None => false,
        value => condition.holds(value.as_ref())?,
    };
    if deleted {
        call.keys.delete(key)?;
        call.event(Classes::GENERIC, "del", key);
    }
    call.reply.integer(i64::from(deleted));
    Ok(())
}

pub(super) const DIGEST: Command = Command {
    spec: CommandSpec {
        name: "DIGEST",
        id: 27,
        since: "8.4.0",
        complexity: "O(N) where N is the length of the string value.",
        summary: "Returns the XXH3 hash of a string value.",
        group: Group::String,
        args: &[Arg::key("key", Access::Read)],
        traits: READ,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(digest_of),
};

fn digest_of(call: &mut ReadCall<'_>) -> Outcome {
    let key = call.key(1);
    let value = call.keys.read(key)?;
    let found = value.is_some();
    let digest = string(value.as_ref())?.map(|value| digest::hex(value));
    drop(value);
    call.looked_up(key, found);
    match digest {
        None => call.reply.null(),
        Some(digest) => call.reply.bulk(&digest),
    }
    Ok(())
}
