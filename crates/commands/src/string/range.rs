//! Parts of strings and their length: APPEND, STRLEN, SETRANGE, GETRANGE and SUBSTR.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Deprecated, Group, Traits};
use almandine_datatypes::string::range::{extent, substring};
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, WriteCall, errors, number};
use almandine_keyspace::{Kind, Put, Slot};

use crate::traits::{ONE_VERB, READ};
use crate::value::{is_string, string};

pub(super) const APPEND: Command = Command {
    spec: CommandSpec {
        name: "APPEND",
        id: 9,
        since: "2.0.0",
        complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present \
                     value is of any size, since the dynamic string library used by Redis will double the free space available \
                     on every reallocation.",
        summary: "Appends a string to the value of a key. Creates the key if it doesn't exist.",
        group: Group::String,
        args: &[Arg::key("key", Access::Insert), Arg::value("value")],
        traits: ONE_VERB,
        ..CommandSpec::BLANK
    },
    run: Handler::Write(append),
};

fn append(call: &mut WriteCall<'_>) -> Outcome {
    let (key, suffix) = (call.key(1), call.args.at(2));
    let string_bytes_max = string_bytes_max(call);
    let len = match call.keys.modify(key)? {
        Slot::Vacant(vacant) => {
            vacant.insert(Kind::String, suffix, Put::default())?;
            suffix.len()
        }
        Slot::Occupied(mut occupied) => {
            is_string(occupied.kind())?;
            let len = occupied.value().len();
            let len = extent(len, len, suffix.len(), string_bytes_max).ok_or(CommandError::StringTooLong)?;
            occupied.append(suffix)?;
            len
        }
    };
    call.event(Classes::STRING, "append", key);
    call.reply.unsigned(len as u64);
    Ok(())
}

pub(super) const STRLEN: Command = Command {
    spec: CommandSpec {
        name: "STRLEN",
        id: 10,
        since: "2.2.0",
        summary: "Returns the length of a string value.",
        group: Group::String,
        args: &[Arg::key("key", Access::Inspect)],
        traits: READ,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(strlen),
};

fn strlen(call: &mut ReadCall<'_>) -> Outcome {
    let key = call.key(1);
    let value = call.keys.read(key)?;
    let value = string(value.as_ref())?;
    let len = value.map(|value| value.len());
    call.looked_up(key, len.is_some());
    call.reply.unsigned(len.unwrap_or(0) as u64);
    Ok(())
}

pub(super) const SETRANGE: Command = Command {
    spec: CommandSpec {
        name: "SETRANGE",
        id: 11,
        since: "2.2.0",
        complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so \
                     the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value \
                     argument.",
        summary: "Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist.",
        group: Group::String,
        args: &[Arg::key("key", Access::Update), Arg::integer("offset"), Arg::value("value")],
        traits: Traits { fast: false, ..ONE_VERB },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(setrange),
};

fn setrange(call: &mut WriteCall<'_>) -> Outcome {
    let (key, part) = (call.key(1), call.args.at(3));
    let offset = number::integer(call.args.at(2))?;
    let offset = usize::try_from(offset).map_err(|_| errors::string::OFFSET_OUT_OF_RANGE)?;
    let string_bytes_max = string_bytes_max(call);
    let len = match call.keys.modify(key)? {
        Slot::Vacant(_) if part.is_empty() => 0,
        Slot::Vacant(vacant) => {
            let len = extent(0, offset, part.len(), string_bytes_max).ok_or(CommandError::StringTooLong)?;
            vacant.insert_at(Kind::String, offset, part, Put::EDITED)?;
            len
        }
        Slot::Occupied(mut occupied) => {
            is_string(occupied.kind())?;
            let len = occupied.value().len();
            if part.is_empty() {
                len
            } else {
                let len = extent(len, offset, part.len(), string_bytes_max).ok_or(CommandError::StringTooLong)?;
                occupied.write_at(offset, part)?;
                len
            }
        }
    };
    if !part.is_empty() {
        call.event(Classes::STRING, "setrange", key);
    }
    call.reply.unsigned(len as u64);
    Ok(())
}

pub(super) const GETRANGE: Command = Command {
    spec: CommandSpec {
        name: "GETRANGE",
        id: 12,
        since: "2.4.0",
        complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned \
                     length, but because creating a substring from an existing string is very cheap, it can be considered O(1) \
                     for small strings.",
        summary: "Returns a substring of the string stored at a key.",
        group: Group::String,
        args: &[Arg::key("key", Access::Read), Arg::integer("start"), Arg::integer("end")],
        traits: Traits { fast: false, ..READ },
        ..CommandSpec::BLANK
    },
    run: Handler::Read(getrange),
};

pub(super) const SUBSTR: Command = Command {
    spec: CommandSpec {
        name: "SUBSTR",
        id: 13,
        since: "1.0.0",
        summary: "Returns a substring from a string value.",
        deprecated: Some(Deprecated { since: "2.0.0", replaced_by: "`GETRANGE`" }),
        ..GETRANGE.spec
    },
    run: Handler::Read(getrange),
};

fn getrange(call: &mut ReadCall<'_>) -> Outcome {
    let (start, end) = (number::integer(call.args.at(2))?, number::integer(call.args.at(3))?);
    let key = call.key(1);
    let value = call.keys.read(key)?;
    let value = string(value.as_ref())?;
    let found = value.is_some();
    let bytes: &[u8] = value.map_or(&[], |value| value);
    let part = substring(start, end, bytes.len() as u64).unwrap_or_default();
    call.reply.bulk(&bytes[part.start as usize..part.end as usize]);
    call.looked_up(key, found);
    Ok(())
}

fn string_bytes_max(call: &WriteCall<'_>) -> usize {
    call.context.string_bytes_max()
}
