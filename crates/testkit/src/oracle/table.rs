//! Which commands the oracle sends, how often, and how their replies are compared.
//!
//! [`TABLE`] has all commands on keys that they share; each other table has the large values of one type.
//!
//! Two lines are more than a command. After `MULTI` the generator ends the transaction by EXEC or DISCARD some commands later, and what
//! EXEC answers is compared as the queued commands ask for. `EXCHANGE from to` restores the payload that one server dumps in the other.
//!
//! Templates: capitals are literal; `[a|b]` is one of the alternatives or nothing; `(a|b)` is one of them; `+` repeats what is
//! before it one to four times; small words are random arguments (see `generate::atom`).

/// How two replies are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Byte for byte.
    Exact,
    /// Arrays (also inside arrays) and sets in any order.
    Unordered,
    /// Fields with their values, as a flat array, an array of pairs or a map, in any order.
    Pairs,
    /// A cursor, then [`Compare::Pairs`].
    Scan,
    /// As many elements, of any content; errors byte for byte.
    Size,
    /// Integers may differ by this much.
    Near(i64),
    /// The same type; errors byte for byte.
    Kind,
    /// Exactly, but Redis says `embstr` of an integer that INCRBYFLOAT computed: `docs/differences.md`.
    Encoding,
    /// Exactly, but what is a syntax error to Redis may be answered otherwise: `docs/differences.md`.
    Wider,
}
use Compare::{Encoding, Exact, Kind, Near, Pairs, Scan, Size, Unordered, Wider};

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Relative frequency.
    pub weight: usize,
    /// How to compare.
    pub compare: Compare,
    /// What to send.
    pub template: &'static str,
}

const fn line(weight: usize, compare: Compare, template: &'static str) -> Line {
    Line { weight, compare, template }
}

/// The table. Both servers see real time, so a remaining time may differ by scheduling: up to a second, on a busy machine.
pub const TABLE: &[Line] = &[
    // string
    line(60, Exact, "SET key value"),
    line(40, Exact, "SET key value [NX|XX] [GET] [EX ttl|PX pttl|EXAT at|PXAT pat|KEEPTTL]"),
    line(10, Exact, "SET key value [GET] [NX|XX|NX XX|GET] [EX ttl|PX pttl|EXAT at|KEEPTTL] [KEEPTTL|EX ttl|word]"),
    line(50, Exact, "GET key"),
    line(15, Exact, "GETEX key [EX ttl|PX pttl|EXAT at|PXAT pat|PERSIST|PERSIST EX ttl|word]"),
    line(10, Exact, "GETDEL key"),
    line(15, Exact, "GETSET key value"),
    line(10, Exact, "SETEX key ttl value"),
    line(10, Exact, "PSETEX key pttl value"),
    line(15, Exact, "SETNX key value"),
    line(25, Exact, "APPEND key value"),
    line(10, Exact, "STRLEN key"),
    line(25, Exact, "SETRANGE key offset value"),
    line(20, Exact, "GETRANGE key index index"),
    line(5, Exact, "SUBSTR key index index"),
    line(20, Exact, "INCR key"),
    line(10, Exact, "DECR key"),
    line(20, Exact, "INCRBY key int"),
    line(10, Exact, "DECRBY key int"),
    line(15, Exact, "INCRBYFLOAT key float"),
    line(15, Exact, "MGET key+"),
    line(10, Exact, "MSET (key value)+"),
    line(10, Exact, "MSETNX (key value)+"),
    line(8, Exact, "LCS key key [LEN|IDX|IDX MINMATCHLEN int|IDX WITHMATCHLEN|LEN IDX|word]"),
    // bitmap
    line(25, Exact, "SETBIT key offset (0|1|0|1|2)"),
    line(15, Exact, "GETBIT key offset"),
    line(15, Wider, "BITCOUNT key [index index|index index BYTE|index index BIT|index]"),
    line(20, Exact, "BITPOS key (0|1|0|1|2) [index|index index|index index BYTE|index index BIT]"),
    line(20, Exact, "BITOP (AND|OR|XOR) key key+"),
    line(8, Exact, "BITOP (NOT|NOT|WHAT) key key [key]"),
    line(
        25,
        Exact,
        "BITFIELD key (GET width offset|SET width offset int|INCRBY width offset int|OVERFLOW (WRAP|SAT|FAIL) INCRBY width offset int)+",
    ),
    line(8, Exact, "BITFIELD_RO key (GET width offset|GET width offset|SET width offset int)+"),
    // hash
    line(50, Exact, "HSET key (field value)+"),
    line(10, Exact, "HSET key pairs"),
    line(5, Exact, "HMSET key (field value)+"),
    line(10, Exact, "HSETNX key field value"),
    line(25, Exact, "HGET key field"),
    line(10, Exact, "HMGET key field+"),
    line(10, Pairs, "HGETALL key"),
    line(5, Unordered, "HKEYS key"),
    line(5, Unordered, "HVALS key"),
    line(10, Exact, "HLEN key"),
    line(8, Exact, "HEXISTS key field"),
    line(8, Exact, "HSTRLEN key field"),
    line(20, Exact, "HDEL key field+"),
    line(5, Exact, "HDEL key fields"),
    line(15, Exact, "HINCRBY key field int"),
    line(10, Exact, "HINCRBYFLOAT key field float"),
    line(8, Scan, "HSCAN key 0 COUNT 100000 [MATCH pattern]"),
    line(3, Scan, "HSCAN key (COUNT|word|0 COUNT 0|0 COUNT word|0 MATCH|0 word int)"),
    line(4, Kind, "HRANDFIELD key"),
    line(4, Size, "HRANDFIELD key int [WITHVALUES|word]"),
    line(3, Pairs, "HRANDFIELD key 100000 WITHVALUES"),
    line(3, Unordered, "HRANDFIELD key 100000"),
    // set
    line(50, Exact, "SADD key element+"),
    line(10, Exact, "SADD key elements"),
    line(20, Exact, "SREM key element+"),
    line(5, Exact, "SREM key elements"),
    line(10, Exact, "SCARD key"),
    line(10, Exact, "SISMEMBER key element"),
    line(10, Exact, "SMISMEMBER key element+"),
    line(15, Unordered, "SMEMBERS key"),
    line(15, Exact, "SMOVE key key element"),
    line(4, Kind, "SRANDMEMBER key"),
    line(4, Size, "SRANDMEMBER key int"),
    line(3, Unordered, "SRANDMEMBER key 100000"),
    line(3, Exact, "SRANDMEMBER key (word|int int)"),
    line(3, Unordered, "SPOP key 100000"),
    line(2, Exact, "SPOP key (0|word|-1|int int)"),
    line(8, Unordered, "SSCAN key 0 COUNT 100000 [MATCH pattern]"),
    line(3, Unordered, "SSCAN key (COUNT|word|0 COUNT 0|0 COUNT word|0 MATCH|0 word int)"),
    line(15, Unordered, "SUNION key+"),
    line(15, Unordered, "SINTER key+"),
    line(15, Unordered, "SDIFF key+"),
    line(8, Exact, "SUNIONSTORE key key+"),
    line(8, Exact, "SINTERSTORE key key+"),
    line(8, Exact, "SDIFFSTORE key key+"),
    line(8, Exact, "SINTERCARD (1 key|2 key key|3 key key key|int key+|word key) [LIMIT int|LIMIT word|word]"),
    // hyperloglog
    line(15, Exact, "PFADD key [value+]"),
    line(10, Exact, "PFCOUNT key+"),
    line(8, Exact, "PFMERGE key [key+]"),
    // geo
    line(15, Exact, "GEOADD key (longitude latitude field)+"),
    line(6, Exact, "GEOADD key [NX|XX|CH|NX CH|NX XX|GT] (longitude latitude field)+"),
    line(4, Exact, "GEODIST key field field [m|KM|ft|mi|word]"),
    line(4, Exact, "GEOPOS key field+"),
    line(3, Exact, "GEOHASH key field+"),
    line(
        10,
        Exact,
        "GEOSEARCH key (FROMMEMBER field|FROMLONLAT longitude latitude|FROMLONLAT longitude latitude FROMMEMBER field) \
         (BYRADIUS metres (m|km)|BYBOX metres metres (m|ft)) [ASC|DESC] [WITHCOORD] [WITHDIST] [WITHHASH]",
    ),
    line(6, Exact, "GEOSEARCH key FROMLONLAT longitude latitude BYRADIUS metres km [ASC|DESC] COUNT int [ANY] [WITHDIST]"),
    line(
        5,
        Exact,
        "GEOSEARCHSTORE key key FROMLONLAT longitude latitude BYBOX metres metres km [ASC|DESC] [COUNT int] [STOREDIST|WITHDIST]",
    ),
    line(
        4,
        Exact,
        "GEORADIUS key longitude latitude metres (m|km) [ASC|DESC] [WITHDIST|WITHHASH|COUNT int|STORE key|STOREDIST key]",
    ),
    line(3, Exact, "GEORADIUS_RO key longitude latitude metres (m|mi) [WITHCOORD|STORE key]"),
    line(3, Exact, "GEORADIUSBYMEMBER key field metres km [ASC|DESC] [WITHDIST|STORE key|STOREDIST key]"),
    line(3, Exact, "GEORADIUSBYMEMBER_RO key field metres (m|km) [WITHHASH]"),
    // generic
    line(12, Exact, "EXCHANGE key key"),
    line(20, Exact, "DEL key+"),
    line(10, Exact, "UNLINK key+"),
    line(10, Exact, "EXISTS key+"),
    line(5, Exact, "TOUCH key+"),
    line(10, Exact, "TYPE key"),
    line(20, Exact, "EXPIRE key ttl [NX|XX|GT|LT|XX GT|XX LT|NX XX|word]"),
    line(15, Exact, "PEXPIRE key pttl [NX|XX|GT|LT|NX GT]"),
    line(10, Exact, "EXPIREAT key at [NX|XX|GT|LT|GT LT]"),
    line(10, Exact, "PEXPIREAT key pat [NX|XX|GT|LT]"),
    line(15, Near(1), "TTL key"),
    line(15, Near(1000), "PTTL key"),
    line(10, Near(1), "EXPIRETIME key"),
    line(10, Near(1000), "PEXPIRETIME key"),
    line(10, Exact, "PERSIST key"),
    line(15, Exact, "RENAME key key"),
    line(10, Exact, "RENAMENX key key"),
    line(15, Exact, "COPY key key [DB db|REPLACE|DB db REPLACE|word]"),
    line(10, Exact, "MOVE key db"),
    line(5, Unordered, "KEYS pattern"),
    line(5, Unordered, "SCAN 0 COUNT 100000 [MATCH pattern] [TYPE (string|hash|nosuch)]"),
    line(3, Unordered, "SCAN word COUNT 100000"),
    line(3, Exact, "SCAN 0 (COUNT 0|COUNT word|MATCH|word int)"),
    line(5, Kind, "RANDOMKEY"),
    line(20, Encoding, "OBJECT ENCODING key"),
    line(3, Kind, "OBJECT REFCOUNT key"),
    // Redis shares the objects of small integers, and with them the time of their last use.
    line(3, Kind, "OBJECT IDLETIME key"),
    line(3, Exact, "OBJECT FREQ key"),
    // Of a key that does not exist: SORT of a set or a list does not exist yet.
    line(3, Exact, "SORT missing [ALPHA|DESC|LIMIT 0 1|BY nosort|word]"),
    line(2, Exact, "SORT_RO missing"),
    line(3, Kind, "MEMORY USAGE key"),
    // transactions
    line(12, Exact, "MULTI"),
    line(4, Exact, "WATCH key+"),
    line(2, Exact, "UNWATCH"),
    line(1, Exact, "EXEC"),
    // connection and server
    line(5, Exact, "PING [value]"),
    line(3, Exact, "ECHO value"),
    line(15, Exact, "SELECT db"),
    line(3, Exact, "SWAPDB (0|1|0|1|16|word) (0|1)"),
    line(1, Exact, "FLUSHDB [SYNC|ASYNC|word]"),
    line(8, Exact, "DBSIZE"),
    line(1, Kind, "TIME"),
    line(2, Exact, "CLIENT SETNAME word"),
    line(2, Exact, "CLIENT GETNAME"),
    line(3, Exact, "COMMAND GETKEYS (SET key value|MGET key+|BITOP AND key key+|RENAME key key|PING|MSET (key value)+|word key)"),
    line(1, Exact, "CONFIG GET (maxmemory|databases|timeout|appendonly|nosuch)"),
    line(2, Exact, "word key+"),
];

/// Few keys that hold large hashes most of the time: hundreds and thousands of fields, values to 1 MB.
pub const HASHES: &[Line] = &[
    line(30, Exact, "HSET hash pairs"),
    line(30, Exact, "HSET hash (member content)+"),
    line(10, Exact, "HSETNX hash member content"),
    line(30, Exact, "HGET hash member"),
    line(15, Exact, "HMGET hash members"),
    line(10, Exact, "HEXISTS hash member"),
    line(10, Exact, "HSTRLEN hash member"),
    line(20, Exact, "HDEL hash member+"),
    line(15, Exact, "HDEL hash members"),
    line(20, Exact, "HINCRBY hash member int"),
    line(10, Exact, "HINCRBYFLOAT hash member float"),
    line(20, Exact, "HLEN hash"),
    line(8, Pairs, "HGETALL hash"),
    line(4, Unordered, "HKEYS hash"),
    line(4, Unordered, "HVALS hash"),
    line(6, Scan, "HSCAN hash 0 COUNT 100000 [MATCH *1*]"),
    line(5, Size, "HRANDFIELD hash int [WITHVALUES]"),
    line(3, Pairs, "HRANDFIELD hash 100000 WITHVALUES"),
    line(20, Encoding, "OBJECT ENCODING hash"),
    line(10, Exact, "TYPE hash"),
    line(5, Exact, "EXISTS hash+"),
    line(5, Unordered, "SCAN 0 COUNT 100000 TYPE (hash|string)"),
    line(6, Exact, "RENAME hash hash"),
    line(3, Exact, "RENAMENX hash hash"),
    line(8, Exact, "COPY hash hash [REPLACE]"),
    line(4, Exact, "COPY hash hash DB db REPLACE"),
    line(3, Exact, "MOVE hash db"),
    line(4, Exact, "SELECT db"),
    line(1, Exact, "SWAPDB 0 1"),
    line(8, Exact, "EXCHANGE hash hash"),
    line(3, Exact, "EXPIRE hash ttl"),
    line(2, Exact, "PEXPIRE hash pttl"),
    line(3, Exact, "PERSIST hash"),
    line(3, Near(1000), "PTTL hash"),
    line(2, Exact, "DEL hash"),
    line(1, Exact, "UNLINK hash"),
    line(2, Exact, "SET hash value"),
    line(2, Exact, "GET hash"),
    line(3, Kind, "MEMORY USAGE hash"),
    line(8, Exact, "DBSIZE"),
    line(6, Exact, "MULTI"),
    line(2, Exact, "WATCH hash"),
];

/// Few keys that hold large sets most of the time, of integers and of others.
pub const SETS: &[Line] = &[
    line(30, Exact, "SADD hash elements"),
    line(30, Exact, "SADD hash element+"),
    line(20, Exact, "SREM hash element+"),
    line(15, Exact, "SREM hash elements"),
    line(20, Exact, "SCARD hash"),
    line(20, Exact, "SISMEMBER hash element"),
    line(15, Exact, "SMISMEMBER hash elements"),
    line(8, Unordered, "SMEMBERS hash"),
    line(6, Unordered, "SSCAN hash 0 COUNT 100000 [MATCH *1*]"),
    line(10, Exact, "SMOVE hash hash element"),
    line(5, Size, "SRANDMEMBER hash int"),
    line(3, Unordered, "SRANDMEMBER hash 100000"),
    line(2, Unordered, "SPOP hash 100000"),
    line(8, Unordered, "SUNION hash+"),
    line(8, Unordered, "SINTER hash+"),
    line(8, Unordered, "SDIFF hash+"),
    line(6, Exact, "SUNIONSTORE hash hash+"),
    line(6, Exact, "SINTERSTORE hash hash+"),
    line(6, Exact, "SDIFFSTORE hash hash+"),
    line(8, Exact, "SINTERCARD 2 hash hash [LIMIT int]"),
    line(20, Encoding, "OBJECT ENCODING hash"),
    line(10, Exact, "TYPE hash"),
    line(5, Unordered, "SCAN 0 COUNT 100000 TYPE (set|string)"),
    line(6, Exact, "RENAME hash hash"),
    line(8, Exact, "COPY hash hash [REPLACE]"),
    line(3, Exact, "MOVE hash db"),
    line(4, Exact, "SELECT db"),
    line(1, Exact, "SWAPDB 0 1"),
    line(8, Exact, "EXCHANGE hash hash"),
    line(3, Exact, "EXPIRE hash ttl"),
    line(3, Near(1000), "PTTL hash"),
    line(2, Exact, "DEL hash"),
    line(2, Exact, "SET hash value"),
    line(3, Kind, "MEMORY USAGE hash"),
    line(8, Exact, "DBSIZE"),
    line(6, Exact, "MULTI"),
    line(2, Exact, "WATCH hash"),
];
