//! The table of workloads: one entry per command.
//!
//! An entry says what is sent, which data type the key holds (each type has its own key prefix and its own way to be
//! filled beforehand) and what a correct reply looks like. Adding a command is adding a line.

use crate::reply::Kinds;

/// The data type a workload's key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataType {
    /// No key at all.
    None,
    /// A string with the workload's value.
    String,
    /// A string that holds an integer.
    Counter,
    /// A hash of `--members` fields.
    Hash,
    /// A hash of `--members` fields that hold integers.
    HashCounter,
    /// A list of `--members` values.
    List,
    /// A set of `--members` names.
    Set,
    /// A sorted set of `--members` names.
    SortedSet,
    /// A stream of `--members` entries.
    Stream,
    /// A stream of `--members` entries with a group that has read none.
    Group,
    /// A HyperLogLog that has seen `--members` names.
    HyperLogLog,
    /// A geo index of `--members` names.
    Geo,
}

impl DataType {
    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "-",
            Self::String => "string",
            Self::Counter => "counter",
            Self::Hash => "hash",
            Self::HashCounter => "hash counter",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Stream => "stream",
            Self::Group => "group",
            Self::HyperLogLog => "hyperloglog",
            Self::Geo => "geo",
        }
    }

    /// What is put before `--key-prefix`, so that types never share a key.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::None | Self::String => "",
            Self::Counter => "c",
            Self::Hash => "h",
            Self::HashCounter => "n",
            Self::List => "l",
            Self::Set => "s",
            Self::SortedSet => "z",
            Self::Stream => "x",
            Self::Group => "y",
            Self::HyperLogLog => "p",
            Self::Geo => "g",
        }
    }

    /// The command that fills one key.
    pub fn fill(self) -> Option<&'static str> {
        Some(match self {
            Self::None => return None,
            Self::String => "SET __key__ __value__",
            Self::Counter => "SET __key__ 0",
            Self::Hash => "HSET __key__ {__member__ __value__}",
            Self::HashCounter => "HSET __key__ {__member__ 0}",
            Self::List => "RPUSH __key__ {__value__}",
            Self::Set => "SADD __key__ {__member__}",
            Self::SortedSet => "ZADD __key__ {__score__ __member__}",
            Self::Stream | Self::Group => "XADD __key__ * field __value__",
            Self::HyperLogLog => "PFADD __key__ {__member__}",
            Self::Geo => "GEOADD __key__ {__longitude__ __latitude__ __member__}",
        })
    }

    /// Whether the fill command is sent once per member instead of once per key.
    pub fn fills_by_member(self) -> bool {
        matches!(self, Self::Stream | Self::Group)
    }

    /// The command that is sent once per key before it is filled.
    pub fn prepare(self) -> Option<&'static str> {
        (self == Self::Group).then_some("XGROUP CREATE __key__ g 0 MKSTREAM")
    }
}

/// One workload.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// Data type of the keys.
    pub data: DataType,
    /// The command with holes.
    pub template: &'static str,
    /// The replies that are correct.
    pub replies: Kinds,
    /// Whether a bulk reply is a whole value, to be checked byte for byte by `--verify`.
    pub whole_value: bool,
}

const fn entry(name: &'static str, data: DataType, template: &'static str, replies: Kinds) -> Entry {
    Entry { name, data, template, replies, whole_value: false }
}

const fn value(name: &'static str, template: &'static str) -> Entry {
    Entry { name, data: DataType::String, template, replies: VALUE, whole_value: true }
}

const OK: Kinds = Kinds::SIMPLE;
const INTEGER: Kinds = Kinds::INTEGER;
const BULK: Kinds = Kinds::BULK;
const VALUE: Kinds = Kinds::BULK.or(Kinds::NULL);
const SCORE: Kinds = VALUE.or(Kinds::DOUBLE);
const MANY: Kinds = Kinds::AGGREGATE;

/// Every workload known by name.
pub const TABLE: &[Entry] = &[
    entry("ping", DataType::None, "PING", OK),
    entry("echo", DataType::None, "ECHO __value__", BULK),
    value("get", "GET __key__"),
    entry("set", DataType::String, "SET __key__ __value__", OK),
    entry("setex", DataType::String, "SETEX __key__ 3600 __value__", OK),
    entry("psetex", DataType::String, "PSETEX __key__ 3600000 __value__", OK),
    entry("setnx", DataType::String, "SETNX __key__ __value__", INTEGER),
    entry("incr", DataType::Counter, "INCR __key__", INTEGER),
    entry("incrby", DataType::Counter, "INCRBY __key__ __score__", INTEGER),
    entry("decr", DataType::Counter, "DECR __key__", INTEGER),
    entry("append", DataType::String, "APPEND __key__ __value__", INTEGER),
    entry("getrange", DataType::String, "GETRANGE __key__ 0 __offset__", BULK),
    entry("setrange", DataType::String, "SETRANGE __key__ __offset__ x", INTEGER),
    entry("strlen", DataType::String, "STRLEN __key__", INTEGER),
    entry("mget", DataType::String, "MGET {__key__}", MANY),
    entry("mset", DataType::String, "MSET {__key__ __value__}", OK),
    entry("del", DataType::String, "DEL __key__", INTEGER),
    entry("unlink", DataType::String, "UNLINK __key__", INTEGER),
    entry("exists", DataType::String, "EXISTS __key__", INTEGER),
    entry("type", DataType::String, "TYPE __key__", OK),
    entry("touch", DataType::String, "TOUCH __key__", INTEGER),
    entry("expire", DataType::String, "EXPIRE __key__ 3600", INTEGER),
    entry("persist", DataType::String, "PERSIST __key__", INTEGER),
    entry("ttl", DataType::String, "TTL __key__", INTEGER),
    value("getex", "GETEX __key__ EX 3600"),
    value("getdel", "GETDEL __key__"),
    value("getset", "GETSET __key__ __value__"),
    entry("setbit", DataType::String, "SETBIT __key__ __bit__ 1", INTEGER),
    entry("getbit", DataType::String, "GETBIT __key__ __bit__", INTEGER),
    entry("bitcount", DataType::String, "BITCOUNT __key__", INTEGER),
    entry("bitpos", DataType::String, "BITPOS __key__ 1", INTEGER),
    entry("bitfield", DataType::String, "BITFIELD __key__ INCRBY u8 0 1", MANY),
    entry("hset", DataType::Hash, "HSET __key__ __member__ __value__", INTEGER),
    entry("hget", DataType::Hash, "HGET __key__ __member__", VALUE),
    entry("hmget", DataType::Hash, "HMGET __key__ {__member__}", MANY),
    entry("hgetall", DataType::Hash, "HGETALL __key__", MANY),
    entry("hexists", DataType::Hash, "HEXISTS __key__ __member__", INTEGER),
    entry("hlen", DataType::Hash, "HLEN __key__", INTEGER),
    entry("hdel", DataType::Hash, "HDEL __key__ __member__", INTEGER),
    entry("hsetnx", DataType::Hash, "HSETNX __key__ __member__ __value__", INTEGER),
    entry("hmset", DataType::Hash, "HSET __key__ {__member__ __value__}", INTEGER),
    entry("hstrlen", DataType::Hash, "HSTRLEN __key__ __member__", INTEGER),
    entry("hscan", DataType::Hash, "HSCAN __key__ 0 COUNT 100", MANY),
    entry("hrandfield", DataType::Hash, "HRANDFIELD __key__", VALUE),
    entry("hexpire", DataType::Hash, "HEXPIRE __key__ 3600 FIELDS 1 __member__", MANY),
    entry("httl", DataType::Hash, "HTTL __key__ FIELDS 1 __member__", MANY),
    entry("hincrby", DataType::HashCounter, "HINCRBY __key__ __member__ 1", INTEGER),
    entry("lpush", DataType::List, "LPUSH __key__ __value__", INTEGER),
    entry("rpush", DataType::List, "RPUSH __key__ __value__", INTEGER),
    entry("lpop", DataType::List, "LPOP __key__", VALUE),
    entry("rpop", DataType::List, "RPOP __key__", VALUE),
    entry("llen", DataType::List, "LLEN __key__", INTEGER),
    entry("lindex", DataType::List, "LINDEX __key__ __index__", VALUE),
    entry("lset", DataType::List, "LSET __key__ __index__ __value__", OK),
    entry("lrange", DataType::List, "LRANGE __key__ 0 99", MANY),
    entry("sadd", DataType::Set, "SADD __key__ __member__", INTEGER),
    entry("srem", DataType::Set, "SREM __key__ __member__", INTEGER),
    entry("sismember", DataType::Set, "SISMEMBER __key__ __member__", INTEGER),
    entry("smembers", DataType::Set, "SMEMBERS __key__", MANY),
    entry("scard", DataType::Set, "SCARD __key__", INTEGER),
    entry("srandmember", DataType::Set, "SRANDMEMBER __key__", VALUE),
    entry("spop", DataType::Set, "SPOP __key__", VALUE),
    entry("smismember", DataType::Set, "SMISMEMBER __key__ {__member__}", MANY),
    entry("sscan", DataType::Set, "SSCAN __key__ 0 COUNT 100", MANY),
    entry("smove", DataType::Set, "SMOVE __key__ __key__ __member__", INTEGER),
    entry("sunion", DataType::Set, "SUNION __key__ __key__", MANY),
    entry("sinter", DataType::Set, "SINTER __key__ __key__", MANY),
    entry("sdiff", DataType::Set, "SDIFF __key__ __key__", MANY),
    entry("sintercard", DataType::Set, "SINTERCARD 2 __key__ __key__", INTEGER),
    entry("sunionstore", DataType::Set, "SUNIONSTORE s:result __key__ __key__", INTEGER),
    entry("zadd", DataType::SortedSet, "ZADD __key__ __score__ __member__", INTEGER),
    entry("zincrby", DataType::SortedSet, "ZINCRBY __key__ 1 __member__", SCORE),
    entry("zscore", DataType::SortedSet, "ZSCORE __key__ __member__", SCORE),
    entry("zrank", DataType::SortedSet, "ZRANK __key__ __member__", INTEGER.or(Kinds::NULL)),
    entry("zrange", DataType::SortedSet, "ZRANGE __key__ 0 9", MANY),
    entry("zrangebyscore", DataType::SortedSet, "ZRANGEBYSCORE __key__ __score__ +inf LIMIT 0 10", MANY),
    entry("zcard", DataType::SortedSet, "ZCARD __key__", INTEGER),
    entry("zrem", DataType::SortedSet, "ZREM __key__ __member__", INTEGER),
    entry("zunionstore", DataType::SortedSet, "ZUNIONSTORE union:of:two 2 __key__ __key__", INTEGER),
    entry("zpopmin", DataType::SortedSet, "ZPOPMIN __key__", MANY),
    entry("xadd", DataType::Stream, "XADD __key__ MAXLEN ~ 1000 * field __value__", BULK),
    entry("xlen", DataType::Stream, "XLEN __key__", INTEGER),
    entry("xadd_exact", DataType::Stream, "XADD __key__ MAXLEN 1000 * field __value__", BULK),
    entry("xadd_group", DataType::Group, "XADD __key__ MAXLEN ~ 1000 * field __value__", BULK),
    entry("xreadgroup", DataType::Group, "XREADGROUP GROUP g c COUNT 1 STREAMS __key__ >", MANY.or(Kinds::NULL)),
    entry("xrange", DataType::Stream, "XRANGE __key__ - + COUNT 10", MANY),
    entry("pfadd", DataType::HyperLogLog, "PFADD __key__ __member__", INTEGER),
    entry("pfcount", DataType::HyperLogLog, "PFCOUNT __key__", INTEGER),
    entry("geoadd", DataType::Geo, "GEOADD __key__ __longitude__ __latitude__ __member__", INTEGER),
    entry("geopos", DataType::Geo, "GEOPOS __key__ __member__", MANY),
    entry("geodist", DataType::Geo, "GEODIST __key__ __member__ __member__", VALUE),
    entry(
        "geosearch",
        DataType::Geo,
        "GEOSEARCH __key__ FROMLONLAT __longitude__ __latitude__ BYRADIUS 1000 km ASC COUNT 10",
        MANY,
    ),
];

/// Finds a workload by name.
pub fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::super::template::{Hole, Template};
    use super::*;

    #[test]
    fn every_entry_is_well_formed() {
        for entry in TABLE {
            let template = Template::parse(entry.template).unwrap();
            assert_eq!(template.has(Hole::Key), entry.data != DataType::None, "{}", entry.name);
            let same = TABLE.iter().filter(|other| other.name == entry.name).count();
            assert_eq!(same, 1, "{} is listed twice", entry.name);
        }
    }
}
