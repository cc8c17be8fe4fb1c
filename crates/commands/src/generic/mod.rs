//! The generic family: what works on keys of any type.
//!
//! Expiries are in [`expire`], renaming, copying and moving in [`transfer`], finding keys in [`iterate`], and OBJECT, SORT, DUMP
//! and WAIT in the files of these names.

mod coscan;
mod dump;
mod expire;
mod iterate;
mod object;
mod sort;
mod transfer;
mod wait;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, Handler, Outcome, ReadCall, WriteCall};
use almandine_keyspace::{Key, Missing, Reader};

use crate::traits::{CHANGE, READ};

pub use object::encoding_of;

/// The family.
pub const COMMANDS: &[&Command] = &[
    &DEL,
    &UNLINK,
    &EXISTS,
    &TOUCH,
    &TYPE,
    &expire::EXPIRE,
    &expire::PEXPIRE,
    &expire::EXPIREAT,
    &expire::PEXPIREAT,
    &expire::PERSIST,
    &expire::TTL,
    &expire::PTTL,
    &expire::EXPIRETIME,
    &expire::PEXPIRETIME,
    &transfer::RENAME,
    &transfer::RENAMENX,
    &transfer::COPY,
    &transfer::MOVE,
    &iterate::RANDOMKEY,
    &iterate::KEYS,
    &iterate::SCAN,
    &coscan::COSCAN,
    &object::OBJECT,
    &object::ENCODING,
    &object::FREQ,
    &object::HELP,
    &object::IDLETIME,
    &object::REFCOUNT,
    &sort::SORT,
    &sort::SORT_RO,
    &dump::DUMP,
    &dump::RESTORE,
    &dump::RESTORE_ASKING,
    &wait::WAIT,
    &wait::WAITAOF,
];

/// How a cluster's proxy adds up the answers of several shards.
const SUMMED: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

const DEL: Command = Command {
    spec: CommandSpec {
        name: "DEL",
        id: 200,
        complexity: "O(N) where N is the number of keys that will be removed.",
        summary: "Deletes one or more keys.",
        args: &[Arg::key("key", Access::Remove).multiple()],
        traits: Traits { fast: false, ..CHANGE },
        tips: SUMMED,
        ..CommandSpec::BLANK
    },
    run: Handler::Write(del),
};

/// The same as DEL: a deleted value is never freed by the command that deletes it.
const UNLINK: Command = Command {
    spec: CommandSpec {
        name: "UNLINK",
        id: 201,
        since: "4.0.0",
        complexity: "O(N) where N is the number of keys that will be removed.",
        summary: "Asynchronously deletes one or more keys.",
        traits: CHANGE,
        ..DEL.spec
    },
    run: Handler::Write(del),
};

fn del(call: &mut WriteCall<'_>) -> Outcome {
    let mut deleted = 0;
    for position in 1..call.args.len() {
        let key = call.key(position);
        if call.keys.delete(key)? {
            call.event(Classes::GENERIC, "del", key);
            deleted += 1;
        }
    }
    call.reply.integer(deleted);
    Ok(())
}

const EXISTS: Command = Command {
    spec: CommandSpec {
        name: "EXISTS",
        id: 202,
        complexity: "O(N) where N is the number of keys to check.",
        summary: "Determines whether one or more keys exist.",
        args: &[Arg::key("key", Access::Inspect).multiple()],
        traits: READ,
        tips: SUMMED,
        history: &[("3.0.3", "Accepts multiple `key` arguments.")],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(|call| count_keys(call, Reader::exists)),
};

const TOUCH: Command = Command {
    spec: CommandSpec {
        name: "TOUCH",
        id: 203,
        since: "3.2.1",
        complexity: "O(N) where N is the number of keys that will be touched.",
        summary: "Returns the number of existing keys out of those specified after updating the time they were last accessed.",
        history: &[],
        ..EXISTS.spec
    },
    run: Handler::Read(|call| count_keys(call, |keys, key| keys.heat().touch(key))),
};

fn count_keys<'c>(call: &mut ReadCall<'c>, is_there: fn(&mut Reader<'c>, Key<'c>) -> Result<bool, Missing>) -> Outcome {
    let mut count = 0;
    for position in 1..call.args.len() {
        let key = call.key(position);
        let found = is_there(&mut call.keys, key)?;
        call.looked_up(key, found);
        count += i64::from(found);
    }
    call.reply.integer(count);
    Ok(())
}

const TYPE: Command = Command {
    spec: CommandSpec {
        name: "TYPE",
        id: 204,
        summary: "Determines the type of value stored at a key.",
        args: &[Arg::key("key", Access::Inspect)],
        traits: READ,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(type_of),
};

fn type_of(call: &mut ReadCall<'_>) -> Outcome {
    let key = call.key(1);
    let metadata = call.keys.metadata(key)?;
    call.looked_up(key, metadata.is_some());
    call.reply.simple(metadata.map_or("none", |metadata| metadata.kind.name()));
    Ok(())
}
