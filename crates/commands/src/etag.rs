//! The ETag family, Garnet's: strings that carry a version number, the entity tag, against lost updates without transactions.
//!
//! A key that was written without one counts as tagged 0. Commands outside of this family do not look at the tag: those that
//! replace the whole value (SET, GETSET, MSET, BITOP, RESTORE) drop it, those that change a value in place (APPEND, SETRANGE,
//! SETBIT, INCR, EXPIRE) leave it, and RENAME, COPY and MOVE take it along. Clients that rely on tags write a key with this
//! family only.
//!
//! A tag and a value are answered as an array of both; the value is nil where the client has it, or asked not to see it.

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, WriteCall, errors};
use almandine_keyspace::{Key, Kind, Occupied, Put, Slot, Value};
use almandine_resp::Reply;

use crate::expiry::{EXPIRY_ARGS, Expiry};
use crate::value::is_string;

/// The family.
pub const COMMANDS: &[&Command] = &[&SETWITHETAG, &GETWITHETAG, &GETIFNOTMATCH, &SETIFMATCH, &SETIFGREATER, &DELIFGREATER];

const READ: Traits = Traits { readonly: true, fast: true, ..Traits::NONE };
const WRITE: Traits = Traits { write: true, fast: true, denyoom: true, self_locking: true, ..Traits::NONE };

/// The largest tag: what RESP can say.
const ETAG_MAX: u64 = i64::MAX as u64;

const EXPIRATION: Arg = Arg::one_of("expiration", &[EXPIRY_ARGS[0], EXPIRY_ARGS[1]]).optional();

/// What the commands have in common. The version is Almandine's.
const SPEC: CommandSpec = CommandSpec { since: "0.1.0", group: Group::String, ..CommandSpec::BLANK };

const SETWITHETAG: Command = Command {
    spec: CommandSpec {
        name: "SETWITHETAG",
        id: 350,
        summary: "Sets the string value of a key and counts up its entity tag, which it returns.",
        args: &[Arg::key("key", Access::ReadUpdate), Arg::value("value"), EXPIRATION],
        traits: WRITE,
        ..SPEC
    },
    run: Handler::Write(setwithetag),
};

/// As SET does, it forgets an expiry that is not given again.
fn setwithetag(call: &mut WriteCall<'_>) -> Outcome {
    let options = set_options(call, 3, "setwithetag", false)?;
    let (key, value) = (call.key(1), call.args.at(2));
    let put = |etag| Put { expiry_ms: options.expiry_ms, etag: Some(etag), edited: false };
    let before = call.replaces(key)?;
    let etag = match call.keys.modify(key)? {
        Slot::Vacant(vacant) => {
            vacant.insert(Kind::String, value, put(1))?;
            1
        }
        Slot::Occupied(mut occupied) => {
            // A value of another type has no tag; it is replaced, as by SET.
            let etag = next(occupied.etag().unwrap_or(0));
            occupied.replace(Kind::String, value, put(etag))?;
            etag
        }
    };
    call.replaced(key, before, Kind::String);
    tell_set(call, key, options.expiry_ms);
    call.reply.unsigned(etag);
    Ok(())
}

const GETWITHETAG: Command = Command {
    spec: CommandSpec {
        name: "GETWITHETAG",
        id: 351,
        summary: "Returns the entity tag and the string value of a key.",
        args: &[Arg::key("key", Access::Read)],
        traits: READ,
        ..SPEC
    },
    run: Handler::Read(|call| get_unless(call, None)),
};

const GETIFNOTMATCH: Command = Command {
    spec: CommandSpec {
        name: "GETIFNOTMATCH",
        id: 352,
        summary: "Returns the entity tag of a key and, unless it equals the given one, the string value.",
        args: &[Arg::key("key", Access::Read), Arg::integer("etag")],
        traits: READ,
        ..SPEC
    },
    run: Handler::Read(|call| {
        let known = etag(call.args.at(2))?;
        get_unless(call, Some(known))
    }),
};

/// Answers tag and value; the value is nil when its tag is the `known` one.
fn get_unless(call: &mut ReadCall<'_>, known: Option<u64>) -> Outcome {
    let key = call.key(1);
    let Some(value) = call.keys.read(key)? else {
        call.looked_up(key, false);
        call.reply.null();
        return Ok(());
    };
    call.context.statistics().looked_up(true);
    is_string(value.kind())?;
    let etag = value.etag().unwrap_or(0);
    reply_tagged(&mut call.reply, etag, (known != Some(etag)).then_some(&value));
    Ok(())
}

const SETIFMATCH: Command = Command {
    spec: CommandSpec {
        name: "SETIFMATCH",
        id: 353,
        summary: "Sets the string value of a key and counts up its entity tag if that equals the given one or the key doesn't \
                  exist.",
        args: &[
            Arg::key("key", Access::ReadUpdate),
            Arg::value("value"),
            Arg::integer("etag"),
            EXPIRATION,
            Arg::pure_token("noget", "NOGET").optional(),
        ],
        traits: WRITE,
        ..SPEC
    },
    run: Handler::Write(|call| set_if(call, "setifmatch", |given, present| given == present, next)),
};

const SETIFGREATER: Command = Command {
    spec: CommandSpec {
        name: "SETIFGREATER",
        id: 354,
        summary: "Sets the string value and the entity tag of a key if the given tag is greater or the key doesn't exist.",
        ..SETIFMATCH.spec
    },
    run: Handler::Write(|call| set_if(call, "setifgreater", |given, present| given > present, |given| given)),
};

/// Sets value and tag when the given tag compares with the present one as it must. An expiry that is not given stays.
fn set_if(call: &mut WriteCall<'_>, command: &str, holds: fn(u64, u64) -> bool, new: fn(u64) -> u64) -> Outcome {
    let options = set_options(call, 4, command, true)?;
    let given = etag(call.args.at(3))?;
    let (key, value) = (call.key(1), call.args.at(2));
    match call.keys.modify(key)? {
        Slot::Vacant(vacant) => {
            vacant.insert(Kind::String, value, Put { expiry_ms: options.expiry_ms, etag: Some(new(given)), edited: false })?;
        }
        Slot::Occupied(mut occupied) => {
            is_string(occupied.kind())?;
            let present = occupied.etag().unwrap_or(0);
            if !holds(given, present) {
                reply_present(&mut call.reply, present, (!options.no_get).then_some(&occupied));
                return Ok(());
            }
            let expiry_ms = options.expiry_ms.or(occupied.expiry_ms());
            occupied.replace(Kind::String, value, Put { expiry_ms, etag: Some(new(given)), edited: false })?;
        }
    }
    tell_set(call, key, options.expiry_ms);
    reply_tagged(&mut call.reply, new(given), None);
    Ok(())
}

const DELIFGREATER: Command = Command {
    spec: CommandSpec {
        name: "DELIFGREATER",
        id: 355,
        summary: "Deletes a key if the given entity tag is greater than its own.",
        args: &[Arg::key("key", Access::Take), Arg::integer("etag")],
        traits: Traits { denyoom: false, ..WRITE },
        ..SPEC
    },
    run: Handler::Write(delifgreater),
};

fn delifgreater(call: &mut WriteCall<'_>) -> Outcome {
    let given = etag(call.args.at(2))?;
    let key = call.key(1);
    let deleted = match call.keys.modify(key)? {
        Slot::Occupied(occupied) => {
            is_string(occupied.kind())?;
            let greater = given > occupied.etag().unwrap_or(0);
            if greater {
                occupied.remove();
            }
            greater
        }
        Slot::Vacant(_) => false,
    };
    if deleted {
        call.event(Classes::GENERIC, "del", key);
    }
    call.reply.integer(i64::from(deleted));
    Ok(())
}

/// States that a string was set, and given an expiry if there is one.
fn tell_set(call: &mut WriteCall<'_>, key: Key<'_>, expiry_ms: Option<i64>) {
    call.event(Classes::STRING, "set", key);
    if expiry_ms.is_some() {
        call.event(Classes::GENERIC, "expire", key);
    }
}

/// What the options of the setting commands say.
struct SetOptions {
    expiry_ms: Option<i64>,
    no_get: bool,
}

fn set_options(call: &WriteCall<'_>, after: usize, command: &str, allows_no_get: bool) -> Result<SetOptions, CommandError> {
    let (mut expiry, mut no_get) = (None::<Expiry<'_>>, false);
    let mut options = Options::after(call.args, after);
    while let Some(option) = options.next() {
        if option.is("NOGET") && allows_no_get && !no_get {
            no_get = true;
        } else if let Some(given) = Expiry::option(option, &mut options)?
            && !given.absolute
            && expiry.is_none()
        {
            expiry = Some(given);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let expiry_ms = expiry.map(|expiry| expiry.at_ms(call.now_ms(), command)).transpose()?;
    Ok(SetOptions { expiry_ms, no_get })
}

fn etag(text: &[u8]) -> Result<u64, CommandError> {
    parse_i64(text).and_then(|etag| u64::try_from(etag).ok()).ok_or(errors::string::INVALID_ETAG)
}

/// The tag after `etag`. The last one stays, so that tags never go back.
fn next(etag: u64) -> u64 {
    (etag + 1).min(ETAG_MAX)
}

/// A tag and a value, or nil for it. A large value is not copied.
fn reply_tagged(reply: &mut Reply<'_>, etag: u64, value: Option<&Value<'_>>) {
    reply.array(2);
    reply.unsigned(etag);
    match value.map(|value| (value, value.shared())) {
        None => reply.null(),
        Some((_, Some(shared))) => reply.bulk_shared(shared),
        Some((value, None)) => reply.bulk(value),
    }
}

/// As [`reply_tagged`], of a value under its latch.
fn reply_present(reply: &mut Reply<'_>, etag: u64, value: Option<&Occupied<'_>>) {
    reply.array(2);
    reply.unsigned(etag);
    match value {
        None => reply.null(),
        Some(occupied) => reply.bulk(occupied.value()),
    }
}
