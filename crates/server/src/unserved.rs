//! The commands of Redis and Valkey that are not served yet. Rules of users and `rename-command` may name them; clients cannot call
//! them.
//!
//! A spec says here only what rules, ACL DRYRUN and COMMAND GETKEYS ask: name, number of arguments, keys, and what categories
//! follow from. When a command is built, its spec moves to its family's file and gets its handler, id and documentation.

use almandine_command_spec::{Access, Begin, Category, CommandSpec, Find, Group, KeySpec, Keys, Traits};

/// All of them. Containers bring their subcommands.
pub(crate) const UNSERVED: &[&[CommandSpec]] = &[REPLICATION, CLUSTER, VECTOR_SETS, ARRAYS];

const fn command(name: &'static str, arity: i16, group: Group, traits: Traits) -> CommandSpec {
    CommandSpec { name, arity, group, traits, ..CommandSpec::BLANK }
}

const LINK: Traits = Traits { admin: true, noscript: true, no_async_loading: true, no_multi: true, ..Traits::NONE };

const REPLICATION: &[CommandSpec] = &[
    command("SYNC", 1, Group::Server, LINK),
    command("PSYNC", -3, Group::Server, LINK),
    command(
        "REPLCONF",
        -1,
        Group::Server,
        Traits { admin: true, noscript: true, loading: true, stale: true, allow_busy: true, ..Traits::NONE },
    ),
    command("FAILOVER", -1, Group::Server, Traits { admin: true, noscript: true, stale: true, ..Traits::NONE }),
    CommandSpec {
        categories: Some(&[Category::Keyspace, Category::Dangerous]),
        keys: Keys::Computed(
            &[
                KeySpec::one(3, Access::Take),
                KeySpec::new(Begin::Keyword { word: "KEYS", from: -2 }, Find::Range { last: -1, step: 1, limit: 0 }, Access::Take)
                    .incomplete(),
            ],
            next_of_migrate,
        ),
        ..command("MIGRATE", -6, Group::Generic, Traits { write: true, ..Traits::NONE })
    },
];

/// The third argument; where that is empty, all behind the word KEYS, unless it is a password. None in a call that names keys in
/// both places; a KEYS with nothing behind it is no such word.
fn next_of_migrate<'a>(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)> {
    if after > 0 {
        return (after != 3 && after + 1 < count).then_some((after + 1, Access::Take));
    }
    if !(2..count - 1).any(|at| arg(at).eq_ignore_ascii_case(b"KEYS")) {
        return Some((3, Access::Take));
    }
    let mut at = 6;
    while at < count {
        match arg(at) {
            word if word.eq_ignore_ascii_case(b"KEYS") => {
                return (arg(3).is_empty() && at + 1 < count).then_some((at + 1, Access::Take));
            }
            word if word.eq_ignore_ascii_case(b"AUTH") => at += 2,
            word if word.eq_ignore_ascii_case(b"AUTH2") => at += 3,
            _ => at += 1,
        }
    }
    Some((3, Access::Take))
}

const OF_CONNECTION: Option<&[Category]> = Some(&[Category::Connection]);
const MODE: Traits = Traits { loading: true, stale: true, fast: true, ..Traits::NONE };

const CLUSTER: &[CommandSpec] = &[
    CommandSpec { categories: OF_CONNECTION, ..command("ASKING", 1, Group::Cluster, Traits { fast: true, ..Traits::NONE }) },
    CommandSpec { categories: OF_CONNECTION, ..command("READONLY", 1, Group::Cluster, MODE) },
    CommandSpec { categories: OF_CONNECTION, ..command("READWRITE", 1, Group::Cluster, MODE) },
    CommandSpec {
        categories: Some(&[Category::Keyspace]),
        keys: Keys::Specs(&[KeySpec::one(1, Access::NotKey)]),
        ..command("CLUSTERSCAN", -2, Group::Cluster, Traits { readonly: true, ..Traits::NONE })
    },
    CommandSpec { subcommands: OF_CLUSTER, ..command("CLUSTER", -2, Group::Cluster, Traits::NONE) },
    CommandSpec {
        categories: Some(&[Category::Keyspace, Category::Dangerous]),
        ..command("SFLUSH", -3, Group::Server, Traits { write: true, ..Traits::NONE })
    },
    CommandSpec {
        categories: Some(&[Category::Keyspace, Category::Dangerous]),
        ..command("TRIMSLOTS", -5, Group::Server, Traits { write: true, ..Traits::NONE })
    },
];

const ASKS: Traits = Traits { stale: true, ..Traits::NONE };
const ASKS_OPERATOR: Traits = Traits { admin: true, stale: true, ..Traits::NONE };
const CHANGES: Traits = Traits { admin: true, stale: true, no_async_loading: true, ..Traits::NONE };

const fn of_cluster(name: &'static str, arity: i16, traits: Traits) -> CommandSpec {
    command(name, arity, Group::Cluster, traits)
}

const OF_CLUSTER: &[&CommandSpec] = &[
    &of_cluster("CLUSTER|ADDSLOTS", -3, CHANGES),
    &of_cluster("CLUSTER|ADDSLOTSRANGE", -4, CHANGES),
    &of_cluster("CLUSTER|BUMPEPOCH", 2, CHANGES),
    &of_cluster("CLUSTER|CANCELSLOTMIGRATIONS", 2, Traits { all_databases: true, ..CHANGES }),
    &of_cluster("CLUSTER|COUNT-FAILURE-REPORTS", 3, ASKS_OPERATOR),
    &of_cluster("CLUSTER|COUNTKEYSINSLOT", 3, ASKS),
    &of_cluster("CLUSTER|DELSLOTS", -3, CHANGES),
    &of_cluster("CLUSTER|DELSLOTSRANGE", -4, CHANGES),
    &of_cluster("CLUSTER|FAILOVER", -2, CHANGES),
    &CommandSpec {
        categories: Some(&[Category::Keyspace]),
        ..of_cluster(
            "CLUSTER|FLUSHSLOT",
            -3,
            Traits { write: true, admin: true, no_async_loading: true, all_databases: true, ..Traits::NONE },
        )
    },
    &of_cluster("CLUSTER|FLUSHSLOTS", 2, CHANGES),
    &of_cluster("CLUSTER|FORGET", 3, CHANGES),
    &of_cluster("CLUSTER|GETKEYSINSLOT", 4, ASKS),
    &of_cluster("CLUSTER|GETSLOTMIGRATIONS", 2, CHANGES),
    &of_cluster("CLUSTER|HELP", 2, Traits { loading: true, ..ASKS }),
    &of_cluster("CLUSTER|INFO", 2, ASKS),
    &of_cluster("CLUSTER|KEYSLOT", 3, ASKS),
    &of_cluster("CLUSTER|LINKS", 2, ASKS),
    &of_cluster("CLUSTER|MEET", -4, CHANGES),
    &of_cluster("CLUSTER|MIGRATESLOTS", -4, Traits { all_databases: true, ..CHANGES }),
    &of_cluster("CLUSTER|MIGRATION", -4, CHANGES),
    &of_cluster("CLUSTER|MYID", 2, ASKS),
    &of_cluster("CLUSTER|MYSHARDID", 2, ASKS),
    &of_cluster("CLUSTER|NODES", 2, ASKS),
    &of_cluster("CLUSTER|REPLICAS", 3, ASKS_OPERATOR),
    &of_cluster("CLUSTER|REPLICATE", 3, CHANGES),
    &of_cluster("CLUSTER|RESET", -2, Traits { noscript: true, ..ASKS_OPERATOR }),
    &of_cluster("CLUSTER|SAVECONFIG", 2, CHANGES),
    &of_cluster("CLUSTER|SET-CONFIG-EPOCH", 3, CHANGES),
    &of_cluster("CLUSTER|SETSLOT", -4, CHANGES),
    &of_cluster("CLUSTER|SHARDS", 2, ASKS),
    &of_cluster("CLUSTER|SLAVES", 3, ASKS_OPERATOR),
    &of_cluster("CLUSTER|SLOT-STATS", -4, Traits { loading: true, ..ASKS }),
    &of_cluster("CLUSTER|SLOTS", 2, ASKS),
    &of_cluster("CLUSTER|SYNCSLOTS", -3, CHANGES),
];

const READS: Traits = Traits { readonly: true, ..Traits::NONE };
const READS_FAST: Traits = Traits { readonly: true, fast: true, ..Traits::NONE };
const WRITES: Traits = Traits { write: true, denyoom: true, ..Traits::NONE };
const WRITES_FAST: Traits = Traits { write: true, denyoom: true, fast: true, ..Traits::NONE };

/// A command on one value, which has no category for its type.
const fn on_value(name: &'static str, arity: i16, traits: Traits) -> CommandSpec {
    let keys: &[KeySpec] =
        if traits.write { const { &[KeySpec::one(1, Access::ReadUpdate)] } } else { const { &[KeySpec::one(1, Access::Read)] } };
    CommandSpec { categories: Some(&[]), keys: Keys::Specs(keys), ..command(name, arity, Group::Generic, traits) }
}

const VECTOR_SETS: &[CommandSpec] = &[
    on_value("VADD", -5, WRITES),
    on_value("VCARD", 2, READS_FAST),
    on_value("VDIM", 2, READS_FAST),
    on_value("VEMB", -3, READS_FAST),
    on_value("VGETATTR", 3, READS_FAST),
    on_value("VINFO", 2, READS_FAST),
    on_value("VISMEMBER", 3, READS),
    on_value("VLINKS", -3, READS_FAST),
    on_value("VRANDMEMBER", -2, READS),
    on_value("VRANGE", -4, READS),
    on_value("VREM", 3, WRITES),
    on_value("VSETATTR", 4, WRITES_FAST),
    on_value("VSIM", -4, READS),
];

const ARRAYS: &[CommandSpec] = &[
    on_value("ARCOUNT", 2, READS_FAST),
    on_value("ARDEL", -3, WRITES),
    on_value("ARDELRANGE", -4, WRITES),
    on_value("ARGET", 3, READS_FAST),
    on_value("ARGETRANGE", 4, READS),
    on_value("ARGREP", -6, READS),
    on_value("ARINFO", -2, READS),
    on_value("ARINSERT", -3, WRITES_FAST),
    on_value("ARLASTITEMS", -3, READS),
    on_value("ARLEN", 2, READS_FAST),
    on_value("ARMGET", -3, READS),
    on_value("ARMSET", -4, WRITES),
    on_value("ARNEXT", 2, READS_FAST),
    on_value("AROP", -5, READS),
    on_value("ARRING", -4, WRITES_FAST),
    on_value("ARSCAN", -4, READS),
    on_value("ARSEEK", 3, WRITES_FAST),
    on_value("ARSET", -4, WRITES_FAST),
];
