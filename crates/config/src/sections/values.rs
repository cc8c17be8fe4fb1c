//! When a collection changes its encoding.

use super::{LONG, MEMORY, NATURAL};
use crate::choices::{Choice, EncodingNames};
use crate::kind::Kind;
use crate::parameter::section;

const LIST_SIZE: Kind = Kind::Integer(i32::MIN as i64, i32::MAX as i64);

section! {
    /// When a collection changes its encoding.
    Values "Values"
    "object-encoding-names": (Kind::Choice(EncodingNames::NAMES)) = "7.2" [own]
        "As of which version of Redis OBJECT ENCODING names lists and sets: until 7.2 all lists are quicklists, and no set is a \
         listpack."
        => encoding_names: EncodingNames;
    "hash-max-listpack-entries" / "hash-max-ziplist-entries": LONG = "512" []
        "Fields up to which OBJECT ENCODING says that a hash is a listpack." => hash_entries_max: u64;
    "hash-max-listpack-value" / "hash-max-ziplist-value": MEMORY = "64" []
        "Longest field or value of a hash that OBJECT ENCODING says is a listpack." => hash_value_bytes_max: u64;
    "list-max-listpack-size" / "list-max-ziplist-size": LIST_SIZE = "-2" []
        "Elements up to which OBJECT ENCODING says that a list is a listpack; negative for bytes, -2 is 8 kb."
        => list_node_size: i64;
    "list-compress-depth": NATURAL = "0" [] "Nodes at each end of a list that are not compressed.";
    "set-max-intset-entries": LONG = "512" []
        "Members up to which OBJECT ENCODING says that a set of integers is an intset." => set_integers_max: u64;
    "set-max-listpack-entries": LONG = "128" []
        "Members up to which OBJECT ENCODING says that a set is a listpack." => set_entries_max: u64;
    "set-max-listpack-value": MEMORY = "64" []
        "Longest member of a set that OBJECT ENCODING says is a listpack." => set_value_bytes_max: u64;
    "zset-max-listpack-entries" / "zset-max-ziplist-entries": LONG = "128" []
        "Members up to which OBJECT ENCODING says that a sorted set is a listpack." => zset_entries_max: u64;
    "zset-max-listpack-value" / "zset-max-ziplist-value": MEMORY = "64" []
        "Longest member of a sorted set that OBJECT ENCODING says is a listpack." => zset_value_bytes_max: u64;
    "hll-sparse-max-bytes": MEMORY = "3000" [] "Bytes up to which a HyperLogLog is sparse."
        => hll_sparse_bytes_max: u64;
    "stream-node-max-bytes": MEMORY = "4096" [] "Bytes of a node of a stream: what is trimmed with ~ is whole nodes. 0: any number."
        => stream_node_bytes_max: u64;
    "stream-node-max-entries": LONG = "100" [] "Entries of a node of a stream. 0: any number."
        => stream_node_entries_max: u64;
}
