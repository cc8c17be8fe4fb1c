//! Strings under several keys at once. All keys are locked, so each command is atomic.

use std::collections::HashSet;

use almandine_base::events::Classes;
use almandine_base::steps;
use almandine_command_spec::{Access, Arg, CommandSpec, Group, KeySpec, Keys, Traits};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, WriteCall, errors};
use almandine_keyspace::{Copies, Kind, Missing, Need};
use almandine_resp::Args;

use super::condition::EXISTENCE_ARGS;
use crate::expiry::{EXPIRY_OR_KEEP, Expiry, ExpiryChange, only_expiry};
use crate::traits::{READ, WRITE};
use crate::value::reply_value;

/// The classes of the events that setting several strings states.
const TOLD: Classes =
    Classes::NEW.union(Classes::OVERWRITTEN).union(Classes::TYPE_CHANGED).union(Classes::STRING).union(Classes::GENERIC);

pub(super) const MGET: Command = Command {
    spec: CommandSpec {
        name: "MGET",
        id: 20,
        complexity: "O(N) where N is the number of keys to retrieve.",
        summary: "Atomically returns the string values of one or more keys.",
        group: Group::String,
        args: &[Arg::key("key", Access::Read).multiple()],
        traits: READ,
        tips: &["request_policy:multi_shard"],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(mget),
};

fn mget(call: &mut ReadCall<'_>) -> Outcome {
    call.reply.array(call.args.len() - 1);
    for position in 1..call.args.len() {
        let key = call.key(position);
        let value = call.keys.read(key)?;
        let found = value.is_some();
        reply_value(&mut call.reply, value.as_ref().filter(|value| value.kind() == Kind::String));
        call.looked_up(key, found);
    }
    Ok(())
}

pub(super) const MSET: Command = Command {
    spec: CommandSpec {
        name: "MSET",
        id: 21,
        since: "1.0.1",
        complexity: "O(N) where N is the number of keys to set.",
        summary: "Atomically creates or modifies the string values of one or more keys.",
        group: Group::String,
        args: &[Arg::block("data", &[Arg::key("key", Access::Overwrite), Arg::value("value")]).multiple()],
        // It copies values before it latches their keys.
        traits: Traits { fast: false, self_locking: true, ..WRITE },
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        ..CommandSpec::BLANK
    },
    run: Handler::Write(mset),
};

fn mset(call: &mut WriteCall<'_>) -> Outcome {
    let pairs = call.args.slice_from(1);
    check_pairs(pairs, "mset")?;
    let count = pairs.len() / 2;
    if let Some(copies) = hold_if(call, pairs, count, None)? {
        set_pairs(call, pairs, count, None, &copies)?;
    }
    call.reply.ok();
    Ok(())
}

pub(super) const MSETNX: Command = Command {
    spec: CommandSpec {
        name: "MSETNX",
        id: 22,
        summary: "Atomically modifies the string values of one or more keys only when all keys don't exist.",
        args: &[Arg::block("data", &[Arg::key("key", Access::Create), Arg::value("value")]).multiple()],
        tips: &[],
        ..MSET.spec
    },
    run: Handler::Write(msetnx),
};

fn msetnx(call: &mut WriteCall<'_>) -> Outcome {
    let pairs = call.args.slice_from(1);
    check_pairs(pairs, "msetnx")?;
    let count = pairs.len() / 2;
    let copies = hold_if(call, pairs, count, Some(false))?;
    if let Some(copies) = &copies {
        set_pairs(call, pairs, count, None, copies)?;
    }
    call.reply.integer(i64::from(copies.is_some()));
    Ok(())
}

pub(super) const MSETEX: Command = Command {
    spec: CommandSpec {
        name: "MSETEX",
        id: 23,
        since: "8.4.0",
        summary: "Atomically sets multiple string keys with an optional shared expiration in a single operation.",
        args: &[
            Arg::key_count("numkeys"),
            Arg::block("data", &[Arg::key("key", Access::Overwrite), Arg::value("value")]).multiple(),
            Arg::one_of("condition", &EXISTENCE_ARGS).optional(),
            EXPIRY_OR_KEEP,
        ],
        keys: Keys::Specs(&[KeySpec::counted(1, 2, Access::Overwrite)]),
        ..MSET.spec
    },
    run: Handler::Write(msetex),
};

fn msetex(call: &mut WriteCall<'_>) -> Outcome {
    let count = parse_i64(call.args.at(1)).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0 && *count <= i32::MAX as usize).ok_or(errors::string::INVALID_KEY_COUNT)?;
    if count > (call.args.len() - 2) / 2 {
        return Err(errors::wrong_arity("msetex").into());
    }
    let (mut must_exist, mut change) = (None, ExpiryChange::Unstated);
    let mut options = Options::after(call.args, 2 + 2 * count);
    while let Some(option) = options.next() {
        if option.is("NX") && must_exist != Some(true) {
            must_exist = Some(false);
        } else if option.is("XX") && must_exist != Some(false) {
            must_exist = Some(true);
        } else if option.is("KEEPTTL") && !matches!(change, ExpiryChange::Set(_)) {
            change = ExpiryChange::Keep;
        } else if let Some(expiry) = Expiry::option(option, &mut options)? {
            change = only_expiry(change, expiry)?;
        } else {
            return Err(CommandError::Syntax.into());
        }
    }
    let expiry_ms = match &change {
        ExpiryChange::Set(expiry) => Some(expiry.at_ms(call.now_ms(), "msetex")?),
        _ => None,
    };
    let pairs = call.args.slice_from(2);
    let copies = hold_if(call, pairs, count, must_exist)?;
    if let Some(copies) = &copies {
        match change {
            ExpiryChange::Keep => set_pairs_keeping(call, pairs, count, copies)?,
            // What expires at once is a change even of what was not there.
            _ if expiry_ms.is_some_and(|at| at <= call.now_ms()) => {
                set_pairs(call, pairs, count, None, copies)?;
                delete_expired(call, pairs, count)?;
            }
            _ => set_pairs(call, pairs, count, expiry_ms, copies)?,
        }
    }
    call.reply.integer(i64::from(copies.is_some()));
    Ok(())
}

/// The positions of the keys of `count` pairs.
fn pair_positions(count: usize) -> impl Iterator<Item = usize> + Clone {
    (0..count).map(|pair| 2 * pair)
}

/// Latches the keys of the first `count` pairs and gives copies of the values that are large, which are made before: under the
/// latches they would hold others up. `must_exist`: nothing is given unless all of the keys exist, or none.
fn hold_if(call: &mut WriteCall<'_>, pairs: Args<'_>, count: usize, must_exist: Option<bool>) -> Result<Option<Copies>, Missing> {
    let values = || pair_positions(count).map(|at| (pairs.at(at), pairs.at(at + 1)));
    let copies = match must_exist {
        // Copies would be in vain where the condition fails. What is on the device is read with the other keys, and asked then.
        Some(wanted) if Copies::are_needed(values()) => match all_exist(call, pairs, count, wanted) {
            Ok(true) => Copies::of(values()),
            Ok(false) => return Ok(None),
            Err(_) => Copies::default(),
        },
        _ => Copies::of(values()),
    };
    let db = call.keys.db();
    // A key that is named twice may be removed before it is looked up again: what lies behind it is at hand, too.
    call.keys.plan().hold_for(pair_positions(count).map(|at| (db, pairs.at(at), Need::Overwrite)))?;
    let holds = match must_exist {
        None => true,
        Some(wanted) => all_exist(call, pairs, count, wanted)?,
    };
    Ok(holds.then_some(copies))
}

/// Whether the keys of the first `count` pairs all exist, or none of them.
fn all_exist(call: &mut WriteCall<'_>, pairs: Args<'_>, count: usize, wanted: bool) -> Result<bool, Missing> {
    for at in pair_positions(count) {
        let key = call.keys.key(pairs.at(at));
        if call.keys.exists(key)? != wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

fn check_pairs(pairs: Args<'_>, command: &str) -> Outcome {
    if pairs.len().is_multiple_of(2) { Ok(()) } else { Err(errors::wrong_arity(command).into()) }
}

/// Sets the keys of the first `count` pairs, which are latched: all, or none.
fn set_pairs(call: &mut WriteCall<'_>, pairs: Args<'_>, count: usize, expiry_ms: Option<i64>, copies: &Copies) -> Outcome {
    let before = kinds_before(call, pairs, count)?;
    call.keys.upsert_all(pair_positions(count).map(|at| (pairs.at(at), pairs.at(at + 1), expiry_ms)), copies)?;
    tell_set(call, pairs, &before, expiry_ms.is_some());
    Ok(())
}

/// The types that the keys of the pairs had, where events of type changes are told; empty while no event of these commands is told.
fn kinds_before(call: &mut WriteCall<'_>, pairs: Args<'_>, count: usize) -> Result<Vec<Option<Kind>>, Missing> {
    if !call.keys.published().any(TOLD) {
        return Ok(Vec::new());
    }
    let kind = |at| {
        let key = call.keys.key(pairs.at(at));
        call.replaces(key)
    };
    pair_positions(count).map(kind).collect()
}

/// States what was done to each pair, in order: a key that is named twice was made the first time, and replaced the second.
fn tell_set(call: &mut WriteCall<'_>, pairs: Args<'_>, before: &[Option<Kind>], expire: bool) {
    if before.is_empty() {
        return;
    }
    // The store tells of a key that is named twice where it is named last, so both orders differ.
    let mut created: HashSet<Vec<u8>> = call.keys.events().take_created().into_iter().collect();
    for (at, before) in pair_positions(before.len()).zip(before) {
        steps::take(1);
        let key = call.keys.key(pairs.at(at));
        if !created.is_empty() && created.remove(key.bytes) {
            call.event(Classes::NEW, "new", key);
        }
        call.replaced(key, *before, Kind::String);
        call.event(Classes::STRING, "set", key);
        if expire {
            call.event(Classes::GENERIC, "expire", key);
        }
    }
}

/// As [`set_pairs`], each key with the expiry that it has.
fn set_pairs_keeping(call: &mut WriteCall<'_>, pairs: Args<'_>, count: usize, copies: &Copies) -> Outcome {
    let mut kept = Vec::with_capacity(count);
    for at in pair_positions(count) {
        let key = call.keys.key(pairs.at(at));
        let expiry_ms = call.keys.read(key)?.and_then(|value| value.expiry_ms());
        kept.push((pairs.at(at), pairs.at(at + 1), expiry_ms));
    }
    let before = kinds_before(call, pairs, count)?;
    call.keys.upsert_all(kept.into_iter(), copies)?;
    tell_set(call, pairs, &before, false);
    Ok(())
}

/// Removes keys that were set to expire at once.
fn delete_expired(call: &mut WriteCall<'_>, pairs: Args<'_>, count: usize) -> Outcome {
    for at in pair_positions(count) {
        let key = call.keys.key(pairs.at(at));
        call.event(Classes::GENERIC, "expire", key);
        if call.keys.delete(key)? {
            call.keys.count_expired();
            call.event(Classes::EXPIRED, "expired", key);
        }
    }
    Ok(())
}
