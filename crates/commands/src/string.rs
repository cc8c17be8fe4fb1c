//! The string family: values, ranges, and their conditional and expiring forms.
//!
//! Counters are in [`counter`], commands over several keys in [`many`], conditions on the current value in [`condition`], LCS in [`lcs`].

mod condition;
mod counter;
mod increx;
mod lcs;
mod many;

use almandine_call::{Command, CommandError, Handler, Options, Outcome, ReadCall, WriteCall, number};
use almandine_command_spec::{Access, Arg, CommandSpec, Deprecated, Group, Keys, Traits};
use almandine_datatypes::range::{extent, substring};
use almandine_keyspace::{Key, Kind, Occupied, Put, Slot, Value};
use almandine_resp::Reply;
use almandine_resp::reply::write_header;

use crate::expiry::{EXPIRY_ARGS, Expiry, ExpiryChange, Unit};
use condition::{CONDITION_ARGS, Condition};

/// The family.
pub const COMMANDS: &[&Command] = &[
    &GET,
    &SET,
    &GETSET,
    &GETDEL,
    &GETEX,
    &SETNX,
    &SETEX,
    &PSETEX,
    &APPEND,
    &STRLEN,
    &SETRANGE,
    &GETRANGE,
    &SUBSTR,
    &counter::INCR,
    &counter::DECR,
    &counter::INCRBY,
    &counter::DECRBY,
    &counter::INCRBYFLOAT,
    &increx::INCREX,
    &many::MGET,
    &many::MSET,
    &many::MSETNX,
    &many::MSETEX,
    &lcs::LCS,
    &condition::DELIFEQ,
    &condition::DELEX,
    &condition::DIGEST,
];

const READ: Traits = Traits { readonly: true, fast: true, ..Traits::NONE };
const WRITE: Traits = Traits { write: true, fast: true, denyoom: true, ..Traits::NONE };

/// For handlers whose one verb is atomic by itself, so that the session need not lock the key first.
const ONE_VERB: Traits = Traits { self_locking: true, ..WRITE };

const GET: Command = Command {
    spec: CommandSpec {
        name: "GET",
        id: 1,
        summary: "Returns the string value of a key.",
        group: Group::String,
        args: &[Arg::key("key", Access::Read)],
        traits: READ,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(get),
};

fn get(call: &mut ReadCall<'_>) -> Outcome {
    let key = call.key(1);
    let len = call.keys.read_string_into(key, call.reply.out, |out, len| write_header(out, b'$', len))?;
    call.looked_up(len.is_some());
    match len {
        Some(_) => call.reply.raw(b"\r\n"),
        None => call.reply.null(),
    }
    Ok(())
}

const SET: Command = Command {
    spec: CommandSpec {
        name: "SET",
        id: 2,
        summary: "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.",
        group: Group::String,
        args: &[
            Arg::key("key", Access::ReadUpdate).variable().notes("RW and ACCESS due to the optional `GET` argument"),
            Arg::value("value"),
            Arg::one_of("condition", &CONDITION_ARGS).optional().since("2.6.12"),
            Arg::pure_token("get", "GET").optional().since("6.2.0"),
            Arg::one_of(
                "expiration",
                &[
                    EXPIRY_ARGS[0].since("2.6.12"),
                    EXPIRY_ARGS[1].since("2.6.12"),
                    EXPIRY_ARGS[2].since("6.2.0"),
                    EXPIRY_ARGS[3].since("6.2.0"),
                    Arg::pure_token("keepttl", "KEEPTTL").since("6.0.0"),
                ],
            )
            .optional(),
        ],
        traits: Traits { fast: false, ..ONE_VERB },
        history: &[
            ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
            ("6.0.0", "Added the `KEEPTTL` option."),
            ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."),
            ("7.0.0", "Allowed the `NX` and `GET` options to be used together."),
            ("8.4.0", "Added the `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE` options."),
        ],
        keys: Keys::ComputedAccess(access_of_set),
        ..CommandSpec::BLANK
    },
    run: Handler::Write(set),
};

/// SET reads the old value only for GET. As in Redis, that word counts wherever it stands.
fn access_of_set<'a>(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)> {
    let gets = (3..count).any(|at| arg(at).eq_ignore_ascii_case(b"GET"));
    (after == 0).then_some((1, if gets { Access::ReadUpdate } else { Access::Overwrite }))
}

fn set(call: &mut WriteCall<'_>) -> Outcome {
    if call.args.len() == 3 {
        let key = call.key(1);
        call.keys.upsert(key, call.args.at(2), Put::default())?;
        call.reply.ok();
        return Ok(());
    }
    set_with_options(call)
}

/// What SET's options say.
#[derive(Default)]
struct SetOptions<'c> {
    condition: Condition<'c>,
    get: bool,
    expiry: ExpiryChange<'c>,
}

fn set_options<'c>(call: &WriteCall<'c>) -> Result<SetOptions<'c>, CommandError> {
    let mut set = SetOptions::default();
    let mut options = Options::after(call.args, 3);
    while let Some(option) = options.next() {
        if option.is("GET") {
            set.get = true;
        } else if option.is("KEEPTTL") && !matches!(set.expiry, ExpiryChange::Set(_)) {
            set.expiry = ExpiryChange::Keep;
        } else if let Some(condition) = Condition::option(option, &mut options)? {
            set.condition = set.condition.combined(condition)?;
        } else if let Some(expiry) = Expiry::option(option, &mut options)? {
            set.expiry = only_expiry(set.expiry, expiry)?;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(set)
}

/// The same expiry option may be repeated, and the last one holds; two different ones contradict each other.
fn only_expiry<'c>(before: ExpiryChange<'c>, new: Expiry<'c>) -> Result<ExpiryChange<'c>, CommandError> {
    match before {
        ExpiryChange::Unstated => Ok(ExpiryChange::Set(new)),
        ExpiryChange::Set(old) if (old.unit, old.absolute) == (new.unit, new.absolute) => Ok(ExpiryChange::Set(new)),
        _ => Err(CommandError::Syntax),
    }
}

#[cold]
fn set_with_options(call: &mut WriteCall<'_>) -> Outcome {
    let options = set_options(call)?;
    let expiry_ms = match options.expiry {
        ExpiryChange::Set(expiry) => Some(expiry.at_ms(call.now_ms(), "set")?),
        _ => None,
    };
    let key = call.key(1);
    call.keys.lock_one(key);
    let kept = matches!(options.expiry, ExpiryChange::Keep);
    if !options.get && !kept && matches!(options.condition, Condition::Always) && expiry_ms.is_none_or(|at| at > call.now_ms()) {
        // What was there does not matter, so it need not be looked at.
        call.keys.upsert(key, call.args.at(2), Put { expiry_ms, ..Put::default() })?;
        call.reply.ok();
        return Ok(());
    }
    call.keys.require(key)?;
    let old = call.keys.read(key);
    if options.get {
        let old = string(old.as_ref())?;
        reply_value(&mut call.reply, old);
        call.context.statistics().looked_up(old.is_some());
    }
    let kept_ms = old.as_ref().and_then(Value::expiry_ms);
    let holds = options.condition.holds(old.as_ref())?;
    drop(old);
    if holds {
        let expiry_ms = if kept { kept_ms } else { expiry_ms };
        store(call, key, call.args.at(2), expiry_ms)?;
    }
    match (options.get, holds) {
        (true, _) => {}
        (false, true) => call.reply.ok(),
        (false, false) => call.reply.null(),
    }
    Ok(())
}

/// Stores a string, or deletes the key when its expiry has passed.
fn store(call: &mut WriteCall<'_>, key: Key<'_>, value: &[u8], expiry_ms: Option<i64>) -> Outcome {
    if expiry_ms.is_some_and(|at| at <= call.now_ms()) {
        call.keys.delete(key);
        return Ok(());
    }
    call.keys.upsert(key, value, Put { expiry_ms, ..Put::default() })?;
    Ok(())
}

const GETSET: Command = Command {
    spec: CommandSpec {
        name: "GETSET",
        id: 3,
        summary: "Returns the previous string value of a key after setting it to a new value.",
        group: Group::String,
        args: &[Arg::key("key", Access::ReadUpdate), Arg::value("value")],
        traits: WRITE,
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`SET` with the `!GET` argument" }),
        ..CommandSpec::BLANK
    },
    run: Handler::Write(getset),
};

fn getset(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.key(1);
    let old = call.keys.read(key);
    let old = string(old.as_ref())?;
    reply_value(&mut call.reply, old);
    call.context.statistics().looked_up(old.is_some());
    call.keys.upsert(key, call.args.at(2), Put::default())?;
    Ok(())
}

const GETDEL: Command = Command {
    spec: CommandSpec {
        name: "GETDEL",
        id: 4,
        since: "6.2.0",
        summary: "Returns the string value of a key after deleting the key.",
        group: Group::String,
        args: &[Arg::key("key", Access::Take)],
        traits: Traits { denyoom: false, ..WRITE },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(getdel),
};

fn getdel(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.key(1);
    let old = call.keys.read(key);
    let old = string(old.as_ref())?;
    reply_value(&mut call.reply, old);
    let found = old.is_some();
    call.looked_up(found);
    if found {
        call.keys.delete(key);
    }
    Ok(())
}

const GETEX: Command = Command {
    spec: CommandSpec {
        name: "GETEX",
        id: 5,
        since: "6.2.0",
        summary: "Returns the string value of a key after setting its expiration time.",
        group: Group::String,
        args: &[
            Arg::key("key", Access::ReadUpdate).notes("RW and UPDATE because it changes the TTL"),
            Arg::one_of(
                "expiration",
                &[EXPIRY_ARGS[0], EXPIRY_ARGS[1], EXPIRY_ARGS[2], EXPIRY_ARGS[3], Arg::pure_token("persist", "PERSIST")],
            )
            .optional(),
        ],
        traits: Traits { denyoom: false, ..WRITE },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(getex),
};

fn getex(call: &mut WriteCall<'_>) -> Outcome {
    let mut change = ExpiryChange::Unstated;
    let mut options = Options::after(call.args, 2);
    while let Some(option) = options.next() {
        if option.is("PERSIST") && !matches!(change, ExpiryChange::Set(_)) {
            change = ExpiryChange::Persist;
        } else if let Some(expiry) = Expiry::option(option, &mut options)? {
            change = only_expiry(change, expiry)?;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let key = call.key(1);
    let value = call.keys.read(key);
    let value = string(value.as_ref())?;
    reply_value(&mut call.reply, value);
    let found = value.is_some();
    call.looked_up(found);
    if !found {
        return Ok(());
    }
    // The amount is checked only now: of a missing key Redis answers nil whatever the amount.
    let expiry_ms = match change {
        ExpiryChange::Set(expiry) => Some(expiry.at_ms(call.now_ms(), "getex")?),
        ExpiryChange::Persist => None,
        _ => return Ok(()),
    };
    if expiry_ms.is_some_and(|at| at <= call.now_ms()) {
        call.keys.delete(key);
    } else if let Slot::Occupied(mut occupied) = call.keys.modify(key) {
        occupied.set_expiry(expiry_ms)?;
    }
    Ok(())
}

const SETNX: Command = Command {
    spec: CommandSpec {
        name: "SETNX",
        id: 6,
        summary: "Set the string value of a key only when the key doesn't exist.",
        group: Group::String,
        args: &[Arg::key("key", Access::Create), Arg::value("value")],
        traits: ONE_VERB,
        deprecated: Some(Deprecated { since: "2.6.12", replaced_by: "`SET` with the `NX` argument" }),
        ..CommandSpec::BLANK
    },
    run: Handler::Write(setnx),
};

fn setnx(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.key(1);
    let created = match call.keys.modify(key) {
        Slot::Vacant(vacant) => {
            vacant.insert(Kind::String, call.args.at(2), Put::default())?;
            true
        }
        Slot::Occupied(_) => false,
    };
    call.reply.integer(i64::from(created));
    Ok(())
}

const SETEX: Command = Command {
    spec: CommandSpec {
        name: "SETEX",
        id: 7,
        since: "2.0.0",
        summary: "Sets the string value and expiration time of a key. Creates the key if it doesn't exist.",
        group: Group::String,
        args: &[Arg::key("key", Access::Overwrite), Arg::integer("seconds"), Arg::value("value")],
        traits: Traits { fast: false, blind: true, ..ONE_VERB },
        deprecated: Some(Deprecated { since: "2.6.12", replaced_by: "`SET` with the `EX` argument" }),
        ..CommandSpec::BLANK
    },
    run: Handler::Write(|call| set_expiring(call, Unit::Seconds, "setex")),
};

const PSETEX: Command = Command {
    spec: CommandSpec {
        name: "PSETEX",
        id: 8,
        since: "2.6.0",
        summary: "Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist.",
        args: &[Arg::key("key", Access::Overwrite), Arg::integer("milliseconds"), Arg::value("value")],
        deprecated: Some(Deprecated { since: "2.6.12", replaced_by: "`SET` with the `PX` argument" }),
        ..SETEX.spec
    },
    run: Handler::Write(|call| set_expiring(call, Unit::Milliseconds, "psetex")),
};

fn set_expiring(call: &mut WriteCall<'_>, unit: Unit, command: &str) -> Outcome {
    let expiry = Expiry { amount: call.args.at(2), unit, absolute: false };
    let expiry_ms = expiry.at_ms(call.now_ms(), command)?;
    let key = call.key(1);
    store(call, key, call.args.at(3), Some(expiry_ms))?;
    call.reply.ok();
    Ok(())
}

const APPEND: Command = Command {
    spec: CommandSpec {
        name: "APPEND",
        id: 9,
        since: "2.0.0",
        complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value is of any size, since the dynamic string library used by Redis will double the free space available on every reallocation.",
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
    let len = match call.keys.modify(key) {
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
    call.reply.unsigned(len as u64);
    Ok(())
}

const STRLEN: Command = Command {
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
    let value = call.keys.read(key);
    let value = string(value.as_ref())?;
    call.context.statistics().looked_up(value.is_some());
    call.reply.unsigned(value.map_or(0, |value| value.len()) as u64);
    Ok(())
}

const SETRANGE: Command = Command {
    spec: CommandSpec {
        name: "SETRANGE",
        id: 11,
        since: "2.2.0",
        complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.",
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
    let offset = usize::try_from(offset).map_err(|_| CommandError::OffsetOutOfRange)?;
    let string_bytes_max = string_bytes_max(call);
    let len = match call.keys.modify(key) {
        Slot::Vacant(_) if part.is_empty() => 0,
        Slot::Vacant(vacant) => {
            let len = extent(0, offset, part.len(), string_bytes_max).ok_or(CommandError::StringTooLong)?;
            let mut value = vec![0; len];
            value[offset..].copy_from_slice(part);
            vacant.insert(Kind::String, &value, Put::EDITED)?;
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
    call.reply.unsigned(len as u64);
    Ok(())
}

const GETRANGE: Command = Command {
    spec: CommandSpec {
        name: "GETRANGE",
        id: 12,
        since: "2.4.0",
        complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
        summary: "Returns a substring of the string stored at a key.",
        group: Group::String,
        args: &[Arg::key("key", Access::Read), Arg::integer("start"), Arg::integer("end")],
        traits: Traits { fast: false, ..READ },
        ..CommandSpec::BLANK
    },
    run: Handler::Read(getrange),
};

const SUBSTR: Command = Command {
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
    let value = call.keys.read(key);
    let value = string(value.as_ref())?;
    call.context.statistics().looked_up(value.is_some());
    let bytes: &[u8] = value.map_or(&[], |value| value);
    let part = substring(start, end, bytes.len() as u64).unwrap_or_default();
    call.reply.bulk(&bytes[part.start as usize..part.end as usize]);
    Ok(())
}

/// The value, which must be a string when there is one.
fn string<'v, 'k>(value: Option<&'v Value<'k>>) -> Result<Option<&'v Value<'k>>, CommandError> {
    match value {
        Some(value) if value.kind() != Kind::String => Err(CommandError::WrongType),
        value => Ok(value),
    }
}

/// Expiry and entity tag of a value that gets other bytes.
fn kept(occupied: &Occupied<'_>) -> Put {
    Put { edited: false, ..occupied.put() }
}

fn is_string(kind: Kind) -> Outcome {
    if kind == Kind::String { Ok(()) } else { Err(CommandError::WrongType) }
}

/// A string as bulk, or null. A large one is not copied.
fn reply_value(reply: &mut Reply<'_>, value: Option<&Value<'_>>) {
    match value.map(|value| (value, value.shared())) {
        None => reply.null(),
        Some((_, Some(shared))) => reply.bulk_shared(shared),
        Some((value, None)) => reply.bulk(value),
    }
}

fn string_bytes_max(call: &WriteCall<'_>) -> usize {
    call.context.string_bytes_max()
}
