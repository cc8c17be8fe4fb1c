//! The string family: values, and their conditional and expiring forms.
//!
//! Parts of values are in [`range`], counters in [`counter`], commands over several keys in [`many`], conditions on the current
//! value in [`condition`], LCS in [`lcs`].

mod condition;
mod counter;
mod increx;
mod lcs;
mod many;
mod range;

use std::borrow::Cow;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Deprecated, Group, Keys, Traits};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, Stop, WriteCall};
use almandine_keyspace::{Key, Kind, Put, Slot, Value};
use almandine_resp::reply::write_header;

use crate::expiry::{EXPIRY_ARGS, EXPIRY_OR_PERSIST, Expiry, ExpiryChange, Unit, only_expiry};
use crate::traits::{ONE_VERB, READ, WRITE};
use crate::value::{self, reply_value, string};
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
    &range::APPEND,
    &range::STRLEN,
    &range::SETRANGE,
    &range::GETRANGE,
    &range::SUBSTR,
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
    call.looked_up_at(1, len.is_some());
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
        value::set(call, key, call.args.at(2), Put::default())?;
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

#[cold]
fn set_with_options(call: &mut WriteCall<'_>) -> Outcome {
    let options = set_options(call)?;
    let expiry_ms = match options.expiry {
        ExpiryChange::Set(expiry) => Some(expiry.at_ms(call.now_ms(), "set")?),
        _ => None,
    };
    let key = call.key(1);
    let kept = matches!(options.expiry, ExpiryChange::Keep);
    if !options.get && !kept && matches!(options.condition, Condition::Always) && expiry_ms.is_none_or(|at| at > call.now_ms()) {
        // What was there does not matter, so it need not be looked at.
        value::set(call, key, call.args.at(2), Put { expiry_ms, ..Put::default() })?;
        if expiry_ms.is_some() {
            call.event(Classes::GENERIC, "expire", key);
        }
        call.reply.ok();
        return Ok(());
    }
    // What is on the device is not asked before it is read, and then anew.
    let holds = |call: &mut WriteCall<'_>| match call.keys.read(key) {
        Ok(old) => options.condition.holds(old.as_ref()).unwrap_or(false),
        Err(_) => false,
    };
    let value = value::copy_large(key, call.args.at(2), || matches!(options.condition, Condition::Always) || holds(call));
    call.keys.plan().hold_one(key)?;
    let old = call.keys.read(key)?;
    if options.get {
        let old = string(old.as_ref())?;
        reply_value(&mut call.reply, old);
    }
    let (found, kept_ms) = (old.is_some(), old.as_ref().and_then(Value::expiry_ms));
    let holds = options.condition.holds(old.as_ref());
    drop(old);
    if options.get {
        call.looked_up(key, found);
    }
    let holds = holds?;
    match expiry_ms {
        _ if !holds => {}
        Some(expiry_ms) if !kept => value::set_expiring(call, key, value, expiry_ms)?,
        _ => value::set_copied(call, key, value, Put { expiry_ms: kept_ms.filter(|_| kept), ..Put::default() })?,
    }
    match (options.get, holds) {
        (true, _) => {}
        (false, true) => call.reply.ok(),
        (false, false) => call.reply.null(),
    }
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
    reply_old(call, key)?;
    value::set(call, key, call.args.at(2), Put::default())
}

/// Answers the string that a key has before a command changes it, and says whether there is one.
fn reply_old<'c>(call: &mut WriteCall<'c>, key: Key<'c>) -> Result<bool, Stop> {
    let old = call.keys.read(key)?;
    let old = string(old.as_ref())?;
    reply_value(&mut call.reply, old);
    let found = old.is_some();
    call.looked_up(key, found);
    Ok(found)
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
    if reply_old(call, key)? {
        call.keys.delete(key)?;
        call.event(Classes::GENERIC, "del", key);
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
        args: &[Arg::key("key", Access::ReadUpdate).notes("RW and UPDATE because it changes the TTL"), EXPIRY_OR_PERSIST],
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
            return Err(CommandError::Syntax.into());
        }
    }
    let key = call.key(1);
    if !reply_old(call, key)? {
        return Ok(());
    }
    // The amount is checked only now: of a missing key Redis answers nil whatever the amount.
    let expiry_ms = match change {
        ExpiryChange::Set(expiry) => Some(expiry.at_ms(call.now_ms(), "getex")?),
        ExpiryChange::Persist => None,
        _ => return Ok(()),
    };
    if expiry_ms.is_some_and(|at| at <= call.now_ms()) {
        call.keys.delete(key)?;
        call.event(Classes::GENERIC, "del", key);
        return Ok(());
    }
    let done = match call.keys.modify(key)? {
        Slot::Occupied(mut occupied) if expiry_ms.is_some() || occupied.expiry_ms().is_some() => {
            occupied.set_expiry(expiry_ms)?;
            true
        }
        _ => false,
    };
    if done {
        call.event(Classes::GENERIC, if expiry_ms.is_some() { "expire" } else { "persist" }, key);
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
    let created = match call.keys.modify(key)? {
        Slot::Vacant(vacant) => {
            vacant.insert(Kind::String, call.args.at(2), Put::default())?;
            true
        }
        Slot::Occupied(_) => false,
    };
    if created {
        call.event(Classes::STRING, "set", key);
    }
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
        traits: Traits { fast: false, ..ONE_VERB },
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
    value::set_expiring(call, key, Cow::Borrowed(call.args.at(3)), expiry_ms)?;
    call.reply.ok();
    Ok(())
}
