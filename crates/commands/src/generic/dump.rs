//! DUMP and RESTORE: a value as bytes that other servers of the family read, and back.
//!
//! Payloads are in [`payload`].

use std::sync::atomic::Ordering::Relaxed;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, Category, CommandSpec, Traits};
use almandine_config::choices::{EvictionPolicy, VersionCheck};
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, WriteCall, errors, number};
use almandine_keyspace::{Put, frequency};
use almandine_rdb::value::footer::Leniency;

use crate::payload;
use crate::traits::{CHANGE, READ};

pub(super) const DUMP: Command = Command {
    spec: CommandSpec {
        name: "DUMP",
        id: 229,
        since: "2.6.0",
        complexity: "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of objects composing \
                     the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where \
                     M is small, so simply O(1).",
        summary: "Returns a serialized representation of the value stored at a key.",
        args: &[Arg::key("key", Access::Read)],
        traits: Traits { fast: false, ..READ },
        tips: &["nondeterministic_output"],
        ..CommandSpec::BLANK
    },
    run: Handler::Read(dump),
};

fn dump(call: &mut ReadCall<'_>) -> Outcome {
    let key = call.key(1);
    let payload = payload::of_key(&mut call.keys, key)?;
    call.looked_up(key, payload.is_some());
    match payload {
        None => call.reply.null(),
        Some(payload) => call.reply.bulk(&payload),
    }
    Ok(())
}

pub(super) const RESTORE: Command = Command {
    spec: CommandSpec {
        name: "RESTORE",
        id: 230,
        since: "2.6.0",
        complexity: "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the \
                     number of objects composing the value and M their average size. For small string values the time \
                     complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for sorted set values the \
                     complexity is O(N*M*log(N)) because inserting values into sorted sets is O(log(N)).",
        summary: "Creates a key from the serialized representation of a value.",
        args: &[
            Arg::key("key", Access::Overwrite),
            Arg::integer("ttl"),
            Arg::value("serialized-value"),
            Arg::pure_token("replace", "REPLACE").optional().since("3.0.0"),
            Arg::pure_token("absttl", "ABSTTL").optional().since("5.0.0"),
            Arg::integer("seconds").token("IDLETIME").optional().since("5.0.0"),
            Arg::integer("frequency").token("FREQ").optional().since("5.0.0"),
        ],
        traits: Traits { fast: false, denyoom: true, ..CHANGE },
        categories: Some(&[Category::Keyspace, Category::Dangerous]),
        history: &[
            ("3.0.0", "Added the `REPLACE` modifier."),
            ("5.0.0", "Added the `ABSTTL` modifier."),
            ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
        ],
        ..CommandSpec::BLANK
    },
    run: Handler::Write(restore),
};

/// RESTORE as MIGRATE sends it to a cluster node that imports the key's slot.
pub(super) const RESTORE_ASKING: Command = Command {
    spec: CommandSpec {
        name: "RESTORE-ASKING",
        id: 231,
        since: "3.0.0",
        summary: "An internal command for migrating keys in a cluster.",
        traits: Traits { asking: true, system: true, ..RESTORE.spec.traits },
        ..RESTORE.spec
    },
    run: Handler::Write(restore),
};

/// What RESTORE's options say.
#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    absolute: bool,
    idle_s: Option<i64>,
    frequency: Option<u8>,
}

fn restore_options(call: &WriteCall<'_>) -> Result<RestoreOptions, CommandError> {
    let mut restore = RestoreOptions::default();
    let mut options = Options::after(call.args, 4);
    while let Some(option) = options.next() {
        match option {
            o if o.is("REPLACE") => restore.replace = true,
            o if o.is("ABSTTL") => restore.absolute = true,
            o if o.is("IDLETIME") && restore.frequency.is_none() => {
                restore.idle_s = Some(options.integer()?);
                if restore.idle_s < Some(0) {
                    return Err(errors::generic::INVALID_IDLE_TIME);
                }
            }
            o if o.is("FREQ") && restore.idle_s.is_none() => {
                let frequency = u8::try_from(options.integer()?).map_err(|_| errors::generic::INVALID_FREQUENCY)?;
                restore.frequency = Some(frequency);
            }
            _ => return Err(CommandError::Syntax),
        }
    }
    Ok(restore)
}

/// Whether maxmemory has room for a string, before memory is taken for it: beside what is there, where nothing gives way.
fn has_room_for(call: &WriteCall<'_>, bytes: u64) -> bool {
    let keyspace = &call.context.instance.keyspace;
    let budget = keyspace.figures().budget_bytes();
    if budget == 0 || bytes == 0 {
        return true;
    }
    let keeps_all =
        call.context.settings().memory.maxmemory_policy == EvictionPolicy::NoEviction && keyspace.figures().tier().is_none();
    bytes <= if keeps_all { budget.saturating_sub(keyspace.figures().used_bytes()) } else { budget }
}

fn restore(call: &mut WriteCall<'_>) -> Outcome {
    let options = restore_options(call)?;
    let key = call.key(1);
    if !options.replace && call.keys.exists(key)? {
        return Err(errors::generic::BUSY_KEY.into());
    }
    let ttl_ms = number::integer(call.args.at(2))?;
    if ttl_ms < 0 {
        return Err(errors::generic::INVALID_TIME_TO_LIVE.into());
    }
    let leniency = Leniency {
        any_version: call.context.settings().persistence.version_check == VersionCheck::Relaxed,
        any_checksum: call.context.instance.run.payloads_unsummed.load(Relaxed),
    };
    if !has_room_for(call, payload::expanded_len(call.args.at(3)) as u64) {
        return Err(CommandError::OutOfMemory.into());
    }
    let value = payload::open_leniently(call.args.at(3), leniency)?;
    let expiry_ms = match ttl_ms {
        0 => None,
        at_ms if options.absolute => Some(at_ms),
        ttl_ms => Some(ttl_ms.saturating_add(call.now_ms())),
    };
    if expiry_ms.is_some_and(|at_ms| at_ms <= call.now_ms()) {
        if call.keys.delete(key)? {
            call.event(Classes::GENERIC, "del", key);
        }
    } else {
        let kind = payload::kind(&value);
        let before = if call.keys.published().is_empty() { None } else { call.keys.metadata(key)? };
        payload::put(&mut call.keys, key, value, Put { expiry_ms, ..Put::default() }, call.context.settings())?;
        // Whichever of them the eviction policy does not keep is left out, as in Redis.
        if let Some(idle_s) = options.idle_s {
            call.keys.heat().set_idle_ms(key, idle_s.saturating_mul(1000));
        }
        if let Some(frequency) = options.frequency {
            call.keys.heat().set_frequency(key, frequency::steps(frequency));
        }
        if before.is_some() {
            // The old value is removed first.
            call.event(Classes::NEW, "new", key);
        }
        call.event(Classes::GENERIC, "restore", key);
        call.replaced(key, before.map(|before| before.kind), kind);
    }
    call.reply.ok();
    Ok(())
}
