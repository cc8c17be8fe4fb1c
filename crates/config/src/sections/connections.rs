//! What one connection may do and cost.

use super::{NATURAL, TEXT, YES_NO};
use crate::kind::Kind;
use crate::parameter::section;
use crate::special::{BufferLimits, Share};

section! {
    /// What one connection may do and cost.
    Connections "Connections"
    "maxclients": (Kind::Integer(1, u32::MAX as i64)) = "10000" []
        "Connections at the same time; more are refused." => maxclients: u32;
    "timeout": NATURAL = "0" [] "Seconds after which a silent client is closed; 0 for never." => timeout_s: u32;
    "client-query-buffer-limit": (Kind::Memory(1 << 20, i64::MAX as u64)) = "1gb" []
        "Bytes of unfinished commands that a client may have sent." => query_buffer_bytes_max: u64;
    "proto-max-bulk-len": (Kind::Memory(1 << 20, i64::MAX as u64)) = "512mb" []
        "Longest argument of a command." => bulk_bytes_max: u64;
    "client-output-buffer-limit": (Kind::BufferLimits) = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60" []
        "Replies that may wait for a slow reader: class, hard limit, soft limit, seconds above the soft limit."
        => output_buffer_limits: BufferLimits;
    "client-output-pause": (Kind::Memory(0, i64::MAX as u64)) = "1mb" [own]
        "Replies of a slow reader beyond which its next commands wait; less with a small `maxmemory`. One that has sent 64 \
         times as much beside as much of unread replies, and reads nothing for a minute, is closed. 0 lets replies pile up to \
         `client-output-buffer-limit` and `maxmemory-clients`, as Redis does."
        => output_pause_bytes: u64;
    "maxmemory-clients": (Kind::Share) = "0" []
        "Memory of all clients together, in bytes or percent of `maxmemory`, beyond which the largest are closed; 0 for no limit."
        => clients_memory_max: Share;
    "client-default-resp": (Kind::Integer(2, 3)) = "2" [hidden] "Protocol version of a new connection.";
    "tracking-table-max-keys": (Kind::Integer(0, i64::MAX)) = "1000000" []
        "Keys remembered for client-side caching; 0 for no limit."
        => tracking_keys_max: usize;
    "extended-redis-compatibility": YES_NO = "no" [] "Report the identity of Redis instead of Valkey.";
    "availability-zone": TEXT = "" [] "Zone that INFO and HELLO report; empty for none." => availability_zone: String;
    "import-mode": YES_NO = "no" [] "Accept data from an import without expiring it.";
}
