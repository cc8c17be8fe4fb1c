//! The type bytes that say in what form a value follows. Each family has its codec in a file of its own.

/// A string.
pub const STRING: u8 = 0;
/// A list: its length, then the elements: Redis 3.0 and older.
pub const LIST: u8 = 1;
/// A set: its length, then the members.
pub const SET: u8 = 2;
/// A sorted set: its length, then members with scores as texts: Redis 3.2 and older.
pub const ZSET: u8 = 3;
/// A hash: its length, then fields and values in turn.
pub const HASH: u8 = 4;
/// A sorted set: its length, then members with scores of 8 bytes.
pub const ZSET_2: u8 = 5;
/// A hash as a zipmap: Redis 2.4 and older.
pub const HASH_ZIPMAP: u8 = 9;
/// A list as a ziplist: Redis 2.4 to 3.0.
pub const LIST_ZIPLIST: u8 = 10;
/// A set as an intset.
pub const SET_INTSET: u8 = 11;
/// A sorted set as a ziplist of members and scores: Redis 2.4 to 6.2.
pub const ZSET_ZIPLIST: u8 = 12;
/// A hash as a ziplist of fields and values: Redis 2.6 to 6.2.
pub const HASH_ZIPLIST: u8 = 13;
/// A list as several ziplists: Redis 3.2 to 6.2.
pub const LIST_QUICKLIST: u8 = 14;
/// A stream: Redis 5.0 to 6.2.
pub const STREAM_LISTPACKS: u8 = 15;
/// A hash as a listpack of fields and values: Redis 7.0 and younger.
pub const HASH_LISTPACK: u8 = 16;
/// A sorted set as a listpack of members and scores: Redis 7.0 and younger.
pub const ZSET_LISTPACK: u8 = 17;
/// A list as several listpacks and single elements: Redis 7.0 and younger.
pub const LIST_QUICKLIST_2: u8 = 18;
/// A stream that knows how many entries it ever had: Redis 7.0.
pub const STREAM_LISTPACKS_2: u8 = 19;
/// A set as a listpack of members: Redis 7.2 and younger.
pub const SET_LISTPACK: u8 = 20;
/// A stream that knows when its consumers last got something: Redis 7.2 and younger.
pub const STREAM_LISTPACKS_3: u8 = 21;
/// Of Valkey 9 (version 80): a hash whose fields may expire.
pub const HASH_VALKEY: u8 = 22;
/// As [`HASH_METADATA`] with absolute times: candidates for Redis 7.4. Valkey 9 gives the number another meaning.
pub const HASH_METADATA_CANDIDATE: u8 = 22;
/// As [`HASH_LISTPACK_EX`] without the earliest expiry: candidates for Redis 7.4.
pub const HASH_LISTPACK_EX_CANDIDATE: u8 = 23;
/// A hash whose fields may expire: Redis 7.4 and younger.
pub const HASH_METADATA: u8 = 24;
/// A hash whose fields may expire as a listpack of fields, values and expiries: Redis 7.4 and younger.
pub const HASH_LISTPACK_EX: u8 = 25;
/// A stream that knows its producers: Redis 8.6 and younger.
pub const STREAM_LISTPACKS_4: u8 = 26;
/// A stream that has pending entries without an owner: Redis 8.8 and younger.
pub const STREAM_LISTPACKS_5: u8 = 27;
/// Ours alone: a sorted set whose members may expire.
pub const ZSET_EXPIRY: u8 = 200;

/// What a form is called in messages: the words that Redis has for those that it checks.
#[must_use]
pub const fn form_name(value_type: u8) -> &'static str {
    match value_type {
        HASH_ZIPMAP => "Zipmap",
        LIST_ZIPLIST => "List ziplist",
        SET_INTSET => "Intset",
        ZSET_ZIPLIST => "Zset ziplist",
        HASH_ZIPLIST => "Hash ziplist",
        LIST_QUICKLIST => "Quicklist ziplist",
        STREAM_LISTPACKS | STREAM_LISTPACKS_2 | STREAM_LISTPACKS_3 | STREAM_LISTPACKS_4 | STREAM_LISTPACKS_5 => "Stream listpack",
        HASH_LISTPACK | HASH_LISTPACK_EX | HASH_LISTPACK_EX_CANDIDATE => "Hash listpack",
        ZSET_LISTPACK => "Zset listpack",
        LIST_QUICKLIST_2 => "Quicklist listpack",
        SET_LISTPACK => "Set listpack",
        _ => "Value",
    }
}
