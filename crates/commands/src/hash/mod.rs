//! The hash family: fields and their values.
//!
//! All fields at once are in [`whole`], numbers in [`counter`], fields at random in [`random`], HSCAN in [`scan`]. Fields that
//! expire: [`expire`] sets the time, [`ttl`] tells it and takes it away, [`getex`] and [`setex`] do so beside reading and
//! writing, [`collect`] does not wait for it. HIMPORT is in [`import`].

mod access;
pub(crate) mod collect;
mod counter;
pub(crate) mod expire;
pub(crate) mod fields;
mod getex;
mod import;
mod random;
mod scan;
mod setex;
mod stream;
mod ttl;
mod whole;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Deprecated, Traits};
use almandine_datatypes::packed::Due;
use almandine_handler::{Command, Handler, Outcome, ReadCall, Stop, WriteCall, errors};
use almandine_keyspace::types::hash::{HashMut, Hashes};

use crate::look::look;
use crate::traits::{CHANGE, READ, WRITE};
use access::{HASH, change, reply_value};
pub(crate) use scan::hscan;

/// The family.
pub const COMMANDS: &[&Command] = &[
    &HSET,
    &HMSET,
    &HSETNX,
    &HGET,
    &HMGET,
    &whole::HGETALL,
    &whole::HKEYS,
    &whole::HVALS,
    &HLEN,
    &HSTRLEN,
    &HEXISTS,
    &HDEL,
    &counter::HINCRBY,
    &counter::HINCRBYFLOAT,
    &random::HRANDFIELD,
    &scan::HSCAN,
    &expire::HEXPIRE,
    &expire::HPEXPIRE,
    &expire::HEXPIREAT,
    &expire::HPEXPIREAT,
    &ttl::HTTL,
    &ttl::HPTTL,
    &ttl::HEXPIRETIME,
    &ttl::HPEXPIRETIME,
    &ttl::HPERSIST,
    &getex::HGETDEL,
    &getex::HGETEX,
    &setex::HSETEX,
    &import::HIMPORT,
    &import::PREPARE,
    &import::SET,
    &import::DISCARD,
    &import::DISCARDALL,
    &collect::HCOLLECT,
];

/// One key, and one field of it.
const FIELD_TO_READ: &[Arg] = &[Arg::key("key", Access::Read), Arg::value("field")];

const HGET: Command = Command {
    spec: CommandSpec {
        name: "HGET",
        id: 603,
        summary: "Returns the value of a field in a hash.",
        args: FIELD_TO_READ,
        traits: Traits { element: true, ..READ },
        ..HASH
    },
    run: Handler::Read(hget),
};

fn hget(call: &mut ReadCall<'_>) -> Outcome {
    let field = call.args.at(2);
    let found = look::<Hashes, _>(call, |hash, reply| {
        reply_value(reply, hash.get(field)?);
        Ok(())
    })?;
    if found.is_none() {
        call.reply.null();
    }
    Ok(())
}

const HMGET: Command = Command {
    spec: CommandSpec {
        name: "HMGET",
        id: 604,
        complexity: "O(N) where N is the number of fields being requested.",
        summary: "Returns the values of all fields in a hash.",
        args: &[Arg::key("key", Access::Read), Arg::value("field").multiple()],
        traits: Traits { element: true, ..READ },
        ..HASH
    },
    run: Handler::Read(hmget),
};

fn hmget(call: &mut ReadCall<'_>) -> Outcome {
    let fields = call.args.slice_from(2);
    call.reply.array(fields.len());
    let found = look::<Hashes, _>(call, |hash, reply| hash.get_each(fields.iter(), |entry| reply_value(reply, entry)))?;
    if found.is_none() {
        fields.iter().for_each(|_| call.reply.null());
    }
    Ok(())
}

const HLEN: Command = Command {
    spec: CommandSpec {
        name: "HLEN",
        id: 608,
        summary: "Returns the number of fields in a hash.",
        args: &[Arg::key("key", Access::Inspect)],
        traits: READ,
        ..HASH
    },
    run: Handler::Read(|call| {
        let len = look::<Hashes, _>(call, |hash, _| Ok(hash.len()))?;
        call.reply.unsigned(len.unwrap_or(0) as u64);
        Ok(())
    }),
};

const HSTRLEN: Command = Command {
    spec: CommandSpec {
        name: "HSTRLEN",
        id: 609,
        since: "3.2.0",
        summary: "Returns the length of the value of a field.",
        args: &[Arg::key("key", Access::Inspect), Arg::value("field")],
        traits: Traits { element: true, ..READ },
        ..HASH
    },
    run: Handler::Read(|call| {
        let field = call.args.at(2);
        let len = look::<Hashes, _>(call, |hash, _| Ok(hash.get(field)?.map_or(0, |entry| entry.value.len())))?;
        call.reply.unsigned(len.unwrap_or(0) as u64);
        Ok(())
    }),
};

const HEXISTS: Command = Command {
    spec: CommandSpec {
        name: "HEXISTS",
        id: 610,
        summary: "Determines whether a field exists in a hash.",
        args: &[Arg::key("key", Access::Inspect), Arg::value("field")],
        traits: Traits { element: true, ..READ },
        ..HASH
    },
    run: Handler::Read(|call| {
        let field = call.args.at(2);
        let exists = look::<Hashes, _>(call, |hash, _| Ok(hash.get(field)?.is_some()))?;
        call.reply.integer(i64::from(exists.unwrap_or(false)));
        Ok(())
    }),
};

const FIELDS_AND_VALUES: &[Arg] =
    &[Arg::key("key", Access::Update), Arg::block("data", &[Arg::value("field"), Arg::value("value")]).multiple()];

const HSET: Command = Command {
    spec: CommandSpec {
        name: "HSET",
        id: 600,
        complexity: "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with \
                     multiple field/value pairs.",
        summary: "Creates or modifies the value of a field in a hash.",
        args: FIELDS_AND_VALUES,
        traits: Traits { element: true, ..WRITE },
        history: &[("4.0.0", "Accepts multiple `field` and `value` arguments.")],
        ..HASH
    },
    run: Handler::Write(|call| {
        let new = set_pairs(call, "hset")?;
        call.reply.unsigned(new);
        Ok(())
    }),
};

const HMSET: Command = Command {
    spec: CommandSpec {
        name: "HMSET",
        id: 601,
        complexity: "O(N) where N is the number of fields being set.",
        summary: "Sets the values of multiple fields.",
        args: FIELDS_AND_VALUES,
        traits: Traits { element: true, ..WRITE },
        deprecated: Some(Deprecated { since: "4.0.0", replaced_by: "`HSET` with multiple field-value pairs" }),
        ..HASH
    },
    run: Handler::Write(|call| {
        set_pairs(call, "hmset")?;
        call.reply.ok();
        Ok(())
    }),
};

/// Sets the fields behind the key to the values behind each. Returns how many are new.
fn set_pairs(call: &mut WriteCall<'_>, command: &str) -> Result<u64, Stop> {
    let pairs = call.args.slice_from(2);
    if !pairs.len().is_multiple_of(2) {
        return Err(errors::wrong_arity(command).into());
    }
    let mut hash = change(call)?;
    let mut new = 0;
    for at in (0..pairs.len()).step_by(2) {
        if pairs.len() > 2 && at.is_multiple_of(2 * HashMut::AHEAD) {
            hash.prefetch(pairs.slice_from(at).iter().step_by(2));
        }
        new += u64::from(hash.set(pairs.at(at), pairs.at(at + 1), Due::Never)?);
    }
    hash.commit()?;
    let key = call.key(1);
    call.event_of(Classes::HASH, "hset", key, pairs.iter().step_by(2));
    Ok(new)
}

const HSETNX: Command = Command {
    spec: CommandSpec {
        name: "HSETNX",
        id: 602,
        summary: "Sets the value of a field in a hash only when the field doesn't exist.",
        args: &[Arg::key("key", Access::Insert), Arg::value("field"), Arg::value("value")],
        traits: Traits { element: true, ..WRITE },
        ..HASH
    },
    run: Handler::Write(hsetnx),
};

fn hsetnx(call: &mut WriteCall<'_>) -> Outcome {
    let (field, value) = (call.args.at(2), call.args.at(3));
    let mut hash = change(call)?;
    let new = hash.get(field)?.is_none();
    if new {
        hash.set(field, value, Due::Never)?;
    }
    hash.commit()?;
    if new {
        let key = call.key(1);
        call.event_of(Classes::HASH, "hset", key, std::iter::once(field));
    }
    call.reply.integer(i64::from(new));
    Ok(())
}

const HDEL: Command = Command {
    spec: CommandSpec {
        name: "HDEL",
        id: 611,
        complexity: "O(N) where N is the number of fields to be removed.",
        summary: "Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain.",
        args: &[Arg::key("key", Access::Delete), Arg::value("field").multiple()],
        traits: Traits { element: true, ..CHANGE },
        history: &[("2.4.0", "Accepts multiple `field` arguments.")],
        ..HASH
    },
    run: Handler::Write(hdel),
};

fn hdel(call: &mut WriteCall<'_>) -> Outcome {
    let fields = call.args.slice_from(2);
    let mut told = call.told_elements(Classes::HASH);
    let mut hash = change(call)?;
    let mut removed = 0;
    for (at, field) in fields.iter().enumerate() {
        if fields.len() > 1 && at.is_multiple_of(HashMut::AHEAD) {
            hash.prefetch(fields.slice_from(at).iter());
        }
        if hash.remove(field)? {
            told.push(field);
            removed += 1;
        }
    }
    let emptied = hash.is_empty();
    hash.commit()?;
    if removed > 0 {
        let key = call.key(1);
        call.taken_elements(Classes::HASH, "hdel", key, &told, emptied);
    }
    call.reply.unsigned(removed);
    Ok(())
}
