//! What units do to sets, lists, sorted sets and streams.
//!
//! Members are few and have numbers; the last is so long that a collection with it is an object and not packed in its record.
//! Replies are chosen that have an order of their own.

use super::command::{Key, NAMES};
use crate::{Random, Value};

/// A type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sets.
    Set,
    /// Lists.
    List,
    /// Sorted sets.
    SortedSet,
    /// Streams, with one group that has one consumer.
    Stream,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Set, Self::List, Self::SortedSet, Self::Stream];
}

/// Members of a set or a sorted set.
pub(super) const MEMBERS: usize = 4;
/// Entries that a stream is trimmed to.
pub(super) const STREAM_MAX: usize = 6;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// SADD
    SAdd(Key, [usize; 2]),
    /// SREM
    SRem(Key, usize),
    /// SMOVE
    SMove(Key, Key, usize),
    /// SUNIONSTORE of a key, of itself and another
    SUnionStore(Key, Key),
    /// SMISMEMBER of all members that there may be
    SMembers(Key),
    /// LPUSH, or RPUSH
    Push(Key, bool, Vec<u8>),
    /// LPOP, or RPOP
    Pop(Key, bool),
    /// LMOVE from an end to another; left is true
    LMove(Key, Key, bool, bool),
    /// LRANGE of all
    LRange(Key),
    /// ZADD of a score
    ZAdd(Key, i64, usize),
    /// ZPOPMIN
    ZPopMin(Key),
    /// ZRANGESTORE of the first two
    ZRangeStore(Key, Key),
    /// ZRANGE of all, with scores
    ZRange(Key),
    /// XADD of the next id, trimming the stream
    XAdd(Key, Vec<u8>),
    /// XDEL
    XDel(Key, u64),
    /// XGROUP CREATE … 0 MKSTREAM
    XGroup(Key),
    /// XREADGROUP of one new entry
    XReadGroup(Key),
    /// XACK
    XAck(Key, u64),
    /// XPENDING
    XPending(Key),
    /// XRANGE of all
    XRange(Key),
}

impl Operation {
    /// A random one of a type, on one of two keys of a database or on both.
    pub(super) fn random(kind: Kind, (key, other): (Key, Key), value: Vec<u8>, random: &mut Random) -> Self {
        let member = if random.chance(10) { MEMBERS - 1 } else { random.below(MEMBERS - 1) };
        let (choice, left, to) = (random.below(20), random.chance(50), random.chance(50));
        let id = random.below(2 * STREAM_MAX) as u64;
        match (kind, choice) {
            (Kind::Set, 0..6) => Self::SAdd(key, [member, random.below(MEMBERS)]),
            (Kind::Set, 6..10) => Self::SRem(key, member),
            (Kind::Set, 10..14) => Self::SMove(key, other, member),
            (Kind::Set, 14..16) => Self::SUnionStore(key, other),
            (Kind::Set, _) => Self::SMembers(key),
            (Kind::List, 0..5) => Self::Push(key, left, value),
            (Kind::List, 5..10) => Self::Pop(key, left),
            (Kind::List, 10..15) => Self::LMove(key, if random.chance(30) { key } else { other }, left, to),
            (Kind::List, _) => Self::LRange(key),
            (Kind::SortedSet, 0..8) => Self::ZAdd(key, random.below(4) as i64, member),
            (Kind::SortedSet, 8..13) => Self::ZPopMin(key),
            (Kind::SortedSet, 13..16) => Self::ZRangeStore(key, other),
            (Kind::SortedSet, _) => Self::ZRange(key),
            (Kind::Stream, 0..6) => Self::XAdd(key, value),
            (Kind::Stream, 6..8) => Self::XDel(key, id),
            (Kind::Stream, 8 | 9) => Self::XGroup(key),
            (Kind::Stream, 10..14) => Self::XReadGroup(key),
            (Kind::Stream, 14 | 15) => Self::XAck(key, id),
            (Kind::Stream, 16) => Self::XPending(key),
            (Kind::Stream, _) => Self::XRange(key),
        }
    }

    /// A look at a key.
    pub(super) fn look(kind: Kind, key: Key) -> Self {
        match kind {
            Kind::Set => Self::SMembers(key),
            Kind::List => Self::LRange(key),
            Kind::SortedSet => Self::ZRange(key),
            Kind::Stream => Self::XRange(key),
        }
    }

    /// The key that it is sent for; another one is of the same database.
    pub(super) fn key(&self) -> Key {
        match self {
            Self::SAdd(key, _)
            | Self::SRem(key, _)
            | Self::SMove(key, ..)
            | Self::SUnionStore(key, _)
            | Self::SMembers(key)
            | Self::Push(key, ..)
            | Self::Pop(key, _)
            | Self::LMove(key, ..)
            | Self::LRange(key)
            | Self::ZAdd(key, ..)
            | Self::ZPopMin(key)
            | Self::ZRangeStore(key, _)
            | Self::ZRange(key)
            | Self::XAdd(key, _)
            | Self::XDel(key, _)
            | Self::XGroup(key)
            | Self::XReadGroup(key)
            | Self::XAck(key, _)
            | Self::XPending(key)
            | Self::XRange(key) => *key,
        }
    }

    /// Its words, for keys of these names.
    pub(super) fn words(&self, names: &[String]) -> Vec<Vec<u8>> {
        let name = |key: &Key| names[*key % NAMES].clone();
        let end = |left: &bool| if *left { "LEFT" } else { "RIGHT" };
        let text = match self {
            Self::SAdd(key, members) => format!("SADD {} {} {}", name(key), member(members[0]), member(members[1])),
            Self::SRem(key, at) => format!("SREM {} {}", name(key), member(*at)),
            Self::SMove(from, to, at) => format!("SMOVE {} {} {}", name(from), name(to), member(*at)),
            Self::SUnionStore(to, other) => format!("SUNIONSTORE {} {} {}", name(to), name(to), name(other)),
            Self::SMembers(key) => {
                let all: Vec<String> = (0..MEMBERS).map(member).collect();
                format!("SMISMEMBER {} {}", name(key), all.join(" "))
            }
            Self::Push(key, left, value) => {
                let word = if *left { "LPUSH" } else { "RPUSH" };
                return vec![word.into(), name(key).into(), value.clone()];
            }
            Self::Pop(key, left) => format!("{} {}", if *left { "LPOP" } else { "RPOP" }, name(key)),
            Self::LMove(from, to, left, to_left) => {
                format!("LMOVE {} {} {} {}", name(from), name(to), end(left), end(to_left))
            }
            Self::LRange(key) => format!("LRANGE {} 0 -1", name(key)),
            Self::ZAdd(key, score, at) => format!("ZADD {} {score} {}", name(key), member(*at)),
            Self::ZPopMin(key) => format!("ZPOPMIN {}", name(key)),
            Self::ZRangeStore(to, from) => format!("ZRANGESTORE {} {} 0 1", name(to), name(from)),
            Self::ZRange(key) => format!("ZRANGE {} 0 -1 WITHSCORES", name(key)),
            Self::XAdd(key, value) => {
                let limit = STREAM_MAX.to_string();
                let words = ["XADD", &name(key), "MAXLEN", &limit, "1-*", "f"].map(|word| word.as_bytes().to_vec());
                return words.into_iter().chain([value.clone()]).collect();
            }
            Self::XDel(key, id) => format!("XDEL {} 1-{id}", name(key)),
            Self::XGroup(key) => format!("XGROUP CREATE {} g 0 MKSTREAM", name(key)),
            Self::XReadGroup(key) => format!("XREADGROUP GROUP g c COUNT 1 STREAMS {} >", name(key)),
            Self::XAck(key, id) => format!("XACK {} g 1-{id}", name(key)),
            Self::XPending(key) => format!("XPENDING {} g", name(key)),
            Self::XRange(key) => format!("XRANGE {} - +", name(key)),
        };
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    /// What of its reply is compared: all but the names of keys.
    pub(super) fn told(&self, reply: Value) -> Value {
        match (self, reply) {
            (Self::XReadGroup(_), Value::Array(streams)) => {
                let entries = streams.first().and_then(Value::elements).and_then(|stream| stream.get(1)).cloned();
                entries.unwrap_or(Value::Array(streams))
            }
            (Self::XReadGroup(_) | Self::XPending(_), Value::Error(text)) if text.starts_with(b"NOGROUP") => no_group(),
            (_, reply) => reply,
        }
    }
}

/// What is told of an error that names the key.
pub(super) fn no_group() -> Value {
    Value::Error(b"NOGROUP".to_vec())
}

/// A member's bytes.
pub(super) fn member(number: usize) -> String {
    let long = if number == MEMBERS - 1 { 20_000 } else { 0 };
    format!("m{number}{}", "y".repeat(long))
}
