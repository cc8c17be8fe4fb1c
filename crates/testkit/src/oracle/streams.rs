//! The oracle's table of streams: entries, trims, groups with what is pending, claims, and what XINFO tells of all.
//!
//! Ids are given, for those that a server makes up are of its own clock; `*` is in the golden sessions.

use super::table::Compare::{Encoding, Exact, Kind, Known, Near, Pending, Unordered};
use super::table::{Line, line};

/// Few keys that hold streams most of the time. Names of groups and consumers are few, too.
pub const STREAMS: &[Line] = &[
    line(90, Exact, "XADD hash newid (field element)+"),
    line(20, Exact, "XADD hash newid field content"),
    line(6, Exact, "XADD hash newid pairs"),
    line(
        10,
        Exact,
        "XADD hash [NOMKSTREAM] [MAXLEN int|MAXLEN = 90|MAXLEN ~ 30|MAXLEN ~ 120 LIMIT int|MINID id|MINID ~ id] newid field \
         element",
    ),
    line(
        3,
        Exact,
        "XADD hash (newid field|newid|MAXLEN word newid field element|MAXLEN 3 MINID id newid field element|LIMIT 3 newid field \
         element)",
    ),
    line(25, Exact, "XDEL hash id+"),
    line(10, Exact, "XTRIM hash (MAXLEN|MINID) (int|id|= 60|~ 100|~ id|= id|~ id LIMIT 0|~ 10 LIMIT int|word)"),
    line(10, Exact, "XLEN hash"),
    line(25, Exact, "XRANGE hash xbound xbound [COUNT int]"),
    line(25, Exact, "XREVRANGE hash xbound xbound [COUNT int]"),
    line(15, Exact, "XREAD [COUNT int] STREAMS (hash id|hash hash id id|hash hash id $|hash id id|hash hash id)"),
    line(6, Exact, "XSETID hash id [ENTRIESADDED int] [MAXDELETEDID id]"),
    line(25, Exact, "XGROUP CREATE hash (g0|g1|g2) (id|$|0|word) [MKSTREAM] [ENTRIESREAD -1]"),
    line(6, Exact, "XGROUP SETID hash (g0|g1|g2) (id|$|0) [ENTRIESREAD -1]"),
    line(2, Exact, "XGROUP DESTROY hash (g0|g1|g2)"),
    line(6, Kind, "XGROUP CREATECONSUMER hash (g0|g1|g2) (c0|c1|c2)"),
    line(5, Exact, "XGROUP DELCONSUMER hash (g0|g1|g2) (c0|c1|c2)"),
    line(60, Exact, "XREADGROUP GROUP (g0|g1|g2) (c0|c1|c2) [COUNT (1|3|20|int)] [NOACK] STREAMS hash (>|>|id|0)"),
    line(10, Exact, "XREADGROUP GROUP (g0|g1|g2) (c0|c1) [COUNT 2] STREAMS hash hash (> >|id >|> id|>)"),
    line(30, Exact, "XACK hash (g0|g1|g2) id+"),
    line(12, Exact, "XPENDING hash (g0|g1|g2)"),
    line(15, Pending, "XPENDING hash (g0|g1|g2) [IDLE idle] xbound xbound int [c0|c1|word]"),
    line(2, Exact, "XPENDING hash (g0|g1) (xbound|xbound xbound|IDLE 0|xbound xbound word)"),
    line(
        25,
        Exact,
        "XCLAIM hash (g0|g1|g2) (c0|c1|c2) idle id+ [IDLE (100000|0|int)|TIME pat] [RETRYCOUNT int] [FORCE] [JUSTID] [LASTID \
         id|word]",
    ),
    line(25, Exact, "XAUTOCLAIM hash (g0|g1|g2) (c0|c1|c2) idle id [COUNT (1|2|int)] [JUSTID|word]"),
    line(20, Known, "XINFO STREAM hash"),
    line(15, Known, "XINFO STREAM hash FULL [COUNT int]"),
    line(20, Known, "XINFO GROUPS hash"),
    line(12, Known, "XINFO CONSUMERS hash (g0|g1|g2)"),
    line(2, Exact, "XINFO (STREAM|STREAM hash word|GROUPS|CONSUMERS hash|word hash)"),
    line(5, Encoding, "OBJECT ENCODING hash"),
    line(5, Exact, "TYPE hash"),
    line(3, Exact, "EXISTS hash+"),
    line(4, Unordered, "SCAN 0 COUNT 100000 TYPE (stream|string)"),
    line(3, Exact, "RENAME hash hash"),
    line(6, Exact, "COPY hash hash [REPLACE]"),
    line(3, Exact, "MOVE hash db"),
    line(3, Exact, "SELECT db"),
    line(1, Exact, "SWAPDB 0 1"),
    // To keys that nothing is added to: our payloads have no entries that were deleted, so a node of them has more room.
    line(8, Exact, "EXCHANGE hash key"),
    line(2, Exact, "EXPIRE hash ttl"),
    line(1, Exact, "PEXPIRE hash pttl"),
    line(3, Near(1000), "PTTL hash"),
    line(2, Exact, "DEL hash"),
    line(1, Exact, "SET hash value"),
    line(1, Exact, "LPUSH hash element"),
    line(3, Kind, "MEMORY USAGE hash"),
    line(4, Exact, "DBSIZE"),
    // Without WATCH: to Redis, a change of a group is none of the key.
    line(5, Exact, "MULTI"),
];
