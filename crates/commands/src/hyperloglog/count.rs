//! PFCOUNT: the estimate, of one key from its cache.

use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_datatypes::hyperloglog::{self, CACHE};
use almandine_handler::{Command, Handler, Outcome, Stop, WriteCall};
use almandine_keyspace::Slot;

use super::merge::merge;
use super::{debug, make_raw, open, scratch};
use crate::traits::SLOW_READ;

/// A read that writes what it has found into the value. That follows from the rest of the value, so that it is counted
/// as a change, as in Redis, and yet none for connections that watch the key.
pub(super) const PFCOUNT: Command = Command {
    spec: CommandSpec {
        name: "PFCOUNT",
        id: 561,
        since: "2.8.9",
        complexity: "O(1) with a very small average constant time when called with a single key. O(N) with N being the number \
                     of keys, and much bigger constant times, when called with multiple keys.",
        summary: "Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s).",
        group: Group::HyperLogLog,
        args: &[Arg::key("key", Access::ReadRepair)
            .multiple()
            .notes("RW because it may change the internal representation of the key, and propagate to replicas")],
        traits: Traits { may_replicate: true, self_locking: true, ..SLOW_READ },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(pfcount),
};

fn pfcount(call: &mut WriteCall<'_>) -> Outcome {
    let count = if call.args.len() == 2 { count_one(call)? } else { count_union(call)? };
    call.reply.integer(count.cast_signed());
    Ok(())
}

fn count_one(call: &mut WriteCall<'_>) -> Result<u64, Stop> {
    let key = call.key(1);
    let Slot::Occupied(mut occupied) = call.keys.modify(key)? else {
        call.looked_up(key, false);
        return Ok(0);
    };
    call.context.statistics().looked_up(true);
    let hll = open(&occupied)?;
    if let Some(count) = hyperloglog::cached(occupied.value()) {
        make_raw(&mut occupied)?;
        return Ok(count);
    }
    let count = hll.cardinality(debug::way(call.context))?;
    // Without room it is counted again the next time.
    let written = occupied.write_derived(CACHE.start, &count.to_le_bytes());
    drop(occupied);
    if written.is_ok() {
        call.keys.count_changes(1);
    }
    Ok(count)
}

fn count_union(call: &mut WriteCall<'_>) -> Result<u64, Stop> {
    let keys = call.args.slice_from(1);
    let db = call.client.db;
    call.keys.plan().hold(keys.iter().map(|key| (db, key)))?;
    scratch::with(|scratch| {
        merge(call, scratch)?;
        Ok(scratch.registers.cardinality(debug::way(call.context)))
    })
}
