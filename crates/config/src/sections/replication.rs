//! Replication.

use super::{MEMORY, NATURAL, PORT, POSITIVE, TEXT, YES_NO};
use crate::kind::Kind;
use crate::parameter::section;

section! {
    /// Replication.
    Replication "Replication"
    "replicaof" / "slaveof": (Kind::Primary) = "" [immutable] "Host and port of the primary; `no one` for none.";
    "masteruser" / "primaryuser": TEXT = "" [] "User name at the primary.";
    "masterauth" / "primaryauth": TEXT = "" [sensitive] "Password at the primary.";
    "replica-serve-stale-data" / "slave-serve-stale-data": YES_NO = "yes" [] "Answer while the link to the primary is down.";
    "replica-read-only" / "slave-read-only": YES_NO = "yes" [] "Refuse writes on a replica.";
    "replica-ignore-maxmemory" / "slave-ignore-maxmemory": YES_NO = "yes" [] "Leave eviction to the primary.";
    "replica-lazy-flush" / "slave-lazy-flush": YES_NO = "no" []
        "Drop the old data in the background before a full synchronisation.";
    "replica-priority" / "slave-priority": NATURAL = "100" [] "Preference in a failover; lower is preferred, 0 is never.";
    "replica-announced": YES_NO = "yes" [] "Whether Sentinel reports the replica.";
    "replica-announce-ip" / "slave-announce-ip": TEXT = "" [] "Address that a replica reports.";
    "replica-announce-port" / "slave-announce-port": PORT = "0" [] "Port that a replica reports.";
    "replica-ignore-disk-write-errors": YES_NO = "no" [] "Go on when the disk cannot be written.";
    "propagation-error-behavior": (Kind::Choice(&["ignore", "panic", "panic-on-replicas"])) = "ignore" []
        "What an error in the stream of writes does.";
    "repl-timeout": POSITIVE = "60" [] "Seconds after which a silent link is down.";
    "repl-ping-replica-period" / "repl-ping-slave-period": POSITIVE = "10" [] "Seconds between pings to replicas.";
    "repl-backlog-size": (Kind::Memory(1, i64::MAX as u64)) = "1mb" [] "Bytes of writes kept for replicas that come back.";
    "repl-backlog-ttl": (Kind::Integer(0, i64::MAX)) = "3600" [] "Seconds after which a backlog without replicas is dropped.";
    "repl-disable-tcp-nodelay": YES_NO = "no" [] "Fewer, larger packets to replicas.";
    "repl-diskless-sync": YES_NO = "yes" [] "Send a snapshot without writing it to the disk.";
    "repl-diskless-sync-delay": NATURAL = "5" [] "Seconds to wait for more replicas before a snapshot is sent.";
    "repl-diskless-sync-max-replicas": NATURAL = "0" [] "Replicas for which there is no more waiting.";
    "repl-diskless-load": (Kind::Choice(&["disabled", "on-empty-db", "swapdb", "flush-before-load"])) = "disabled" []
        "Load a snapshot without writing it to the disk.";
    "repl-mptcp": YES_NO = "no" [] "Multipath TCP to the primary.";
    "repl-rdb-channel": YES_NO = "no" [hidden] "A second connection for the snapshot.";
    "dual-channel-replication-enabled": YES_NO = "no" [] "A second connection for the snapshot.";
    "replica-full-sync-buffer-limit": MEMORY = "0" [] "Bytes of writes that a replica buffers during a full synchronisation.";
    "min-replicas-to-write" / "min-slaves-to-write": NATURAL = "0" [] "Replicas without which writes are refused.";
    "min-replicas-max-lag" / "min-slaves-max-lag": NATURAL = "10" [] "Seconds of lag at which a replica does not count.";
}
