//! MEMORY: where memory is used.

mod doctor;

use almandine_command_spec::{Access, Arg, Category, CommandSpec, Group, Traits};
use almandine_handler::{AdminCall, Command, CommandError, Handler, Options, Outcome, ReadCall, help};
use almandine_instance::metrics::Readings;

use self::doctor::DOCTOR;

pub(super) const COMMANDS: &[&Command] = &[&MEMORY, &DOCTOR, &HELP, &MALLOC_STATS, &PURGE, &STATS, &USAGE];

const MEMORY: Command = Command {
    spec: CommandSpec {
        name: "MEMORY",
        id: 437,
        since: "4.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for memory diagnostics commands.",
        group: Group::Server,
        subcommands: &[&DOCTOR.spec, &HELP.spec, &MALLOC_STATS.spec, &PURGE.spec, &STATS.spec, &USAGE.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

/// What the subcommands have in common.
const SUBCOMMAND: CommandSpec = CommandSpec {
    since: "4.0.0",
    group: Group::Server,
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    ..CommandSpec::BLANK
};

const USAGE: Command = Command {
    spec: CommandSpec {
        name: "MEMORY|USAGE",
        id: 438,
        complexity: "O(N) where N is the number of samples.",
        summary: "Estimates the memory usage of a key.",
        args: &[Arg::key("key", Access::Inspect), Arg::integer("count").token("SAMPLES").optional()],
        traits: Traits { readonly: true, ..Traits::NONE },
        categories: Some(&[Category::Read]),
        tips: &[],
        ..SUBCOMMAND
    },
    run: Handler::Read(usage),
};

/// A key's share of the hash index: of the 64 bytes of a bucket, one of seven entries.
const INDEX_BYTES_PER_KEY: usize = 64 / 7 + 1;

/// The record's size is exact, so there is nothing to sample.
fn usage(call: &mut ReadCall<'_>) -> Outcome {
    let mut options = Options::after(call.args, 3);
    while let Some(option) = options.next() {
        if !option.is("SAMPLES") || options.remaining() == 0 {
            return Err(CommandError::Syntax.into());
        }
        if options.integer()? < 0 {
            return Err(CommandError::Syntax.into());
        }
    }
    let key = call.key(2);
    match call.keys.metadata(key)? {
        Some(metadata) => call.reply.unsigned((metadata.memory_bytes + INDEX_BYTES_PER_KEY) as u64),
        None => call.reply.null(),
    }
    Ok(())
}

const STATS: Command = Command {
    spec: CommandSpec { name: "MEMORY|STATS", id: 439, summary: "Returns details about memory usage.", ..SUBCOMMAND },
    run: Handler::Admin(stats),
};

/// A value of MEMORY STATS.
enum Figure {
    Bytes(u64),
    Difference(i64),
    Ratio(f64),
}

fn stats(call: &mut AdminCall<'_>) -> Outcome {
    let context = call.context;
    let readings = Readings::take(&context.instance);
    let keyspace = &context.instance.keyspace;
    let databases: Vec<u16> = (0..keyspace.databases() as u16).filter(|db| keyspace.dbsize(*db) > 0).collect();
    let keys: u64 = databases.iter().map(|db| keyspace.dbsize(*db)).sum();
    let (before, behind) = (before_databases(&readings), behind_databases(&readings, keys));
    call.reply.map(before.len() + databases.len() + behind.len());
    before.into_iter().for_each(|field| write(call, field));
    for db in databases {
        call.reply.bulk(format!("db.{db}").as_bytes());
        call.reply.map(2);
        let index_bytes = keyspace.dbsize(db) * INDEX_BYTES_PER_KEY as u64;
        let volatile = keyspace.expires(db);
        let expiry_bytes =
            if volatile == 0 { 0 } else { readings.memory.expiry_bytes * volatile / volatile_keys(&readings, volatile) };
        write(call, ("overhead.hashtable.main", Figure::Bytes(index_bytes)));
        write(call, ("overhead.hashtable.expires", Figure::Bytes(expiry_bytes)));
    }
    behind.into_iter().for_each(|field| write(call, field));
    Ok(())
}

/// Keys with an expiry in all databases; at least those of one of them.
fn volatile_keys(readings: &Readings<'_>, of_one: u64) -> u64 {
    u64::try_from(readings.store.volatile).unwrap_or(0).max(of_one)
}

type Field = (&'static str, Figure);

fn write(call: &mut AdminCall<'_>, (name, figure): Field) {
    call.reply.bulk(name.as_bytes());
    match figure {
        Figure::Bytes(bytes) => call.reply.unsigned(bytes),
        Figure::Difference(bytes) => call.reply.integer(bytes),
        Figure::Ratio(ratio) => call.reply.double(ratio),
    }
}

fn before_databases(readings: &Readings<'_>) -> Vec<Field> {
    use Figure::Bytes;
    vec![
        ("peak.allocated", Bytes(readings.peak_bytes)),
        ("total.allocated", Bytes(readings.used_bytes())),
        ("startup.allocated", Bytes(readings.instance.run.startup_bytes)),
        ("replication.backlog", Bytes(0)),
        ("clients.slaves", Bytes(0)),
        ("clients.normal", Bytes(readings.instance.clients.memory.total())),
        ("cluster.links", Bytes(0)),
        ("aof.buffer", Bytes(0)),
        ("lua.caches", Bytes(0)),
        ("functions.caches", Bytes(0)),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "ratios for humans")]
fn behind_databases(readings: &Readings<'_>, keys: u64) -> Vec<Field> {
    use Figure::{Bytes, Difference, Ratio};
    let (used, held, resident) = (readings.used_bytes(), readings.held_bytes(), readings.resident_bytes);
    let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let difference = |left: u64, right: u64| i64::try_from(left).unwrap_or(i64::MAX).saturating_sub_unsigned(right);
    let beyond_empty = used.saturating_sub(readings.instance.run.startup_bytes);
    vec![
        ("overhead.db.hashtable.lut", Bytes(readings.memory.index_bytes)),
        // The index grows a bucket at a time and needs no second table.
        ("overhead.db.hashtable.rehashing", Bytes(0)),
        ("db.dict.rehashing.count", Bytes(0)),
        ("overhead.total", Bytes(readings.overhead_bytes())),
        ("keys.count", Bytes(keys)),
        ("keys.bytes-per-key", Bytes(beyond_empty.checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", Bytes(readings.dataset_bytes())),
        ("dataset.percentage", Ratio(readings.dataset_share() * 100.0)),
        ("peak.percentage", Ratio(ratio(used, readings.peak_bytes) * 100.0)),
        ("allocator.allocated", Bytes(used)),
        ("allocator.active", Bytes(held)),
        ("allocator.resident", Bytes(held)),
        ("allocator.muzzy", Bytes(0)),
        ("allocator-fragmentation.ratio", Ratio(ratio(held, used))),
        ("allocator-fragmentation.bytes", Difference(difference(held, used))),
        ("allocator-rss.ratio", Ratio(1.0)),
        ("allocator-rss.bytes", Bytes(0)),
        ("rss-overhead.ratio", Ratio(ratio(resident, held))),
        ("rss-overhead.bytes", Difference(difference(resident, held))),
        ("fragmentation", Ratio(ratio(resident, used))),
        ("fragmentation.bytes", Difference(difference(resident, used))),
    ]
}

const PURGE: Command = Command {
    spec: CommandSpec {
        name: "MEMORY|PURGE",
        id: 441,
        complexity: "Depends on how much memory is allocated, could be slow",
        summary: "Asks the allocator to release memory.",
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        ..SUBCOMMAND
    },
    // The store gives emptied pages back by itself. What the allocator keeps for later is given back at once.
    run: Handler::Admin(|call| {
        almandine_io::allocator::ask_for_release();
        call.reply.ok();
        Ok(())
    }),
};

const MALLOC_STATS: Command = Command {
    spec: CommandSpec {
        name: "MEMORY|MALLOC-STATS",
        id: 442,
        complexity: "Depends on how much memory is allocated, could be slow",
        summary: "Returns the allocator statistics.",
        ..SUBCOMMAND
    },
    run: Handler::Admin(|call| {
        call.reply.bulk(b"Stats not supported for the current allocator");
        Ok(())
    }),
};

const HELP: Command = help::command("MEMORY|HELP", 443, SUBCOMMAND);
